// A constructor of objects may throw: the exception passes through
// umem_cache_alloc(), the object is no object, and nothing else is lost.
//
// test link: umem
// test modes: rseq own locked
// test no stderr: .
#include "tests/programs/check.h"

static const int N = 1000;

static umem_cache_t *cache;
static void *object[N];
static int nconstructed, ndestructed, nthrown;
static bool throws;

struct refused {
	int which;
};

static int
construct(void *p, void *, int)
{
	if (throws)
		throw refused{nthrown++};
	*(int *)p = nconstructed++;
	return 0;
}

static void
destruct(void *, void *)
{
	ndestructed++;
}

// The cache can be destroyed without a word of objects that are still out.
static void
throw_before_each_object(int flags)
{
	nconstructed = ndestructed = nthrown = 0;
	cache = umem_cache_create("kettles", 72, 0, construct, destruct,
	    nullptr, nullptr, nullptr, flags);
	check(cache != nullptr);
	for (int i = 0; i < N; i++) {
		int seen = -1;

		throws = true;
		try {
			umem_cache_alloc(cache, UMEM_DEFAULT);
		} catch (const refused &r) {
			seen = r.which;
		}
		check(seen == i);
		throws = false;
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object[i] != nullptr && *(int *)object[i] == i);
	}
	for (int i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_destroy(cache);
	check(nconstructed == N && ndestructed == N);
}

int
main()
{
	throw_before_each_object(0);
	throw_before_each_object(UMC_NOMAGAZINE);
	return 0;
}
