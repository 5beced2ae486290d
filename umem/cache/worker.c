/*
 * worker.c - the right to do maintenance on the caches, and walks over them
 *
 * The worker
 *	The worker is the one thread that does maintenance on the caches at a
 *	time; the word worker has its thread pointer.  The word is not a lock.
 *	Maintenance calls the program's destructors and reclaim callbacks, which
 *	may do anything: they may destroy a cache or ask for more maintenance
 *	(worker_begin() then returns false), and fork() must not wait for them.
 *	The worker walks the list of caches by a cursor that
 *	umem_cache_destroy() advances past a cache it removes, and drops the
 *	lock of the list for the work on each cache.
 *
 * Visits
 *	Any thread may visit caches beside the worker, by visit_some_caches(),
 *	if it calls no function of the program.  Each cache counts its visits,
 *	and is not destroyed while the count is above 0.
 *
 * Walks over some caches
 *	Work for which malloc() waits must not take time for every cache,
 *	because a program may create tens of thousands.  Such a walk covers the
 *	caches of the size classes and at most WALK_OTHERS of the other caches,
 *	and resumes where the last walk for the same purpose ended.  A sum over
 *	all caches (tally_caches()) adds the value that each cache had when a
 *	walk last reached it: it is exact for up to WALK_OTHERS other caches.
 *
 * fork()
 *	The child starts without a worker and without visits.  A count of visits
 *	is valid only in the process that made it, which nforks identifies: the
 *	number of forks that led to the process.  In a child every older count
 *	is treated as 0.  This also covers a cache that is off the list already,
 *	and a visit whose thread forked in a signal handler: that thread does
 *	not decrement a count of the child.  The child loses the memory that the
 *	worker and the visits of the parent were about to release, at most one
 *	chain of magazines each.
 */
#include "umem/cache/cache_hooks.h"
#include "umem/cache/worker.h"
#include "vmem/os.h"

static uintptr_t worker;           /* [a] worker's thread pointer, or 0 */
static uint32_t worker_gone;       /* [a] counts ends of turns, to wait on */
static struct list *cursor;        /* [cache_list_lock] next in the walk */
static struct umem_cache *current; /* [cache_list_lock] the worker is on it */
static uint32_t current_done;      /* [a] counts ends of work on a cache */
static unsigned nwaiting;          /* [cache_list_lock] in worker_let_go() */
static uint32_t nforks;            /* forks that led to this process */
static size_t tallies[TALLIES];    /* [cache_list_lock] sums; see above */

static uintptr_t
worker_self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

