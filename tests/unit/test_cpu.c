/*
 * test_cpu.c - headers change their owner and lose no object
 *
 * Every test starts the layer anew, in each of the three modes in turn.
 *
 * In a storm, several threads move stamped objects in and out of one header as
 * fast as they can.  Meanwhile signals interrupt the threads, owners sleep, and
 * another thread drains the header.  The stamp of an object reveals that the
 * object was lost or handed out twice.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "magazine/cpu_inner.h"
#include "magazine/depot.h"
#include "tests/time_limit.h"
#include "tests/unit/hooks.h"
#include "tests/unit/owner.h"
#include "tests/unit/second.h"
#include "tests/unit/stay.h"
#include "tests/unit/step.h"
#include "vmem/meta.h"
#include "vmem/os.h"

#define NOBJECTS  300
#define NWORKERS  5
#define CAPACITY  14
/* A storm lasts at least STORM_NS ns and at least STORM_MIN operations. */
#define STORM_NS  200000000
#define STORM_MIN 2000

static const struct cpu_guard guard = {123, 456};
static struct cpu_hot *hot;
static struct cpu_cold *cold;
static uint32_t stamp[NOBJECTS]; /* [atomic] 1: held by a thread */

/* The store that workers use when they bypass the header. */
static pthread_mutex_t store_mutex = PTHREAD_MUTEX_INITIALIZER;
static void *store[NOBJECTS];
static unsigned nstored;

static uint32_t stop;   /* [atomic] */
static uint32_t nwrong; /* [atomic] */
static uint32_t ndone;  /* [atomic] */

/* Returns false if this mode is not available on this machine. */
static bool
start(int mode, unsigned concurrency)
{
	if (cpu_layer.rseq.owner == RSEQ_NONE && mode != RSEQ_NONE)
		return false;
	cpu_layer.nused = 0;
	ck_assert(cpu_start((enum rseq_owner)mode, concurrency));
	ck_assert_int_eq(cpu_layer.rseq.owner, owner_expected(mode));
	ck_assert(cpu_header_alloc(guard, &hot, &cold));
	return true;
}

static uintptr_t
at(const struct cpu_hot *h)
{
	return (uintptr_t)h - (uintptr_t)cpu_header_none();
}

static enum rseq_result
pop(struct cpu_hot *h, void **object)
{
	enum rseq_result r;

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return RSEQ_MISS;
	while ((r = rseq_pop(&cpu_layer.place, at(h), object)) == RSEQ_ABORT)
		;
	return r;
}

static enum rseq_result
push(struct cpu_hot *h, void *object)
{
	enum rseq_result r;

	if (cpu_layer.rseq.owner == RSEQ_NONE)
		return RSEQ_MISS;
	while ((r = rseq_push(&cpu_layer.place, at(h), object)) == RSEQ_ABORT)
		;
	return r;
}

static struct magazine *
magazine(void)
{
	struct magazine *mag = meta_alloc(magazine_bytes(CAPACITY));

	if (mag != NULL)
		mag->capacity = CAPACITY;
	return mag;
}

static void
swap(struct cpu_owned *own)
{
	struct magazine *mag = own->cold->previous;

	own->cold->previous = own->cold->loaded;
	if (own->cold->previous != NULL)
		own->cold->previous->nrounds = own->nrounds;
	own->cold->loaded = mag;
	own->nrounds = mag == NULL ? 0 : mag->nrounds;
}

/* Returns false if the header is full or another thread owns it. */
static bool
slow_put(void *object)
{
	struct cpu_owned own;
	bool room;

	if (!cpu_acquire(hot, cold, &own))
		return false;
	if (own.cold->loaded == NULL || own.nrounds == CAPACITY)
		swap(&own);
	if (own.cold->loaded == NULL)
		own.cold->loaded = magazine();
	room = own.cold->loaded != NULL && own.nrounds < CAPACITY;
	if (room)
		own.cold->loaded->round[own.nrounds++] = object;
	cpu_release(&own);
	return room;
}

static void *
slow_get(void)
{
	struct cpu_owned own;
	void *object = NULL;

	if (!cpu_acquire(hot, cold, &own))
		return NULL;
	if (own.nrounds == 0)
		swap(&own);
	if (own.nrounds > 0)
		object = own.cold->loaded->round[--own.nrounds];
	cpu_release(&own);
	return object;
}

static void
store_put(void *object)
{
	pthread_mutex_lock(&store_mutex);
	if (nstored < NOBJECTS)
		store[nstored++] = object;
	else
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&store_mutex);
}

static void *
store_get(void)
{
	void *object = NULL;

	pthread_mutex_lock(&store_mutex);
	if (nstored > 0)
		object = store[--nstored];
	pthread_mutex_unlock(&store_mutex);
	return object;
}

