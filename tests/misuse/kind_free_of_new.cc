// An object of operator new given to free().
#include "tests/misuse/misuse.h"

int
main()
{
	uint64_t *p = (uint64_t *)keep(new uint64_t(7));

	drop(p);
	judge(NULL, sizeof(*p));
}
