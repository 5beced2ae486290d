/*
 * hashtable.c - a concurrent hash table whose entries are freed after a grace
 * period of liburcu
 *
 *	hashtable umem		entries come from an object cache and are freed
 *				by umem_cache_free_rcu()
 *	hashtable malloc	entries come from malloc() and are freed by
 *				call_rcu() and free()
 *
 * The table is liburcu's cds_lfht.  Two updaters replace, delete and add
 * entries of random keys for two seconds, and two readers look random keys up
 * under rcu_read_lock().  A reader verifies the content of an entry twice, when
 * it has found the entry and before rcu_read_unlock(): an entry that was freed
 * too early would meanwhile have become another.
 *
 * Prints thousands of updates and of lookups per second and the peak memory in
 * KiB; fails if a reader met an entry with wrong content, or if an entry is
 * missing or left when the table has been emptied.  The time of the updates
 * ends when the last deleted entry has been freed.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <urcu/rculfhash.h>

#include <umem/umem.h>
#include <umem/umem_rcu.h>

#include "tests/demo/demo.h"

enum {
	NKEYS = 1 << 16,
	NWORDS = 4,
	NUPDATERS = 2,
	NREADERS = 2,
	SECONDS = 2
};

struct entry {
	struct cds_lfht_node link;
	uint64_t key;
	uint64_t word[NWORDS];
	uint64_t sum; /* of key and the words */
};

/* call_rcu() needs a list link and a function pointer in each entry. */
struct entry_with_head {
	struct entry entry;
	struct rcu_head head;
};

static bool by_umem;
static umem_cache_t *cache;
static struct cds_lfht *table;

static pthread_barrier_t begin;
static atomic_bool stop;
static atomic_long nupdates, nlookups, nwrong;

/* Allocation and deferred free */

static void
free_from_head(struct rcu_head *head)
{
	free(caa_container_of(head, struct entry_with_head, head));
}

/* Readers may hold the entry; new ones do not find it. */
static void
entry_free_later(struct entry *entry)
{
	struct entry_with_head *outer =
	    caa_container_of(entry, struct entry_with_head, entry);

	if (!by_umem) {
		call_rcu(&outer->head, free_from_head);
	} else if (umem_cache_free_rcu(cache, entry) != 0) {
		perror("umem_cache_free_rcu");
		exit(1);
	}
}

/* No reader has ever found the entry. */
static void
entry_free(struct entry *entry)
{
	if (by_umem)
		umem_cache_free(cache, entry);
	else
		free(entry);
}

static void
wait_for_frees(void)
{
	if (!by_umem) {
		rcu_barrier();
	} else if (umem_rcu_barrier() != 0) {
		perror("umem_rcu_barrier");
		exit(1);
	}
}

static uint64_t
entry_sum(const struct entry *entry)
{
	uint64_t sum = entry->key;

	for (int i = 0; i < NWORDS; i++)
		sum = sum * 31 + entry->word[i];
	return sum;
}

static struct entry *
entry_create(uint64_t key, uint64_t *state)
{
	struct entry *entry = by_umem ? umem_cache_alloc(cache, UMEM_DEFAULT)
				      : malloc(sizeof(struct entry_with_head));

	need(entry);
	cds_lfht_node_init(&entry->link);
	entry->key = key;
	for (int i = 0; i < NWORDS; i++)
		entry->word[i] = next_random(state);
	entry->sum = entry_sum(entry);
	return entry;
}

/* The table */

static unsigned long
hash_of(uint64_t key)
{
	return (key + 1) * 0x9e3779b97f4a7c15 >> 20;
}

static int
has_key(struct cds_lfht_node *link, const void *key)
{
	return caa_container_of(link, struct entry, link)->key ==
	       *(const uint64_t *)key;
}

/* Inside a read-side critical section; NULL if there is none. */
static struct entry *
table_find(uint64_t key, struct cds_lfht_iter *iter)
{
	struct cds_lfht_node *link;

	cds_lfht_lookup(table, hash_of(key), has_key, &key, iter);
	link = cds_lfht_iter_get_node(iter);
	return link == NULL ? NULL : caa_container_of(link, struct entry, link);
}

/* Adds the entry unless its key is in the table already. */
static bool
table_add(struct entry *entry)
{
	return cds_lfht_add_unique(table, hash_of(entry->key), has_key,
		   &entry->key, &entry->link) == &entry->link;
}

/*
 * Adds an entry if the key is absent, otherwise replaces the entry, or in one
 * of four cases deletes it.  Because another updater may do so at the same
 * time, each step may find that it comes too late.
 */
