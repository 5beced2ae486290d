/*
 * grace.c - grace periods: the threads that wait for them
 *
 * A domain stands for a flavour of liburcu.  It has the layers of objects that
 * wait for the readers of that flavour (defer.c).
 *
 * A cycle
 *	1. collects magazines from the CPUs, and moves all submitted objects to
 *	   the waiting lists
 *	2. waits for one grace period, for all of them together
 *	3. gives each magazine to its cache
 *	4. releases slabs of type-stable caches, see below
 *	An object enters a waiting list after the updater has removed it from
 *	its structure, so every reader that can have found it began before step
 *	2, which waits for that reader.
 *
 * The turn
 *	One thread at a time runs a cycle of a domain; it has the turn.  Usually
 *	this is the domain's own thread.  A caller of umem_rcu_barrier() or
 *	umem_cache_destroy(), and a freeing thread that exceeds the budget, take
 *	the turn themselves, so all of these work without the domain's thread.
 *	A thread that has waited for the turn has it before one that comes
 *	later, and fork() has it before all others.
 *	    A cycle that runs functions of the program, or a free() of another
 *	library, may come here again in the same thread, which turn_holder and
 *	releaser tell.  Such a call never waits for a turn, of any domain.
 *	Otherwise the cycles of two domains could call such functions and wait
 *	for each other.
 *	    For the same reason a thread that reads with one flavour does not
 *	wait because of the budget of another: a reader of that flavour could
 *	be waiting for it in the same way.
 *
 * Functions of the program
 *	A free of an object may call the program: release() of an import cache
 *	with a limit of idle resources, the destructor of a cache with patterns,
 *	a function of a source.  The layers of such caches are marked
 *	(calls_program).  These functions may take a lock that a thread holds
 *	which frees beyond the budget.  Such a thread must neither call them nor
 *	wait for their end, so it leaves these layers alone.  If it frees to one
 *	of them, it waits while the domain's thread makes progress, so that slow
 *	functions slow it down.  These threads call the functions, without the
 *	turn:
 *		the domain's thread;
 *		umem_rcu_barrier() and umem_cache_destroy(), at which the
 *		program must not hold such a lock;
 *		a thread beyond the budget after all, if the domain has no
 *		thread, for otherwise the objects would never be released.
 *	One thread at a time does so, the releaser.  Meanwhile it owns the
 *	waiting lists of these layers: other cycles leave them out.  So whenever
 *	the turn is free and releaser is 0, these lists are empty.  A barrier
 *	waits until releaser is 0, and then its own cycle takes all objects.
 *
 * The domain's thread
 *	The first deferred object creates the domain's thread.
 *	While objects lie on CPUs, the thread runs a cycle every half of
 *	rcu_delay, and collects the magazines that were loaded before the last
 *	cycle.  Thus no object lies longer than rcu_delay before it begins to
 *	wait.  A burst of WAKE_OBJECTS objects wakes the thread earlier.
 *	    A thread that finds nothing falls asleep, and ends after
 *	THREAD_IDLE_NS, because a process ends only when its last thread has
 *	ended.
 *
 * Slabs of type-stable caches
 *	A cycle retires the empty slabs in its step 1 and releases them in its
 *	step 4 (slab_retire.c).  Only the domain's thread does that, and without
 *	the turn.  Otherwise a thread that frees beyond the budget would call
 *	destructors, or wait for them, although it may hold a lock that they
 *	take.  The library notices empty slabs in upkeep, also within malloc(),
 *	where no thread can be created: then the domain's thread is created
 *	after the upkeep, by the upkeep thread or by the function of the API
 *	that asked for it (defer_rouse()), or at the next deferred free.
 *
 * How an object is never forgotten
 *	The putting thread		The domain's thread
 *	W: publishes the header		W: thread_state := THREAD_ASLEEP
 *	fence				fence
 *	R: loads thread_state		R: looks at each header
 *
 *	The fences are sequentially consistent.  Therefore either the putting
 *	thread reads THREAD_ASLEEP and wakes the thread, or the thread finds the
 *	rounds and stays awake.  A header that is owned counts as one with
 *	rounds: its owner may be preempted, and need not have loaded the
 *	magazine that lies there, in which case it does not look at
 *	thread_state.  Pushes by restartable sections need no such step: a
 *	section finds an open header only while there are rounds, and the thread
 *	does not fall asleep then.
 *
 * fork()
 *	A child that is copied during synchronize() has a copy of liburcu's
 *	locks in which a thread holds them that does not exist there.  So fork()
 *	takes the turn of every domain first, which waits for the end of the
 *	grace period, FORK_NS at most.  The other threads that want the turn
 *	wait until then (fork_waits), so a busy domain has no further cycle
 *	before the fork().  If the forking thread is
 *	in a read-side section, the grace period may be waiting for that
 *	section, so fork() does not wait for its end; it waits for the release
 *	of objects after one, and for the releaser.  If that takes longer, the
 *	child loses the magazine that the releaser has in hand.  If a grace
 *	period was in progress all the same, the domain is broken in the child:
 *	deferred frees fail there with ENOTSUP, and it has no thread, which
 *	would wait for ever.
 *	    In the child, liburcu still has the registrations of readers that
 *	do not exist there, in memory that libc may use again for threads of
 *	the child.  So the child waits for no grace period of a flavour before
 *	the program calls umem_cache_rcu() or defers a free with it there: empty
 *	slabs of type-stable caches alone are no reason, also not in the thread
 *	of another flavour (is_inherited).
 *	    The flavour bp is different, because its synchronize() works in the
 *	child: the program calls urcu_bp_before_fork(), which takes liburcu's
 *	locks, and releases them in the child.  While it has them no grace
 *	period ends, so fork() must not wait for one, nor ask whether the caller
 *	reads.  fork() then holds the thread that has the turn at the end of its
 *	grace period (grace_state: GRACE_HELD), so the copy finds all magazines
 *	in lists.
 *	    This comes before all locks of the library are taken, because a
 *	reader may need them to leave its section.
 *	    A process with one thread does nothing of this (umem/fork.c).  Its
 *	child goes on with the call that a signal handler has interrupted to
 *	fork, and with the counts that this call has changed or will change.
 */
