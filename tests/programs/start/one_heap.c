/*
 * A program that was linked with libumem.so.1 runs on our malloc: the functions
 * of both libraries, and all memory, come from one library.
 *
 * test not with: musl libumem alone has no mallinfo2()
 * test link: umem
 * test preload: yes
 * test no stderr: .
 */
#include <dlfcn.h>
#include <malloc.h>

#include "tests/programs/check.h"

static const char *
library_of(void *p)
{
	Dl_info info;

	check(dladdr(p, &info) != 0);
	return info.dli_fname;
}

int
main(void)
{
	struct mallinfo2 before, after;
	static void *p[1000];

	check(strcmp(library_of((void *)malloc),
		  library_of((void *)umem_alloc)) == 0);
	check(strstr(library_of((void *)umem_cache_create), "umem_malloc") !=
	      NULL);
	before = mallinfo2();
	for (int i = 0; i < 1000; i++)
		check((p[i] = umem_alloc(1000, UMEM_DEFAULT)) != NULL);
	after = mallinfo2();
	check(after.uordblks >= before.uordblks + 1000000);
	for (int i = 0; i < 1000; i++) {
		check(malloc_usable_size(p[i]) >= 1000);
		umem_free(p[i], 1000);
	}
	after = mallinfo2();
	check(after.uordblks < before.uordblks + 100000);
	churn(1, 10000, 10000);
	return 0;
}
