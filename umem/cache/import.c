/*
 * import.c - import caches, whose objects come from functions of the program
 *
 * An import cache has the magazines of any other cache, and no slabs: its
 * objects ("resources") are pointer-sized values that the program's import()
 * delivers and its release() takes back.  Those of a quantum cache are the
 * arena's (vmem/quantum.c).  The import_backend of an import cache stands where
 * other caches have slab_backend (cache.h).
 *
 * The pool
 *	A free may not call release(), because the caller may hold a lock that
 *	release() takes, and a free may not fail.  So resources that no magazine
 *	takes go to the pool, an array that is used as a stack.  It is enlarged
 *	before each import to the number of resources that exist, so a free
 *	always finds a place in it and needs no memory.  It is not made smaller
 *	before the cache ends: that is 8 to 16 bytes for each resource that
 *	existed at the same time as the others.
 *	    The working set of the pool is that of a depot: import_update()
 *	releases as many resources as lay idle all the time since the last
 *	call.
 *
 * Limit of idle resources
 *	A program may limit the number of idle resources (max_idle), because
 *	descriptors and the like are scarce.  The limit is divided: the two
 *	magazines of each CPU hold at most half of it, and pool_most is the
 *	rest.  The depot of such a cache keeps no full magazine.  A free that
 *	leaves more than pool_most in the pool releases the excess before it
 *	returns, so there release() does run in umem_cache_free().  With fewer
 *	than 8 resources a CPU there are no magazines, and all go to the pool.
 *
 * Shortage
 *	If import() delivers nothing, the resource may be idle elsewhere.  The
 *	thread then closes the gate, takes the magazines of all CPUs and of the
 *	depot, and searches the pool.  The gate is closed by every batch
 *	between magazines and pool, so then no thread holds a batch.  A trade of
 *	magazines with the depot does not close the gate, but its thread owns
 *	its CPU's header meanwhile, and the drain waits until it owns the
 *	headers of all CPUs.  It takes the magazines of all headers and of the
 *	depot before it releases any header.  So a resource that was idle
 *	before the drain is in the pool afterwards, and stays there while the
 *	gate is closed, because a refill would have to close it.  Resources are
 *	in transit while import() runs for more than one, and while release()
 *	runs.  A call in transit is counted in ncalls before it begins, and in
 *	nends after its resources are in the pool or released, before it leaves
 *	ncalls.  The thread reads nends, imports, drains, and then reads ncalls
 *	and nends: if ncalls is 0 and nends unchanged, no call was in transit
 *	between the first and the last of these steps, so the request fails.
 *	Otherwise it waits for an end and begins anew, for PROGRAM_WAIT_NS at
 *	most, because the call may wait for a lock that this thread holds.  All
 *	of these accesses are sequentially consistent.
 *
 * Checks
 *	A resource is no address of ours, so no bit tells whether it is free.
 *	The magazines compare a freed resource with those freed last.  The pool
 *	counts: a free of more resources than are out is misuse.  Under
 *	UMEM_DEBUG and hardened, the cache has no magazines, and a set of the
 *	resources that the program holds (pointer_set.c) tells every second or
 *	foreign free at once.
 *
 * Locking
 *	gate is above the locks of CPUs and depots.  The cache has no slabs, so
 *	the lock of cache->slabs guards the pool, and slabs.nused counts the
 *	resources outside it.  import() and release() run without a lock, and
 *	with no magazine in hand.
 *
 * fork()
 *	The child has a copy of everything except the resources that other
 *	threads had in transit or in hand; these count as out for ever.  Their
 *	calls do not exist in the child, so ncalls is set to 0; cache_nforks
 *	tells a call that has forked itself not to leave ncalls.
 *
 * Source: uma_zcache_create() of FreeBSD's uma(9).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "umem/cache/cache.h"
#include "umem/cache/cache_check.h"
#include "umem/cache/cache_hooks.h"
#include "umem/cache/cache_walk.h"
#include "umem/cache/import.h"
#include "umem/cache/misuse.h"
#include "umem/base/ready.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Resources that one call of import() or release() moves at most: 512 bytes. */
#define BATCH       64
/* Magazines get this part of max_idle: two magazines a CPU, and half of it. */
#define ROUNDS_PART 4
/* The sizes of magazines of RESOURCE_BYTES; see magazine/sizes.c. */
#define ROUNDS_MIN  2
#define ROUNDS_MAX  126

