// An array of no characters, and one written to it.
#include "tests/misuse/misuse.h"

int
main()
{
	char *p = (char *)keep(new char[number(0)]);

	scribble(p, 1);
	delete[] p;
	judge(NULL, 8);
}
