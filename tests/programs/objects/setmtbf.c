/*
 * umem_setmtbf(): which requests fail, how often, and that it ends.
 *
 * test link: umem
 * test preload: yes
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	N = 20000
};

static umem_cache_t *cache;

static unsigned
failures(void *(*get)(void), void (*put)(void *))
{
	unsigned n = 0;

	for (int i = 0; i < N; i++) {
		errno = 0;
		void *p = get();

		if (p == NULL)
			check(errno == ENOMEM), n++;
		else
			put(p);
	}
	return n;
}

static void *
small_get(void)
{
	return umem_alloc(100, UMEM_DEFAULT);
}

static void
small_put(void *p)
{
	umem_free(p, 100);
}

static void *
zeroed_get(void)
{
	return umem_zalloc(100, UMEM_DEFAULT);
}

static void *
aligned_get(void)
{
	return umem_alloc_align(100, 64, UMEM_DEFAULT);
}

static void
aligned_put(void *p)
{
	umem_free_align(p, 100);
}

static void *
object_get(void)
{
	return umem_cache_alloc(cache, UMEM_DEFAULT);
}

static void
object_put(void *p)
{
	umem_cache_free(cache, p);
}

static void *
nofail_get(void)
{
	return umem_alloc(100, UMEM_NOFAIL);
}

static void *
nofail_object(void)
{
	return umem_cache_alloc(cache, UMEM_NOFAIL);
}

static void *
plain_get(void)
{
	return malloc(100);
}

static void *
calloc_get(void)
{
	return calloc(10, 10);
}

static void *
realloc_get(void)
{
	return realloc(NULL, 100);
}

static void *
memalign_get(void)
{
	return aligned_alloc(64, 128);
}

static void *
large_get(void)
{
	return malloc(20 * MIB);
}

/* Each as often as umem_alloc(), which failed a times. */
static void
mallocs_fail_alike(unsigned a)
{
	static void *(*const get[])(void) = {
	    plain_get, calloc_get, realloc_get, memalign_get, large_get};

	for (size_t i = 0; i < sizeof(get) / sizeof(get[0]); i++) {
		unsigned n = failures(get[i], free);

		check(n <= 2 * a + 5 && a <= 2 * n + 5);
	}
}

static unsigned
all(void)
{
	unsigned a = failures(small_get, small_put);
	unsigned b = failures(zeroed_get, small_put);
	unsigned c = failures(aligned_get, aligned_put);
	unsigned d = failures(object_get, object_put);

	check(failures(nofail_get, small_put) == 0);
	check(failures(nofail_object, object_put) == 0);
	/* About equally many requests of each kind fail. */
	check(a <= 2 * b + 5 && b <= 2 * c + 5 && c <= 2 * d + 5 &&
	      d <= 2 * a + 5);
	mallocs_fail_alike(a);
	return a + b + c + d;
}

int
main(void)
{
	unsigned n;

	cache = umem_cache_create(
	    "kettles", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(cache != NULL);
	check(all() == 0);
	umem_setmtbf(1);
	check(all() == 4 * N);
	umem_setmtbf(10);
	n = all();
	check(n > 4 * N / 10 * 8 / 10 && n < 4 * N / 10 * 12 / 10);
	umem_setmtbf(1000);
	n = all();
	check(n > 4 * N / 1000 / 3 && n < 4 * N / 1000 * 3);
	umem_setmtbf(0);
	check(all() == 0);
	return 0;
}