static_assert(ROUNDS_MIN <= ROUNDS_MAX && ROUNDS_PART >= 2,
    "two magazines a CPU hold at most max_idle");

/* The limit is divided between the magazines of all CPUs and the pool. */
static void
import_divide_idle(struct import *import, size_t max_idle)
{
	size_t ncpus = cpu_layer.nrun;
	size_t rounds = size_min(max_idle / (ROUNDS_PART * ncpus), ROUNDS_MAX);

	import->pool_most = max_idle;
	if (rounds < ROUNDS_MIN)
		import->has_magazines = false;
	if (import->has_magazines) {
		import->rounds_most = (unsigned)rounds;
		import->pool_most -= 2 * rounds * ncpus;
	}
	/* Magazines get at most half. */
	umem_assert(import->pool_most >= max_idle / 2);
}

/*
 * max_idle and the functions are those of umem_import_cache_create().  checked
 * asks for a record of the resources that the program holds, which excludes
 * magazines.  Returns NULL if there is no memory.
 */
static struct import *
import_new(umem_import_t *function, umem_release_t *release, void *arg,
    size_t max_idle, bool magazines, bool checked)
{
	struct import *import = meta_alloc(sizeof(*import));

	if (import == NULL)
		return NULL;
	import->import = function;
	import->release = release;
	import->arg = arg;
	import->checked = checked;
	import->has_magazines = magazines && !checked;
	import->pool_most = SIZE_MAX;
	if (max_idle != 0)
		import_divide_idle(import, max_idle);
	lock_init(&import->gate, LOCK_IMPORT);
	return import;
}

static void
arrays_free(struct import_arrays *arrays)
{
	if (arrays->pool != NULL)
		meta_free(
		    arrays->pool, arrays->capacity * sizeof(*arrays->pool));
	if (arrays->held.slot != NULL)
		meta_free(arrays->held.slot,
		    arrays->held.size * sizeof(*arrays->held.slot));
	*arrays = (struct import_arrays){0};
}

static void
import_delete(struct import *import)
{
	umem_assert(import->nowned == 0 && import->npool == 0);
	arrays_free(&import->arrays);
	meta_free(import, sizeof(*import));
}

/* For n resources; false: no memory. */
static bool
arrays_alloc(struct import_arrays *arrays, size_t n, bool checked)
{
	*arrays = (struct import_arrays){.capacity = n};
	arrays->pool = meta_alloc(n * sizeof(*arrays->pool));
	if (arrays->pool == NULL)
		return false;
	if (!checked)
		return true;
	arrays->held.size = pointer_set_size(n);
	arrays->held.slot =
	    meta_alloc(arrays->held.size * sizeof(*arrays->held.slot));
	if (arrays->held.slot != NULL)
		return true;
	arrays_free(arrays);
	return false;
}

static void
arrays_exchange_locked(struct umem_cache *cache, struct import_arrays *arrays)
{
	struct import *import = cache->import;
	struct import_arrays old = import->arrays;

	lock_assert_held(&cache->slabs.lock);
	umem_assert(arrays->pool != NULL && arrays->capacity > old.capacity);
	if (import->npool != 0)
		memcpy(arrays->pool, old.pool,
		    import->npool * sizeof(*arrays->pool));
	if (import->checked)
		pointer_set_move(&arrays->held, &old.held);
	import->arrays = *arrays;
	*arrays = old;
}

/* Relaxed stores: both are read without the lock, as hints. */
static void
pool_counts_set_locked(struct umem_cache *cache, size_t npool, size_t nused)
{
	struct import *import = cache->import;

	lock_assert_held(&cache->slabs.lock);
	store_relaxed(&import->npool, npool);
	store_relaxed(&cache->slabs.nused, nused);
	if (npool < import->npool_low)
		import->npool_low = npool;
	umem_assert(import_check_locked(cache));
}

