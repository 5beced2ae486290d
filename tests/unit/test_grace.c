/* test_grace.c - deferred frees with grace periods that the test controls */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/time_limit.h"
#include "tests/unit/child.h"
#include "tests/unit/hooks.h"
#include "tests/unit/second.h"
#include "tests/unit/stay.h"
#include "tests/unit/step.h"
#include "umem/debug/debug.h"
#include "umem/rcu/defer.h"
#include "umem/fork.h"
#include "umem/malloc/alloc.h"
#include "umem/options.h"
#include "umem/base/ready.h"
#include "umem/base/size_class.h"
#include "umem/cache/cache.h"
#include "umem/upkeep/update.h"
#include "vmem/meta.h"
#include "vmem/os.h"

/* A flavour; reading and is_stalled are atomic. */
struct flavour {
	unsigned nwaits;  /* grace periods for which the test's thread waited */
	int reading;      /* the result of reading() */
	int is_stalled;   /* a reader in another thread stays in its section */
	bool forks;       /* synchronize() goes on in a child */
	bool is_qsbr;     /* the test's thread reads whenever it is online */
	unsigned us;      /* least duration of a grace period */
	uint64_t ngraces; /* those before the last of the test's thread */
};

static struct flavour one, two;
static pthread_t tester;

static void
set(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Called once when fork() asks whether the test's thread reads, or NULL. */
static void (*at_reading)(void);

static int
one_reading(void)
{
	void (*then)(void) = at_reading;

	if (then != NULL && pthread_equal(tester, pthread_self())) {
		at_reading = NULL;
		then();
	}
	return __atomic_load_n(&one.reading, __ATOMIC_SEQ_CST);
}

static int
two_reading(void)
{
	return pthread_equal(tester, pthread_self()) &&
	       __atomic_load_n(&two.reading, __ATOMIC_SEQ_CST);
}

static void
synchronize(struct flavour *flavour)
{
	if (pthread_equal(tester, pthread_self())) {
		flavour->nwaits++;
		flavour->ngraces = __atomic_load_n(
		    &domain_find(flavour)->ngraces, __ATOMIC_SEQ_CST);
	}
	usleep(flavour->us);
	while (__atomic_load_n(&flavour->reading, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&flavour->is_stalled, __ATOMIC_SEQ_CST))
		usleep(1000);
}

static void
one_synchronize(void)
{
	synchronize(&one);
}

static void
two_synchronize(void)
{
	synchronize(&two);
}

static void
ignore(void)
{
}

static void
two_offline(void)
{
	if (two.is_qsbr)
		set(&two.reading, 0);
}

static void
two_online(void)
{
	set(&two.reading, 1);
}

static void
grace_of(const void *key, struct umem_grace *grace)
{
	*grace = (struct umem_grace){
	    .synchronize = key == &one ? one_synchronize : two_synchronize,
	    .reading = key == &one ? one_reading : two_reading,
	    .offline = key == &two ? two_offline : ignore,
	    .online = key == &two ? two_online : ignore,
	    .forks = ((const struct flavour *)key)->forks};
}

static umem_cache_t *
cache_new(const char *name, size_t bytes)
{
	umem_cache_t *cache =
	    umem_cache_create(name, bytes, 0, NULL, NULL, NULL, NULL, NULL, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

/* Defers the free of a new object; returns the domain of the flavour. */
static struct domain *
defer_new(umem_cache_t *cache, struct flavour *flavour)
{
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	ck_assert_ptr_nonnull(object);
	ck_assert_int_eq(
	    umem_defer_object(cache, object, flavour, grace_of), 0);
	return domain_find(flavour);
}

static uint64_t
nreleased(const struct domain *domain)
{
	return __atomic_load_n(&domain->nreleased, __ATOMIC_SEQ_CST);
}

static uint64_t
ngraces(void)
{
	return __atomic_load_n(&domain_find(&one)->ngraces, __ATOMIC_SEQ_CST);
}

/* Waits until n objects have been released. */
static bool
are_released(const struct domain *domain, uint64_t n)
{
	wait_until(nreleased(domain) >= n);
	return nreleased(domain) == n;
}

/*
 * The header is owned each time the domain's thread looks at it, as it is while
 * a pushing thread is preempted.
 */
START_TEST(an_object_behind_an_owned_header_is_not_forgotten)
{
	umem_cache_t *cache = cache_new("owned", 64);
	struct cpu_owned own;
	struct domain *domain;
	struct defer *layer;

	defer_delay_ns = 2000000;
	stay_here();
	domain = defer_new(cache, &one);
	layer = cache->defers;
	ck_assert(cpu_acquire(layer->mags.hot, layer->mags.cold, &own));
	/* Meanwhile the domain's thread looks at the header several times. */
	usleep(20000);
	cpu_release(&own);
	ck_assert(are_released(domain, 1));
	umem_cache_destroy(cache);
}
END_TEST

/* Upkeep could free memory of the library. */
static void
no_upkeep(void)
{
	update_interval_ns = (uint64_t)1 << 60;
}

/* The domain's thread does nothing within the first minute. */
static void
work_in_calls(void)
{
	defer_delay_ns = 120000000000;
	no_upkeep();
}

static const uint32_t *state_word; /* on which the domain's thread sleeps */
static uint32_t state_seen[2];     /* at its first two sleeps */
static unsigned nsleeps;           /* [a] */

static void
look_at_state(const uint32_t *word)
{
	unsigned n = __atomic_load_n(&nsleeps, __ATOMIC_SEQ_CST);

	if (word != state_word || n == array_size(state_seen))
		return;
	state_seen[n] = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	__atomic_store_n(&nsleeps, n + 1, __ATOMIC_SEQ_CST);
}

/* Otherwise each of its further cycles would follow the one before at once. */
START_TEST(a_thread_that_was_hurried_waits_for_its_next_tick)
{
	umem_cache_t *cache = cache_new("hurried", 64);

	work_in_calls();
	state_word = &domain_make(&one, grace_of)->thread_state;
	hook_os_futex_wait = look_at_state;
	/* Some of them are submitted, too few to hurry the thread. */
	for (int i = 0; i < 2000; i++)
		defer_new(cache, &one);
	wait_until(__atomic_load_n(&nsleeps, __ATOMIC_SEQ_CST) >= 1);
	/* More than WAKE_OBJECTS. */
	domain_submitted(cache->defers, 10000, 0);
	wait_until(__atomic_load_n(&nsleeps, __ATOMIC_SEQ_CST) == 2);
	ck_assert_uint_eq(__atomic_load_n(&nsleeps, __ATOMIC_SEQ_CST), 2);
	ck_assert_uint_eq(state_seen[1], state_seen[0]);
	umem_cache_destroy(cache);
}
END_TEST

/* Defers a block; release() is called in a cycle of the flavour. */
static void
defer_block(struct flavour *flavour, void (*release)(void *))
{
	static char block;

	ck_assert_int_eq(
	    umem_defer_block(&block, release, NULL, flavour, grace_of), 0);
}

static int result, error;

static void
barrier_of_two(void *block)
{
	(void)block;
	result = umem_defer_barrier(&two);
	error = errno;
}

/* Two cycles that waited for each other would never end. */
START_TEST(a_barrier_of_another_flavour_in_a_cycle_is_refused)
{
	umem_cache_t *cache = cache_new("nested", 64);

	work_in_calls();
	defer_new(cache, &two);
	defer_block(&one, barrier_of_two);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(result, -1);
	ck_assert_int_eq(error, EDEADLK);
	ck_assert_int_eq(umem_defer_barrier(&two), 0);
	umem_cache_destroy(cache);
}
END_TEST

static unsigned nwaits_in_cycle;

static void
defer_much_of_two(void *block)
{
	umem_cache_t *cache = cache_new("much", 4096);

	(void)block;
	for (int i = 0; i < 1000; i++)
		defer_new(cache, &two);
	nwaits_in_cycle = two.nwaits;
}

START_TEST(a_cycle_does_not_wait_for_another_flavour_beyond_its_budget)
{
	work_in_calls();
	defer_budget = 64 * KIB;
	defer_block(&one, defer_much_of_two);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_uint_eq(nwaits_in_cycle, 0);
	ck_assert_int_eq(umem_defer_barrier(&two), 0);
}
END_TEST

/* A reader of one flavour that waited for another could wait for itself. */
START_TEST(a_reader_of_another_flavour_does_not_wait)
{
	umem_cache_t *cache = cache_new("reader", 4096);
	void *object;
	int n = 0;

	work_in_calls();
	defer_budget = 64 * KIB;
	umem_defer_attach(cache, &one, grace_of);
	set(&one.reading, 1);
	set(&two.is_stalled, 1);
	while ((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL &&
	       umem_defer_object(cache, object, &two, grace_of) == 0)
		ck_assert_int_lt(n++, 1000);
	ck_assert_int_eq(errno, EAGAIN);
	umem_cache_free(cache, object);
	set(&one.reading, 0);
	set(&two.is_stalled, 0);
	ck_assert_int_eq(umem_defer_barrier(&two), 0);
	umem_cache_destroy(cache);
}
END_TEST

static void
cancellation_point(void *block)
{
	(void)block;
	pthread_testcancel();
}

static void *
barrier_of_one(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	umem_defer_barrier(&one);
	pthread_testcancel();
	return NULL;
}

static size_t
import_one(void *unused, void **store, size_t n, int flags)
{
	static uintptr_t last;

	(void)unused, (void)n, (void)flags;
	store[0] = (void *)__atomic_add_fetch(&last, 16, __ATOMIC_RELAXED);
	return 1;
}

static void
release_cancellation_point(void *unused, void *const *store, size_t n)
{
	(void)unused, (void)n;
	cancellation_point(store[0]);
}

enum {
	NIMPORTS = 100
};

static void
take_imports(umem_cache_t *imports, void **resource)
{
	for (unsigned i = 0; i < NIMPORTS; i++)
		resource[i] = umem_cache_alloc(imports, UMEM_NOFAIL);
}

static void
defer_taken(umem_cache_t *imports, void *const *resource)
{
	for (unsigned i = 0; i < NIMPORTS; i++)
		umem_defer_object(imports, resource[i], &one, grace_of);
}

/* Takes and frees resources, more than may be idle after a grace period. */
static void
defer_imports(umem_cache_t *imports)
{
	void *resource[NIMPORTS];

	take_imports(imports, resource);
	defer_taken(imports, resource);
}

static umem_cache_t *
import_cache_new(umem_release_t *release)
{
	umem_cache_t *cache = umem_import_cache_create(
	    "imports", import_one, release, NULL, 8, 0);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

START_TEST(a_thread_that_is_canceled_in_a_cycle_ends_the_cycle)
{
	umem_cache_t *cache = import_cache_new(release_cancellation_point);
	pthread_t thread;
	void *end;

	work_in_calls();
	if (_i == 0)
		defer_block(&one, cancellation_point);
	else
		defer_imports(cache);
	ck_assert_int_eq(
	    pthread_create(&thread, NULL, barrier_of_one, NULL), 0);
	pthread_join(thread, &end);
	ck_assert_ptr_eq(end, PTHREAD_CANCELED);
	ck_assert_uint_eq(domain_find(&one)->turn, 0);
	ck_assert_uint_eq(domain_find(&one)->releaser, 0);
	ck_assert_uint_eq(domain_find(&one)->nreleased, _i == 0 ? 1 : 100);
	umem_cache_destroy(cache);
}
END_TEST

/* Creates a cache with headers in a region without memory for any CPU. */
static umem_cache_t *
cache_in_new_region(void)
{
	umem_cache_t *cache;

	do {
		cache = cache_new("past", 16);
		umem_defer_attach(cache, &one, grace_of);
	} while (
	    (uintptr_t)cache->defers->mags.hot - (uintptr_t)cpu_header_none() <
	    CPU_BLOCK);
	return cache;
}

/* This happens on a CPU beyond UMEM_OPTIONS=concurrency. */
START_TEST(objects_that_find_no_header_stay_within_the_budget)
{
	umem_cache_t *cache = cache_in_new_region();
	unsigned nwanted = cpu_layer.nwanted;
	size_t used = meta_used();
	void *object;

	/* In locked mode the header of another CPU serves. */
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	work_in_calls();
	defer_budget = MIB;
	set(&one.reading, 1);
	cpu_layer.nwanted = 0;
	while ((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL &&
	       umem_defer_object(cache, object, &one, grace_of) == 0)
		ck_assert_uint_lt(meta_used() - used, 3 * MIB);
	cpu_layer.nwanted = nwanted;
	umem_cache_free(cache, object);
	set(&one.reading, 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(cache);
}
END_TEST

/*
 * A barrier that looked at each layer, of every size class and cache, would
 * make a system call for each.
 */
START_TEST(a_barrier_asks_nothing_of_the_kernel_for_empty_layers)
{
	umem_cache_t *cache = cache_new("empty", 64);

	defer_new(cache, &one);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	os_fail_nth(1, 1000);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	os_fail_nth(0, 0);
	umem_cache_destroy(cache);
}
END_TEST

/* Returns the result of f() in a child of fork(). */
static bool
is_true_in_child(bool (*f)(void))
{
	int status;
	pid_t child = fork();

	ck_assert_int_ne(child, -1);
	if (child == 0) {
		limit_time();
		_exit(f() ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static umem_cache_t *
stable_new(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "stable", 64, 0, NULL, NULL, NULL, NULL, NULL, UMC_TYPESAFE_BY_RCU);

	ck_assert_ptr_nonnull(cache);
	return cache;
}

static umem_cache_t *forked;

/* The thread sanitizer cannot follow a child that creates threads. */
#ifndef __SANITIZE_THREAD__
static bool
frees_an_object(void)
{
	return are_released(defer_new(forked, &one), 2);
}

/* When the process forks, the magazine loaded on this CPU has room. */
START_TEST(a_child_frees_what_it_adds_to_a_magazine_of_its_parent)
{
	struct domain *domain;

	forked = cache_new("forked", 64);
	stay_here();
	defer_delay_ns = 200000000;
	domain = defer_new(forked, &one);
	/*
	 * The domain's thread has begun.  While a thread begins, it has locks
	 * of the address sanitizer, for which a child would wait for ever.
	 */
	wait_until(__atomic_load_n(&domain->collect_ns, __ATOMIC_RELAXED) != 0);
	ck_assert(is_true_in_child(frees_an_object));
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(forked);
}
END_TEST
#endif

static bool
is_refused(void)
{
	void *object = umem_cache_alloc(forked, UMEM_DEFAULT);
	bool refused =
	    umem_defer_object(forked, object, &one, grace_of) == -1 &&
	    errno == ENOTSUP;

	umem_cache_free(forked, object);
	return refused;
}

/* Waits until the domain's thread is in its grace period. */
static void
await_grace(const struct domain *domain)
{
	while (__atomic_load_n(&domain->nsynchronizing, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
}

START_TEST(a_child_without_grace_periods_takes_no_object)
{
	struct domain *domain;

	forked = cache_new("refused", 64);
	stay_here();
	/* The slow path checks the first frees of a CPU. */
	for (int i = 0; i < 1000; i++)
		umem_cache_free(forked, umem_cache_alloc(forked, UMEM_DEFAULT));
	set(&one.reading, 1);
	domain = defer_new(forked, &one);
	await_grace(domain);
	/* This CPU has a loaded magazine with room. */
	defer_new(forked, &one);
	ck_assert(is_true_in_child(is_refused));
	set(&one.reading, 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(forked);
}
END_TEST

static void
destroy_refused(void)
{
	umem_cache_t *empty = cache_new("empty", 64);

	umem_cache_destroy(forked);
	forked = empty;
	if (!is_refused())
		_exit(1);
	/* Destroying a cache without waiting objects removes all its layers. */
	forked = cache_new("both", 64);
	umem_defer_attach(forked, &two, grace_of);
	if (!is_refused())
		_exit(2);
	umem_cache_destroy(forked);
	if (domain_find(&two)->layers != NULL)
		_exit(3);
}

/*
 * In the child, the parent's objects wait forever, but the program has freed
 * them.
 */
START_TEST(a_child_without_grace_periods_can_destroy_a_cache)
{
	struct domain *domain;

	forked = cache_new("waiting", 64);
	set(&one.reading, 1);
	domain = defer_new(forked, &one);
	await_grace(domain);
	ck_assert_str_eq(child_writes(destroy_refused), "");
	ck_assert(child_exited(0));
	set(&one.reading, 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(forked);
}
END_TEST

#ifndef __SANITIZE_THREAD__
static bool defers_one; /* the child defers a free */

static bool
all_slabs_go(void)
{
	set(&one.is_stalled, 0);
	if (defers_one)
		defer_new(forked, &one);
	wait_until(
	    (umem_cache_reap_now(forked), slab_total(&forked->slabs) == 0));
	return slab_total(&forked->slabs) == 0;
}

/*
 * The domain's thread, which does not exist in the child, waits with a batch of
 * retired slabs when the process forks.
 */
START_TEST(a_child_goes_on_with_the_slabs_that_its_parent_retires)
{
	struct domain *domain;

	defers_one = _i != 0;
	one.forks = true;
	forked = umem_cache_create("retiring", 64, 0, NULL, NULL, NULL, NULL,
	    NULL, UMC_TYPESAFE_BY_RCU);
	ck_assert_ptr_nonnull(forked);
	domain = defer_new(forked, &one);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	set(&one.is_stalled, 1);
	umem_cache_reap_now(forked);
	await_grace(domain);
	ck_assert_uint_ne(forked->defers->retired_batch, 0);
	ck_assert(is_true_in_child(all_slabs_go));
	ck_assert(!domain_is_broken(domain));
	set(&one.is_stalled, 0);
	umem_cache_destroy(forked);
}
END_TEST
#endif

#ifndef __SANITIZE_THREAD__
/* Has been deferred in the child, whose thread has ended since then. */
static bool
slabs_go_without_a_thread(void)
{
	struct domain *domain = domain_find(&one);

	if (!domain->is_inherited)
		return false;
	defer_new(forked, &one);
	if (umem_defer_barrier(&one) != 0)
		return false;
	wait_until(
	    __atomic_load_n(&domain->thread_state, __ATOMIC_SEQ_CST) == 0);
	return all_slabs_go();
}

/* The program knows that the child's readers are registered. */
START_TEST(a_deferred_free_in_a_child_lets_it_release_slabs)
{
	defers_one = false;
	second_start();
	forked = stable_new();
	umem_defer_attach(forked, &one, grace_of);
	ck_assert(is_true_in_child(slabs_go_without_a_thread));
	umem_cache_destroy(forked);
}
END_TEST

static bool
slabs_stay_until_destroyed(void)
{
	umem_cache_t *cache = cache_new("other", 64);
	struct domain *domain = defer_new(cache, &one);

	umem_cache_free(forked, umem_cache_alloc(forked, UMEM_NOFAIL));
	umem_cache_reap_now(forked);
	/* The reap has told the thread, which retires slabs in a cycle. */
	wait_until(
	    __atomic_load_n(&domain->has_empty_slabs, __ATOMIC_SEQ_CST) == 0);
	umem_cache_destroy(forked);
	return domain_find(&two)->nsynchronizing == 0;
}

/*
 * Otherwise the thread of one would wait for the parent's readers of two, which
 * are other threads.
 */
START_TEST(a_child_waits_for_no_flavour_that_it_does_not_use)
{
	struct domain *domain = defer_new(cache_new("started", 64), &one);

	/* See a_child_frees_what_it_adds_to_a_magazine_of_its_parent. */
	wait_until(__atomic_load_n(&domain->collect_ns, __ATOMIC_RELAXED) != 0);
	forked = stable_new();
	umem_defer_attach(forked, &one, grace_of);
	umem_defer_attach(forked, &two, grace_of);
	set(&two.is_stalled, 1);
	ck_assert(is_true_in_child(slabs_stay_until_destroyed));
	set(&two.is_stalled, 0);
	umem_cache_destroy(forked);
}
END_TEST
#endif

/* Two objects and a large block wait, and after the barrier nothing does. */
static bool
backlog_is_exact(void)
{
	struct domain *domain = domain_find(&one);
	intptr_t bytes = domain->bytes;

	return bytes > (intptr_t)SIZE_CLASS_MAX &&
	       bytes < (intptr_t)(2 * SIZE_CLASS_MAX) &&
	       umem_defer_barrier(&one) == 0 && domain->bytes == 0;
}

/* Another thread has counted a block, which it has not put into a layer yet. */
START_TEST(a_child_counts_the_objects_that_wait)
{
	umem_cache_t *cache = cache_new("counted", 64);
	struct domain *domain;
	void *block;

	work_in_calls();
	block = umem_alloc(SIZE_CLASS_MAX + 1, UMEM_NOFAIL);
	defer_new(cache, &one);
	domain = defer_new(cache, &one);
	ck_assert_int_eq(
	    umem_defer_sized(block, SIZE_CLASS_MAX + 1, &one, grace_of), 0);
	__atomic_add_fetch(&domain->bytes, (intptr_t)GIB, __ATOMIC_SEQ_CST);
	ck_assert(is_true_in_child(backlog_is_exact));
	__atomic_sub_fetch(&domain->bytes, (intptr_t)GIB, __ATOMIC_SEQ_CST);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(domain->bytes, 0);
	umem_cache_destroy(cache);
}
END_TEST

static void
destroy_later(void)
{
	umem_cache_t *cache = cache_new("later", 64);
	struct domain *domain;

	stay_here();
	defer_delay_ns = 100000000;
	domain = defer_new(cache, &one);
	os_fail_nth(1, 3);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	if (!are_released(domain, 1))
		_exit(1);
}

/* _i: the cache is hardened; then no object may enter its magazines. */
START_TEST(a_destroyed_cache_whose_objects_wait_is_not_called_not_empty)
{
	debug.on = debug.hardened = _i != 0;
	ck_assert_str_eq(child_writes(destroy_later), "");
	ck_assert(child_exited(0));
}
END_TEST

/* The budget does not count those in a loaded magazine, which are few. */
START_TEST(large_objects_without_magazines_stay_within_the_budget)
{
	umem_cache_t *cache = umem_cache_create("large", 256 * KIB, 0, NULL,
	    NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	unsigned n = 0;
	void *object;

	ck_assert_ptr_nonnull(cache);
	work_in_calls();
	stay_here();
	defer_budget = MIB;
	umem_defer_attach(cache, &one, grace_of);
	set(&one.reading, 1);
	while ((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL &&
	       umem_defer_object(cache, object, &one, grace_of) == 0)
		ck_assert_uint_le(++n, 2 * MIB / (256 * KIB) + 4);
	ck_assert_int_eq(errno, EAGAIN);
	umem_cache_free(cache, object);
	set(&one.reading, 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(cache);
}
END_TEST

/* The budget does not count objects in loaded magazines. */
START_TEST(a_free_beyond_the_budget_leaves_loaded_magazines_alone)
{
	umem_cache_t *cache = cache_new("much", 4096);
	umem_cache_t *other = cache_new("other", 64);

	work_in_calls();
	defer_budget = 64 * KIB;
	defer_new(other, &one);
	while (one.nwaits == 0)
		defer_new(cache, &one);
	ck_assert(
	    cpu_is_open(other->defers->mags.hot, other->defers->mags.cold));
	umem_cache_destroy(cache);
	umem_cache_destroy(other);
}
END_TEST

static pthread_mutex_t taken_by_destructor = PTHREAD_MUTEX_INITIALIZER;
static unsigned nwaiting, nended; /* destructors that want the mutex; had it */

static int
construct(void *object, void *unused, int flags)
{
	(void)object, (void)unused, (void)flags;
	return 0;
}

static void
destruct(void *object, void *unused)
{
	(void)object, (void)unused;
	__atomic_add_fetch(&nwaiting, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&taken_by_destructor);
	pthread_mutex_unlock(&taken_by_destructor);
	__atomic_add_fetch(&nended, 1, __ATOMIC_SEQ_CST);
}

/* Waits until *n is positive. */
static bool
becomes_positive(unsigned *n)
{
	wait_until(__atomic_load_n(n, __ATOMIC_SEQ_CST) != 0);
	return __atomic_load_n(n, __ATOMIC_SEQ_CST) != 0;
}

/* As elsewhere, the caller of a free may hold a lock that destructors take. */
START_TEST(a_free_beyond_the_budget_does_not_wait_for_destructors)
{
	umem_cache_t *stable = umem_cache_create("stable", 64, 0, construct,
	    destruct, NULL, NULL, NULL, UMC_TYPESAFE_BY_RCU);
	umem_cache_t *cache = cache_new("much", 4096);

	ck_assert_ptr_nonnull(stable);
	defer_budget = 64 * KIB;
	ck_assert_int_eq(umem_defer_attach(stable, &one, grace_of), 0);
	umem_cache_free(stable, umem_cache_alloc(stable, UMEM_DEFAULT));
	pthread_mutex_lock(&taken_by_destructor);
	umem_cache_reap_now(stable);
	ck_assert(becomes_positive(&nwaiting));
	for (int i = 0; i < 1000; i++)
		defer_new(cache, &one);
	ck_assert_uint_eq(nended, 0);
	pthread_mutex_unlock(&taken_by_destructor);
	ck_assert(becomes_positive(&nended));
	umem_cache_destroy(stable);
	umem_cache_destroy(cache);
}
END_TEST

static uint32_t nfreed, is_slow;

static void
free_slowly(void *block)
{
	(void)block;
	__atomic_add_fetch(&nfreed, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&is_slow, __ATOMIC_SEQ_CST) != 0)
		usleep(1000);
}

static void *
hasten(void *unused)
{
	(void)unused;
	usleep(100000);
	__atomic_store_n(&is_slow, 0, __ATOMIC_SEQ_CST);
	return NULL;
}

static bool
both_are_freed(void)
{
	set(&one.reading, 0);
	return umem_defer_barrier(&one) == 0 && nfreed == 2;
}

static void
free_nothing(void *p)
{
	(void)p;
}

static size_t
a_megabyte(void *p)
{
	(void)p;
	return MIB;
}

START_TEST(a_block_of_another_malloc_counts_with_its_size)
{
	static char block;
	struct domain *domain;

	defer_delay_ns = 60000000000;
	ck_assert_int_eq(
	    umem_defer_block(&block, free_nothing, a_megabyte, &one, grace_of),
	    0);
	domain = domain_find(&one);
	ck_assert_int_eq(domain->bytes, (intptr_t)MIB);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(domain->bytes, 0);
	ck_assert_int_eq(
	    umem_defer_block(&block, free_nothing, NULL, &one, grace_of), 0);
	ck_assert_int_gt(domain->bytes, 0);
	ck_assert_int_lt(domain->bytes, (intptr_t)MIB);
}
END_TEST

/*
 * fork() in a reader waits for a cycle, provided that the cycle is in no grace
 * period.
 */
START_TEST(a_reader_forks_while_objects_are_released)
{
	static char blocks[2];
	pthread_t thread;

	is_slow = 1;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(umem_defer_block(&blocks[i], free_slowly, NULL,
				     &one, grace_of),
		    0);
	wait_until(__atomic_load_n(&nfreed, __ATOMIC_SEQ_CST) != 0);
	ck_assert_uint_eq(__atomic_load_n(&nfreed, __ATOMIC_SEQ_CST), 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, hasten, NULL), 0);
	set(&one.reading, 1);
	ck_assert(is_true_in_child(both_are_freed));
	set(&one.reading, 0);
	pthread_join(thread, NULL);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
}
END_TEST

static uint32_t is_making; /* the other thread makes caches */

static void *
make_layers(void *unused)
{
	umem_cache_t *made[200];

	for (unsigned i = 0; i < array_size(made); i++) {
		made[i] = stable_new();
		umem_defer_attach(made[i], &one, grace_of);
		umem_defer_attach(made[i], &two, grace_of);
		usleep(100);
	}
	set((int *)&is_making, 0);
	for (unsigned i = 0; i < array_size(made); i++)
		umem_cache_destroy(made[i]);
	return unused;
}

/*
 * The domain's thread runs cycles all the time, so it comes upon each layer
 * while another thread makes it.  ThreadSanitizer reports a member of the layer
 * that is stored after the layer can be found.
 */
START_TEST(a_layer_is_complete_when_the_domain_finds_it)
{
	umem_cache_t *cache = cache_new("busy", 64);
	pthread_t thread;

	defer_delay_ns = 2000;
	defer_new(cache, &one);
	is_making = 1;
	ck_assert_int_eq(pthread_create(&thread, NULL, make_layers, NULL), 0);
	while (__atomic_load_n(&is_making, __ATOMIC_SEQ_CST) != 0)
		defer_new(cache, &one);
	pthread_join(thread, NULL);
	umem_cache_destroy(cache);
}
END_TEST

static umem_cache_t *attached; /* NULL: a block of another library */

static void
make_layer(void)
{
	if (attached != NULL)
		umem_defer_attach(attached, &one, grace_of);
	else
		defer_block(&one, NULL);
}

/*
 * Otherwise another thread could put an object into a layer at which the
 * domain's thread does not look before it falls asleep.
 */
START_TEST(a_domain_has_a_layer_before_other_threads_find_it)
{
	struct domain *domain;
	const void *found_at;
	uint64_t layer = 0;
	pid_t child;

	ck_assert(umem_ready());
	domain = domain_make(&one, grace_of);
	found_at = &domain->kinds[DEFER_FOREIGN];
	if (_i != 0) {
		attached = cache_new("attached", 64);
		found_at = &attached->defers;
	}
	child = step_start(make_layer);
	while (child != 0 && (layer = step_peek(child, found_at)) == 0)
		ck_assert(step_one(child));
	if (child != 0) {
		ck_assert_uint_eq(step_peek(child, &domain->layers), layer);
		step_end(child);
	}
}
END_TEST

static unsigned
nlayers(const umem_cache_t *cache)
{
	unsigned n = 0;

	for (const struct defer *layer = cache->defers; layer != NULL;
	     layer = layer->next_of_cache)
		n++;
	return n;
}

/* An object of one flavour waits for ever, because the kernel helps nobody. */
static umem_cache_t *
cache_with_stuck_object(void)
{
	umem_cache_t *cache = cache_new("stuck", 64);

	work_in_calls();
	defer_new(cache, &one);
	umem_defer_attach(cache, &two, grace_of);
	return cache;
}

/*
 * The domain of the layer that was made first follows the list of the others.
 */
START_TEST(a_cache_keeps_its_layers_if_the_first_one_cannot_end)
{
	umem_cache_t *cache = cache_with_stuck_object();

	/* Locked mode needs no help. */
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	/* The attempts for the first layer are refused, further ones not. */
	os_fail_nth(1, 3);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	ck_assert(cache->destroyed);
	ck_assert_uint_eq(nlayers(cache), 2);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(umem_defer_barrier(&two), 0);
}
END_TEST

/* Objects of another cache cannot be collected: this one ends nevertheless. */
START_TEST(the_layers_of_a_cache_that_is_freed_have_ended)
{
	umem_cache_t *stuck = cache_with_stuck_object();
	umem_cache_t *cache = cache_new("empty", 64);

	umem_defer_attach(cache, &one, grace_of);
	os_fail_nth(1, 1000);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	for (const struct defer *layer = domain_find(&one)->layers;
	     layer != NULL; layer = layer->next)
		ck_assert_ptr_ne(layer->cache, cache);
	umem_cache_destroy(stuck);
}
END_TEST

START_TEST(layers_come_and_go_without_growth)
{
	size_t used = 0;

	for (int i = 0; i < 20; i++) {
		umem_cache_t *cache = cache_new("layers", 64);

		umem_defer_attach(cache, &one, grace_of);
		umem_defer_attach(cache, &two, grace_of);
		umem_cache_destroy(cache);
		if (i == 10)
			used = meta_used();
	}
	ck_assert_uint_eq(meta_used(), used);
}
END_TEST

static unsigned nlooks, nfound; /* layers, when the lock was released */

static void
look_for_layer(struct lock *lock)
{
	if (lock != &cache_list_lock || domain_find(&one)->layers != NULL)
		return;
	nlooks++;
	nfound += nlayers(attached);
}

/* The next thread that has the lock follows the list of the cache. */
START_TEST(a_layer_leaves_its_cache_before_the_lock_is_released)
{
	attached = cache_new("attached", 64);
	umem_defer_attach(attached, &one, grace_of);
	hook_lock_released = look_for_layer;
	umem_cache_destroy(attached);
	hook_lock_released = NULL;
	ck_assert_uint_gt(nlooks, 0);
	ck_assert_uint_eq(nfound, 0);
}
END_TEST

/*
 * Makes a cache whose first domain releases slabs, and waits meanwhile for the
 * caller as a reader of the second flavour.
 */
static umem_cache_t *
cache_that_waits_for_caller(void)
{
	umem_cache_t *cache = stable_new();

	umem_defer_attach(cache, &one, grace_of);
	umem_defer_attach(cache, &two, grace_of);
	set(&two.reading, 1);
	umem_cache_free(cache, umem_cache_alloc(cache, UMEM_NOFAIL));
	umem_cache_reap_now(cache);
	await_grace(domain_find(&two));
	return cache;
}

START_TEST(a_thread_of_qsbr_ends_a_cache_of_several_flavours)
{
	umem_cache_t *cache = cache_that_waits_for_caller();

	two.is_qsbr = true;
	umem_cache_destroy(cache);
	ck_assert_int_eq(two.reading, 1);
}
END_TEST

static void
destroy_as_reader(void)
{
	umem_cache_destroy(cache_that_waits_for_caller());
}

START_TEST(the_end_of_a_cache_in_a_section_of_its_second_flavour_is_found)
{
	ck_assert_ptr_nonnull(
	    strstr(child_writes(destroy_as_reader), "in a read-side section"));
	ck_assert(child_aborted());
}
END_TEST

static uint32_t is_ending; /* the other threads are to end */

static void *
reap_always(void *unused)
{
	while (__atomic_load_n(&is_ending, __ATOMIC_SEQ_CST) == 0)
		umem_reap();
	return unused;
}

/*
 * A reap asks for the retirement of empty slabs, which follows the layers of
 * the cache, in a thread that knows nothing of the end of the cache.
 */
START_TEST(a_cache_ends_while_another_thread_reaps)
{
	static struct flavour many[16];
	static void *object[500];
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, reap_always, NULL), 0);
	for (int round = 0; round < 50; round++) {
		umem_cache_t *cache = stable_new();

		for (unsigned i = 0; i < array_size(many); i++)
			umem_defer_attach(cache, &many[i], grace_of);
		for (unsigned i = 0; i < array_size(object); i++)
			object[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
		for (unsigned i = 0; i < array_size(object); i++)
			umem_cache_free(cache, object[i]);
		umem_cache_destroy(cache);
	}
	set((int *)&is_ending, 1);
	pthread_join(thread, NULL);
}
END_TEST

/* A lock of Check would stay taken in a child of fork(). */
static void *
defer_always(void *cache)
{
	while (__atomic_load_n(&is_ending, __ATOMIC_SEQ_CST) == 0)
		umem_defer_object(cache, umem_cache_alloc(cache, UMEM_NOFAIL),
		    &one, grace_of);
	return NULL;
}

/*
 * Calls f() beside the domain's thread, which begins a cycle as soon as it has
 * ended one, and beside three freeing threads, which want the turn, too, if
 * they exceed the budget.  Returns the most grace periods that ended between a
 * call of f() and the number that it returns.
 */
static uint64_t
graces_under_load(bool is_over_budget, uint64_t (*f)(void))
{
	umem_cache_t *cache = cache_new("load", 1000);
	pthread_t thread[3];
	uint64_t most = 0;

	one.us = 10000;
	defer_delay_ns = 2000;
	if (is_over_budget)
		defer_budget = 64 * KIB;
	umem_defer_attach(cache, &one, grace_of);
	for (unsigned i = 0; i < array_size(thread); i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, defer_always, cache), 0);
	wait_until(ngraces() > 2);
	for (int i = 0; i < 20; i++) {
		uint64_t before = ngraces(), after = f();

		/* Less if no grace period was needed. */
		if (after > before + most)
			most = after - before;
		usleep(3000);
	}
	set((int *)&is_ending, 1);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	umem_cache_destroy(cache);
	return most;
}

static uint64_t
fork_prepares(void)
{
	uint64_t n;

	defer_before_fork();
	n = ngraces();
	defer_after_fork(/* child */ false);
	return n;
}

/* The one in progress, and one that begins as the test counts. */
START_TEST(fork_waits_for_at_most_two_grace_periods)
{
	ck_assert_uint_le(graces_under_load(_i != 0, fork_prepares), 2);
}
END_TEST

static uint64_t
child_is_whole(void)
{
	uint64_t n = ngraces();
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(domain_is_broken(domain_find(&one)) ? 1 : 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	return n;
}

START_TEST(a_child_has_grace_periods_though_its_parent_is_busy)
{
	graces_under_load(_i != 0, child_is_whole);
}
END_TEST

static uint64_t
barrier_of_load(void)
{
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	return one.ngraces;
}

/*
 * Until its own begins: the one in progress, and those of the three freeing
 * threads, which may have exceeded the budget before.
 */
START_TEST(a_barrier_waits_for_few_grace_periods)
{
	ck_assert_uint_le(graces_under_load(false, barrier_of_load), 5);
}
END_TEST

static void
release_with_mutex(void *unused, void *const *store, size_t n)
{
	(void)store;
	destruct(NULL, unused);
	(void)n;
}

static umem_cache_t *imports, *plain;

static void *
free_much_with_mutex(void *unused)
{
	void *resource[NIMPORTS];

	/* An allocation may release resources for which a pool has no room. */
	take_imports(imports, resource);
	pthread_mutex_lock(&taken_by_destructor);
	defer_taken(imports, resource);
	for (int i = 0; i < 1000; i++)
		defer_new(plain, &one);
	pthread_mutex_unlock(&taken_by_destructor);
	return unused;
}

static void
import_setup(void)
{
	imports = import_cache_new(release_with_mutex);
	plain = cache_new("much", 4096);
	defer_budget = 64 * KIB;
}

/*
 * A thread that frees beyond the budget holds a mutex that the release function
 * of an import cache takes.  If _i is 0 it runs the cycles itself; if not, the
 * domain's thread waits for the mutex in that function.
 */
START_TEST(a_free_beyond_the_budget_does_not_wait_for_release_functions)
{
	pthread_t thread;
	unsigned n;

	import_setup();
	if (_i == 0)
		defer_delay_ns = 1000000000;
	pthread_mutex_lock(&taken_by_destructor);
	defer_imports(imports);
	if (_i != 0)
		ck_assert(becomes_positive(&nwaiting));
	for (int i = 0; i < 1000; i++)
		defer_new(plain, &one);
	n = nended;
	pthread_mutex_unlock(&taken_by_destructor);
	ck_assert_uint_eq(n, 0);
	/* Several such threads, and barriers, which wait for the functions. */
	ck_assert_int_eq(
	    pthread_create(&thread, NULL, free_much_with_mutex, NULL), 0);
	for (int i = 0; i < 10; i++) {
		defer_imports(imports);
		n = __atomic_load_n(&nwaiting, __ATOMIC_SEQ_CST);
		ck_assert_int_eq(umem_defer_barrier(&one), 0);
		ck_assert_uint_ge(
		    __atomic_load_n(&nended, __ATOMIC_SEQ_CST), n);
	}
	pthread_join(thread, NULL);
	umem_cache_destroy(imports);
	umem_cache_destroy(plain);
	ck_assert_uint_gt(nended, 0);
}
END_TEST

/*
 * The caller holds the mutex for which the domain's thread waits in a release
 * function.  Meanwhile another thread's plain objects are released.
 */
START_TEST(a_free_waits_for_the_release_of_such_objects_only)
{
	pthread_t thread;
	unsigned n;

	import_setup();
	defer_budget = KIB;
	pthread_mutex_lock(&taken_by_destructor);
	defer_imports(imports);
	ck_assert(becomes_positive(&nwaiting));
	ck_assert_int_eq(pthread_create(&thread, NULL, defer_always, plain), 0);
	defer_imports(imports);
	n = nended;
	set((int *)&is_ending, 1);
	pthread_join(thread, NULL);
	pthread_mutex_unlock(&taken_by_destructor);
	ck_assert_uint_eq(n, 0);
	umem_cache_destroy(imports);
	umem_cache_destroy(plain);
}
END_TEST

static void
release_slowly(void *unused, void *const *store, size_t n)
{
	(void)unused, (void)store, (void)n;
	usleep(100);
}

/* Without a limit, some 12 MiB would wait. */
START_TEST(slow_release_functions_slow_freeing_threads_down)
{
	umem_cache_t *cache = import_cache_new(release_slowly);
	intptr_t most = 0;

	defer_budget = 64 * KIB;
	for (int i = 0; i < 50; i++) {
		intptr_t bytes;

		defer_imports(cache);
		bytes = __atomic_load_n(
		    &domain_find(&one)->bytes, __ATOMIC_SEQ_CST);
		most = bytes > most ? bytes : most;
	}
	ck_assert_int_lt(most, (intptr_t)(4 * MIB));
	umem_cache_destroy(cache);
}
END_TEST

static unsigned nimported, release_us;

static size_t
import_counted(void *unused, void **store, size_t n, int flags)
{
	__atomic_add_fetch(&nimported, 1, __ATOMIC_SEQ_CST);
	return import_one(unused, store, n, flags);
}

static void
release_counted(void *unused, void *const *store, size_t n)
{
	(void)unused, (void)store;
	usleep(__atomic_load_n(&release_us, __ATOMIC_SEQ_CST));
	__atomic_add_fetch(&nended, (unsigned)n, __ATOMIC_SEQ_CST);
}

static void
ignore_signal(int number)
{
	(void)number;
}

/*
 * The domain's thread releases an object every 30 ms, a magazine in more than
 * 100 ms; or, if _i is not 0, signals keep ending the waits of the freeing
 * threads.
 */
START_TEST(threads_wait_as_long_as_objects_are_released)
{
	umem_cache_t *cache = umem_import_cache_create("counted",
	    import_counted, release_counted, NULL, 8, UMC_NOMAGAZINE);
	pthread_t thread[4];
	unsigned n;

	ck_assert_ptr_nonnull(cache);
	defer_budget = 64 * KIB;
	release_us = 30000;
	signal(SIGUSR1, ignore_signal);
	umem_defer_attach(cache, &one, grace_of);
	for (unsigned i = 0; i < array_size(thread); i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, defer_always, cache), 0);
	for (int ms = 0; ms < 1000; ms++) {
		usleep(1000);
		for (unsigned i = 0; _i != 0 && i < array_size(thread); i++)
			pthread_kill(thread[i], SIGUSR1);
	}
	n = __atomic_load_n(&nimported, __ATOMIC_SEQ_CST) -
	    __atomic_load_n(&nended, __ATOMIC_SEQ_CST);
	set((int *)&is_ending, 1);
	set((int *)&release_us, 0);
	for (unsigned i = 0; i < array_size(thread); i++)
		pthread_join(thread[i], NULL);
	umem_cache_destroy(cache);
	/* Of each thread and CPU a magazine of 14 beyond the budget. */
	ck_assert_uint_lt(n, 160);
}
END_TEST

static int of_child = -1;

static void
release_and_fork(void *block)
{
	pid_t child = fork();

	(void)block;
	if (child == 0)
		_exit(!domain_find(&one)->is_inherited);
	waitpid(child, &of_child, 0);
}

/* Upkeep in the child waits for no readers, as in that of another thread. */
START_TEST(a_function_that_a_cycle_calls_forks)
{
	work_in_calls();
	defer_block(&one, release_and_fork);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(of_child, 0);
}
END_TEST

static unsigned nuntil_fork;

static void
release_and_fork_once(void *unused, void *const *store, size_t n)
{
	(void)unused, (void)store;
	nended += (unsigned)n;
	if (--nuntil_fork == 0)
		of_child = fork();
}

/*
 * The child goes on with what its parent's barrier, or destruction of the
 * cache, has begun to release.
 */
START_TEST(a_release_function_forks_amid_the_objects_of_a_barrier)
{
	umem_cache_t *cache = import_cache_new(release_and_fork_once);
	/* The cache keeps eight. */
	unsigned want = _i != 0 ? 400 : 392;
	struct domain *domain;

	/* The domain's thread sleeps meanwhile. */
	defer_delay_ns = 1000000000000;
	nuntil_fork = 50;
	for (int i = 0; i < 4; i++)
		defer_imports(cache);
	domain = domain_find(&one);
	if (_i == 0)
		ck_assert_int_eq(umem_defer_barrier(&one), 0);
	else
		umem_cache_destroy(cache);
	if (of_child == 0)
		_exit(nended != want || load_relaxed(&domain->bytes) != 0);
	ck_assert_uint_eq(nended, want);
	ck_assert_int_gt(waitpid(of_child, &of_child, 0), 0);
	ck_assert_int_eq(of_child, 0);
	ck_assert_int_eq(load_relaxed(&domain->bytes), 0);
}
END_TEST

/* The release function waits for the mutex for longer than fork() does. */
static bool
is_alone_with_resources(void)
{
	pthread_mutex_unlock(&taken_by_destructor);
	umem_defer_barrier(&one);
	umem_cache_destroy(plain);
	return !domain_is_broken(domain_find(&one)) &&
	       domain_find(&one)->releaser == 0;
}

START_TEST(a_thread_forks_while_a_release_function_waits_for_it)
{
	import_setup();
	pthread_mutex_lock(&taken_by_destructor);
	defer_imports(imports);
	ck_assert(becomes_positive(&nwaiting));
	ck_assert(is_true_in_child(is_alone_with_resources));
	pthread_mutex_unlock(&taken_by_destructor);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	umem_cache_destroy(imports);
	umem_cache_destroy(plain);
}
END_TEST

static void
release_while_slow(void *unused, void *const *store, size_t n)
{
	(void)unused, (void)store, (void)n;
	__atomic_add_fetch(&nwaiting, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&is_slow, __ATOMIC_SEQ_CST) != 0)
		usleep(1000);
	__atomic_add_fetch(&nended, 1, __ATOMIC_SEQ_CST);
}

static void *
wait_for_readers(void *unused)
{
	domain_wait(domain_find(&one));
	return unused;
}

static pthread_t waiter, hastener;

/*
 * The domain's thread comes to the release function; the end of another fork()
 * lets a third thread have the turn; and the caller is a reader, for which the
 * third thread waits.
 */
static void
release_and_wait(void)
{
	struct domain *domain = domain_find(&one);

	set(&one.is_stalled, 0);
	ck_assert(becomes_positive(&nwaiting));
	set(&one.is_stalled, 1);
	__atomic_store_n(&domain->fork_waits, 0, __ATOMIC_SEQ_CST);
	ck_assert_int_eq(
	    pthread_create(&waiter, NULL, wait_for_readers, NULL), 0);
	ck_assert(becomes_positive(&domain->grace_state));
	set(&one.reading, 1);
	ck_assert_int_eq(pthread_create(&hastener, NULL, hasten, NULL), 0);
}

static bool
no_release_is_under_way(void)
{
	return nwaiting == nended;
}

START_TEST(a_reader_forks_after_the_release_that_began_meanwhile)
{
	umem_cache_t *cache = import_cache_new(release_while_slow);
	struct domain *domain;

	is_slow = 1;
	set(&one.is_stalled, 1);
	umem_defer_attach(cache, &one, grace_of);
	domain = domain_find(&one);
	/* As if a thread forked: one cycle has all resources. */
	__atomic_store_n(&domain->fork_waits, 1, __ATOMIC_SEQ_CST);
	defer_imports(cache);
	__atomic_store_n(&domain->fork_waits, 0, __ATOMIC_SEQ_CST);
	os_futex_wake(&domain->fork_waits, 1);
	ck_assert(becomes_positive(&domain->grace_state));
	at_reading = release_and_wait;
	ck_assert(is_true_in_child(no_release_is_under_way));
	ck_assert_ptr_null(at_reading);
	set(&one.reading, 0);
	set(&one.is_stalled, 0);
	pthread_join(waiter, NULL);
	pthread_join(hastener, NULL);
	umem_cache_destroy(cache);
}
END_TEST

static bool
has_no_thread_after_reap(void)
{
	struct domain *domain = domain_find(&one);

	umem_cache_reap_now(forked);
	domain_loaded(domain);
	return domain_is_broken(domain) && domain->has_empty_slabs == 0 &&
	       domain->thread_state == 0;
}

/* The thread would have the turn for ever, and would keep the process alive. */
START_TEST(a_child_without_grace_periods_starts_no_thread)
{
	umem_cache_t *cache = cache_new("stalled", 64);
	struct domain *domain;

	forked = stable_new();
	umem_defer_attach(forked, &one, grace_of);
	umem_cache_free(forked, umem_cache_alloc(forked, UMEM_NOFAIL));
	set(&one.is_stalled, 1);
	domain = defer_new(cache, &one);
	await_grace(domain);
	umem_cache_reap_now(forked);
	ck_assert_uint_ne(domain->has_empty_slabs, 0);
	ck_assert(is_true_in_child(has_no_thread_after_reap));
	set(&one.is_stalled, 0);
	umem_cache_destroy(forked);
	umem_cache_destroy(cache);
}
END_TEST

static void
setup(void)
{
	tester = pthread_self();
}

/* From here on, the library gets no memory for structures of its own. */
static void
use_up_meta(void)
{
	os_fail_nth(1, 1u << 30);
	for (size_t bytes = 16 * KIB; bytes >= 16; bytes -= 16)
		while (meta_alloc(bytes) != NULL)
			;
}

static int
defer_sized(void *p, size_t size)
{
	errno = 0;
	return umem_defer_sized(p, size, &one, grace_of);
}

/*
 * The domain exists, but there is no memory for the layer of a cache.  A caller
 * that does not read waits for the readers, then frees the object.
 */
START_TEST(without_memory_for_a_layer_a_free_waits_for_readers)
{
	umem_cache_t *cache = umem_cache_create(
	    "no layer", 64, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	void *object = umem_cache_alloc(cache, UMEM_NOFAIL);
	void *block = umem_alloc(100, UMEM_NOFAIL);
	umem_cache_t *of_block = class_cache[size_class_of(100)];

	no_upkeep();
	defer_new(cache_new("other", 64), &one);
	ck_assert_uint_eq(cache->slabs.nused, 1);
	use_up_meta();
	set(&one.reading, 1);
	errno = 0;
	ck_assert_int_eq(umem_defer_object(cache, object, &one, grace_of), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(defer_sized(block, 100), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(cache->slabs.nused, 1);
	ck_assert_uint_eq(one.nwaits, 0);

	set(&one.reading, 0);
	ck_assert_int_eq(umem_defer_object(cache, object, &one, grace_of), 0);
	ck_assert_uint_eq(one.nwaits, 1);
	ck_assert_uint_eq(cache->slabs.nused, 0);
	ck_assert_int_eq(defer_sized(block, 100), 0);
	ck_assert_uint_eq(one.nwaits, 2);
	ck_assert_ptr_eq(umem_alloc(100, UMEM_DEFAULT), block);
	os_fail_nth(0, 0);
	ck_assert_uint_eq(nlayers(cache), 0);
	ck_assert_uint_eq(nlayers(of_block), 0);
}
END_TEST

/*
 * The layer exists, but there is no memory for its magazines.  _i: the objects
 * are large blocks.
 */
START_TEST(without_memory_for_a_magazine_a_free_waits_for_readers)
{
	static void *object[4000];
	unsigned most = _i ? 600 : array_size(object);
	size_t size = _i ? SIZE_CLASS_MAX + 1 : 48;
	unsigned n = 0;
	struct domain *domain;
	intptr_t bytes;

	work_in_calls();
	defer_budget = 8 * GIB;
	for (unsigned i = 0; i < most; i++)
		object[i] = umem_alloc(size, UMEM_NOFAIL);
	ck_assert_int_eq(defer_sized(object[n++], size), 0);
	domain = domain_find(&one);
	use_up_meta();
	set(&one.reading, 1);
	bytes = load_relaxed(&domain->bytes);
	while (n < most && defer_sized(object[n], size) == 0) {
		bytes = load_relaxed(&domain->bytes);
		n++;
	}
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_lt(n, most);
	/* The block that is refused neither counts nor waits. */
	ck_assert_int_eq(load_relaxed(&domain->bytes), bytes);
	ck_assert_int_eq(defer_sized(object[n], size), -1);
	memset(object[n], 1, size);

	set(&one.reading, 0);
	ck_assert_uint_eq(one.nwaits, 0);
	ck_assert_int_eq(defer_sized(object[n++], size), 0);
	ck_assert_uint_eq(one.nwaits, 1);
	os_fail_nth(0, 0);
	while (n < most)
		ck_assert_int_eq(defer_sized(object[n++], size), 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_int_eq(load_relaxed(&domain->bytes), 0);
}
END_TEST

/*
 * Its thread may hold a lock that the release function takes.  _i: the layer
 * exists, but there is no memory for its magazines.
 */
START_TEST(without_memory_a_free_calls_no_function_of_the_program)
{
	umem_cache_t *cache = umem_import_cache_create("counted",
	    import_counted, release_counted, NULL, 1, UMC_NOMAGAZINE);
	static void *resource[4000];
	int refusal = 0;

	ck_assert_ptr_nonnull(cache);
	work_in_calls();
	defer_budget = 8 * GIB;
	for (unsigned i = 0; i < array_size(resource); i++)
		resource[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	defer_new(_i ? cache : cache_new("other", 64), &one);
	use_up_meta();
	for (unsigned i = 0; refusal == 0 && i < array_size(resource); i++)
		if (umem_defer_object(cache, resource[i], &one, grace_of) != 0)
			refusal = errno;
	ck_assert_int_eq(refusal, EAGAIN);
	ck_assert_uint_eq(nended, 0);
	ck_assert_uint_eq(one.nwaits, 0);
}
END_TEST

/* An object that is a sample is destructed by its free. */
START_TEST(without_memory_a_free_calls_no_destructor_of_a_sample)
{
	umem_cache_t *cache = umem_cache_create(
	    "sampled", 64, 0, construct, destruct, NULL, NULL, NULL, 0);
	void *object;

	no_upkeep();
	defer_new(cache_new("other", 64), &one);
	ck_assert_int_eq(umem_sample(1), 0);
	object = umem_cache_alloc(cache, UMEM_NOFAIL);
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_uint_eq(load_relaxed(&cache->nsamples), 1);
	use_up_meta();
	ck_assert_int_eq(umem_defer_object(cache, object, &one, grace_of), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_uint_eq(nended, 0);
	os_fail_nth(0, 0);
	ck_assert_int_eq(umem_defer_object(cache, object, &one, grace_of), 0);
	umem_cache_destroy(cache);
	/* The sample, and the object in whose place the program has it. */
	ck_assert_uint_eq(nended, 2);
}
END_TEST

/*
 * A cache is destroyed while the kernel refuses to collect a sample that waits.
 * The later free of the sample is not a misuse, and calls no destructor.
 */
START_TEST(a_sample_that_waits_may_outlive_its_cache)
{
	umem_cache_t *cache = umem_cache_create(
	    "outlived", 64, 0, construct, destruct, NULL, NULL, NULL, 0);
	void *object;

	/* In locked mode a CPU is drained without a system call. */
	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	no_upkeep();
	ck_assert_int_eq(umem_sample(1), 0);
	object = umem_cache_alloc(cache, UMEM_NOFAIL);
	ck_assert_int_eq(umem_sample(0), 0);
	ck_assert_uint_eq(load_relaxed(&cache->nsamples), 1);
	work_in_calls();
	ck_assert_int_eq(umem_defer_object(cache, object, &one, grace_of), 0);
	os_fail_nth(1, 1u << 30);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	ck_assert(cache->destroyed);
	nended = 0;
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_uint_eq(load_relaxed(&cache->nsamples), 0);
	ck_assert_uint_eq(nended, 0);
}
END_TEST

/* The same for resources beyond the limit of idle ones. */
START_TEST(resources_that_wait_may_outlive_their_cache)
{
	umem_cache_t *cache = umem_import_cache_create("counted",
	    import_counted, release_counted, NULL, 1, UMC_NOMAGAZINE);
	void *resource[3];

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return;
	no_upkeep();
	work_in_calls();
	for (unsigned i = 0; i < array_size(resource); i++)
		resource[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	for (unsigned i = 0; i < array_size(resource); i++)
		ck_assert_int_eq(
		    umem_defer_object(cache, resource[i], &one, grace_of), 0);
	os_fail_nth(1, 1u << 30);
	umem_cache_destroy(cache);
	os_fail_nth(0, 0);
	ck_assert(cache->destroyed);
	nended = 0;
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_uint_eq(defer_waiting(cache), 0);
	ck_assert_uint_eq(nended, 0);
}
END_TEST

START_TEST(without_memory_for_a_layer_a_large_block_is_refused)
{
	void *block = umem_alloc(SIZE_CLASS_MAX + 1, UMEM_NOFAIL);
	struct domain *domain;

	work_in_calls();
	domain = defer_new(cache_new("other", 64), &one);
	use_up_meta();
	ck_assert_int_eq(defer_sized(block, SIZE_CLASS_MAX + 1), -1);
	ck_assert_int_eq(errno, EAGAIN);
	os_fail_nth(0, 0);
	memset(block, 1, SIZE_CLASS_MAX + 1);
	ck_assert_int_eq(defer_sized(block, SIZE_CLASS_MAX + 1), 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_uint_eq(nreleased(domain), 2);
	ck_assert_int_eq(load_relaxed(&domain->bytes), 0);
}
END_TEST

static void
defer_with_wrong_size(void)
{
	defer_sized(umem_alloc(100, UMEM_NOFAIL), 300);
}

START_TEST(a_deferred_free_with_a_wrong_size_is_reported)
{
	ck_assert_ptr_nonnull(
	    strstr(child_writes(defer_with_wrong_size), "umem_free_rcu("));
	ck_assert(child_aborted());
}
END_TEST

/* _i: with the checks of the debug mode. */
START_TEST(an_object_that_is_refused_can_be_freed)
{
	static void *object[4000];
	umem_cache_t *cache;
	unsigned n = 0;

	work_in_calls();
	if (_i)
		options_parse_debug("guards");
	cache = cache_new("refused", 64);
	ck_assert(!!cache->debug == !!_i);
	for (unsigned i = 0; i < array_size(object); i++)
		object[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	umem_defer_attach(cache, &one, grace_of);
	use_up_meta();
	set(&one.reading, 1);
	while (n < array_size(object) &&
	       umem_defer_object(cache, object[n], &one, grace_of) == 0)
		n++;
	ck_assert_uint_lt(n, array_size(object));
	os_fail_nth(0, 0);
	set(&one.reading, 0);
	while (n < array_size(object))
		umem_cache_free(cache, object[n++]);
	umem_cache_destroy(cache);
}
END_TEST

START_TEST(a_block_of_no_bytes_has_the_size_of_the_option)
{
	void *block;

	alloc_zero_bytes = 100;
	block = umem_alloc(0, UMEM_NOFAIL);
	ck_assert_ptr_nonnull(block);
	ck_assert_int_eq(defer_sized(block, 0), 0);
	ck_assert_int_eq(umem_defer_barrier(&one), 0);
	ck_assert_uint_eq(nreleased(domain_find(&one)), 1);
}
END_TEST

Suite *
grace_suite(void)
{
	Suite *suite = suite_create("grace");
	TCase *tcase = tcase_create("grace");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_add_test(
	    tcase, an_object_behind_an_owned_header_is_not_forgotten);
	tcase_add_test(tcase, a_layer_is_complete_when_the_domain_finds_it);
	tcase_add_test(tcase, a_cache_ends_while_another_thread_reaps);
	tcase_add_test(
	    tcase, a_cache_keeps_its_layers_if_the_first_one_cannot_end);
	tcase_add_test(tcase, the_layers_of_a_cache_that_is_freed_have_ended);
	tcase_add_test(
	    tcase, a_thread_of_qsbr_ends_a_cache_of_several_flavours);
	tcase_add_test(tcase,
	    the_end_of_a_cache_in_a_section_of_its_second_flavour_is_found);
	tcase_add_loop_test(
	    tcase, fork_waits_for_at_most_two_grace_periods, 0, 2);
	tcase_add_loop_test(
	    tcase, a_child_has_grace_periods_though_its_parent_is_busy, 0, 2);
	tcase_add_test(tcase, a_barrier_waits_for_few_grace_periods);
	tcase_add_test(tcase, a_child_without_grace_periods_starts_no_thread);
	tcase_add_loop_test(tcase,
	    a_free_beyond_the_budget_does_not_wait_for_release_functions, 0, 2);
	tcase_add_test(
	    tcase, a_free_waits_for_the_release_of_such_objects_only);
	tcase_add_test(tcase, slow_release_functions_slow_freeing_threads_down);
	tcase_add_loop_test(
	    tcase, threads_wait_as_long_as_objects_are_released, 0, 2);
	tcase_add_test(
	    tcase, a_thread_forks_while_a_release_function_waits_for_it);
	tcase_add_test(
	    tcase, a_reader_forks_after_the_release_that_began_meanwhile);
	tcase_add_test(
	    tcase, a_thread_that_was_hurried_waits_for_its_next_tick);
	tcase_add_test(
	    tcase, a_barrier_of_another_flavour_in_a_cycle_is_refused);
	tcase_add_test(
	    tcase, a_cycle_does_not_wait_for_another_flavour_beyond_its_budget);
	tcase_add_test(tcase, a_reader_of_another_flavour_does_not_wait);
	tcase_add_loop_test(
	    tcase, a_thread_that_is_canceled_in_a_cycle_ends_the_cycle, 0, 2);
	tcase_add_test(
	    tcase, objects_that_find_no_header_stay_within_the_budget);
	tcase_add_test(
	    tcase, a_barrier_asks_nothing_of_the_kernel_for_empty_layers);
#ifndef __SANITIZE_THREAD__
	tcase_add_test(
	    tcase, a_child_frees_what_it_adds_to_a_magazine_of_its_parent);
	tcase_add_loop_test(tcase,
	    a_child_goes_on_with_the_slabs_that_its_parent_retires, 0, 2);
	tcase_add_test(tcase, a_deferred_free_in_a_child_lets_it_release_slabs);
	tcase_add_test(
	    tcase, a_child_waits_for_no_flavour_that_it_does_not_use);
#endif
	tcase_add_test(tcase, a_child_without_grace_periods_takes_no_object);
	tcase_add_test(
	    tcase, a_child_without_grace_periods_can_destroy_a_cache);
	tcase_add_test(tcase, a_child_counts_the_objects_that_wait);
	tcase_add_loop_test(tcase,
	    a_destroyed_cache_whose_objects_wait_is_not_called_not_empty, 0, 2);
	tcase_add_test(
	    tcase, a_free_beyond_the_budget_does_not_wait_for_destructors);
	tcase_add_test(tcase, a_block_of_another_malloc_counts_with_its_size);
	tcase_add_test(tcase, a_reader_forks_while_objects_are_released);
	tcase_add_test(tcase, a_function_that_a_cycle_calls_forks);
	tcase_add_loop_test(tcase,
	    a_release_function_forks_amid_the_objects_of_a_barrier, 0, 2);
	tcase_add_test(tcase, layers_come_and_go_without_growth);
	tcase_add_test(
	    tcase, a_layer_leaves_its_cache_before_the_lock_is_released);
	tcase_add_loop_test(
	    tcase, a_domain_has_a_layer_before_other_threads_find_it, 0, 2);
	tcase_add_test(
	    tcase, large_objects_without_magazines_stay_within_the_budget);
	tcase_add_test(
	    tcase, a_free_beyond_the_budget_leaves_loaded_magazines_alone);
	tcase_add_test(
	    tcase, without_memory_for_a_layer_a_free_waits_for_readers);
	tcase_add_loop_test(tcase,
	    without_memory_for_a_magazine_a_free_waits_for_readers, 0, 2);
	tcase_add_loop_test(tcase,
	    without_memory_a_free_calls_no_function_of_the_program, 0, 2);
	tcase_add_test(
	    tcase, without_memory_a_free_calls_no_destructor_of_a_sample);
	tcase_add_test(tcase, a_sample_that_waits_may_outlive_its_cache);
	tcase_add_test(tcase, resources_that_wait_may_outlive_their_cache);
	tcase_add_test(
	    tcase, without_memory_for_a_layer_a_large_block_is_refused);
	tcase_add_test(tcase, a_deferred_free_with_a_wrong_size_is_reported);
	tcase_add_test(tcase, a_block_of_no_bytes_has_the_size_of_the_option);
	tcase_add_loop_test(
	    tcase, an_object_that_is_refused_can_be_freed, 0, 2);
	suite_add_tcase(suite, tcase);
	return suite;
}
