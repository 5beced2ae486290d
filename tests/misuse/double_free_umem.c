/* umem_free() twice. */
#include "tests/misuse/misuse.h"

int
main(void)
{
	need(umem_alloc);
	char *p = (char *)keep(umem_alloc(100, UMEM_DEFAULT));
	char *q = (char *)keep(umem_alloc(100, UMEM_DEFAULT));

	check(p != NULL && q != NULL);
	umem_free(p, 100);
	umem_free(q, 100);
	umem_free(p, 100);
	judge(NULL, 100);
}