/* Takes up to n resources from the pool; returns how many. */
static unsigned
pool_take(struct umem_cache *cache, void **resources, unsigned n)
{
	struct import *import = cache->import;

	if (load_relaxed(&import->npool) == 0)
		return 0;
	slab_lock_counted(&cache->slabs);
	if (n > import->npool)
		n = (unsigned)import->npool;
	memcpy(resources, import->arrays.pool + import->npool - n,
	    n * sizeof(*resources));
	pool_counts_set_locked(
	    cache, import->npool - n, cache->slabs.nused + n);
	lock_release(&cache->slabs.lock);
	return n;
}

static void
pool_put_locked(struct umem_cache *cache, void *const *resources, unsigned n)
{
	struct import *import = cache->import;

	lock_assert_held(&cache->slabs.lock);
	umem_assert(n <= import->arrays.capacity - import->npool);
	memcpy(import->arrays.pool + import->npool, resources,
	    n * sizeof(*resources));
	pool_counts_set_locked(
	    cache, import->npool + n, cache->slabs.nused - n);
}

/* Makes places for n more resources, which may then be imported. */
static bool
pool_reserve(struct umem_cache *cache, unsigned n)
{
	struct import *import = cache->import;
	struct import_arrays arrays = {0};
	bool fits;

	for (;;) {
		size_t want;

		slab_lock_counted(&cache->slabs);
		want = import->nowned + n;
		if (want > import->arrays.capacity && want <= arrays.capacity)
			arrays_exchange_locked(cache, &arrays);
		fits = want <= import->arrays.capacity;
		if (fits)
			import->nowned = want;
		umem_assert(import_check_locked(cache));
		lock_release(&cache->slabs.lock);
		arrays_free(&arrays);
		if (fits)
			return true;
		want = 2 * want > BATCH ? 2 * want : BATCH;
		if (!arrays_alloc(&arrays, want, import->checked))
			return false;
	}
}

/*
 * Begins a call that may leave resources in the pool, or releases some.
 * Returns the argument for transit_end().
 */
static uint32_t
transit_begin(struct import *import)
{
	__atomic_add_fetch(&import->ncalls, 1, __ATOMIC_SEQ_CST);
	return cache_nforks;
}

/* Ends a call; began is the result of transit_begin(). */
static void
transit_end(struct import *import, uint32_t began)
{
	umem_assert(
	    began != cache_nforks || load_relaxed(&import->ncalls) != 0);
	__atomic_add_fetch(&import->nends, 1, __ATOMIC_SEQ_CST);
	if (began == cache_nforks)
		__atomic_sub_fetch(&import->ncalls, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&import->nwaiting, __ATOMIC_SEQ_CST) != 0)
		os_futex_wake(&import->nends, INT32_MAX);
}

static void
import_check_delivered(
    struct umem_cache *cache, void *const *resources, size_t n, size_t most)
{
	if (unlikely(n > most))
		panic("import of '%s' delivered %zu resources instead of %zu",
		    cache->name, n, most);
	for (size_t i = 0; i < n; i++)
		if (unlikely(resources[i] == NULL))
			panic("import of '%s' delivered NULL", cache->name);
}

/*
 * Imports up to n resources, with the gate open.  If there are none, errno says
 * why: as import() left it, or ENOMEM.
 */
static unsigned
import_call(struct umem_cache *cache, void **resources, unsigned n)
{
	struct import *import = cache->import;
	int saved = errno;
	size_t got;

	if (!pool_reserve(cache, n)) {
		errno = ENOMEM;
		return 0;
	}
	errno = 0;
	got = import->import(import->arg, resources, n, UMEM_DEFAULT);
	import_check_delivered(cache, resources, got, n);
	if (got != 0)
		errno = saved;
	else if (errno == 0)
		errno = ENOMEM;
	slab_lock_counted(&cache->slabs);
	umem_assert(import->nowned >= n);
	import->nowned -= n - got;
	pool_counts_set_locked(cache, import->npool, cache->slabs.nused + got);
	lock_release(&cache->slabs.lock);
	/* As a constructor that refuses: no memory would change the answer. */
	if (got == 0)
		add_relaxed(&cache->nrefused, 1);
	return (unsigned)got;
}

