// An object deleted as an array.
#include "tests/misuse/misuse.h"

int
main()
{
	uint64_t *p = (uint64_t *)keep(new uint64_t(7));

	operator delete[](keep(p));
	judge(NULL, sizeof(*p));
}
