/* Size 0 gives distinct blocks; NULL may be freed; realloc(p, 0) frees. */
#include <malloc.h>

#include "tests/programs/check.h"

/* Unknown to the compiler, which warns of a constant size of 0. */
static volatile size_t zero;

int
main(void)
{
	enum {
		N = 10000
	};
	static char *block[N];
	char *p, *q;
	long before;

	for (int i = 0; i < N; i++) {
		switch (i % 4) {
		case 0:
			block[i] = malloc(zero);
			break;
		case 1:
			block[i] = calloc(zero, 8);
			break;
		case 2:
			block[i] = calloc(8, zero);
			break;
		default:
			block[i] = realloc(NULL, zero);
		}
		check(block[i] != NULL && is_aligned(block[i], 8));
		for (int k = i > 8 ? i - 8 : 0; k < i; k++)
			check(block[i] != block[k]);
	}
	for (int i = 0; i < N; i++)
		free(block[i]);
	check((p = memalign(64, zero)) != NULL && is_aligned(p, 64));
	free(p);
	check((p = aligned_alloc(64, zero)) != NULL && is_aligned(p, 64));
	free(p);
	q = NULL;
	check(posix_memalign((void **)&q, 64, zero) == 0);
	free(q);

	errno = 7;
	free(NULL);
	check(errno == 7);

	/* As glibc has it; a block that were kept would be 100 MiB in all. */
	before = rss_kib();
	for (int i = 0; i < 1000; i++) {
		check((p = malloc(100 * KIB)) != NULL);
		memset(p, 1, 100 * KIB);
		check(realloc(p, zero) == NULL);
	}
	check(rss_kib() < before + 20 * 1024);
	return 0;
}
