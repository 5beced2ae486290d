/*
 * Sizes beyond PTRDIFF_MAX, and products that overflow, are ENOMEM.
 *
 * test cflags: -Wno-alloc-size-larger-than
 */
#include <malloc.h>

#include "tests/programs/check.h"

#define refused(call) (errno = 0, (call) == NULL && errno == ENOMEM)

int
main(void)
{
	static const size_t huge[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX,
	    SIZE_MAX - 1, SIZE_MAX - 7, SIZE_MAX - 15, SIZE_MAX - 4095,
	    SIZE_MAX - 65535, SIZE_MAX - 65536, (size_t)1 << 63, PTRDIFF_MAX,
	    PTRDIFF_MAX - 65536, (size_t)1 << 50};
	void *p;

	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		size_t n = *(size_t *)keep((void *)&huge[i]);

		check(refused(malloc(n)));
		check(refused(calloc(1, n)));
		check(refused(calloc(n, 1)));
		check(refused(realloc(NULL, n)));
		check(refused(memalign(64, n)));
		check(refused(aligned_alloc(64, n)));
		check(refused(reallocarray(NULL, n, 1)));
		check(refused(valloc(n)));
		check(posix_memalign(&p, 64, n) == ENOMEM);
	}
	check(refused(calloc((size_t)1 << 32, (size_t)1 << 32)));
	check(refused(calloc(SIZE_MAX / 8 + 2, 8)));
	check(refused(reallocarray(NULL, (size_t)1 << 33, (size_t)1 << 33)));
	check(refused(reallocarray(NULL, SIZE_MAX / 8 + 2, 8)));
	/* Other calls still work. */
	churn(1, 20000, 100000);
	return 0;
}