/* Releases up to n resources of the pool, but keeps so many. */
static void
pool_release(struct umem_cache *cache, size_t n, size_t keep)
{
	struct import *import = cache->import;
	int saved = errno;
	unsigned got = 0;

	do {
		void *batch[BATCH];
		uint32_t began = transit_begin(import);
		size_t most;

		slab_lock_counted(&cache->slabs);
		most = size_min(difference_or_zero(import->npool, keep), n);
		got = (unsigned)size_min(most, BATCH);
		if (got != 0) /* there may be no array yet */
			memcpy(batch, import->arrays.pool + import->npool - got,
			    got * sizeof(batch[0]));
		umem_assert(import->nowned >= got);
		import->nowned -= got;
		pool_counts_set_locked(
		    cache, import->npool - got, cache->slabs.nused);
		lock_release(&cache->slabs.lock);
		if (got != 0)
			import->release(import->arg, batch, got);
		transit_end(import, began);
		n -= got;
	} while (got != 0 && n != 0);
	errno = saved;
}

static void
import_gate_close(struct umem_cache *cache)
{
	lock_take(&cache->import->gate);
}

/* Opens the gate, and releases idle resources beyond the limit. */
static void
import_gate_open(struct umem_cache *cache)
{
	struct import *import = cache->import;
	struct magazine *mag;

	/*
	 * A refill puts its magazine into the depot, which keeps none, if
	 * another thread has loaded one meanwhile.
	 */
	if (cache->mag.keeps_none && magazine_in_depot(&cache->mag) != 0 &&
	    (mag = magazine_surplus(&cache->mag)) != NULL) {
		mag->next = NULL;
		cache_flush(cache, mag);
	}
	lock_release(&cache->import->gate);
	if (unlikely(load_relaxed(&import->npool) > import->pool_most) &&
	    !load_relaxed(&cache->destroyed))
		pool_release(cache, SIZE_MAX, import->pool_most);
}

/* Every idle resource to the pool, and one of them; the gate is closed. */
static void *
import_take_idle(struct umem_cache *cache)
{
	void *resource;

	lock_assert_held(&cache->import->gate);
	cache_drain_idle(cache);
	return pool_take(cache, &resource, 1) != 0 ? resource : NULL;
}

/*
 * The drain found nothing.  True, after a wait if need be, if a call was in
 * transit since nends was seen; see "Shortage".
 */
static bool
transit_ended(struct import *import, uint32_t seen, uint64_t until_ns)
{
	/* In this order: a call is counted in nends before it leaves ncalls. */
	bool any = __atomic_load_n(&import->ncalls, __ATOMIC_SEQ_CST) != 0;
	uint64_t now = os_now_ns();

	if (now >= until_ns)
		return false;
	if (__atomic_load_n(&import->nends, __ATOMIC_SEQ_CST) != seen)
		return true;
	if (!any)
		return false;
	__atomic_add_fetch(&import->nwaiting, 1, __ATOMIC_SEQ_CST);
	any = os_futex_await(&import->nends, seen, until_ns - now);
	__atomic_sub_fetch(&import->nwaiting, 1, __ATOMIC_SEQ_CST);
	return any;
}

/*
 * Imports up to n resources: one for the caller, the others for the pool.
 * Opens the gate, and closes it again.
 */
static void *
import_some(struct umem_cache *cache, unsigned n)
{
	struct import *import = cache->import;
	void *batch[BATCH], *resource = NULL;
	bool for_pool = n > 1;
	uint32_t began = 0;

	lock_release(&cache->import->gate);
	if (for_pool)
		began = transit_begin(import);
	n = import_call(cache, batch, n);
	import_gate_close(cache);
	if (n != 0)
		resource = batch[--n];
	if (n != 0) {
		slab_lock_counted(&cache->slabs);
		pool_put_locked(cache, batch, n);
		lock_release(&cache->slabs.lock);
	}
	if (for_pool)
		transit_end(import, began);
	return resource;
}

/* Resources to ask the program for, of which the pool keeps all but one. */
static unsigned
import_want(const struct import *import, unsigned want)
{
	size_t nfree =
	    difference_or_zero(import->pool_most, load_relaxed(&import->npool));

	want = (unsigned)size_min(want, BATCH);
	return want <= nfree ? want : (unsigned)nfree + 1;
}