static void
update_key(uint64_t key, uint64_t *state)
{
	bool only_delete = next_random(state) >> 62 == 0, added;
	struct entry *new = only_delete ? NULL : entry_create(key, state);
	struct cds_lfht_iter iter;
	struct entry *old;

	rcu_read_lock();
	old = table_find(key, &iter);
	if (old == NULL) {
		added = new != NULL &&table_add(new);
	} else if (only_delete) {
		added = false;
		if (cds_lfht_del(table, &old->link) != 0)
			old = NULL;
	} else {
		added = cds_lfht_replace(table, &iter, hash_of(key), has_key,
			    &key, &new->link) == 0;
		if (!added)
			old = NULL;
	}
	rcu_read_unlock();
	if (old != NULL)
		entry_free_later(old);
	if (new != NULL && !added)
		entry_free(new);
}

/* Threads */

static void *
update(void *arg)
{
	uint64_t state = 1 + (uintptr_t)arg;
	long n = 0;

	rcu_register_thread();
	pthread_barrier_wait(&begin);
	for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++)
		update_key(next_random(&state) % NKEYS, &state);
	atomic_fetch_add(&nupdates, n);
	rcu_unregister_thread();
	return NULL;
}

static bool
is_right(const struct entry *entry, uint64_t key)
{
	return *(const volatile uint64_t *)&entry->key == key &&
	       *(const volatile uint64_t *)&entry->sum == entry_sum(entry);
}

static void *
look_up(void *arg)
{
	uint64_t state = 1000 + (uintptr_t)arg;
	long n = 0, wrong = 0;

	rcu_register_thread();
	pthread_barrier_wait(&begin);
	for (; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
		uint64_t key = next_random(&state) % NKEYS;
		struct cds_lfht_iter iter;
		struct entry *entry;

		rcu_read_lock();
		entry = table_find(key, &iter);
		if (entry != NULL && !is_right(entry, key))
			wrong++;
		/* The compiler must read the entry again. */
		atomic_signal_fence(memory_order_seq_cst);
		if (entry != NULL && !is_right(entry, key))
			wrong++;
		rcu_read_unlock();
	}
	atomic_fetch_add(&nlookups, n);
	atomic_fetch_add(&nwrong, wrong);
	rcu_unregister_thread();
	return NULL;
}

/* Set-up and end */

static void
table_fill(void)
{
	uint64_t state = 88172645463325252ull;

	if (by_umem)
		cache = need(umem_cache_create("entry", sizeof(struct entry), 0,
		    NULL, NULL, NULL, NULL, NULL, 0));
	table = need(cds_lfht_new(NKEYS, NKEYS, NKEYS, 0, NULL));
	for (uint64_t key = 0; key < NKEYS; key++)
		table_add(entry_create(key, &state));
}

static void
table_empty(void)
{
	struct cds_lfht_iter iter;

	for (uint64_t key = 0; key < NKEYS; key++) {
		struct entry *entry;

		rcu_read_lock();
		entry = table_find(key, &iter);
		if (entry != NULL && cds_lfht_del(table, &entry->link) != 0)
			nwrong++;
		rcu_read_unlock();
		if (entry != NULL)
			entry_free_later(entry);
	}
	wait_for_frees();
	/* The table must be empty; and so must the cache, which says so. */
	if (cds_lfht_destroy(table, NULL) != 0)
		nwrong++;
	if (by_umem)
		umem_cache_destroy(cache);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long
peak_kib(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_maxrss;
}

int
main(int argc, char **argv)
{
	pthread_t thread[NUPDATERS + NREADERS];
	double started, seconds;
	long peak;

	by_umem = argc == 2 && strcmp(argv[1], "umem") == 0;
	if (argc != 2 || (!by_umem && strcmp(argv[1], "malloc") != 0)) {
		fputs("usage: hashtable umem|malloc\n", stderr);
		return 2;
	}
	rcu_register_thread();
	table_fill();
	pthread_barrier_init(&begin, NULL, NUPDATERS + NREADERS + 1);
	for (uintptr_t i = 0; i < NUPDATERS + NREADERS; i++)
		thread[i] = start(i < NUPDATERS ? update : look_up, (void *)i);
	pthread_barrier_wait(&begin);
	started = now();
	sleep(SECONDS);
	stop = true;
	for (int i = 0; i < NUPDATERS + NREADERS; i++)
		pthread_join(thread[i], NULL);
	wait_for_frees();
	seconds = now() - started;
	peak = peak_kib();
	table_empty();
	rcu_unregister_thread();
	printf("%.0f %.0f %ld\n", (double)nupdates / seconds / 1000,
	    (double)nlookups / seconds / 1000, peak);
	if (nwrong != 0)
		fprintf(stderr, "%ld entries were wrong\n", nwrong);
	return nwrong != 0;
}
