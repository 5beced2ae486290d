/*
 * Objects of one cache are freed with two flavours: each waits for the readers
 * of its own.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test no stderr: not empty
 */
#include "tests/programs/rcu/rcu.h"

enum {
	N = 300
};

static const struct rcu_flavor_struct *other;
static umem_cache_t *cache;

static void
free_objects(const struct rcu_flavor_struct *flavor)
{
	for (int i = 0; i < N; i++)
		check(umem_cache_free_rcu_flavor(
			  cache, counted_alloc(cache), flavor) == 0);
}

static void
barrier_of_other(void)
{
	check(umem_rcu_barrier_flavor(other) == 0);
}

static void
run(void)
{
	struct task task;

	other = is_qsbr() ? &urcu_memb_flavor : &urcu_qsbr_flavor;
	cache = counted_cache(200);
	free_objects(rcu);
	free_objects(other);
	barrier();
	check(umem_rcu_barrier_flavor(other) == 0);
	check(counted_out(cache) == 0);

	/* The other's readers are not ours. */
	reader_start();
	free_objects(other);
	barrier_of_other();
	check(counted_out(cache) == 0);
	/* A section of ours does not forbid its barrier. */
	if (!is_qsbr()) {
		rcu_true->register_thread();
		section_begin();
		free_objects(other);
		barrier_of_other();
		section_end();
		rcu_true->unregister_thread();
		check(counted_out(cache) == 0);
	}
	free_objects(rcu);
	task_start(&task, barrier);
	free_objects(other);
	barrier_of_other();
	check(!task_is_done(&task));
	check(counted_out(cache) >= 1);
	reader_end();
	task_end(&task);
	check(counted_out(cache) == 0);

	/* The end of a cache waits for both. */
	free_objects(rcu);
	free_objects(other);
	umem_cache_destroy(cache);
	check(load(&ncounted_made) == load(&ncounted_gone));
}