#include <errno.h>
#include <pthread.h>

#include "umem/rcu/defer.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

/*
 * Objects that wake the thread before its time.  A grace period of memb
 * interrupts every CPU that runs a thread of the process.  While a reader is
 * preempted inside a section, each rcu_read_unlock() of another reader also
 * wakes the waiting thread.  Grace periods are therefore rare: 8192 frees of
 * an updater that does nothing else take about 0.1 ms, and their objects of 64
 * bytes are a quarter of a CPU's second-level cache of 2 MiB.
 */
#define WAKE_OBJECTS     8192
/*
 * This part of the budget wakes the thread, too, before a freeing thread has to
 * wait.
 */
#define WAKE_BUDGET_PART 8

/*
 * The thread ends when it has been idle for so long: a process ends only after
 * its last thread.  A new thread costs 50 us.
 */
#define THREAD_IDLE_NS 1000000000

/*
 * How long fork() waits for a turn.  A grace period is shorter unless a reader
 * is stuck, and then the child does without.  Each domain has this time: one
 * whose readers are stuck would otherwise leave none for the others, which
 * would be broken in the child.
 */
#define FORK_NS 1000000000

/* Attempts at a membarrier that the kernel refuses while it lacks memory. */
#define COLLECT_TRIES 3

struct domain *domains;
size_t defer_budget = 64 * MIB;
uint64_t defer_delay_ns = 10000000;

/* States of a domain's thread. */
enum {
	THREAD_ABSENT,
	THREAD_AWAKE,
	THREAD_HURRIED, /* awake, and does not wait for the next tick */
	THREAD_ASLEEP
};

/* Values of domain->turn. */
enum {
	TURN_FREE,
	TURN_TAKEN,
	TURN_AWAITED, /* taken, and threads sleep until its end */
	TURN_HANDED   /* free for a thread that has slept */
};

/* Values of domain->grace_state: is the thread with the turn waiting? */
enum {
	GRACE_NONE,
	/* It is, and all magazines are in lists. */
	GRACE_LISTS_COMPLETE,
	/* It is, and waits for the end of a fork() afterwards. */
	GRACE_HELD
};

_Static_assert(THREAD_ABSENT == 0, "the state of a new domain");
_Static_assert(GRACE_NONE == 0, "the state of a new domain");
_Static_assert(TURN_FREE == 0, "the state of a new domain");

static bool
domain_has_turn(const struct domain *domain)
{
	return load_relaxed(&domain->turn_holder) == thread_self();
}

/* Returns the thread that calls functions of the program for a cycle, or 0. */
static uintptr_t
domain_releaser(const struct domain *domain)
{
	/* Acquire; pairs with the release in domain_call_program(). */
	return load_acquire(&domain->releaser);
}

/*
 * Is the caller in a cycle of any domain?  Then it must not wait for the turn
 * of another domain, because two cycles may each call a function of the
 * program.
 */
static bool
thread_is_in_cycle(void)
{
	chain_foreach (domain, domains, struct domain, next)
		if (domain_has_turn(domain) ||
		    domain_releaser(domain) == thread_self())
			return true;
	return false;
}

bool
domain_is_reader(void)
{
	chain_foreach (domain, domains, struct domain, next)
		if (domain->grace.reading())
			return true;
	return false;
}

