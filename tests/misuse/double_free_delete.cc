// An object deleted twice.
#include "tests/misuse/misuse.h"

struct object {
	uint64_t value[5];
};

int
main()
{
	object *p = (object *)keep(new object);
	object *q = (object *)keep(new object);

	delete (object *)keep(p);
	delete (object *)keep(q);
	delete (object *)keep(p);
	judge(NULL, sizeof(object));
}