/* A resource for the caller, with others for the pool; see "Shortage". */
static void *
import_or_idle(struct umem_cache *cache, unsigned want)
{
	struct import *import = cache->import;
	int saved = errno;
	uint64_t until_ns = 0;

	lock_assert_held(&import->gate);
	for (;;) {
		uint32_t seen =
		    __atomic_load_n(&import->nends, __ATOMIC_SEQ_CST);
		void *resource = import_some(cache, import_want(import, want));
		int error = errno;
		bool again;

		if (resource == NULL)
			resource = import_take_idle(cache);
		if (resource != NULL) {
			errno = saved;
			return resource;
		}
		if (until_ns == 0)
			until_ns = os_now_ns() + PROGRAM_WAIT_NS;
		lock_release(&cache->import->gate);
		again = transit_ended(import, seen, until_ns);
		import_gate_close(cache);
		errno = error;
		if (!again)
			return NULL;
		/* Nothing is imported ahead of need during a shortage. */
		want = 1;
	}
}

static void
held_record(struct umem_cache *cache, void *resource)
{
	bool added;

	slab_lock_counted(&cache->slabs);
	added = pointer_set_add(&cache->import->arrays.held, resource);
	lock_release(&cache->slabs.lock);
	if (added)
		return;
	lock_release(&cache->import->gate);
	panic("import of '%s' delivered %p twice", cache->name, resource);
}

static void *
import_take_one(struct umem_cache *cache, unsigned want)
{
	void *resource;

	if (pool_take(cache, &resource, 1) == 0)
		resource = import_or_idle(cache, want);
	/* The next refill of this CPU asks for more. */
	if (cache->has_magazines && resource != NULL)
		magazine_install(&cache->mag, NULL);
	if (unlikely(cache->import->checked) && resource != NULL)
		held_record(cache, resource);
	return resource;
}

static unsigned
import_nready(struct umem_cache *cache, unsigned want)
{
	return load_relaxed(&cache->import->npool) != 0 ? want : 0;
}

static unsigned
import_take_bulk(struct umem_cache *cache, void **resources, unsigned n)
{
	unsigned got = pool_take(cache, resources, n);
	int saved = errno;

	if (got == 0)
		got = import_call(cache, resources, n);
	/* Without any, the caller asks for a single one next, which sets it. */
	errno = saved;
	return got;
}

static bool
is_in_pool_locked(const struct umem_cache *cache, const void *resource)
{
	const struct import *import = cache->import;

	lock_assert_held(&cache->slabs.lock);
	for (size_t i = 0; i < import->npool; i++)
		if (import->arrays.pool[i] == resource)
			return true;
	return false;
}

/* The first of n resources for the pool that the program may not free. */
static unsigned
first_bad_locked(struct umem_cache *cache, void *const *resources, unsigned n,
    enum slab_fault *fault)
{
	struct import *import = cache->import;

	lock_assert_held(&cache->slabs.lock);
	for (unsigned i = 0; import->checked && i < n; i++)
		if (!pointer_set_remove(&import->arrays.held, resources[i])) {
			*fault = is_in_pool_locked(cache, resources[i])
				     ? SLAB_FREE
				     : SLAB_FOREIGN;
			return i;
		}
	/* More than there are outside the pool. */
	*fault = SLAB_FREE;
	return n <= cache->slabs.nused ? n : 0;
}

static void
import_give(struct umem_cache *cache, void **resources, unsigned n,
    const char *function)
{
	enum slab_fault fault;
	unsigned nfine;

	if (n == 0)
		return;
	slab_lock_counted(&cache->slabs);
	nfine = first_bad_locked(cache, resources, n, &fault);
	if (likely(nfine == n))
		pool_put_locked(cache, resources, n);
	lock_release(&cache->slabs.lock);
	if (likely(nfine == n))
		return;
	lock_release(&cache->import->gate);
	misuse_slab(function, cache, resources[nfine], fault);
}

static void
import_reap(struct umem_cache *cache)
{
	/* Not if there are none: a thread in a shortage would try again. */
	if (load_relaxed(&cache->import->npool) != 0)
		pool_release(cache, load_relaxed(&cache->import->npool), 0);
}

