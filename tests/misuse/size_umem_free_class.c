/* umem_free() with the size of another class. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	need(umem_alloc);
	char *p = (char *)keep(umem_alloc(100, UMEM_DEFAULT));

	check(p != NULL);
	umem_free(p, 1000);
	also_search(100);
	judge(NULL, 1000);
}
