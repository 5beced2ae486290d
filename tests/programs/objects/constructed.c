/*
 * The life of an object: it is constructed once, comes back in the state in
 * which it was freed, and is destructed once before its memory is released.
 * The callbacks get the argument of the cache.  Reclaim callbacks are tested,
 * too.
 *
 * test link: umem
 * test modes: rseq own locked
 * test no stderr: .
 * test not with: thread counts at most 64 locks that a thread holds
 */
#include "tests/programs/check.h"

struct object {
	uint64_t check;
	uint64_t uses;
	pthread_mutex_t lock;
	char rest[40];
};

enum {
	N = 5000,
	NTHREADS = 4
};
#define LIVE 0x6b6574746c65ull
#define DEAD 0x64656164ull

static unsigned nconstructed, ndestructed, nreclaims;
static umem_cache_t *cache;
static int word;

static int
construct(void *p, void *arg, int flags)
{
	struct object *object = p;

	check(arg == &word && flags == UMEM_DEFAULT);
	object->check = LIVE;
	object->uses = 0;
	pthread_mutex_init(&object->lock, NULL);
	memset(object->rest, 7, sizeof(object->rest));
	__atomic_add_fetch(&nconstructed, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
destruct(void *p, void *arg)
{
	struct object *object = p;

	check(arg == &word && object->check == LIVE);
	check(is_stamped(object->rest, 0, 0) && object->rest[39] == 7);
	check(pthread_mutex_destroy(&object->lock) == 0);
	object->check = DEAD;
	__atomic_add_fetch(&ndestructed, 1, __ATOMIC_RELAXED);
}

static void
reclaim(void *arg)
{
	check(arg == &word);
	__atomic_add_fetch(&nreclaims, 1, __ATOMIC_RELAXED);
}

static void *
use(void *arg)
{
	static __thread struct object *object[300];
	uint64_t r = (uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		struct object **slot = &object[next_random(&r) % 300];

		if (*slot == NULL) {
			*slot = umem_cache_alloc(cache, UMEM_DEFAULT);
			check(*slot != NULL && (*slot)->check == LIVE);
			check(pthread_mutex_trylock(&(*slot)->lock) == 0);
			(*slot)->uses++;
		} else {
			check((*slot)->check == LIVE);
			pthread_mutex_unlock(&(*slot)->lock);
			umem_cache_free(cache, *slot);
			*slot = NULL;
		}
		if (i % 5000 == 0)
			umem_cache_reap_now(cache);
	}
	for (int i = 0; i < 300; i++)
		if (object[i] != NULL) {
			pthread_mutex_unlock(&object[i]->lock);
			umem_cache_free(cache, object[i]);
		}
	return NULL;
}

static void
all_come_back(int flags)
{
	static struct object *object[N];
	pthread_t thread[NTHREADS];
	unsigned made;
	uint64_t uses = 0;

	nconstructed = ndestructed = nreclaims = 0;
	cache = umem_cache_create("kettles", sizeof(struct object), 0,
	    construct, destruct, reclaim, &word, NULL, flags);
	check(cache != NULL);
	for (int i = 0; i < N; i++) {
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
		object[i]->uses++;
	}
	made = nconstructed;
	check(made >= N && made < 2 * N && ndestructed == 0);
	for (int i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
	/* Objects that the cache kept come back unchanged. */
	for (int i = 0; i < N; i++) {
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
		check(object[i]->check == LIVE);
		uses += object[i]->uses;
	}
	check(uses > 0 || ndestructed > 0);
	for (int i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
	umem_cache_reap_now(cache);
	check(nreclaims == 1);
	check(ndestructed == nconstructed);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(use, (void *)(i + 1));
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	umem_cache_destroy(cache);
	check(ndestructed == nconstructed && nconstructed > made);
}

/* Every third construction fails; such an object is not used or destructed. */
static unsigned ntried;

static int
construct_some(void *p, void *arg, int flags)
{
	(void)flags;
	check(arg == &word);
	if (++ntried % 3 == 0)
		return 1;
	*(uint64_t *)p = LIVE;
	nconstructed++;
	return 0;
}

static void
destruct_some(void *p, void *arg)
{
	check(arg == &word && *(uint64_t *)p == LIVE);
	*(uint64_t *)p = DEAD;
	ndestructed++;
}

static void
constructor_fails(void)
{
	static uint64_t *object[N];
	unsigned nfailed = 0;

	nconstructed = ndestructed = 0;
	cache = umem_cache_create("spoons", 100, 0, construct_some,
	    destruct_some, NULL, &word, NULL, UMC_NOMAGAZINE);
	check(cache != NULL);
	for (int i = 0; i < N; i++) {
		errno = 0;
		object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
		if (object[i] == NULL) {
			check(errno == ENOMEM);
			nfailed++;
		} else {
			check(*object[i] == LIVE);
		}
	}
	check(nfailed == N / 3);
	for (int i = 0; i < N; i++)
		if (object[i] != NULL)
			umem_cache_free(cache, object[i]);
	umem_cache_destroy(cache);
	check(nconstructed == ndestructed && nconstructed == N - nfailed);
}

int
main(void)
{
	all_come_back(0);
	all_come_back(UMC_NOMAGAZINE);
	constructor_fails();
	return 0;
}
