/*
 * rcu_typesafe.c - slabs of a type-stable cache go after a grace period, and
 * only when the cache knows its readers
 *
 * test link: rcu
 * test libs: -lurcu-memb
 */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

#include "tests/programs/check.h"

#define N     20000
#define STAMP 42

static long nended; /* [a] calls of the destructor */
static void *object[N];

struct item {
	long stamp;
	char room[192];
};

static int
construct(void *buf, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	((struct item *)buf)->stamp = STAMP;
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	(void)priv;
	check(((struct item *)buf)->stamp == STAMP);
	__atomic_add_fetch(&nended, 1, __ATOMIC_RELAXED);
}

static long
ended(void)
{
	return __atomic_load_n(&nended, __ATOMIC_RELAXED);
}

/* Waits for n calls of the destructor; the upkeep is asked for each time. */
static void
await(umem_cache_t *cache, long n)
{
	for (int i = 0; ended() < n && i < 10000; i++) {
		umem_cache_reap_now(cache);
		usleep(1000);
	}
	check(ended() == n);
}

static void
fill_and_empty(umem_cache_t *cache)
{
	for (int i = 0; i < N; i++)
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
	for (int i = 0; i < N; i++)
		umem_cache_free(cache, object[i]);
}

/*
 * In a child, liburcu may still know readers that do not exist there, so no
 * slab goes before the child calls the library for the flavour.
 */
static void
check_child(umem_cache_t *cache)
{
	long before = ended();
	pid_t pid = fork();

	if (pid == 0) {
		fill_and_empty(cache);
		umem_cache_reap_now(cache);
		umem_reap();
		usleep(50000);
		umem_cache_reap_now(cache);
		check(ended() == before);
		check(umem_cache_rcu(cache) == 0);
		await(cache, before + N);
		_exit(0);
	}
	child_end(pid);
}

int
main(void)
{
	umem_cache_t *cache = umem_cache_create("typesafe", sizeof(struct item),
	    0, construct, destruct, NULL, NULL, NULL, UMC_TYPESAFE_BY_RCU);

	rcu_register_thread();
	fill_and_empty(cache);
	umem_cache_reap_now(cache);
	usleep(20000);
	check(ended() == 0);

	/* Told of its readers, and nobody reads. */
	check(umem_cache_rcu(cache) == 0);
	await(cache, N);
	check_child(cache);

	/* A reader in its section keeps the slabs. */
	fill_and_empty(cache);
	rcu_read_lock();
	umem_cache_reap_now(cache);
	usleep(50000);
	check(ended() == N);
	for (int i = 0; i < N; i++)
		check(((struct item *)object[i])->stamp == STAMP);
	rcu_read_unlock();
	await(cache, 2L * N);

	/* Objects and slabs that wait at once. */
	for (int i = 0; i < N; i++)
		check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
	for (int i = 0; i < N; i++)
		check(umem_cache_free_rcu(cache, object[i]) == 0);
	check(umem_rcu_barrier() == 0);
	await(cache, 3L * N);
	rcu_unregister_thread();
	umem_cache_destroy(cache);
	return 0;
}