/* Takes the turn if it is TURN_FREE, or if it is TURN_HANDED. */
static bool
turn_try(struct domain *domain, uint32_t state)
{
	uint32_t next = state == TURN_FREE ? TURN_TAKEN : TURN_AWAITED;

	/* Acquire; pairs with the release in turn_release(). */
	if (!__atomic_compare_exchange_n(&domain->turn, &state, next, false,
		__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	store_relaxed(&domain->turn_holder, thread_self());
	return true;
}

/* Takes a free turn, or else sleeps until its end, ns at most (0: no limit). */
static bool
turn_try_await(struct domain *domain, uint64_t ns)
{
	/* Acquire; pairs with the release in turn_release(). */
	uint32_t was =
	    __atomic_exchange_n(&domain->turn, TURN_AWAITED, __ATOMIC_ACQUIRE);

	if (was == TURN_TAKEN || was == TURN_AWAITED) {
		os_futex_wait(&domain->turn, TURN_AWAITED, ns);
		return false;
	}
	store_relaxed(&domain->turn_holder, thread_self());
	return true;
}

/*
 * Waits for the turn, behind the thread to which it was handed and behind each
 * thread that forks.
 */
static void
turn_await(struct domain *domain)
{
	if (load_relaxed(&domain->turn) == TURN_HANDED)
		os_futex_wait(&domain->turn, TURN_HANDED, 0);
	do
		while (load_relaxed(&domain->fork_waits))
			os_futex_wait(&domain->fork_waits, 1, 0);
	while (!turn_try_await(domain, 0));
}

/*
 * If threads sleep until the end of the turn, it is handed to the one that has
 * slept longest.  Otherwise the domain's thread, which begins its next cycle at
 * once while there is much to do, would be faster than a thread that has to
 * wake up first, and a barrier would wait for many grace periods.
 *	A thread that sleeps makes the turn TURN_AWAITED before, so its end
 * wakes a thread.  A thread that was woken takes the turn, or gives way to a
 * fork(), which takes it or wakes those that gave way: a turn that was handed
 * over is always taken.  One that comes and finds TURN_HANDED may sleep on
 * that value, because the thread that takes the turn makes it TURN_AWAITED.
 */
static void
turn_release(struct domain *domain)
{
	uint32_t taken = TURN_TAKEN, handed = TURN_HANDED;

	umem_assert(domain_has_turn(domain));
	store_relaxed(&domain->turn_holder, 0);
	if (__atomic_compare_exchange_n(&domain->turn, &taken, TURN_FREE, false,
		__ATOMIC_RELEASE, __ATOMIC_RELAXED))
		return;
	umem_assert(taken == TURN_AWAITED);
	store_release(&domain->turn, TURN_HANDED);
	if (os_futex_wake(&domain->turn, 1))
		return;
	/* Threads may have come since then, and sleep on TURN_HANDED. */
	if (__atomic_compare_exchange_n(&domain->turn, &handed, TURN_FREE,
		false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		os_futex_wake(&domain->turn, INT32_MAX);
}

static void
turn_take(struct domain *domain)
{
	umem_assert(!domain_has_turn(domain));
	if (load_relaxed(&domain->fork_waits) != 0 ||
	    !turn_try(domain, TURN_FREE))
		turn_await(domain);
}

/*
 * The thread cannot be canceled before turn_end(): functions of liburcu and of
 * the program that a cycle calls may be cancellation points.
 */
static void
turn_begin(struct domain *domain)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	turn_take(domain);
	domain->saved_cancel_state = cancel;
}

static void
turn_end(struct domain *domain)
{
	int cancel = domain->saved_cancel_state;

	umem_assert(domain_has_turn(domain));
	turn_release(domain);
	pthread_setcancelstate(cancel, &cancel);
}

bool
domain_is_broken(const struct domain *domain)
{
	return load_relaxed(&domain->is_broken) != 0;
}

struct domain *
domain_find(const void *key)
{
	chain_foreach (domain, domains, struct domain, next)
		if (domain->key == key)
			return domain;
	return NULL;
}

struct domain *
domain_make(const void *key, umem_grace_of_t *grace_of)
{
	struct umem_grace grace;
	struct domain *domain;

	/* Without the lock: the dynamic linker has locks of its own. */
	grace_of(key, &grace);
	lock_take(&defer_lock);
	domain = domain_find(key);
	if (domain == NULL && (domain = meta_alloc(sizeof(*domain))) != NULL) {
		domain->key = key;
		domain->grace = grace;
		domain->next = domains;
		store_release(&domains, domain);
	}
	lock_release(&defer_lock);
	return domain;
}

bool
domain_is_over(const struct domain *domain, unsigned ntimes)
{
	intptr_t bytes = load_relaxed(&domain->bytes);

	/* A release may be counted before the submission is: bytes < 0. */
	return bytes > 0 && (size_t)bytes > defer_budget * ntimes;
}

/* Waits for one grace period.  The caller is in a cycle. */
static void
domain_synchronize(struct domain *domain)
{
	add_relaxed(&domain->nsynchronizing, 1);
	domain->grace.synchronize();
	sub_relaxed(&domain->nsynchronizing, 1);
	add_relaxed(&domain->ngraces, 1);
}

/*
 * Waits for one grace period.  The caller has the turn and no magazine in hand.
 */
static void
domain_synchronize_in_turn(struct domain *domain)
{
	uint32_t was = GRACE_LISTS_COMPLETE;

	umem_assert(domain_has_turn(domain));
	umem_assert(load_relaxed(&domain->grace_state) == GRACE_NONE);
	/* Release; pairs with domain_hold_in_grace(): the lists are whole. */
	store_release(&domain->grace_state, GRACE_LISTS_COMPLETE);
	domain_synchronize(domain);
	/* Acquire; pairs with defer_after_fork(). */
	for (; !__atomic_compare_exchange_n(&domain->grace_state, &was,
		 GRACE_NONE, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     was = GRACE_LISTS_COMPLETE)
		os_futex_wait(&domain->grace_state, GRACE_HELD, 0);
}

/*
 * Collects magazines of the layer as deferred_collect() does.  Returns false if
 * it could not have some of them.
 */
static bool
layer_collect(struct defer *layer, bool all)
{
	bool complete = false;

	for (int i = 0; !complete && i < COLLECT_TRIES; i++) {
		size_t bytes = deferred_collect(&layer->mags, all, &complete);

		add_relaxed(&layer->domain->bytes, (intptr_t)bytes);
	}
	return complete;
}

/* Calls layer_collect() for each layer; returns whether all were complete. */
static bool
domain_collect(struct domain *domain, bool all)
{
	bool complete = true;

	chain_foreach (layer, domain->layers, struct defer, next)
		complete &= layer_collect(layer, all);
	return complete;
}

/* Collects blocks that count for the budget before they are submitted. */
static void
domain_collect_single_blocks(struct domain *domain)
{
	umem_assert(domain_has_turn(domain));
	chain_foreach (layer, domain->layers, struct defer, next)
		if (layer->mags.object_bytes == 0)
			layer_collect(layer, /* all */ true);
}

/* Is the layer one of the domain, and are its waiting magazines counted? */
static inline bool
layer_is_sound_in_turn(const struct domain *domain, const struct defer *layer)
{
	size_t nrounds = 0;
	const struct magazine *mag = layer->mags.waiting;

	/* Another thread empties this list without the turn. */
	if (layer->calls_program && domain_releaser(domain) != 0)
		mag = NULL;
	for (; mag != NULL; mag = mag->next) {
		if (mag->nrounds == 0 || mag->nrounds > mag->capacity)
			return false;
		nrounds += mag->nrounds;
	}
	return layer->domain == domain && layer->key == domain->key &&
	       layer->kind < DEFER_KINDS &&
	       (layer->kind == DEFER_OBJECT) == (layer->cache != NULL) &&
	       nrounds <= load_relaxed(&layer->mags.nsubmitted);
}

/* Checks all layers: once in a cycle, in which a grace period takes longer. */
static inline bool
domain_is_sound_in_turn(const struct domain *domain)
{
	umem_assert(domain_has_turn(domain));
	chain_foreach (layer, domain->layers, const struct defer, next)
		if (!layer_is_sound_in_turn(domain, layer))
			return false;
	for (unsigned kind = 0; kind < DEFER_KINDS; kind++) {
		const struct defer *layer = load_acquire(&domain->kinds[kind]);

		if (layer != NULL && layer->kind != kind)
			return false;
	}
	return true;
}

static void
layer_release_waiting(struct domain *domain, struct defer *layer)
{
	struct magazine *mag, *part = NULL;

	umem_assert(thread_is_in_cycle());
	while ((mag = deferred_next(&layer->mags)) != NULL) {
		size_t bytes = deferred_bytes(&layer->mags, mag);

		sub_relaxed(&domain->bytes, (intptr_t)bytes);
		defer_give(layer, mag, &part);
	}
	defer_give_part(layer, &part);
}

/*
 * Does the layer retire the slabs of its cache?  Of several layers of a cache
 * it is the one that was made first, so that one domain alone retires slabs.
 * None does while another domain of the cache is broken, because no slab could
 * be released, or inherited: see fork() at the top.
 */
static bool
layer_retires_slabs(const struct defer *layer)
{
	if (layer->cache == NULL || !layer->cache->slabs.is_type_stable ||
	    load_relaxed(&layer->next_of_cache) != NULL)
		return false;
	chain_foreach (
	    other, layer->cache->defers, const struct defer, next_of_cache)
		if (other == layer || domain_is_broken(other->domain) ||
		    load_relaxed(&other->domain->is_inherited) != 0)
			return other == layer;
	/* Another thread is about to enter the layer into this list. */
	return false;
}

/* Retires empty slabs of the layer's cache.  Returns whether there are any. */
static bool
layer_retire_slabs(struct defer *layer)
{
	struct slab_store *store = &layer->cache->slabs;

	umem_assert(layer->retired_batch == 0);
	umem_assert(layer->cache->slabs.is_type_stable);
	layer->retired_batch = slab_retire(store, slab_retire_wanted(store));
	return layer->retired_batch != 0;
}

/*
 * Waits for the readers of the cache's other flavours, and releases slabs.  The
 * caller has no turn.
 */
static void
layer_release_slabs(struct defer *layer, uint32_t batch)
{
	umem_assert(batch != 0);
	umem_assert(!domain_has_turn(layer->domain));
	/* The layer is in the list: it had to be to retire slabs. */
	chain_foreach (
	    other, layer->cache->defers, const struct defer, next_of_cache)
		if (other != layer && !domain_wait(other->domain))
			return;
	slab_end_retired(&layer->cache->slabs, batch);
}

/* Wakes threads that wait until something has been released. */
static void
domain_tell_release(struct domain *domain)
{
	/* Release; pairs with the acquire in domain_await_releases(). */
	__atomic_add_fetch(&domain->nreleases, 1, __ATOMIC_RELEASE);
	os_futex_wake(&domain->nreleases, INT32_MAX);
}

/* Do objects whose release may call the program wait no longer? */
static bool
domain_has_calls(const struct domain *domain)
{
	chain_foreach (layer, domain->layers, const struct defer, next)
		if (layer->calls_program && layer->mags.waiting != NULL)
			return true;
	return false;
}

/*
 * Releases the objects of layers that may call the program.  The caller has the
 * turn, and gives it up meanwhile; it cannot be canceled.
 */
static void
domain_call_program(struct domain *domain)
{
	int cancel = domain->saved_cancel_state;

	umem_assert(domain_has_turn(domain) && domain_releaser(domain) == 0);
	if (!domain_has_calls(domain))
		return;
	store_relaxed(&domain->releaser, thread_self());
	turn_release(domain);
	/* No layer is unlinked meanwhile (domain_await_releases()). */
	chain_foreach (layer, domain->layers, struct defer, next)
		if (layer->calls_program)
			layer_release_waiting(domain, layer);
	/* Release; pairs with domain_releaser(): the lists are empty. */
	store_release(&domain->releaser, 0);
	domain_tell_release(domain);
	turn_take(domain);
	domain->saved_cancel_state = cancel;
}

/*
 * Moves submitted magazines to the waiting lists, and retires slabs if
 * may_retire.  Lists that another thread may be emptying take part only if
 * calls_program.  Returns whether there were any magazines or slabs.
 */
static bool
domain_begin_wait(struct domain *domain, bool may_retire, bool calls_program)
{
	bool any = false;

	chain_foreach (layer, domain->layers, struct defer, next) {
		if (calls_program || !layer->calls_program)
			any |= deferred_begin_wait(&layer->mags);
		if (may_retire && layer_retires_slabs(layer))
			any |= layer_retire_slabs(layer);
	}
	return any;
}

/*
 * Runs the second half of step 1, and steps 2 and 3.  If may_retire, also
 * retires empty slabs; retired_batch of each layer names them.  The domain's
 * thread alone retires slabs, and releases all of them before its next cycle.
 * If calls_program, layers that may call the program take part, and the caller
 * gives up the turn for their step 3.  Returns whether anything waited.
 */
static bool
domain_run_cycle(struct domain *domain, bool may_retire, bool calls_program)
{
	umem_assert(domain_has_turn(domain));
	umem_assert(!calls_program || domain_releaser(domain) == 0);
	store_relaxed(&domain->nsubmitted, 0);
	/*
	 * An exchange, with acquire order, pairs with domain_retire(): either
	 * the request is seen below, or the word stays 1.  After a store, the
	 * loads below could come before it.
	 */
	if (may_retire)
		__atomic_exchange_n(
		    &domain->has_empty_slabs, 0, __ATOMIC_ACQUIRE);
	if (!domain_begin_wait(domain, may_retire, calls_program))
		return false;
	umem_assert(domain_is_sound_in_turn(domain));
	domain_synchronize_in_turn(domain);
	chain_foreach (layer, domain->layers, struct defer, next)
		if (!layer->calls_program)
			layer_release_waiting(domain, layer);
	if (calls_program)
		domain_call_program(domain);
	return true;
}

/* Returns a layer with slabs that can be released, or NULL. */
static struct defer *
domain_first_releasable(const struct domain *domain)
{
	chain_foreach (layer, domain->layers, struct defer, next)
		if (layer->retired_batch != 0)
			return layer;
	return NULL;
}

/* Runs step 4.  The caller has the turn, and gives it up meanwhile. */
static void
domain_release_slabs(struct domain *domain)
{
	struct defer *layer;

	umem_assert(domain_has_turn(domain));
	while (domain->releasing == NULL &&
	       (layer = domain_first_releasable(domain)) != NULL) {
		uint32_t batch = layer->retired_batch;

		layer->retired_batch = 0;
		domain->releasing = layer;
		turn_end(domain);
		layer_release_slabs(layer, batch);
		turn_begin(domain);
		domain->releasing = NULL;
		domain_tell_release(domain);
	}
}

/* Waits until the next tick, or until a burst. */
static void
domain_thread_wait_tick(struct domain *domain)
{
	os_futex_wait(&domain->thread_state, THREAD_AWAKE, defer_delay_ns / 2);
	store_relaxed(&domain->thread_state, THREAD_AWAKE);
}

/* Runs one cycle; returns whether there was something to do. */
static bool
domain_thread_cycle(struct domain *domain)
{
	uint64_t now = os_exact_ns();
	bool any;

	turn_begin(domain);
	if (now - domain->collect_ns >= defer_delay_ns / 2) {
		domain->collect_ns = now;
		domain_collect(domain, /* all */ false);
	}
	any = domain_run_cycle(domain, /* may_retire */ true,
	    domain_releaser(domain) == 0 && domain->nawaiting == 0);
	domain_release_slabs(domain);
	turn_end(domain);
	return any;
}

static bool
domain_is_used(struct domain *domain)
{
	umem_assert(domain_has_turn(domain));
	chain_foreach (layer, domain->layers, struct defer, next)
		if (deferred_is_used(&layer->mags))
			return true;
	return false;
}

/* Falls asleep if nothing waits.  Returns false if the thread is to end. */
static bool
domain_thread_sleep_if_idle(struct domain *domain)
{
	uint32_t state = THREAD_ASLEEP;

	/* Sequentially consistent, with a fence: see the top. */
	__atomic_store_n(
	    &domain->thread_state, THREAD_ASLEEP, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	turn_begin(domain);
	if (domain_is_used(domain) ||
	    __atomic_load_n(&domain->has_empty_slabs, __ATOMIC_SEQ_CST) != 0)
		__atomic_store_n(
		    &domain->thread_state, THREAD_AWAKE, __ATOMIC_SEQ_CST);
	turn_end(domain);
	os_futex_wait(&domain->thread_state, THREAD_ASLEEP, THREAD_IDLE_NS);
	return !__atomic_compare_exchange_n(&domain->thread_state, &state,
	    THREAD_ABSENT, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void *
domain_thread_main(void *arg)
{
	struct domain *domain = arg;

	update_thread_begin("umem rcu");
	do
		domain_thread_wait_tick(domain);
	while (
	    domain_thread_cycle(domain) || domain_thread_sleep_if_idle(domain));
	return NULL;
}

/* The caller has set state. */
static bool
domain_thread_start(struct domain *domain)
{
	umem_assert(load_relaxed(&domain->thread_state) != THREAD_ABSENT);
	pthread_t thread;

	/*
	 * In a broken domain it would wait for ever.  A confined process may
	 * not start one, and libc aborts without rseq.
	 */
	if (domain_is_broken(domain) || os_is_confined() ||
	    !rseq_is_allowed(&cpu_layer.rseq))
		return false;
	return update_thread_create(
	    &thread, /* detached */ true, domain_thread_main, domain);
}

/* Returns the state of the domain's thread, which is awake if it exists. */
static uint32_t
domain_thread_wake(struct domain *domain)
{
	uint32_t state;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	state = __atomic_load_n(&domain->thread_state, __ATOMIC_SEQ_CST);
	if (state == THREAD_ASLEEP &&
	    __atomic_compare_exchange_n(&domain->thread_state, &state,
		THREAD_AWAKE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		os_futex_wake(&domain->thread_state, 1);
	return state;
}

void
domain_loaded(struct domain *domain)
{
	uint32_t state = domain_thread_wake(domain);

	if (state == THREAD_ABSENT)
		store_relaxed(&domain->is_inherited, 0);
	if (state == THREAD_ABSENT &&
	    __atomic_compare_exchange_n(&domain->thread_state, &state,
		THREAD_AWAKE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    !domain_thread_start(domain))
		__atomic_store_n(
		    &domain->thread_state, THREAD_ABSENT, __ATOMIC_SEQ_CST);
}

/* May be called within malloc(): creates no thread. */
void
domain_retire(struct domain *domain)
{
	__atomic_store_n(&domain->has_empty_slabs, 1, __ATOMIC_SEQ_CST);
	domain_thread_wake(domain);
}

void
defer_rouse(void)
{
	chain_foreach (domain, domains, struct domain, next)
		if (load_relaxed(&domain->has_empty_slabs) != 0 &&
		    load_relaxed(&domain->is_inherited) == 0)
			domain_loaded(domain);
}

static void
domain_thread_hurry(struct domain *domain)
{
	uint32_t state = THREAD_AWAKE;

	if (load_relaxed(&domain->thread_state) == THREAD_AWAKE &&
	    __atomic_compare_exchange_n(&domain->thread_state, &state,
		THREAD_HURRIED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		os_futex_wake(&domain->thread_state, 1);
}

/*
 * Lets the domain's thread release objects of a layer that may call the
 * program, until there is less than the budget.  If that thread has released
 * none of these for PROGRAM_WAIT_NS, the caller goes on, because it may hold
 * the lock for which that thread waits.  Other threads may release objects of
 * other layers meanwhile.  The clock tells, because signals end a wait.
 */
static void
domain_let_thread_release(struct domain *domain)
{
	uint64_t before, since = os_exact_ns();

	do {
		uint32_t n = load_acquire(&domain->nreleases);

		before = load_relaxed(&domain->ncalled);
		domain_thread_hurry(domain);
		if (!domain_is_over(domain, 1))
			return;
		os_futex_wait(&domain->nreleases, n, PROGRAM_WAIT_NS);
		if (load_relaxed(&domain->ncalled) != before)
			since = os_exact_ns();
	} while (os_exact_ns() - since < PROGRAM_WAIT_NS);
}

/* The caller waits until there is less than the budget, if it may. */
static void
domain_reduce_backlog(struct domain *domain, const struct defer *layer)
{
	bool has_thread = load_relaxed(&domain->thread_state) != THREAD_ABSENT;

	if (domain_is_broken(domain) || thread_is_in_cycle() ||
	    domain_is_reader())
		return;
	turn_begin(domain);
	if (domain_is_over(domain, 1)) {
		domain_collect_single_blocks(domain);
		domain_run_cycle(domain, /* may_retire */ false,
		    !has_thread && domain_releaser(domain) == 0);
	}
	turn_end(domain);
	if (has_thread && layer->calls_program)
		domain_let_thread_release(domain);
}

void
domain_submitted(struct defer *layer, size_t n, size_t bytes)
{
	struct domain *domain = layer->domain;
	intptr_t all = add_relaxed(&domain->bytes, (intptr_t)bytes);
	uint32_t nnew = add_relaxed(&domain->nsubmitted, (uint32_t)n);

	domain_loaded(domain);
	if (all > 0 && (size_t)all > defer_budget)
		domain_reduce_backlog(domain, layer);
	else if (nnew >= WAKE_OBJECTS ||
		 (all > 0 && (size_t)all > defer_budget / WAKE_BUDGET_PART))
		domain_thread_hurry(domain);
}

bool
domain_wait(struct domain *domain)
{
	if (domain_is_broken(domain) || domain_is_reader())
		return false;
	if (thread_is_in_cycle()) {
		domain_synchronize(domain);
		return true;
	}
	turn_begin(domain);
	domain_synchronize_in_turn(domain);
	turn_end(domain);
	return true;
}

/*
 * Waits until no thread calls the program for a cycle, and none releases slabs
 * of the layer, unless it is NULL.  The caller has the turn, and gives it up
 * meanwhile.  The domain's thread calls no further functions while a thread
 * waits here, so this one has to wait for one call of domain_call_program().
 */
static void
domain_await_releases(struct domain *domain, const struct defer *layer)
{
	umem_assert(domain_has_turn(domain));
	domain->nawaiting++;
	for (;;) {
		/* Acquire; pairs with the release in domain_tell_release(). */
		uint32_t n = load_acquire(&domain->nreleases);

		if (domain_releaser(domain) == 0 &&
		    (layer == NULL || domain->releasing != layer))
			break;
		turn_end(domain);
		os_futex_wait(&domain->nreleases, n, 0);
		turn_begin(domain);
	}
	/* It is 0 in the child of a fork() in a signal handler here. */
	if (domain->nawaiting != 0)
		domain->nawaiting--;
}

/* Takes an empty layer out of its domain. */
static void
domain_unlink(struct defer *layer)
{
	struct defer **link = &layer->domain->layers;

	/* No thread runs a cycle of a broken domain, so none has the turn. */
	umem_assert(
	    domain_has_turn(layer->domain) || domain_is_broken(layer->domain));
	umem_assert(!deferred_is_used(&layer->mags));
	lock_take(&defer_lock);
	while (*link != layer)
		link = &(*link)->next;
	store_release(link, layer->next);
	lock_release(&defer_lock);
}

bool
domain_go_offline(struct domain *domain, bool *was_online)
{
	*was_online = false;
	if (domain_is_broken(domain))
		return true;
	if (thread_is_in_cycle())
		return false;
	/* A thread of qsbr that is online can go offline; no other can. */
	*was_online = domain->grace.reading();
	if (*was_online)
		domain->grace.offline();
	return !*was_online || !domain->grace.reading();
}

void
domain_go_online(struct domain *domain, bool was_online)
{
	if (was_online)
		domain->grace.online();
}

int
domain_flush(struct domain *domain)
{
	bool was_online;
	int error = EDEADLK;

	if (domain_is_broken(domain))
		return ENOTSUP;
	if (domain_go_offline(domain, &was_online)) {
		turn_begin(domain);
		domain_await_releases(domain, NULL);
		error = domain_collect(domain, /* all */ true) ? 0 : EAGAIN;
		domain_run_cycle(domain, /* may_retire */ false,
		    /* calls_program */ true);
		turn_end(domain);
	}
	domain_go_online(domain, was_online);
	return error;
}

bool
domain_flush_layer(struct domain *domain, struct defer *layer)
{
	bool all;

	if (domain_is_broken(domain)) {
		all = !deferred_is_used(&layer->mags);
		if (all)
			domain_unlink(layer);
		return all;
	}
	turn_begin(domain);
	/* The objects of other layers do not matter. */
	domain_await_releases(domain, NULL);
	all = layer_collect(layer, /* all */ true);
	domain_run_cycle(
	    domain, /* may_retire */ false, /* calls_program */ true);
	domain_await_releases(domain, layer);
	if (all)
		domain_unlink(layer);
	turn_end(domain);
	return all;
}

/* Keeps the thread that has the turn from going on after its grace period. */
static bool
domain_hold_in_grace(struct domain *domain)
{
	uint32_t whole = GRACE_LISTS_COMPLETE;

	return __atomic_compare_exchange_n(&domain->grace_state, &whole,
	    GRACE_HELD, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Lets the thread that domain_hold_in_grace() keeps go on. */
static void
domain_end_hold(struct domain *domain)
{
	/* Release; pairs with domain_synchronize_in_turn(). */
	store_release(&domain->grace_state, GRACE_LISTS_COMPLETE);
	os_futex_wake(&domain->grace_state, 1);
}

/* Does another thread call the program for a cycle? */
static bool
domain_is_calling(const struct domain *domain)
{
	uintptr_t releaser = domain_releaser(domain);

	return releaser != 0 && releaser != thread_self();
}

/*
 * Ends the attempt of a fork() that has got the turn: it gives it up again if
 * another thread has magazines in hand.
 */
static bool
domain_keep_turn(struct domain *domain)
{
	if (!domain_is_calling(domain))
		return true;
	turn_release(domain);
	return false;
}

/* Makes one attempt of domain_hold_for_fork(). */
static bool
domain_try_hold(struct domain *domain)
{
	uint32_t n = load_acquire(&domain->nreleases);

	/* In each attempt: the end of another fork() has cleared it. */
	store_relaxed(&domain->fork_waits, 1);
	if (domain_is_calling(domain)) {
		os_futex_wait(&domain->nreleases, n, POLL_NS);
		return false;
	}
	/* A grace period, but not the release after it, may need us. */
	if ((domain->grace.forks || domain->grace.reading()) &&
	    domain_hold_in_grace(domain)) {
		if (!domain_is_calling(domain))
			return true;
		/* The turn has changed hands since the first look. */
		domain_end_hold(domain);
		return false;
	}
	return turn_try_await(domain, POLL_NS) && domain_keep_turn(domain);
}

/*
 * Returns false if another thread has the turn and keeps it, or if this thread
 * had it before.
 */
static bool
domain_hold_for_fork(struct domain *domain)
{
	uint64_t began = os_exact_ns();
	bool held;

	if (domain_has_turn(domain))
		return false;
	if (turn_try(domain, TURN_FREE) && domain_keep_turn(domain))
		return true;
	do
		held = domain_try_hold(domain);
	while (!held && os_exact_ns() - began < FORK_NS);
	/* The last sleep may have ended by a wake, which gave us the turn. */
	held = held || turn_try(domain, TURN_HANDED) ||
	       turn_try(domain, TURN_FREE);
	store_relaxed(&domain->fork_waits, 0);
	os_futex_wake(&domain->fork_waits, INT32_MAX);
	return held || domain_hold_in_grace(domain);
}

void
defer_before_fork(void)
{
	chain_foreach (domain, domains, struct domain, next)
		if (domain_hold_for_fork(domain))
			domain->fork_holder = thread_self();
}

/*
 * In the child: a batch of slabs whose thread does not exist goes with the next
 * one (slab_retire.c), for which a cycle of the domain is due.
 */
static void
layer_after_fork(struct domain *domain, struct defer *layer)
{
	deferred_wait_again(&layer->mags);
	layer->retired_batch = 0;
	if (layer->cache != NULL && layer->cache->slabs.nretired != 0 &&
	    !domain_is_broken(domain))
		domain->has_empty_slabs = 1;
}

/*
 * In the child of a process with several threads: the domain's thread does not
 * exist.  Therefore no header may stay open.  Otherwise sections would push
 * into magazines that nobody collects, or, in a broken domain, that nobody ever
 * releases.
 *	The backlog is counted anew: a thread that does not exist here may have
 *	counted an object that it had not put yet, or had in hand.
 */
static void
domain_after_fork(struct domain *domain)
{
	domain_collect(domain, /* all */ true);
	domain->thread_state = THREAD_ABSENT;
	domain->is_inherited = !domain->grace.forks;
	/* A function of the program that a cycle called has forked. */
	if (domain_has_turn(domain) && domain->fork_holder != thread_self())
		return;
	domain->turn = TURN_FREE;
	domain->turn_holder = 0;
	domain->fork_waits = 0;
	if (domain->nsynchronizing != 0 && !domain->grace.forks)
		domain->is_broken = 1;
	domain->has_empty_slabs &= !domain_is_broken(domain);
	domain->nsynchronizing = 0;
	domain->grace_state = GRACE_NONE;
	domain->releasing = NULL;
	domain->nawaiting = 0;
	if (domain_is_calling(domain))
		domain->releaser = 0;
	domain->bytes = 0;
	chain_foreach (layer, domain->layers, struct defer, next) {
		layer_after_fork(domain, layer);
		domain->bytes += (intptr_t)defer_pending_bytes(layer);
		/*
		 * This thread goes on with domain_call_program(), and is the
		 * only one that could read: all may be released.
		 */
		if (layer->calls_program && domain_releaser(domain) != 0)
			deferred_begin_wait(&layer->mags);
	}
}

start_path void
defer_after_fork(bool child)
{
	chain_foreach (domain, domains, struct domain, next) {
		bool held = domain->fork_holder == thread_self();

		if (child)
			domain_after_fork(domain);
		/* In the child, that of another thread does not exist. */
		if (held || child)
			domain->fork_holder = 0;
		if (!held || child)
			continue;
		if (load_relaxed(&domain->grace_state) != GRACE_HELD)
			turn_release(domain);
		else
			domain_end_hold(domain);
	}
}