bool
worker_begin(void)
{
	uintptr_t nobody = 0;

	/* Acquire; pairs with the release in worker_end(). */
	return __atomic_compare_exchange_n(&worker, &nobody, worker_self(),
	    false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void
worker_end(void)
{
	__atomic_store_n(&worker, 0, __ATOMIC_RELEASE);
	__atomic_add_fetch(&worker_gone, 1, __ATOMIC_RELEASE);
	os_futex_wake(&worker_gone, INT32_MAX);
}

/* May the work on this cache call functions of the program? */
static bool
calls_program(const struct umem_cache *cache)
{
	return cache->destruct != NULL || cache->reclaim != NULL ||
	       cache->slabs.source != NULL || cache->import != NULL;
}

/* Does the worker's work on a cache; drops the lock for it. */
static bool
work_on_locked(struct umem_cache *cache, bool (*f)(struct umem_cache *))
{
	bool any = false;

	current = cache;
	lock_release(&cache_list_lock);
	if (cache_upkeep.enters(calls_program(cache))) {
		any = f(cache);
		cache_upkeep.leaves();
	}
	lock_take(&cache_list_lock);
	current = NULL;
	__atomic_add_fetch(&current_done, 1, __ATOMIC_RELEASE);
	if (nwaiting != 0)
		os_futex_wake(&current_done, INT32_MAX);
	return any;
}

bool
worker_each_cache(bool (*f)(struct umem_cache *))
{
	bool any = false;

	lock_take(&cache_list_lock);
	cursor = cache_list.next;
	while (cursor != &cache_list) {
		struct umem_cache *cache =
		    container_of(cursor, struct umem_cache, link);

		cursor = cursor->next;
		any |= work_on_locked(cache, f);
	}
	lock_release(&cache_list_lock);
	return any;
}

static bool
has_visitors_locked(const struct umem_cache *cache)
{
	return cache->visited == nforks && cache->nvisitors != 0;
}

/* Counts a visit.  Returns the argument for leave_locked(). */
static uint32_t
enter_locked(struct umem_cache *cache)
{
	if (cache->visited != nforks)
		cache->nvisitors = 0;
	cache->nvisitors++;
	return cache->visited = nforks;
}

static void
leave_locked(struct umem_cache *cache, uint32_t entered)
{
	if (entered == nforks)
		cache->nvisitors--;
	__atomic_add_fetch(&current_done, 1, __ATOMIC_RELEASE);
	if (nwaiting != 0)
		os_futex_wake(&current_done, INT32_MAX);
}

/*
 * A walk over some caches.  Because the caches of size classes are first in the
 * list and are never destroyed, the member at stays valid while the lock is
 * dropped for work on one of them.  The other caches are taken from the walk's
 * rotor, which umem_cache_destroy() advances past a cache it removes.
 */
struct some {
	struct list **rotor;
	struct list *at; /* the last cache of a class, or NULL */
	size_t nothers;  /* caches still to be taken */
};

static struct list *rotors[WALKS]; /* [cache_list_lock] or NULL */

static struct some
some_begin_locked(enum walk walk)
{
	struct some some = {.rotor = &rotors[walk],
	    .at = &cache_list,
	    .nothers = cache_nothers};

	if (some.nothers > WALK_OTHERS)
		some.nothers = WALK_OTHERS;
	return some;
}

static bool
is_other(const struct list *item)
{
	return item != &cache_list &&
	       container_of(item, struct umem_cache, link)->class == 0;
}

static struct umem_cache *
some_next_locked(struct some *some)
{
	struct list *item;

	if (some->at != NULL) {
		item = some->at->next;
		some->at = item;
		if (item != &cache_list && !is_other(item))
			return container_of(item, struct umem_cache, link);
		some->at = NULL;
		/* The rotor starts at the first other cache. */
		if (*some->rotor == NULL)
			*some->rotor = item;
	}
	if (some->nothers == 0)
		return NULL;
	some->nothers--;
	item = *some->rotor;
	if (item == &cache_list)
		do
			item = item->next;
		while (item != &cache_list && !is_other(item));
	*some->rotor = item == &cache_list ? item : item->next;
	return item == &cache_list
		   ? NULL
		   : container_of(item, struct umem_cache, link);
}

/* Removes a cache that leaves the list from the rotors and from the sums. */
static void
some_forget_locked(struct umem_cache *cache)
{
	for (unsigned i = 0; i < WALKS; i++)
		if (rotors[i] == &cache->link)
			rotors[i] = cache->link.next;
	for (unsigned i = 0; i < TALLIES; i++)
		tallies[i] -= cache->tally[i];
	if (cache->class == 0)
		cache_nothers--;
}

void
worker_some_caches(enum walk walk, bool (*f)(struct umem_cache *))
{
	struct umem_cache *cache;
	struct some some;

	lock_take(&cache_list_lock);
	some = some_begin_locked(walk);
	while ((cache = some_next_locked(&some)) != NULL)
		work_on_locked(cache, f);
	lock_release(&cache_list_lock);
}

void
visit_some_caches(enum walk walk, bool (*wanted)(struct umem_cache *),
    bool (*visit)(struct umem_cache *, void *), void *arg)
{
	struct umem_cache *cache;
	struct some some;
	bool more = true;

	lock_take(&cache_list_lock);
	some = some_begin_locked(walk);
	while (more && (cache = some_next_locked(&some)) != NULL) {
		uint32_t entered;

		if (!wanted(cache))
			continue;
		entered = enter_locked(cache);
		lock_release(&cache_list_lock);
		more = visit(cache, arg);
		lock_take(&cache_list_lock);
		leave_locked(cache, entered);
	}
	lock_release(&cache_list_lock);
}

size_t
tally_caches(enum tally tally, size_t (*f)(struct umem_cache *))
{
	struct umem_cache *cache;
	struct some some;
	size_t sum;

	lock_take(&cache_list_lock);
	some = some_begin_locked(WALK_TALLY + tally);
	while ((cache = some_next_locked(&some)) != NULL) {
		size_t now = f(cache);

		tallies[tally] += now - cache->tally[tally];
		cache->tally[tally] = now;
	}
	sum = tallies[tally];
	lock_release(&cache_list_lock);
	return sum;
}

/*
 * Must umem_cache_destroy() wait for this cache?  A destructor that destroys
 * its own cache cannot wait for itself.
 */
static bool
is_worked_on_locked(const struct umem_cache *cache)
{
	return has_visitors_locked(cache) ||
	       (current == cache &&
		   __atomic_load_n(&worker, __ATOMIC_RELAXED) != worker_self());
}

void
worker_let_go(struct umem_cache *cache)
{
	lock_take(&cache_list_lock);
	if (cursor == &cache->link)
		cursor = cache->link.next;
	some_forget_locked(cache);
	list_remove(&cache->link);
	while (is_worked_on_locked(cache)) {
		uint32_t seen =
		    __atomic_load_n(&current_done, __ATOMIC_ACQUIRE);

		nwaiting++;
		lock_release(&cache_list_lock);
		os_futex_wait(&current_done, seen, 0);
		lock_take(&cache_list_lock);
		nwaiting--;
	}
	lock_release(&cache_list_lock);
}

bool
worker_await(uint64_t most_ns)
{
	uint32_t seen = __atomic_load_n(&worker_gone, __ATOMIC_ACQUIRE);
	uintptr_t at_work = __atomic_load_n(&worker, __ATOMIC_RELAXED);

	if (at_work == worker_self())
		return false;
	if (at_work != 0)
		os_futex_wait(&worker_gone, seen, most_ns);
	return true;
}

void
worker_after_fork(void)
{
	worker = 0;
	current = NULL;
	nwaiting = 0;
	nforks++;
	/*
	 * A thread that forked in a signal handler during worker_let_go()
	 * resumes its wait here; the new count ends it.
	 */
	current_done++;
}
