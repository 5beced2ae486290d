// An array of characters deleted as one of them.
#include "tests/misuse/misuse.h"

int
main()
{
	char *p = (char *)keep(new char[40]);

	operator delete(keep(p));
	judge(NULL, 40);
}
