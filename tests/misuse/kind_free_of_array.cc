// A large array of operator new[] given to free().
#include "tests/misuse/misuse.h"

int
main()
{
	char *p = (char *)keep(new char[20 * MIB]);

	drop(p);
	judge(NULL, 20 * MIB);
}