static void
stamp_change(void *object, uint32_t from)
{
	uint32_t *at = object;

	if (at < stamp || at >= stamp + NOBJECTS ||
	    __atomic_exchange_n(at, !from, __ATOMIC_ACQ_REL) != from)
		__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
}

static void
put(void *object)
{
	stamp_change(object, 1);
	if (push(hot, object) != RSEQ_OK && !slow_put(object))
		store_put(object);
}

static void *
get(void)
{
	void *object;

	if (pop(hot, &object) != RSEQ_OK && (object = slow_get()) == NULL)
		object = store_get();
	if (object != NULL)
		stamp_change(object, 0);
	return object;
}

static void
on_signal(int signal)
{
	(void)signal;
	sched_yield();
}

/* An owner that sleeps while it owns the header. */
static void
own_and_sleep(void)
{
	struct cpu_owned own;

	if (!cpu_acquire(hot, cold, &own))
		return;
	usleep(200);
	cpu_release(&own);
}

static void *
work(void *arg)
{
	uint32_t x = 1 + (uint32_t)(uintptr_t)arg;
	void *held[16];
	unsigned n = 0;

	while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
		x = x * 1664525 + 1013904223;
		if ((x >> 16) % 2000 == 0)
			own_and_sleep();
		else if (n > 0 && ((x >> 20) % 2 == 0 || n == 16))
			put(held[--n]);
		else if ((held[n] = get()) != NULL)
			n++;
		__atomic_add_fetch(&ndone, 1, __ATOMIC_RELAXED);
	}
	while (n > 0)
		put(held[--n]);
	return NULL;
}

/* Moves the objects of a chain into the store and frees its magazines. */
static void
empty(struct magazine *chain)
{
	while (chain != NULL) {
		struct magazine *next = chain->next;

		if (chain->nrounds > chain->capacity)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < chain->nrounds; i++)
			store_put(chain->round[i]);
		meta_free(chain, magazine_bytes(CAPACITY));
		chain = next;
	}
}

static void *
drain_always(void *arg)
{
	(void)arg;
	for (unsigned i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) {
		struct magazine *chain = NULL;
		bool refused = i % 4 == 3;

		if (refused)
			os_fail_nth(1, 1000);
		if (!cpu_drain(hot, cold, NULL, false, &chain) && chain != NULL)
			__atomic_add_fetch(&nwrong, 1, __ATOMIC_RELAXED);
		if (refused)
			os_fail_nth(0, 0);
		empty(chain);
		usleep(i % 8 == 0 ? 100 : 0);
	}
	return NULL;
}

/* Returns n if each object is a stamp that was not seen before, else 0. */
static unsigned
count_once(void *const *object, unsigned n, bool *seen)
{
	for (unsigned i = 0; i < n; i++) {
		size_t at = (size_t)((uint32_t *)object[i] - stamp);

		if (at >= NOBJECTS || seen[at])
			return 0;
		seen[at] = true;
	}
	return n;
}

/*
 * Runs in a child of the storm.  No header may be owned and no object may be
 * present twice.
 */
static int
child_looks(void)
{
	bool seen[NOBJECTS] = {false};
	struct magazine *chain = NULL;
	uint32_t object = 0;

	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		size_t far = (size_t)cpu << CPU_BLOCK_SHIFT;
		struct cpu_hot *h = (void *)((char *)hot + far);
		struct cpu_cold *c = (void *)((char *)cold + far);

		if (c->owned != 0 || h->top == CPU_CLAIMED)
			return 1;
	}
	if (!cpu_drain(hot, cold, NULL, false, &chain))
		return 2;
	for (; chain != NULL; chain = chain->next)
		if (count_once(chain->round, chain->nrounds, seen) !=
		    chain->nrounds)
			return 3;
	if (cpu_rounds(hot, cold) != 0)
		return 4;
	if (!slow_put(&object) || cpu_rounds(hot, cold) != 1 ||
	    (pop(hot, &(void *){NULL}) != RSEQ_OK && slow_get() != &object))
		return 5;
	return 0;
}

static void
fork_and_look(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		limit_time();
		os_fail_nth(0, 0);
		_exit(child_looks());
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}

static void
storm(bool signals, bool drains, bool forks)
{
	struct sigaction action = {.sa_flags = SA_RESTART};
	pthread_t worker[NWORKERS], drainer;
	uint64_t end = os_now_ns() + STORM_NS;

	action.sa_handler = on_signal;
	ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
	for (unsigned i = 0; i < NOBJECTS; i++)
		store_put(&stamp[i]);
	for (uintptr_t i = 0; i < NWORKERS; i++)
		ck_assert_int_eq(
		    pthread_create(&worker[i], NULL, work, (void *)i), 0);
	if (drains)
		pthread_create(&drainer, NULL, drain_always, NULL);
	for (unsigned i = 0;
	     os_now_ns() < end ||
	     __atomic_load_n(&ndone, __ATOMIC_RELAXED) < STORM_MIN;
	     i++) {
		if (signals)
			pthread_kill(worker[i % NWORKERS], SIGUSR1);
		usleep(signals ? 50 : 5000);
		if (forks)
			fork_and_look();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < NWORKERS; i++)
		pthread_join(worker[i], NULL);
	if (drains)
		pthread_join(drainer, NULL);
}