static bool
import_update(struct umem_cache *cache)
{
	struct import *import = cache->import;
	size_t nidle;

	slab_lock_counted(&cache->slabs);
	nidle = import->npool_low;
	lock_release(&cache->slabs.lock);
	if (nidle != 0)
		pool_release(cache, nidle, 0);
	slab_lock_counted(&cache->slabs);
	import->npool_low = import->npool;
	lock_release(&cache->slabs.lock);
	return load_relaxed(&import->npool) != 0;
}

static bool
import_end(struct umem_cache *cache)
{
	import_reap(cache);
	if (cache->import->nowned != 0)
		return false;
	import_delete(cache->import);
	return true;
}

static const struct cache_backend import_backend = {
    .close_gate = import_gate_close,
    .open_gate = import_gate_open,
    .nready = import_nready,
    .take = pool_take,
    .take_bulk = import_take_bulk,
    .take_one = import_take_one,
    .give = import_give,
    .reap = import_reap,
    .update = import_update,
    .end = import_end};

#define FLAGS_KNOWN (UMC_NOTOUCH | UMC_NODEBUG | UMC_NOMAGAZINE)

/* Would a cache of this name and these flags be debugged? */
static bool
is_checked(const char *name, unsigned flags)
{
	struct umem_cache probe = {
	    .bufsize = sizeof(void *), .align = sizeof(void *), .flags = flags};

	cache_debugger.plan(&probe, name, /* sourced */ true);
	return probe.debug != 0;
}

/*
 * Size that a resource counts for, in bytes, where sizes of objects decide:
 * magazines have 6 rounds at first, and the first import is of one resource.
 */
#define RESOURCE_BYTES 2560

static struct umem_cache *
import_cache_new(const char *name, struct import *import, unsigned flags)
{
	/* The layout of a slab with one chunk; no such slab exists. */
	const struct slab_layout layout = {.chunk = RESOURCE_BYTES,
	    .slab_bytes = RESOURCE_BYTES,
	    .nchunks = 1};
	struct umem_cache template = {.backend = &import_backend,
	    .import = import,
	    .align = 1,
	    .flags = flags | UMC_NOTOUCH,
	    .calls_out = true,
	    .free_calls_out = import->pool_most != SIZE_MAX,
	    .mag.rounds_most = (uint16_t)import->rounds_most,
	    .mag.keeps_none = import->rounds_most != 0};

	if (!import->has_magazines)
		template.flags |= UMC_NOMAGAZINE;
	return cache_create(name, &layout, /* source */ NULL, &template);
}

public umem_cache_t *
umem_import_cache_create(const char *name, umem_import_t *import,
    umem_release_t *release, void *arg, size_t max_idle, int cflags)
{
	unsigned flags = (unsigned)cflags & ~UMC_NOTOUCH;
	struct import *source;
	umem_cache_t *cache = NULL;

	if (name == NULL || import == NULL || release == NULL ||
	    ((unsigned)cflags & ~FLAGS_KNOWN) != 0)
		return fail_null(EINVAL);
	if (!umem_ready())
		return fail_null(EAGAIN);
	source = import_new(import, release, arg, max_idle,
	    cache_use_magazines && (flags & UMC_NOMAGAZINE) == 0,
	    is_checked(name, flags));
	if (source != NULL)
		cache = import_cache_new(name, source, flags);
	if (cache != NULL)
		return cache;
	if (source != NULL)
		import_delete(source);
	return fail_null(EAGAIN);
}

#ifdef UMEM_DEBUG
bool
import_check_locked(const struct umem_cache *cache)
{
	static size_t ncalls; /* [a] */
	const struct import *import = cache->import;
	const struct import_arrays *arrays = &import->arrays;

	lock_assert_held(&cache->slabs.lock);
	if (import->npool_low > import->npool ||
	    import->npool > import->nowned - cache->slabs.nused ||
	    cache->slabs.nused > import->nowned ||
	    import->nowned > arrays->capacity)
		return false;
	if (!check_is_due(&ncalls, import->nowned))
		return true;
	for (size_t i = 0; i < import->npool; i++)
		if (arrays->pool[i] == NULL)
			return false;
	return !import->checked || arrays->capacity == 0 ||
	       pointer_set_check(&arrays->held, cache->slabs.nused);
}
#endif
