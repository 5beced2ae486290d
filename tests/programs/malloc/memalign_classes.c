/*
 * Aligned memory from size classes that are not multiples of the alignment;
 * UMEM_OPTIONS adds such classes.  The first block of a class fills its
 * magazine, and the next block comes from the magazine.
 *
 * test env: UMEM_OPTIONS=size_remove=192,size_add=200,size_remove=1024
 * test env: UMEM_OPTIONS=size_add=1000,size_add=1048
 * test env: UMEM_OPTIONS=size_remove=4096,size_add=4104
 */
#include <malloc.h>

#include "tests/programs/check.h"

static void
try(size_t align, size_t n)
{
	void *p = NULL, *q = NULL;

	check(posix_memalign(&p, align, n) == 0 && is_aligned(p, align));
	check(posix_memalign(&q, align, n) == 0 && is_aligned(q, align));
	check(p != q);
	stamp(p, n, align);
	stamp(q, n, align + 1);
	check(is_stamped(p, n, align));
	free(q);
	check((q = aligned_alloc(align, n)) != NULL && is_aligned(q, align));
	check(malloc_usable_size(q) >= n);
	check(is_stamped(p, n, align));
	free(p);
	free(q);
}

int
main(void)
{
	for (size_t align = 8; align <= 64 * KIB; align *= 2) {
		for (size_t n = 0; n <= 3000; n++)
			try(align, n);
		for (size_t n = 3001; n <= 70000; n += n / 50)
			try(align, n);
	}
	return 0;
}