/* Checks that each object is in the store or in a header, exactly once. */
static void
all_are_there(void)
{
	bool seen[NOBJECTS] = {false};
	struct magazine *chain = NULL;

	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_ge(ndone, STORM_MIN);
	ck_assert_uint_eq(nstored + cpu_rounds(hot, cold), NOBJECTS);
	ck_assert(cpu_drain(hot, cold, NULL, false, &chain));
	ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	empty(chain);
	ck_assert_uint_eq(nwrong, 0);
	ck_assert_uint_eq(nstored, NOBJECTS);
	ck_assert_uint_eq(count_once(store, nstored, seen), NOBJECTS);
}

START_TEST(nothing_is_lost_while_signals_interrupt)
{
	if (!start(_i, 0))
		return;
	storm(true, false, false);
	all_are_there();
}
END_TEST

START_TEST(nothing_is_lost_while_headers_are_drained)
{
	if (!start(_i, 0))
		return;
	storm(false, true, false);
	all_are_there();
}
END_TEST

START_TEST(nothing_is_lost_with_signals_and_drains_and_few_cpus)
{
	if (!start(_i, 1))
		return;
	storm(true, true, false);
	all_are_there();
	/*
	 * With a concurrency of 1, only CPU number 0 gets memory.  It has none
	 * if no worker ran on it, except in locked mode, which maps every CPU
	 * to number 0.
	 */
	ck_assert_uint_le(cpu_layer.nused, 1);
	if (_i == RSEQ_NONE)
		ck_assert_uint_eq(cpu_layer.nused, 1);
}
END_TEST

START_TEST(a_forked_child_finds_every_header_free)
{
	if (!start(_i, 0))
		return;
	storm(false, true, true);
	all_are_there();
}
END_TEST

START_TEST(a_header_that_is_owned_is_gone_past)
{
	struct magazine *chain = NULL;
	struct cpu_owned own, second;
	void *object;

	stay_here();
	/* With more headers, the locked mode would try that of the next CPU. */
	if (!start(_i, _i == RSEQ_NONE ? 1 : 0))
		return;
	for (unsigned i = 0; i < 5; i++)
		ck_assert(slow_put(&stamp[i]));
	ck_assert(cpu_acquire(hot, cold, &own));
	ck_assert_uint_eq(own.nrounds, 5);
	ck_assert(!cpu_acquire(hot, cold, &second));
	ck_assert_int_eq(push(hot, &stamp[9]), RSEQ_MISS);
	ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	ck_assert(cpu_drain(hot, cold, NULL, false, &chain));
	ck_assert_ptr_null(chain);
	own.cold->loaded->round[own.nrounds++] = &stamp[5];
	cpu_release(&own);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 6);
	for (unsigned i = 6; i-- > 0;) {
		if (pop(hot, &object) != RSEQ_OK)
			object = slow_get();
		ck_assert_ptr_eq(object, &stamp[i]);
	}
	ck_assert_ptr_null(slow_get());
}
END_TEST

/* Owned by the test's process and published by its child. */
static struct cpu_owned publishing;

static void
publish(void)
{
	cpu_release(&publishing);
}

/* The words of a header that sections read, and the owner's word. */
struct header_words {
	uint64_t top, bottom, limit;
	uint64_t owned;
};

static struct header_words
child_words(pid_t child, const struct cpu_owned *own)
{
	return (struct header_words){step_peek(child, &own->hot->top),
	    step_peek(child, &own->hot->bottom),
	    step_peek(child, &own->hot->limit),
	    (uint32_t)step_peek(child, &own->cold->owned)};
}

/* The words that cpu_release() writes for this magazine, or for none (NULL). */
static struct header_words
words_of(const struct magazine *mag, unsigned nrounds)
{
	if (mag == NULL)
		return (struct header_words){0, CPU_NO_BOTTOM, 0, 1};
	return (struct header_words){(uintptr_t)(mag->round + nrounds),
	    (uintptr_t)mag->round, (uintptr_t)(mag->round + mag->capacity), 1};
}

/*
 * Stops a child before each instruction of cpu_release().  While top is
 * CPU_CLAIMED, every section refuses.  Once top has another value, bottom and
 * limit must belong to it.  owned is cleared after that.
 */
