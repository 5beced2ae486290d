/*
 * A realloc that cannot be done gives NULL and ENOMEM, and keeps the block.
 *
 * test cflags: -Wno-alloc-size-larger-than
 */
#include <malloc.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

static const size_t size[] = {
    1, 16, 100, 3000, 40000, 100000, 3000000, 20000000};

int
main(void)
{
	struct rlimit limit;

	check(getrlimit(RLIMIT_AS, &limit) == 0);
	for (int limited = 0; limited < 2; limited++) {
		for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
			size_t n = size[i];
			char *p = malloc(n);

			check(p != NULL);
			stamp(p, n, n);
			errno = 0;
			check(realloc(p, (size_t)PTRDIFF_MAX + 1) == NULL);
			check(errno == ENOMEM);
			errno = 0;
			check(realloc(p, SIZE_MAX) == NULL && errno == ENOMEM);
			errno = 0;
			check(realloc(p, SIZE_MAX - 63) == NULL &&
			      errno == ENOMEM);
			errno = 0;
			check(reallocarray(p, SIZE_MAX / 2, 3) == NULL);
			check(errno == ENOMEM);
			errno = 0;
			check(reallocarray(
				  p, (size_t)1 << 32, (size_t)1 << 32) == NULL);
			check(errno == ENOMEM);
			if (limited) {
				errno = 0;
				check(realloc(p, (size_t)1 << 40) == NULL);
				check(errno == ENOMEM);
			}
			check(is_stamped(p, n, n));
			check(malloc_usable_size(p) >= n);
			free(p);
		}
		limit.rlim_cur = (rlim_t)1 << 39;
		check(setrlimit(RLIMIT_AS, &limit) == 0);
	}
	return 0;
}
