/*
 * map.c - the names of umem_rcu.h without "_flavor"
 *
 * The compiler includes a flavour's header first, under URCU_API_MAP.  Readers
 * look up a list of nodes, which an updater removes one after the other.
 */
#include <umem_rcu.h>
#include <urcu/rculist.h>

#include "tests/programs/check.h"

enum {
	NNODES = 50,
	NROUNDS = 20,
	NREADERS = 2
};

struct entry {
	struct cds_list_head list;
	uint64_t number, again;
	int kind;
};

static CDS_LIST_HEAD(head);
static umem_cache_t *cache;
static bool stop;

static void *
reader(void *arg)
{
	rcu_register_thread();
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		struct entry *entry;

		rcu_read_lock();
		cds_list_for_each_entry_rcu(entry, &head, list)
		    check(entry->number != 0 && entry->again == ~entry->number);
		rcu_read_unlock();
		rcu_quiescent_state();
	}
	rcu_unregister_thread();
	return arg;
}

static struct entry *
entry_new(uint64_t number)
{
	int kind = (int)(number % 3);
	struct entry *entry =
	    (struct entry *)(kind == 0 ? umem_cache_alloc(cache, UMEM_DEFAULT)
			     : kind == 1
				 ? umem_alloc(sizeof(*entry), UMEM_DEFAULT)
				 : malloc(sizeof(*entry)));

	check(entry != NULL);
	entry->number = number;
	entry->again = ~number;
	entry->kind = kind;
	return entry;
}

static int
entry_free(struct entry *entry)
{
	switch (entry->kind) {
	case 0:
		return umem_cache_free_rcu(cache, entry);
	case 1:
		return umem_free_rcu(entry, sizeof(*entry));
	default:
		return free_rcu(entry);
	}
}

int
main(void)
{
	pthread_t readers[NREADERS];
	uint64_t number = 0;

	limit_time();
	cache = umem_cache_create("entries", sizeof(struct entry), 0, NULL,
	    NULL, NULL, NULL, NULL, 0);
	check(cache != NULL && umem_cache_rcu(cache) == 0);
	for (int i = 0; i < NREADERS; i++)
		readers[i] = thread_start(reader, NULL);
	for (int round = 0; round < NROUNDS; round++) {
		for (int i = 0; i < NNODES; i++)
			cds_list_add_rcu(&entry_new(++number)->list, &head);
		while (!cds_list_empty(&head)) {
			struct entry *entry =
			    cds_list_entry(head.prev, struct entry, list);

			cds_list_del_rcu(&entry->list);
			check(entry_free(entry) == 0);
		}
		if (round % 4 == 0)
			check(umem_rcu_barrier() == 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < NREADERS; i++)
		thread_end(readers[i]);
	check(umem_cache_free_rcu(cache, NULL) == 0);
	check(umem_free_rcu(NULL, 1) == 0 && free_rcu(NULL) == 0);
	check(umem_rcu_barrier() == 0);
	check(umem_cache_shrink(cache) == 0);
	umem_cache_destroy(cache);
	return 0;
}
