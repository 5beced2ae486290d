// A member of a deleted object set.
#include "tests/misuse/misuse.h"

struct object {
	char head[16];
	char text[32];
};

int
main()
{
	object *p = (object *)keep(new object);

	delete (object *)keep(p);
	scribble(p->text, sizeof(p->text));
	judge(NULL, sizeof(object));
}
