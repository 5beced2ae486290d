/* A pointer freed that was never set: a block's old content. */
#include "tests/misuse/misuse.h"

struct holder {
	char *name, *value;
	uint64_t rest[4];
};

int
main(void)
{
	struct holder *holder = (struct holder *)keep(malloc(sizeof(*holder)));
	char *name = block(40);

	check(holder != NULL);
	holder->name = name;
	holder->value = name;
	drop(holder);
	holder = (struct holder *)keep(malloc(sizeof(*holder)));
	check(holder != NULL);
	own(holder, sizeof(*holder));
	/* The first life's name is in use to this day. */
	own(name, 40);
	drop(holder->value);
	judge(NULL, 40);
}
