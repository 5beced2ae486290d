// A small object deleted as one of a larger type.
#include "tests/misuse/misuse.h"

struct small {
	uint64_t value[2];
};

struct large {
	uint64_t value[64];
};

static void *
get(size_t)
{
	return new small;
}

int
main()
{
	void *p = row_of(sizeof(small), get, CONTENT);

	own_row();
	delete (large *)keep(p);
	also_search(sizeof(small));
	judge(NULL, sizeof(large));
}
