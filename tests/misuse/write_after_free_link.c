/* A pointer put where a free list may have its links. */
#include "tests/misuse/misuse.h"

static char __attribute__((aligned(16))) target[64];

int
main(void)
{
	char *p = block(64), *q = block(64);

	own(target, sizeof(target));
	drop(q);
	drop(p);
	planted = target;
	memcpy(keep(p), &planted, sizeof(planted));
	judge(NULL, 64);
}