static void
publish_step_by_step(struct magazine *mag, unsigned nrounds)
{
	struct header_words want = words_of(mag, nrounds);
	unsigned nclaimed = 0, npublished = 0;
	pid_t child;

	ck_assert(cpu_acquire(hot, cold, &publishing));
	publishing.cold->loaded = mag;
	publishing.nrounds = nrounds;
	child = step_start(publish);
	while (child != 0 && step_one(child)) {
		struct header_words now = child_words(child, &publishing);

		if (now.top == CPU_CLAIMED) {
			ck_assert_uint_eq(now.owned, 1);
			nclaimed++;
			continue;
		}
		ck_assert_uint_eq(now.top, want.top);
		ck_assert_uint_eq(now.bottom, want.bottom);
		ck_assert_uint_eq(now.limit, want.limit);
		npublished += now.owned == 1;
	}
	ck_assert(child == 0 || nclaimed > 2);
	ck_assert(child == 0 || npublished > 0);
	cpu_release(&publishing);
}

/*
 * In locked mode no thread runs beside an owner.  The fork() by which an owner
 * starts the child would wait for itself if the library did not know that the
 * process has one thread.
 */
START_TEST(what_an_owner_publishes_is_seen_whole_or_not_at_all)
{
	struct magazine *mag[2];

	stay_here();
	if (_i == RSEQ_NONE || !start(_i, 0) || !os_is_single_threaded())
		return;
	mag[0] = magazine();
	mag[1] = magazine();
	/* Towards a higher and a lower address, also with fewer rounds. */
	publish_step_by_step(mag[0], 3);
	publish_step_by_step(mag[1], CAPACITY);
	publish_step_by_step(mag[0], 0);
	publish_step_by_step(mag[1], 5);
	publish_step_by_step(NULL, 0);
	publish_step_by_step(mag[0], CAPACITY);
}
END_TEST

/* A pop of the last round prefetches the word below it. */
START_TEST(below_the_last_round_of_a_loaded_magazine_is_its_own_address)
{
	struct cpu_owned own;
	struct magazine *mag;
	void *below;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(slow_put(&stamp[0]));
	ck_assert(cpu_acquire(hot, cold, &own));
	mag = own.cold->loaded;
	cpu_release(&own);
	memcpy(&below, (char *)mag->round - sizeof(below), sizeof(below));
	ck_assert_ptr_eq(below, mag);
}
END_TEST

/* Exchanges and rounds of a CPU, and its capacity then, which was 30. */
static const struct {
	unsigned nmoved, nreceived, capacity;
} updates[] = {{1, 0, 0}, {1, 10, 20}, {7, 14, 28}, {1, 15, 30}, {8, 0, 30}};

START_TEST(a_drain_takes_both_magazines_and_leaves_nothing)
{
	struct magazine *chain = NULL;
	struct cpu_owned own;
	void *object;
	unsigned n = 0;

	stay_here();
	if (!start(_i, 0))
		return;
	for (unsigned i = 0; i < CAPACITY + 3; i++)
		ck_assert(slow_put(&stamp[i]));
	ck_assert_uint_eq(cpu_rounds(hot, cold), CAPACITY + 3);
	/* An update leaves headers with exchanges, and capacities in use. */
	for (unsigned i = 0; i < array_size(updates); i++) {
		unsigned most = 0;

		ck_assert(cpu_acquire(hot, cold, &own));
		own.cold->rounds = 30;
		own.cold->nunloads += updates[i].nmoved;
		own.cold->nreceived += updates[i].nreceived;
		cpu_release(&own);
		ck_assert(cpu_drain(hot, cold, &most, false, &chain));
		ck_assert_ptr_null(chain);
		ck_assert_uint_eq(most, updates[i].capacity);
		ck_assert_uint_eq(own.cold->rounds, updates[i].capacity);
	}
	ck_assert_uint_eq(cpu_rounds(hot, cold), CAPACITY + 3);
	ck_assert(cpu_drain(hot, cold, NULL, false, &chain));
	for (struct magazine *m = chain; m != NULL; m = m->next, n++)
		ck_assert(m->nrounds == 3 || m->nrounds == CAPACITY);
	ck_assert_uint_eq(n, 2);
	empty(chain);
	ck_assert_uint_eq(nstored, CAPACITY + 3);
	ck_assert_int_eq(push(hot, &stamp[0]), RSEQ_MISS);
	ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
	ck_assert(cpu_acquire(hot, cold, &own));
	ck_assert_ptr_null(own.cold->loaded);
	ck_assert_ptr_null(own.cold->previous);
	ck_assert_uint_eq(own.nrounds, 0);
	cpu_release(&own);
	ck_assert_int_eq(push(hot, &stamp[0]), RSEQ_MISS);
	ck_assert(slow_put(&stamp[0]));
	ck_assert_ptr_eq(slow_get(), &stamp[0]);
}
END_TEST

/*
 * Called by the drain while it owns every header, so that no other thread can
 * own one.
 */
