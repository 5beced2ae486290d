/*
 * The budget and the errors of umem_rcu.h.  Run with rcu_budget=256k.
 *
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 * test env: UMEM_OPTIONS=rcu_budget=256k
 */
#include "tests/programs/rcu/rcu.h"

enum {
	SIZE = 1000,
	N = 5000
};
/* The budget does not count the magazine that a CPU fills. */
#define BUDGET (256 * KIB)
#define MOST   (2 * BUDGET + 8 * MIB)

static umem_cache_t *cache;
static unsigned nfreed;
static size_t blocks_size;

static void
null_is_ignored(void)
{
	object_free(cache, NULL);
	block_free(NULL);
	sized_free(NULL, 100);
	sized_free(NULL, 0);
	/* In a section, too. */
	rcu_true->register_thread();
	section_begin();
	object_free(cache, NULL);
	block_free(NULL);
	sized_free(NULL, 100);
	section_end();
	rcu_true->unregister_thread();
}

static void
a_flavour_is_told_of(void)
{
	errno = 4325;
	check(umem_cache_rcu_flavor(cache, rcu) == 0);
	check(umem_cache_rcu_flavor(cache, rcu) == 0);
	check(errno == 4325);
}

static void
blocks_of_no_bytes(void)
{
	void *p = umem_alloc(0, UMEM_DEFAULT);

	sized_free(p, 0);
	block_free(malloc(0));
	barrier();
}

/* A caller that holds a section up cannot wait: it is refused. */
static void
a_caller_in_a_section_is_refused(void)
{
	static char *object[N];
	unsigned n, refused = 0;

	rcu_true->register_thread();
	section_begin();
	for (n = 0; n < N; n++) {
		check((object[n] = umem_cache_alloc(cache, UMEM_DEFAULT)));
		stamp(object[n], SIZE, n);
		errno = 4326;
		if (umem_cache_free_rcu_flavor(cache, object[n], rcu) != 0)
			break;
		check(errno == 4326);
	}
	check(n < N && errno == EAGAIN);
	check((size_t)n * SIZE >= BUDGET);
	check((size_t)n * SIZE <= MOST);
	/* The other kinds fail, too, from then on; the object stays ours. */
	for (unsigned i = 0; i < 100; i++) {
		void *p = umem_alloc(SIZE, UMEM_DEFAULT);

		check(p != NULL);
		memset(p, 1, SIZE);
		errno = 0;
		if (umem_free_rcu_flavor(p, SIZE, rcu) != 0) {
			check(errno == EAGAIN);
			umem_free(p, SIZE);
			refused++;
		}
	}
	check(refused > 0);
	for (unsigned i = 0; i <= n; i++)
		check(is_stamped(object[i], SIZE, i));
	section_end();
	/* Out of the section. */
	rcu_true->thread_offline();
	object_free(cache, object[n]);
	barrier();
	rcu_true->thread_online();
	rcu_true->unregister_thread();
}

/* One beyond the budget, in a section, is refused nothing below twice it. */
static void
below_the_budget_nobody_is_refused(void)
{
	barrier();
	rcu_true->register_thread();
	section_begin();
	for (unsigned i = 0; i < BUDGET / SIZE; i++) {
		void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

		check(object != NULL);
		object_free(cache, object);
	}
	section_end();
	rcu_true->unregister_thread();
	barrier();
}

static void
free_many_objects(void)
{
	for (int i = 0; i < N * 4; i++) {
		object_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
		add(&nfreed, 1);
	}
}

static void
free_many_blocks(void)
{
	for (int i = 0; i < N * 4; i++) {
		sized_free(umem_alloc(blocks_size, UMEM_DEFAULT), blocks_size);
		add(&nfreed, 1);
	}
}

static void
free_many_of_malloc(void)
{
	for (int i = 0; i < N * 4; i++) {
		block_free(malloc(SIZE));
		add(&nfreed, 1);
	}
}

/* A caller outside of a section waits for the reader, and is not refused. */
static void
a_caller_outside_waits(void (*free_many)(void), size_t size, unsigned most)
{
	struct task task;
	unsigned before;

	blocks_size = size;
	store(&nfreed, 0);
	barrier();
	reader_start();
	task_start(&task, free_many);
	/* Wait until the freeing thread has stopped at the budget. */
	do {
		before = load(&nfreed);
		usleep(50000);
	} while (before == 0 || load(&nfreed) != before);
	check(!task_is_done(&task));
	check(before < most);
	reader_end();
	task_end(&task);
	barrier();
}

static void
a_barrier_in_a_section_is_refused(void)
{
	object_free(cache, umem_cache_alloc(cache, UMEM_DEFAULT));
	rcu_true->register_thread();
	if (is_qsbr()) {
		/* A registered thread is online: it is taken offline. */
		barrier();
		check(rcu_true->read_ongoing());
		rcu_true->thread_offline();
		barrier();
		check(!rcu_true->read_ongoing());
		rcu_true->thread_online();
	} else {
		for (int nested = 1; nested <= 2; nested++) {
			for (int i = 0; i < nested; i++)
				section_begin();
			errno = 0;
			check(umem_rcu_barrier_flavor(rcu) == -1);
			check(errno == EDEADLK);
			for (int i = 0; i < nested; i++)
				section_end();
		}
		barrier();
	}
	rcu_true->unregister_thread();
}

static void
run(void)
{
	check((cache = umem_cache_create("limits", SIZE, 0, NULL, NULL, NULL,
		   NULL, NULL, 0)) != NULL);
	a_flavour_is_told_of();
	null_is_ignored();
	blocks_of_no_bytes();
	a_caller_in_a_section_is_refused();
	below_the_budget_nobody_is_refused();
	a_caller_outside_waits(free_many_objects, SIZE, MOST / SIZE);
	a_caller_outside_waits(free_many_blocks, SIZE, MOST / SIZE);
	a_caller_outside_waits(free_many_blocks, 100000, MOST / 100000);
	a_caller_outside_waits(
	    free_many_of_malloc, SIZE, is_preloaded() ? MOST / SIZE : N * 4);
	a_barrier_in_a_section_is_refused();
	umem_cache_destroy(cache);
}
