/*
 * memalign(), aligned_alloc(), posix_memalign(), valloc(), pvalloc().
 *
 * test cflags: -Wno-alloc-size-larger-than
 *
 * test run: all
 * test args: all
 * test run: classes
 * test args: classes
 */
#include <malloc.h>

#include "tests/programs/check.h"

static void
try(char *p, size_t align, size_t n)
{
	check(p != NULL && is_aligned(p, align));
	check(malloc_usable_size(p) >= n);
	if (n < MIB)
		stamp(p, n, align);
	else
		p[0] = p[n - 1] = 1;
}

/* Every power of two up to 64 MiB, and the arguments that they refuse. */
static void
all(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p, *old;

	for (size_t align = 1; align <= 64 * MIB; align *= 2)
		for (size_t n = 1; n < 9 * MIB; n = n * 5 + 3) {
			char *a = memalign(align, n);
			char *b = aligned_alloc(align, n);
			char *c = memalign(align, n), *d = NULL;

			try(a, align, n);
			try(b, align, n);
			try(c, align, n);
			if (align >= sizeof(void *)) {
				check(
				    posix_memalign((void **)&d, align, n) == 0);
				try(d, align, n);
			}
			check(n >= MIB || is_stamped(a, n, align));
			check(n >= MIB || is_stamped(b, n, align));
			free(a);
			/* An aligned block may be moved by realloc. */
			check((c = realloc(c, n * 2)) != NULL);
			check(n >= MIB || is_stamped(c, n, align));
			free(c);
			free(b);
			free(d);
		}

	/*
	 * posix_memalign() returns the error and leaves the pointer.  As with
	 * glibc, errno stays at EINVAL's return and is ENOMEM at ENOMEM's.
	 */
	p = old = &page;
	errno = 55;
	check(posix_memalign(&p, 0, 8) == EINVAL && p == old);
	check(posix_memalign(&p, 1, 8) == EINVAL && p == old);
	check(posix_memalign(&p, 4, 8) == EINVAL && p == old);
	check(posix_memalign(&p, 12, 8) == EINVAL && p == old);
	check(posix_memalign(&p, 24, 8) == EINVAL && p == old);
	check(posix_memalign(&p, 4096 + 8, 8) == EINVAL && p == old);
	check(errno == 55);
	check(posix_memalign(&p, 64, PTRDIFF_MAX) == ENOMEM && p == old);
	check(errno == ENOMEM);
	errno = 55;
	check(posix_memalign(&p, 64, SIZE_MAX) == ENOMEM && p == old);
	check(errno == ENOMEM);
	errno = 55;
	check(posix_memalign(&p, (size_t)1 << 62, 8) == ENOMEM && p == old);
	check(errno == ENOMEM);
	errno = 55;
	check(posix_memalign(&p, (size_t)1 << 63, 8) == ENOMEM && p == old);
	check(errno == ENOMEM);

	errno = 0;
	check(memalign(64, SIZE_MAX - 100) == NULL && errno == ENOMEM);
	errno = 0;
	check(aligned_alloc(64, (size_t)PTRDIFF_MAX + 1) == NULL);
	check(errno == ENOMEM);
	/* EINVAL is for alignments above every power of two. */
	for (size_t align = (size_t)1 << 60; align != 0; align *= 2) {
		errno = 0;
		check(memalign(align, 8) == NULL && errno == ENOMEM);
		errno = 0;
		check(memalign(align - 1, 8) == NULL && errno == ENOMEM);
		errno = 0;
		check(aligned_alloc(align, MIB) == NULL && errno == ENOMEM);
	}
	errno = 0;
	check(memalign(((size_t)1 << 63) + 1, 8) == NULL && errno == EINVAL);
	errno = 0;
	check(memalign(SIZE_MAX, 8) == NULL && errno == EINVAL);

	for (size_t n = 1; n < 100000; n = n * 3 + 1) {
		try(p = valloc(n), page, n);
		free(p);
		/* Rounded up to whole pages. */
		try(p = pvalloc(n), page, (n + page - 1) & -page);
		free(p);
	}
	errno = 0;
	check(valloc(SIZE_MAX) == NULL && errno == ENOMEM);
	errno = 0;
	check(pvalloc(SIZE_MAX) == NULL && errno == ENOMEM);
	errno = 0;
	check(pvalloc(SIZE_MAX - page + 2) == NULL && errno == ENOMEM);
}

static void
try_class(size_t align, size_t n)
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

/*
 * Size classes that are not multiples of the alignment; UMEM_OPTIONS adds such
 * classes.  The first block of a class fills its magazine, and the next block
 * comes from the magazine.
 */
static void
classes(void)
{
	for (size_t align = 8; align <= 64 * KIB; align *= 2) {
		for (size_t n = 0; n <= 3000; n++)
			try_class(align, n);
		for (size_t n = 3001; n <= 70000; n += n / 50)
			try_class(align, n);
	}
}

static const struct test_case cases[] = {
    {"all", all}, {"classes", classes}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
