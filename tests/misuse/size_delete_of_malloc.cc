// malloc() ended by delete.
#include "tests/misuse/misuse.h"

int
main()
{
	void *p = block(48);

	delete (uint64_t *)keep(p);
	judge(NULL, 48);
}
