/*
 * objcache.c - objects that are expensive to construct
 *
 *	objcache.raw.pair, .raw.batch	malloc and construct, destruct and free
 *	objcache.own.pair, .own.batch	an object cache of umem if the preloaded
 *					library has them, otherwise as raw
 *
 * in ns an object; a batch is 1000 objects, freed in the order of allocation.
 *
 * The program looks up the functions of umem at run time, so that under another
 * allocator no code of umem is in the process.
 *
 * Source: Bonwick, "The Slab Allocator", USENIX 1994: keeping an object
 * constructed saves more than the allocation costs.
 *
 * Usage: objcache [scale]
 */
#include <dlfcn.h>

#include "tests/bench/bench.h"
#include "umem/umem.h"

#define NBATCH  1000
#define NQUEUES 16

struct queue {
	struct queue *next, *prev;
};

/* Such as a server keeps for each connection. */
struct session {
	pthread_mutex_t lock;
	pthread_cond_t readable, writable;
	struct queue waiting[NQUEUES];
	uint64_t nused;
	char buffer[256];
};

static umem_cache_t *cache;
static __typeof__(&umem_cache_create) cache_create;
static __typeof__(&umem_cache_destroy) cache_destroy;
static __typeof__(&umem_cache_alloc) cache_alloc;
static __typeof__(&umem_cache_free) cache_free;

static int
construct(void *buf, void *priv, int flags)
{
	struct session *session = buf;

	(void)priv;
	(void)flags;
	pthread_mutex_init(&session->lock, NULL);
	pthread_cond_init(&session->readable, NULL);
	pthread_cond_init(&session->writable, NULL);
	for (int i = 0; i < NQUEUES; i++) {
		struct queue *queue = &session->waiting[i];

		queue->next = queue->prev = queue;
	}
	session->nused = 0;
	memset(session->buffer, 0, sizeof(session->buffer));
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct session *session = buf;

	(void)priv;
	pthread_cond_destroy(&session->writable);
	pthread_cond_destroy(&session->readable);
	pthread_mutex_destroy(&session->lock);
}

static struct session *
raw_get(void)
{
	struct session *session = malloc(sizeof(*session));

	if (session == NULL)
		bench_die("malloc");
	construct(session, NULL, 0);
	return session;
}

static void
raw_put(struct session *session)
{
	destruct(session, NULL);
	free(session);
}

static struct session *
cache_get(void)
{
	struct session *session = cache_alloc(cache, UMEM_DEFAULT);

	if (session == NULL)
		bench_die("umem_cache_alloc");
	return session;
}

static void
cache_put(struct session *session)
{
	cache_free(cache, session);
}

static void
use(struct session *session)
{
	session->nused++;
	bench_keep(session);
}

static void
raw_pairs(void *arg, size_t n)
{
	(void)arg;
	while (n-- > 0) {
		struct session *session = raw_get();

		use(session);
		raw_put(session);
	}
}

static void
cache_pairs(void *arg, size_t n)
{
	(void)arg;
	while (n-- > 0) {
		struct session *session = cache_get();

		use(session);
		cache_put(session);
	}
}

static void
raw_batches(void *arg, size_t n)
{
	struct session **sessions = arg;

	while (n-- > 0) {
		for (int i = 0; i < NBATCH; i++)
			use(sessions[i] = raw_get());
		for (int i = 0; i < NBATCH; i++)
			raw_put(sessions[i]);
	}
}

static void
cache_batches(void *arg, size_t n)
{
	struct session **sessions = arg;

	while (n-- > 0) {
		for (int i = 0; i < NBATCH; i++)
			use(sessions[i] = cache_get());
		for (int i = 0; i < NBATCH; i++)
			cache_put(sessions[i]);
	}
}

/* False if no library of this process has object caches. */
static bool
find_caches(void)
{
	cache_create = dlsym(RTLD_DEFAULT, "umem_cache_create");
	cache_destroy = dlsym(RTLD_DEFAULT, "umem_cache_destroy");
	cache_alloc = dlsym(RTLD_DEFAULT, "umem_cache_alloc");
	cache_free = dlsym(RTLD_DEFAULT, "umem_cache_free");
	return cache_create != NULL && cache_destroy != NULL &&
	       cache_alloc != NULL && cache_free != NULL;
}

int
main(int argc, char **argv)
{
	static struct session *sessions[NBATCH];
	double scale = bench_start(argc, argv), pair, batch;

	pair = bench_ns_each(raw_pairs, NULL, scale);
	batch = bench_ns_each(raw_batches, sessions, scale) / NBATCH;
	bench_print(pair, "ns", "objcache.raw.pair");
	bench_print(batch, "ns", "objcache.raw.batch");
	if (find_caches()) {
		cache = cache_create("session", sizeof(struct session), 0,
		    construct, destruct, NULL, NULL, NULL, 0);
		if (cache == NULL)
			bench_die("umem_cache_create");
		pair = bench_ns_each(cache_pairs, NULL, scale);
		batch = bench_ns_each(cache_batches, sessions, scale) / NBATCH;
		cache_destroy(cache);
	}
	bench_print(pair, "ns", "objcache.own.pair");
	bench_print(batch, "ns", "objcache.own.batch");
	return 0;
}
