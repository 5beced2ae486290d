/*
 * umem_realloc.c - blocks keep their contents and get their new size in every
 * mode: with samples, debugging and failures on purpose
 *
 * test modes: default locked
 * test link: umem
 * test no stderr: .
 */
#include "tests/programs/check.h"

static const char *const settings[][2] = {
    {"UMEM_OPTIONS", "sample=1"},
    {"UMEM_OPTIONS", "sample=4096"},
    {"UMEM_OPTIONS", "hardened"},
    {"UMEM_OPTIONS", "zero_size=block"},
    {"UMEM_DEBUG", "default"},
    {"UMEM_DEBUG", "guards"},
    {"UMEM_DEBUG", "default,firewall=1"},
};
#define NSETTINGS (sizeof(settings) / sizeof(settings[0]))

static void
fill(char *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		p[i] = (char)(i * 7);
}

static void
check_filled(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check(p[i] == (char)(i * 7));
}

static void
resize_all(int flags)
{
	static const size_t sizes[] = {1, 8, 100, 5000, 40000, 70000, 200000,
	    1 << 20, 9 << 20, 12 << 20, 8000000, 70000, 66000, 3000, 2999, 16,
	    /* Pairs with one umem_good_size(). */
	    0, 40001, 45000, (1 << 20) + 1, 5 << 18, 5087532, 5114403,
	    (8 << 20) + 1, (8 << 20) + 65536, 65536, 65000, 0, 8};
	size_t old = 0;
	char *p = NULL, *next;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = sizes[i], kept = old < size ? old : size;
		char *q;

		/* It often begins where p ends. */
		next = umem_alloc(old, UMEM_DEFAULT);
		if (next != NULL)
			fill(next, 0, old);
		q = umem_realloc(p, old, size, flags);
		if (q != NULL || size == 0) {
			check_filled(q, kept);
			fill(q, kept, size);
		}
		if (next != NULL) {
			check_filled(next, old);
			umem_free(next, old);
		}
		if (q != NULL || size == 0) {
			p = q;
			old = size;
		}
	}
	umem_free(umem_realloc(p, old, 0, UMEM_DEFAULT), 0);
}

int
main(int argc, char **argv)
{
	unsigned long next = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	char number[24];

	resize_all(UMEM_NOFAIL);
	umem_setmtbf(3);
	for (int i = 0; i < 6; i++)
		resize_all(i % 2 == 0 ? UMEM_DEFAULT : UMEM_NOFAIL);
	umem_setmtbf(0);
	if (next > 0)
		unsetenv(settings[next - 1][0]);
	if (next == NSETTINGS || (argc == 1 && getenv("UMEM_OPTIONS") != NULL))
		return 0;
	setenv(settings[next][0], settings[next][1], 1);
	snprintf(number, sizeof(number), "%lu", next + 1);
	execl("/proc/self/exe", argv[0], number, (char *)NULL);
	return 2;
}
