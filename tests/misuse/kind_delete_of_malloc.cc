// A block of malloc() given to operator delete.
#include "tests/misuse/misuse.h"

int
main()
{
	char *p = block(40);

	operator delete(keep(p));
	judge(NULL, 40);
}
