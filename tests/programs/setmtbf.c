/* umem_setmtbf(): which requests fail, how often, and that it ends. */
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

static unsigned
all(void)
{
	unsigned a = failures(small_get, small_put);
	unsigned b = failures(zeroed_get, small_put);
	unsigned c = failures(aligned_get, aligned_put);
	unsigned d = failures(object_get, object_put);

	check(failures(nofail_get, small_put) == 0);
	check(failures(nofail_object, object_put) == 0);
	check(failures(plain_get, free) == 0);
	/* The same share of each. */
	check(a <= 2 * b + 5 && b <= 2 * c + 5 && c <= 2 * d + 5 &&
	      d <= 2 * a + 5);
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