static void
look_and_take(void *arg, struct magazine **chain)
{
	static struct magazine of_depot = {.capacity = 1, .nrounds = 0};
	void *object;

	if (arg != NULL) {
		struct cpu_cold *owned = arg;

		ck_assert_uint_eq(owned->owned, 1);
	}
	/* The header is closed, or this thread cannot run sections. */
	ck_assert_int_ne(pop(hot, &object), RSEQ_OK);
	ck_assert_int_ne(push(hot, &stamp[NOBJECTS - 1]), RSEQ_OK);
	of_depot.next = *chain;
	*chain = &of_depot;
}

static uint32_t drained; /* [atomic] */

static void *
drain_all(void *owned)
{
	struct magazine *chain = NULL;

	ck_assert(cpu_drain_all(hot, cold, look_and_take, owned, &chain));
	__atomic_store_n(&drained, 1, __ATOMIC_RELEASE);
	return chain;
}

START_TEST(a_drain_of_all_waits_for_an_owner)
{
	struct magazine *chain;
	struct cpu_owned own;
	pthread_t thread;
	void *result;
	unsigned n = 0;

	stay_here();
	if (!start(_i, 0))
		return;
	for (unsigned i = 0; i < CAPACITY + 3; i++)
		ck_assert(slow_put(&stamp[i]));
	ck_assert(cpu_acquire(hot, cold, &own));
	ck_assert_int_eq(pthread_create(&thread, NULL, drain_all, own.cold), 0);
	for (unsigned i = 0; i < 20; i++)
		usleep(1000);
	ck_assert_uint_eq(__atomic_load_n(&drained, __ATOMIC_ACQUIRE), 0);
	own.cold->loaded->round[own.nrounds++] = &stamp[CAPACITY + 3];
	cpu_release(&own);
	ck_assert_int_eq(pthread_join(thread, &result), 0);
	for (chain = result; chain != NULL; chain = chain->next)
		n += chain->nrounds;
	ck_assert_uint_eq(n, CAPACITY + 4);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	/* All headers are free again, and closed. */
	ck_assert_int_eq(push(hot, &stamp[0]), RSEQ_MISS);
	ck_assert(slow_put(&stamp[0]));
	ck_assert_ptr_eq(slow_get(), &stamp[0]);
}
END_TEST

START_TEST(a_drain_of_all_in_a_handler_of_fork_takes_nothing)
{
	struct magazine *chain = NULL;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(slow_put(&stamp[0]));
	cpu_lock_for_fork();
	lock_fork_begin();
	ck_assert(!cpu_drain_all(hot, cold, look_and_take, NULL, &chain));
	lock_fork_end();
	cpu_unlock_for_fork(/* child */ false);
	ck_assert_ptr_null(chain);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 1);
}
END_TEST

START_TEST(a_drain_of_all_that_cannot_stop_the_others_takes_nothing)
{
	struct magazine *chain = NULL;
	void *object;

	/* A process with one thread has no other threads to stop. */
	second_start();
	stay_here();
	if (_i == RSEQ_NONE || !start(_i, 0))
		return;
	for (unsigned i = 0; i < 3; i++)
		ck_assert(slow_put(&stamp[i]));
	os_fail_nth(1, 1);
	ck_assert(!cpu_drain_all(hot, cold, look_and_take, NULL, &chain));
	os_fail_nth(0, 0);
	/* The chain holds only the magazine that look_and_take() added. */
	ck_assert_ptr_null(chain->next);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 3);
	ck_assert_int_eq(pop(hot, &object), RSEQ_OK);
	ck_assert_ptr_eq(object, &stamp[2]);
}
END_TEST

START_TEST(a_drain_that_cannot_stop_the_others_takes_nothing)
{
	struct magazine *chain = NULL;
	void *object;

	/* A process with one thread has no other threads to stop. */
	second_start();
	stay_here();
	if (_i == RSEQ_NONE || !start(_i, 0))
		return;
	for (unsigned i = 0; i < CAPACITY + 3; i++)
		ck_assert(slow_put(&stamp[i]));
	os_fail_nth(1, 1);
	ck_assert(!cpu_drain(hot, cold, NULL, false, &chain));
	os_fail_nth(0, 0);
	ck_assert_ptr_null(chain);
	ck_assert_uint_eq(cpu_rounds(hot, cold), CAPACITY + 3);
	/* The header is open again. */
	for (unsigned i = 3; i-- > 0;) {
		ck_assert_int_eq(pop(hot, &object), RSEQ_OK);
		ck_assert_ptr_eq(object, &stamp[CAPACITY + i]);
	}
	ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
	ck_assert_int_eq(push(hot, &stamp[0]), RSEQ_OK);
}
END_TEST

