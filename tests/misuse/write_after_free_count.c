/* A count of users raised after the last of them has gone. */
#include "tests/misuse/misuse.h"

struct object {
	uint64_t nusers;
	uint64_t rest[7];
};

int
main(void)
{
	struct object *p = (struct object *)(void *)block(sizeof(*p));

	p->nusers = 0;
	drop(p);
	p->nusers++;
	/* Only a changed count could show the write to the next owner. */
	uint64_t seen = p->nusers;
	struct object *q =
	    (struct object *)(void *)next_owner(p, sizeof(struct object));
	judge(q != NULL && q->nusers == seen && seen != 0
		  ? "seen by the next owner"
		  : NULL,
	    sizeof(*p));
}
