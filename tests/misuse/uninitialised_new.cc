// Members of a new object that no constructor set.
#include "tests/misuse/misuse.h"

struct object {
	char text[200];
	object() {}
};

int
main()
{
	object *p = (object *)keep(new object);

	scribble(p->text, sizeof(p->text));
	delete (object *)keep(p);
	p = (object *)keep(new object);
	judge(sees_secret(p->text, sizeof(p->text))
		  ? "an earlier owner's data was read"
		  : NULL,
	    sizeof(object));
}