START_TEST(a_process_with_one_thread_needs_no_membarrier)
{
	struct magazine *chain = NULL;

	stay_here();
	if (!start(RSEQ_LIBC, 0))
		return;
	for (unsigned i = 0; i < CAPACITY + 3; i++)
		ck_assert(slow_put(&stamp[i]));
	os_confine();
	/* If libc does not tell, the kernel is not asked any more. */
	if (!os_is_single_threaded())
		return;
	ck_assert(cpu_drain(hot, cold, NULL, false, &chain));
	ck_assert_uint_eq(chain->nrounds + chain->next->nrounds, CAPACITY + 3);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	/* A process with one thread has no other threads to stop. */
	second_start();
	for (unsigned i = 0; i < 3; i++)
		ck_assert(slow_put(&stamp[i]));
	ck_assert(!cpu_drain(hot, cold, NULL, false, &chain));
	ck_assert_uint_eq(cpu_rounds(hot, cold), 3);
}
END_TEST

START_TEST(a_header_of_nobody_refuses)
{
	void *object;

	if (!start(_i, 0))
		return;
	ck_assert_int_eq(push(cpu_header_none(), stamp), RSEQ_MISS);
	ck_assert_int_eq(pop(cpu_header_none(), &object), RSEQ_MISS);
	ck_assert_int_eq(push(hot, stamp), RSEQ_MISS);
	ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
	ck_assert_ptr_ne(hot, cpu_header_none());
}
END_TEST

/*
 * Allocates all headers of the first region, except the two that are never
 * allocated.
 */
static unsigned
use_up_first_region(struct cpu_hot **all)
{
	unsigned n = 0;
	uintptr_t base = (uintptr_t)cpu_header_none();

	all[n++] = hot;
	while (n < CPU_HEADERS - 2) {
		ck_assert(cpu_header_alloc(guard, &hot, &cold));
		ck_assert_uint_lt((uintptr_t)hot - base, CPU_COLD_AT);
		ck_assert_ptr_ne(hot, cpu_header_none());
		ck_assert_ptr_ne(hot, cpu_header_none() + CPU_HEADER_CLOSED);
		for (unsigned i = 0; i < n; i++)
			ck_assert_ptr_ne(hot, all[i]);
		all[n++] = hot;
	}
	return n;
}

/* A drain may hold it for long, and a thread with memory must not wait. */
static void
regions_lock_is_not_taken(struct lock *lock)
{
	ck_assert_ptr_ne(lock, &cpu_regions_lock);
}

START_TEST(headers_run_out_into_a_second_region)
{
	struct cpu_hot *all[CPU_HEADERS];
	struct cpu_owned own;
	struct cpu_cold *last;
	size_t used;
	unsigned n, nfailed = 0;

	stay_here();
	if (!start(_i, 0))
		return;
	n = use_up_first_region(all);
	used = meta_used();
	for (unsigned nth = 1;; nth++, nfailed++) {
		os_fail_nth(nth, 1);
		bool had = cpu_header_alloc(guard, &hot, &cold);
		os_fail_nth(0, 0);
		if (had)
			break;
		ck_assert_uint_eq(meta_used(), used);
		ck_assert_uint_lt(nth, 10);
	}
	ck_assert_uint_ge(nfailed, 1);
	ck_assert_uint_ge(
	    (uintptr_t)hot - (uintptr_t)cpu_header_none(), CPU_BLOCK);
	/*
	 * The new header works like those of the first region and is distinct
	 * from them.
	 */
	ck_assert(cpu_seems_closed(hot));
	ck_assert(slow_put(&stamp[0]));
	ck_assert(!cpu_seems_closed(hot));
	/* The push counter of this CPU, in the first region, has memory. */
	ck_assert(cpu_acquire(hot, cold, &own));
	ck_assert(!cpu_ticked(&own, 1));
	cpu_release(&own);
	hook_lock_released = regions_lock_is_not_taken;
	ck_assert(slow_put(&stamp[1]));
	hook_lock_released = NULL;
	ck_assert_uint_eq(cpu_rounds(hot, cold), 2);
	ck_assert_ptr_eq(slow_get(), &stamp[1]);
	ck_assert_ptr_eq(slow_get(), &stamp[0]);
	last = (void *)((char *)cpu_header_none() + CPU_COLD_AT);
	last += all[n - 1] - cpu_header_none();
	ck_assert_uint_eq(cpu_rounds(all[n - 1], last), 0);
	/* A header that was freed is allocated again before any other. */
	cpu_header_free(all[77]);
	ck_assert(cpu_header_alloc(guard, &hot, &cold));
	ck_assert_ptr_eq(hot, all[77]);
	cpu_header_free(hot);
	fork_and_look();
}
END_TEST

