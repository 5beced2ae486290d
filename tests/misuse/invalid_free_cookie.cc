// new[] of objects with destructors, freed by free(): not the block's start.
#include "tests/misuse/misuse.h"

static volatile int nended;

struct object {
	uint64_t value[3];
	~object() { nended = nended + 1; }
};

int
main()
{
	object *p = (object *)keep(new object[10]);

	own(p, 10 * sizeof(object));
	drop(p);
	judge(NULL, 10 * sizeof(object));
}
