/*
 * typestable.c - objects that are reused at once while readers look at them
 *
 * The cache has UMC_TYPESAFE_BY_RCU: inside a read-side critical section the
 * memory of an object remains an object of the cache, but it may be freed and
 * allocated for another purpose meanwhile.  So a session is freed by
 * umem_cache_free() and its memory is reused while it is still in the CPU's
 * cache, without a grace period.  In return a reader must
 *	1. find the session under rcu_read_lock(),
 *	2. take a reference, unless the session has none and so is free,
 *	3. check that the session is still the one it looked for, because the
 *	   memory may have become another session between 1 and 2, and if not,
 *	   drop the reference and search again.
 * A free session has the count 0: the constructor sets it, and the last
 * session_put() leaves it.
 *
 * Two updaters end sessions and begin others with the same place in a table;
 * two readers find sessions by their number.  Prints thousands of sessions
 * begun and of lookups per second, and how many lookups of the run found a
 * session that was free (step 2) or had become another (step 3); fails if a
 * reader with a reference met another session.
 */
#include <stdatomic.h>
#include <stdbool.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include <umem/umem.h>
#include <umem/umem_rcu.h>

#include "tests/demo/demo.h"

enum {
	NPLACES = 256,
	NUPDATERS = 2,
	NREADERS = 2,
	SECONDS = 1
};

struct session {
	atomic_uint nrefs;    /* one is the table's; 0: the session is free */
	atomic_uint place;    /* in the table */
	pthread_mutex_t lock; /* made by the constructor, once */
	uint64_t nused;
};

static umem_cache_t *cache;
static struct session *table[NPLACES];

static pthread_barrier_t begin;
static atomic_bool stop;
static atomic_long nbegun, nlookups, nfree, nother, nwrong;

static int
construct(void *buf, void *priv, int flags)
{
	struct session *session = buf;

	(void)priv, (void)flags;
	atomic_init(&session->nrefs, 0);
	pthread_mutex_init(&session->lock, NULL);
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct session *session = buf;

	(void)priv;
	pthread_mutex_destroy(&session->lock);
}

/* False if the session is free. */
static bool
session_get(struct session *session)
{
	unsigned n = atomic_load(&session->nrefs);

	while (
	    n != 0 && !atomic_compare_exchange_weak(&session->nrefs, &n, n + 1))
		;
	return n != 0;
}

static void
session_put(struct session *session)
{
	if (atomic_fetch_sub(&session->nrefs, 1) == 1)
		umem_cache_free(cache, session);
}

static struct session *
session_create(unsigned place)
{
	struct session *session = need(umem_cache_alloc(cache, UMEM_DEFAULT));

	session->place = place;
	session->nused = 0;
	/* Last: from here on a reader can take a reference. */
	atomic_store(&session->nrefs, 1);
	return session;
}

/* The session at a place, with a reference; NULL if there is none. */
static struct session *
table_find(unsigned place)
{
	for (;;) {
		struct session *session;
		bool has_ref;

		rcu_read_lock();
		session = rcu_dereference(table[place]);
		has_ref = session != NULL && session_get(session);
		rcu_read_unlock();
		if (session == NULL)
			return NULL;
		if (has_ref && session->place == place)
			return session;
		if (has_ref)
			session_put(session);
		atomic_fetch_add(has_ref ? &nother : &nfree, 1);
	}
}

static void *
update(void *arg)
{
	uint64_t state = 1 + (uintptr_t)arg;
	long n = 0;

	rcu_register_thread();
	pthread_barrier_wait(&begin);
	for (; !stop; n++) {
		unsigned place = (unsigned)(next_random(&state) % NPLACES);
		struct session *old =
		    rcu_xchg_pointer(&table[place], session_create(place));

		if (old != NULL)
			session_put(old);
	}
	atomic_fetch_add(&nbegun, n);
	rcu_unregister_thread();
	return NULL;
}

static void *
look_up(void *arg)
{
	uint64_t state = 1000 + (uintptr_t)arg;
	long n = 0;

	rcu_register_thread();
	pthread_barrier_wait(&begin);
	for (; !stop; n++) {
		unsigned place = (unsigned)(next_random(&state) % NPLACES);
		struct session *session = table_find(place);

		if (session == NULL)
			continue;
		pthread_mutex_lock(&session->lock);
		session->nused++;
		pthread_mutex_unlock(&session->lock);
		if (session->place != place)
			atomic_fetch_add(&nwrong, 1);
		session_put(session);
	}
	atomic_fetch_add(&nlookups, n);
	rcu_unregister_thread();
	return NULL;
}

int
main(void)
{
	pthread_t thread[NUPDATERS + NREADERS];

	cache = need(umem_cache_create("session", sizeof(struct session), 0,
	    construct, destruct, NULL, NULL, NULL, UMC_TYPESAFE_BY_RCU));
	/* So that the cache may release slabs that have become empty. */
	if (umem_cache_rcu(cache) != 0) {
		perror("umem_cache_rcu");
		return 1;
	}
	pthread_barrier_init(&begin, NULL, NUPDATERS + NREADERS + 1);
	for (uintptr_t i = 0; i < NUPDATERS + NREADERS; i++)
		thread[i] = start(i < NUPDATERS ? update : look_up, (void *)i);
	pthread_barrier_wait(&begin);
	sleep(SECONDS);
	stop = true;
	for (int i = 0; i < NUPDATERS + NREADERS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < NPLACES; i++)
		if (table[i] != NULL)
			session_put(table[i]);
	umem_cache_destroy(cache);
	printf("%ld %ld %ld %ld\n", nbegun / SECONDS / 1000,
	    nlookups / SECONDS / 1000, nfree, nother);
	if (nwrong != 0)
		fprintf(stderr, "%ld sessions were wrong\n", nwrong);
	return nwrong != 0;
}