/* Compares the guard of a header in this CPU's block, in any region. */
static bool
guard_is(const struct cpu_hot *h, struct cpu_guard want)
{
	unsigned cpu = cpu_layer.rseq.owner == RSEQ_NONE
			   ? os_cpu()
			   : rseq_cpu(&cpu_layer.place);

	h = (const void *)((const char *)h + ((size_t)cpu << CPU_BLOCK_SHIFT));
	return h->magic == want.magic && h->bound == want.bound;
}

START_TEST(a_header_has_its_guard_before_and_after_its_block_has_memory)
{
	const struct cpu_guard other = {7, 8};
	struct cpu_cold *second_cold;
	struct cpu_hot *second;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(guard_is(hot, (struct cpu_guard){0, 0}));
	ck_assert(cpu_seems_closed(hot));
	ck_assert(slow_put(&stamp[0]));
	ck_assert(!cpu_seems_closed(hot));
	ck_assert(guard_is(hot, guard));
	ck_assert(cpu_header_alloc(other, &second, &second_cold));
	ck_assert(guard_is(second, other));
	ck_assert(guard_is(hot, guard));
	/*
	 * A new header takes the place of the freed header, with its own guard.
	 */
	cpu_header_free(second);
	ck_assert(cpu_header_alloc(guard, &second, &second_cold));
	ck_assert(guard_is(second, guard));
}
END_TEST

START_TEST(a_push_in_so_many_is_told_of)
{
	const unsigned nticks = 5;
	unsigned ntold = 0;
	struct cpu_owned own;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(cpu_acquire(hot, cold, &own));
	own.cold->loaded = magazine();
	ck_assert(!cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE));
	cpu_layer.tick_pushes = nticks;
	ck_assert(!cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE));
	cpu_release(&own);
	for (unsigned i = 0; i < 10 * (nticks + 1); i++) {
		void *object;

		if (push(hot, &stamp[i]) == RSEQ_OK) {
			ck_assert_int_eq(pop(hot, &object), RSEQ_OK);
			continue;
		}
		ck_assert(cpu_acquire(hot, cold, &own));
		ntold += cpu_ticked(&own, cpu_layer.rseq.owner == RSEQ_NONE);
		cpu_release(&own);
	}
	/*
	 * In locked mode cpu_ticked() counts its calls instead of pushes, and a
	 * tick may be missing here and there.
	 */
	ck_assert_uint_ge(ntold, 8);
	ck_assert_uint_le(ntold, 10);
}
END_TEST

START_TEST(a_header_used_again_starts_empty)
{
	struct magazine *chain = NULL;
	struct cpu_hot *first;
	void *object;

	stay_here();
	if (!start(_i, 0))
		return;
	first = hot;
	ck_assert(slow_put(&stamp[0]));
	ck_assert(cpu_drain(hot, cold, NULL, false, &chain));
	cpu_header_free(hot);
	ck_assert(cpu_header_alloc(guard, &hot, &cold));
	ck_assert_ptr_eq(hot, first);
	ck_assert_int_eq(push(hot, &stamp[1]), RSEQ_MISS);
	ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	ck_assert_ptr_null(slow_get());
	ck_assert(slow_put(&stamp[1]));
	ck_assert_ptr_eq(slow_get(), &stamp[1]);
}
END_TEST

START_TEST(a_block_without_memory_is_gone_past)
{
	struct cpu_owned own;
	void *object;

	stay_here();
	if (!start(_i, 0))
		return;
	for (unsigned i = 0; i < 3; i++) {
		os_fail_nth(1, 1);
		ck_assert(!cpu_acquire(hot, cold, &own));
		os_fail_nth(0, 0);
		ck_assert_int_eq(push(hot, &stamp[1]), RSEQ_MISS);
		ck_assert_int_eq(pop(hot, &object), RSEQ_MISS);
		ck_assert_uint_eq(cpu_rounds(hot, cold), 0);
	}
	ck_assert(slow_put(&stamp[0]));
	ck_assert_ptr_eq(slow_get(), &stamp[0]);
}
END_TEST

struct sleeper {
	uint32_t owned; /* [atomic] 1: owned, 2: about to be released */
	uint64_t ns;
};

static void *
own_for_a_while(void *arg)
{
	struct sleeper *s = arg;
	struct cpu_owned own;

	while (!cpu_acquire(hot, cold, &own))
		sched_yield();
	__atomic_store_n(&s->owned, 1, __ATOMIC_RELEASE);
	usleep(60000);
	own.cold->loaded = magazine();
	own.cold->loaded->round[own.nrounds++] = &stamp[7];
	__atomic_store_n(&s->owned, 2, __ATOMIC_RELEASE);
	cpu_release(&own);
	return NULL;
}

