/*
 * zero_size.c - UMEM_OPTIONS=zero_size=block: umem_alloc(0) returns a block,
 * another one each time
 *
 * test modes: default
 * test link: umem
 * test no stderr: .
 */
#include "tests/programs/check.h"

int
main(int argc, char **argv)
{
	bool blocks = argc > 1 && strcmp(argv[1], "block") == 0;
	/* Not a constant: gcc 14 warns of allocations of 0 bytes. */
	volatile size_t none = 0;
	char *a = umem_alloc(none, UMEM_DEFAULT);
	char *b = umem_zalloc(none, UMEM_NOFAIL);
	char *c = umem_alloc_align(none, 256, UMEM_DEFAULT);

	if (!blocks) {
		check(a == NULL && b == NULL && c == NULL);
		setenv("UMEM_OPTIONS", "zero_size=block", 1);
		execl("/proc/self/exe", argv[0], "block", (char *)NULL);
		return 2;
	}
	check(a != NULL && b != NULL && c != NULL);
	check(a != b && b != c && a != c && is_aligned(c, 256));
	umem_free(a, 0);
	umem_free(b, 0);
	umem_free_align(c, 0);
	umem_free(NULL, 0);
	/* With the checks of debugging, too. */
	if (getenv("UMEM_DEBUG") == NULL) {
		setenv("UMEM_DEBUG", "default", 1);
		execl("/proc/self/exe", argv[0], "block", (char *)NULL);
		return 3;
	}
	return 0;
}
