/* A page from mmap() freed. */
#include <sys/mman.h>

#include "tests/misuse/misuse.h"

int
main(void)
{
	char *p = (char *)mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != (char *)MAP_FAILED);
	own(p, 64 * KIB);
	drop(p + 4096);
	judge(NULL, 40);
}