/* The child has everything that the owner was about to publish. */
START_TEST(fork_waits_for_an_owner)
{
	struct sleeper sleeper = {0};
	pthread_t thread;
	int status;
	pid_t child;

	if (!start(_i, 0))
		return;
	ck_assert_int_eq(
	    pthread_create(&thread, NULL, own_for_a_while, &sleeper), 0);
	while (__atomic_load_n(&sleeper.owned, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	child = fork();
	if (child == 0)
		_exit(sleeper.owned == 2 && cpu_rounds(hot, cold) == 1
			  ? child_looks()
			  : 99);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(cpu_rounds(hot, cold), 1);
	fork_and_look();
}
END_TEST

/*
 * A store to a header would make the kernel copy a page for parent or child,
 * and for each CPU.
 */
START_TEST(fork_writes_to_no_header)
{
	size_t bytes;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(slow_put(&stamp[0]));
	bytes = (size_t)cpu_layer.nused << CPU_BLOCK_SHIFT;
	ck_assert_int_eq(mprotect(cpu_layer.blocks, bytes, PROT_READ), 0);
	for (int child = 0; child < 2; child++) {
		cpu_lock_for_fork();
		cpu_unlock_for_fork(child);
	}
	ck_assert_int_eq(
	    mprotect(cpu_layer.blocks, bytes, PROT_READ | PROT_WRITE), 0);
	cpu_lock_for_fork();
	lock_fork_begin();
	ck_assert(!slow_put(&stamp[1]));
	lock_fork_end();
	cpu_unlock_for_fork(/* child */ false);
	ck_assert(slow_put(&stamp[1]));
	ck_assert_uint_eq(cpu_rounds(hot, cold), 2);
}
END_TEST

/* At the fork, the thread had set the word and not yet checked the gate. */
START_TEST(a_child_frees_the_header_of_a_thread_that_was_turned_away)
{
	struct cpu_owned own;

	stay_here();
	if (!start(_i, 0))
		return;
	ck_assert(slow_put(&stamp[0]));
	ck_assert(cpu_acquire(hot, cold, &own));
	cpu_release(&own);
	cpu_lock_for_fork();
	own.cold->owned = 1;
	cpu_unlock_for_fork(/* child */ true);
	ck_assert(slow_put(&stamp[1]));
	ck_assert_uint_eq(cpu_rounds(hot, cold), 2);
}
END_TEST

static TCase *
storms(void)
{
	TCase *tcase = tcase_create("storms");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(
	    tcase, nothing_is_lost_while_signals_interrupt, 0, 3);
	tcase_add_loop_test(
	    tcase, nothing_is_lost_while_headers_are_drained, 0, 3);
	tcase_add_loop_test(
	    tcase, nothing_is_lost_with_signals_and_drains_and_few_cpus, 0, 3);
	tcase_add_loop_test(
	    tcase, a_forked_child_finds_every_header_free, 0, 3);
	return tcase;
}

Suite *
cpu_suite(void)
{
	Suite *suite = suite_create("cpu");
	TCase *tcase = tcase_create("cpu");

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, a_header_that_is_owned_is_gone_past, 0, 3);
	tcase_add_loop_test(
	    tcase, what_an_owner_publishes_is_seen_whole_or_not_at_all, 0, 3);
	tcase_add_loop_test(tcase,
	    below_the_last_round_of_a_loaded_magazine_is_its_own_address, 0, 3);
	tcase_add_loop_test(
	    tcase, a_drain_takes_both_magazines_and_leaves_nothing, 0, 3);
	tcase_add_loop_test(
	    tcase, a_drain_that_cannot_stop_the_others_takes_nothing, 0, 3);
	tcase_add_loop_test(tcase, a_drain_of_all_waits_for_an_owner, 0, 3);
	tcase_add_loop_test(
	    tcase, a_drain_of_all_in_a_handler_of_fork_takes_nothing, 0, 3);
	tcase_add_loop_test(tcase,
	    a_drain_of_all_that_cannot_stop_the_others_takes_nothing, 0, 3);
	tcase_add_test(tcase, a_process_with_one_thread_needs_no_membarrier);
	tcase_add_loop_test(tcase, a_header_of_nobody_refuses, 0, 3);
	tcase_add_loop_test(tcase, headers_run_out_into_a_second_region, 0, 3);
	tcase_add_loop_test(tcase, a_header_used_again_starts_empty, 0, 3);
	tcase_add_loop_test(tcase,
	    a_header_has_its_guard_before_and_after_its_block_has_memory, 0, 3);
	tcase_add_loop_test(tcase, a_push_in_so_many_is_told_of, 0, 3);
	tcase_add_loop_test(tcase, a_block_without_memory_is_gone_past, 0, 3);
	tcase_add_loop_test(tcase, fork_waits_for_an_owner, 0, 3);
	tcase_add_loop_test(tcase, fork_writes_to_no_header, 0, 3);
	tcase_add_loop_test(tcase,
	    a_child_frees_the_header_of_a_thread_that_was_turned_away, 0, 3);
	suite_add_tcase(suite, tcase);
	suite_add_tcase(suite, storms());
	return suite;
}
