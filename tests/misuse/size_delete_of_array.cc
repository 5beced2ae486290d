// new[] ended by delete.
#include "tests/misuse/misuse.h"

int
main()
{
	uint64_t *p = (uint64_t *)keep(new uint64_t[10]);

	delete (uint64_t *)keep(p);
	judge(NULL, 80);
}
