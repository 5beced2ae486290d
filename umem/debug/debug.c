/*
 * debug.c - caches that check how the program uses their buffers
 *
 * Debugging is a set of flags that a cache gets when it is created.  The fast
 * paths of a cache with flags are closed, so every call takes the slow path and
 * reaches this file, or hardened.c, which handles the usual case of blocks of a
 * hardened size class.  A cache without flags is not affected.
 *
 * Chunk of a debugged cache
 *	buffer		rounded up to 8 bytes
 *	tag		24 bytes: redzone, bufctl, bufctl xor state;
 *			hardened: 8 bytes, the redzone alone
 *	padding		up to the alignment, bytes of 0xbb
 *	A block of a size class may have a smaller size than the class.  Then
 *	the size is encoded in the redzone, and bytes of 0xbb follow the size up
 *	to the tag.  A hardened class has chunks of the usual size, with the tag
 *	inside: debug_class() finds the class for a size and the tag.
 *	A free checks the tag and padding of its own chunk and those of the
 *	chunk before, because a write before the start of a buffer changes
 *	these.
 *
 * Bufctl (struct bufctl)
 *	Each chunk has one, in an array of its slab, where the program cannot
 *	overrun it.  It has the size and the state and, unless the cache is
 *	hardened, the address; with audit, the thread and the stack of the last
 *	transaction.  A tag of 24 bytes points to it, but is not trusted: the
 *	bufctl is found by the address alone, from the slab and the number of
 *	the chunk.
 *
 * Patterns (guards)
 *	A free buffer is filled with 0xdeadbeef, which is checked before the
 *	buffer is allocated again; then it is filled with 0xbaddcafe.  Objects
 *	are constructed at each allocation and destructed at each free.
 *
 * Quarantine (guards and hardened)
 *	A freed buffer waits in a slot of its cache (quarantine.c), so that its
 *	address is not reused at once while stale pointers exist.  With guards
 *	each allocation also checks one of the waiting chunks, the last freed
 *	first.  So a write is found no later than without a quarantine.
 *
 * Deferred frees (umem_rcu.h)
 *	A buffer that waits for a grace period (BUFCTL_WAITING) keeps its
 *	contents, because readers may read it.  It is checked like a buffer that
 *	is freed at once, and its bufctl has the caller, so a second free is
 *	reported with the first.  With guards the bufctl keeps a checksum of the
 *	buffer's bytes, which is compared when the wait is over.
 *
 * Hardened (UMEM_OPTIONS=hardened)
 *	For programs in production rather than for finding errors.  The pattern
 *	of blocks of a size class is zero, both when they are freed and when
 *	they are allocated, so that no caller can read their earlier contents.
 *	Objects of other caches keep their contents.  Free chunks go through
 *	magazines, as those of other caches; the headers that the fast paths use
 *	for the class refuse.
 *
 * Other files
 *	debug_plan.c	selects the flags of a cache
 *	debug_buffer.c	contents and redzone of a buffer
 *	hardened.c	blocks of hardened size classes, in one pass
 *	debug_large.c	blocks beyond the size classes
 *	firewall.c	buffers that end at a guard page
 *	freed.c		bufctls of buffers whose memory is released at the free
 *	Buffers that the library must not write to (UMC_NOTOUCH) and those with
 *	a firewall have a bufctl and no tag.
 *
 * A corrupt buffer is reported.  If the program goes on (noabort), that buffer
 * is not allocated again.
 *
 * Locking: the state of a bufctl is changed by compare-and-swap, so if two
 * threads free one buffer, one of them is told.  A free ends before its chunk
 * enters the quarantine, a magazine or the slab; each of these orders the free
 * before the next allocation, as it orders the writes to any object.
 *
 * Source: Bonwick 1994 section 6; libumem's layout and values.
 */
#include <string.h>

#include "umem/base/large.h"
#include "umem/base/page_map.h"
#include "umem/debug/debug_inner.h"
#include "umem/debug/report.h"
#include "umem/debug/freed.h"
#include "umem/debug/log.h"
#include "umem/debug/stack.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Returns the buffer to the slab, after its constructor has refused. */
static void
undo_alloc(struct buffer *b)
{
	void *bad;

	add_relaxed(&b->cache->nrefused, 1);
	debug_make_free(b);
	store_relaxed(&b->bufctl->state, BUFCTL_FREE);
	slab_give(&b->cache->slabs, &b->p, 1, &bad);
}

void
debug_check_signal(const struct umem_cache *cache)
{
	if ((cache->debug & UMF_CHECKSIGNAL) != 0 && stack_in_signal())
		debug_report(
		    UMERR_SIGNAL, cache, NULL, NULL, (struct error_info){0});
}

/* Takes a free chunk. */
static void *
chunk_take(struct umem_cache *cache)
{
	uint64_t ncreated = load_relaxed(&cache->slabs.ncreated);
	unsigned work = 0;
	void *chunk = cache_alloc_unchecked(cache, &work);

	if (work != 0)
		cache_upkeep.run(work);
	if (chunk != NULL && load_relaxed(&cache->slabs.ncreated) != ncreated)
		audit_event(LOG_SLAB, cache, page_map_owner(chunk), chunk,
		    cache->bufsize);
	return chunk;
}

static bool
quarantined_is_intact(struct umem_cache *cache, void *p)
{
	struct buffer b = debug_buffer_of(cache, p);

	return debug_free_is_intact(&b);
}

/* Objects that the report of a destroyed cache names: a screen of stacks. */
#define OBJECTS_REPORTED 4

/*
 * Checks one quarantined chunk; each allocation calls this.  The last chunk
 * freed is checked first, so that no report is later than without a quarantine.
 */
static void
quarantine_check_one(struct umem_cache *cache)
{
	size_t at;
	void *p = quarantine_inspect(&cache->quarantine, &at), *bad;

	if (p == NULL || !quarantined_is_intact(cache, p))
		return;
	p = quarantine_put_back(&cache->quarantine, at, p);
	if (p != NULL)
		slab_give(&cache->slabs, &p, 1, &bad);
}

bool
debug_begin(const struct buffer *b, size_t size, unsigned api)
{
	/* A load first would take a page fault of its own. */
	store_relaxed(&b->bufctl->api, (uint8_t)api);
	umem_assert(b->bufctl->state == BUFCTL_NEVER ||
		    b->bufctl->state == BUFCTL_FREE);
	if (b->bufctl->state != BUFCTL_NEVER && !debug_free_is_intact(b))
		return false;
	debug_make_allocated(b, size, api);
	return true;
}

void *
debug_alloc(struct umem_cache *cache, size_t size, unsigned api)
{
	struct buffer b;
	void *p;

	umem_assert(cache->debug != 0 && size <= cache->tag_offset);
	debug_check_signal(cache);
	if ((cache->debug & UMF_DEADBEEF) != 0)
		quarantine_check_one(cache);
	do {
		p = chunk_take(cache);
		if (p == NULL)
			return NULL;
		b = debug_buffer_of(cache, p);
	} while (!debug_begin(&b, size, api));
	if (cache->construct != NULL && (cache->debug & UMF_DEADBEEF) != 0 &&
	    cache->construct(p, cache->priv, UMEM_DEFAULT) != 0) {
		undo_alloc(&b);
		return NULL;
	}
	return p;
}

/* From now on a free by the program has the wrong API, and is reported. */
void
debug_reserve(struct umem_cache *cache, void *p)
{
	debug_buffer_of(cache, p).bufctl->api = API_RESERVED;
}

/*
 * With noabort an object that was changed is reported and still goes to the
 * program, because the calling function cannot fail.
 */
void
debug_hand_out(struct umem_cache *cache, void *p)
{
	struct buffer b = debug_buffer_of(cache, p);

	umem_assert(b.bufctl->api == API_RESERVED);
	debug_check_signal(cache);
	if (debug_redzone_is_intact(&b) && debug_previous_is_intact(&b))
		debug_uninit_is_intact(&b);
	b.bufctl->api = API_OBJECT;
	debug_stamp(&b);
}

void
debug_unreserve(struct umem_cache *cache, void *p)
{
	debug_buffer_of(cache, p).bufctl->api = API_OBJECT;
}

/*
 * Returns the cache of the slab that contains p; NULL if the page map has no
 * slab there.
 */
static struct umem_cache *
cache_of_address(const void *p, struct slab **slab)
{
	void *owner = page_map_owner(p);

	*slab = NULL;
	if (owner == NULL || page_map_large_bytes(owner) != 0)
		return NULL;
	*slab = owner;
	return container_of((*slab)->store, struct umem_cache, slabs);
}

/* Reports a free of p, which is in no slab and no large block. */
static void
report_freed_address(struct umem_cache *cache, const void *p)
{
	struct bufctl_audit *freed = freed_find(&freed_firewall, p);
	struct buffer b = {0};

	/*
	 * The firewall keeps its addresses, so no large block can have had p.
	 */
	if (freed == NULL)
		freed = freed_find(&freed_large, p);
	if (freed != NULL) {
		b = debug_large_buffer(freed);
		b.slab = freed->slab;
		cache = freed->cache;
	}
	debug_report(
	    freed != NULL || (uintptr_t)p - heap_window.base < heap_committed()
		? UMERR_DUPFREE
		: UMERR_BADADDR,
	    cache, &b, p, (struct error_info){0});
}

/* Reports a free of p, which is in no slab of the cache. */
static void
report_foreign_free(struct umem_cache *cache, void *p)
{
	struct error_info info = {0};
	struct buffer b = {0};
	struct slab *slab;
	unsigned i;

	info.real_cache = cache_of_address(p, &slab);
	if (info.real_cache == NULL && page_map_owner(p) == NULL) {
		report_freed_address(cache, p);
		return;
	}
	if (info.real_cache == NULL || info.real_cache == cache) {
		debug_report(UMERR_BADADDR, cache, NULL, p, info);
		return;
	}
	info.slab = slab;
	if (info.real_cache->debug != 0 &&
	    slab_find_chunk(&info.real_cache->slabs, p, &slab, &i) == SLAB_FINE)
		b = debug_buffer_at(info.real_cache, slab, i);
	debug_report(UMERR_BADCACHE, cache, &b, p, info);
}

/* Reports a free of p, which is inside chunk i. */
static void
report_interior_free(
    struct umem_cache *cache, struct slab *slab, unsigned i, void *p)
{
	struct error_info info = {0};
	struct buffer b;

	if (i >= cache->slabs.layout.nchunks) {
		debug_report(UMERR_BADADDR, cache, NULL, p, info);
		return;
	}
	b = debug_buffer_at(cache, slab, i);
	debug_report(UMERR_BADBASE, cache, &b, p, info);
}

/* Returns the error of a free in this state, which is not ALLOCATED. */
static enum error_code
error_of_state(unsigned state)
{
	if (state == BUFCTL_NEVER)
		return UMERR_BADADDR;
	return state == BUFCTL_WAITING ? UMERR_DUPWAIT : UMERR_DUPFREE;
}

/*
 * Moves an allocated buffer to another state, for a free.  If it was not
 * allocated, reports that and returns false.
 */
static bool
change_state(const struct buffer *b, enum bufctl_state to)
{
	uint8_t state = BUFCTL_ALLOCATED;

	umem_assert(to == BUFCTL_FREE || to == BUFCTL_WAITING);
	if (__atomic_compare_exchange_n(&b->bufctl->state, &state, (uint8_t)to,
		false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		/* Before the writes of the free; see exit_check.c. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
		return true;
	}
	debug_report(
	    error_of_state(state), b->cache, b, b->p, (struct error_info){0});
	return false;
}

/*
 * Do the API and the size of the free match the allocation?  Reports an error
 * if not.
 */
static bool
free_matches(const struct buffer *b, size_t size, unsigned api)
{
	size_t own = debug_size(b);

	umem_assert(api < API_COUNT && api != API_RESERVED);
	if (api != b->bufctl->api)
		return debug_retire(UMERR_BADAPI, b,
		    (struct error_info){
			.found = api, .expected = b->bufctl->api});
	return size == SIZE_MAX || size == own ||
	       (size < own && load_relaxed(&debug.sizes_are_relaxed)) ||
	       debug_retire(UMERR_BADSIZE, b,
		   (struct error_info){.found = size, .expected = own});
}

/* Copies a buffer to the contents log, if UMEM_DEBUG asks for that. */
static void
log_contents(const struct buffer *b)
{
	size_t n = size_min(debug_size(b), debug.contents_bytes);
	struct bufctl_audit *audit = debug_audit(b);

	if ((b->cache->debug & UMF_CONTENTS) == 0 || !log_is_on(LOG_CONTENTS))
		return;
	umem_assert(audit != NULL);
	audit->contents = n == 0 ? NULL : log_put(LOG_CONTENTS, b->p, n);
}

/*
 * Keeps a copy of the bufctl in freed.c, because the original is released with
 * the slab.  If there is no memory for the copy, this free is not known later.
 */
static void
keep_bufctl(const struct buffer *b)
{
	size_t bytes = bufctl_audit_bytes(debug.nframes);
	struct bufctl_audit *copy = meta_alloc_best_effort(bytes), *old;

	umem_assert(b->cache->slabs.record_bytes <= bytes);
	if (copy == NULL)
		return;
	memcpy(copy, b->bufctl, b->cache->slabs.record_bytes);
	old = freed_put(&freed_firewall, copy);
	if (old != NULL)
		meta_free(old, bytes);
}

/* Finds the buffer at p.  Returns false after a report of misuse. */
static bool
find_buffer(struct umem_cache *cache, void *p, struct buffer *b)
{
	struct slab *slab;
	unsigned i;

	if (likely(debug_heap_buffer(cache, p, b)))
		return true;
	if (cache == &debug_large_cache)
		return debug_large_find(p, b);
	switch (slab_find_chunk(&cache->slabs, p, &slab, &i)) {
	case SLAB_FOREIGN:
		report_foreign_free(cache, p);
		return false;
	case SLAB_INTERIOR:
		report_interior_free(cache, slab, i, p);
		return false;
	default:
		*b = debug_buffer_at(cache, slab, i);
		return true;
	}
}

/*
 * Checks a buffer that the program frees, and moves it to another state.
 * Returns false after a report of misuse.
 */
static bool
check_free(
    const struct buffer *b, size_t size, unsigned api, enum bufctl_state to)
{
	if (!change_state(b, to) || !free_matches(b, size, api) ||
	    !debug_redzone_is_intact(b) || !debug_previous_is_intact(b))
		return false;
	debug_check_signal(b->cache);
	return true;
}

/* Destructs the buffer, logs its contents and writes the free pattern. */
static void
write_free(const struct buffer *b)
{
	const struct umem_cache *cache = b->cache;

	if (cache->destruct != NULL && !load_relaxed(&cache->destroyed) &&
	    (cache->debug & UMF_DEADBEEF) != 0)
		cache->destruct(b->p, cache->priv);
	log_contents(b);
	debug_make_free(b);
}

void
debug_release(const struct buffer *b, bool deferred)
{
	struct umem_cache *cache = b->cache;
	unsigned work = 0;
	void *p = b->p, *bad;

	umem_assert(b->bufctl->state == BUFCTL_FREE);
	if ((cache->debug & UMF_FIREWALL) != 0)
		keep_bufctl(b);
	if (debug_has_quarantine(cache))
		p = quarantine_swap(&cache->quarantine, p);
	if (cache == &debug_large_cache)
		debug_large_release(b);
	else if (p != NULL && deferred)
		slab_give(&cache->slabs, &p, 1, &bad);
	else if (p != NULL)
		cache_free_unchecked(cache, p, cache_freed_by(cache), &work);
	if (work != 0)
		cache_upkeep.run(work);
}

bool
debug_free(struct umem_cache *cache, void *p, size_t size, unsigned api)
{
	struct buffer b;

	if (!find_buffer(cache, p, &b) ||
	    !check_free(&b, size, api, BUFCTL_FREE))
		return false;
	write_free(&b);
	debug_stamp(&b);
	debug_release(&b, /* deferred */ false);
	return true;
}

bool
debug_defer(struct umem_cache *cache, void *p, size_t size, unsigned api)
{
	struct buffer b;

	if (!find_buffer(cache, p, &b) ||
	    !check_free(&b, size, api, BUFCTL_WAITING))
		return false;
	debug_wait_begin(&b);
	debug_stamp(&b);
	return true;
}

void
debug_defer_undo(struct umem_cache *cache, void *p)
{
	struct buffer b;

	if (!find_buffer(cache, p, &b))
		return;
	umem_assert(b.bufctl->state == BUFCTL_WAITING);
	/* Release: the caller may pass the buffer to another thread. */
	store_release(&b.bufctl->state, BUFCTL_ALLOCATED);
}

void
debug_free_deferred(struct umem_cache *cache, void *p)
{
	struct buffer b;

	if (!find_buffer(cache, p, &b) || !debug_wait_is_intact(&b))
		return;
	write_free(&b);
	store_release(&b.bufctl->state, BUFCTL_FREE);
	debug_release(&b, /* deferred */ true);
}

/* Clears the pointers to a cache that is destroyed in kept bufctls. */
static void
forget_cache(const struct umem_cache *cache)
{
	if ((cache->debug & UMF_FIREWALL) != 0)
		freed_forget_cache(&freed_firewall, cache);
}

void
debug_quarantine_flush(struct umem_cache *cache)
{
	size_t at = 0;
	void *p, *bad;

	while ((p = quarantine_remove(&cache->quarantine, &at)) != NULL)
		if (quarantined_is_intact(cache, p))
			slab_give(&cache->slabs, &p, 1, &bad);
}

/* Blocks of size classes and large blocks. */

unsigned
debug_class(unsigned class, size_t size)
{
	if (size == 0 && class_zero() != NULL)
		return size_classes.n + 1;
	while (class != 0 && size > class_cache[class]->tag_offset)
		class = class == size_classes.n ? 0 : class + 1;
	/* The pages of a large block are released when it is freed. */
	return class != 0 && size_classes.bytes[class] > HEAP_UNIT &&
		       debug_has_quarantine(&debug_large_cache) &&
		       debug_has_quarantine(class_cache[class])
		   ? 0
		   : class;
}

/* Finds an allocated block; false after a report. */
static bool
find_block(unsigned class, void *p, struct buffer *b)
{
	struct umem_cache *cache = debug_cache_of(class);

	umem_assert(cache != NULL);
	if (!find_buffer(cache, p, b))
		return false;
	if (b->bufctl->state == BUFCTL_ALLOCATED)
		return true;
	debug_report(error_of_state(b->bufctl->state), b->cache, b, p,
	    (struct error_info){0});
	return false;
}

size_t
debug_usable(unsigned class, const void *p)
{
	struct buffer b;

	return find_block(class, (void *)(uintptr_t)p, &b) ? debug_size(&b)
							   : SIZE_MAX;
}

void
debug_set_api(void *p, unsigned api)
{
	size_t unit = page_map_unit(p);
	unsigned class =
	    unit < page_map.units ? page_map_class(page_map.entry[unit]) : 0;
	struct buffer b;

	umem_assert(api < API_COUNT);
	if (debug_cache_of(class) != NULL && find_block(class, p, &b))
		b.bufctl->api = (uint8_t)api;
}

bool
debug_resize(unsigned class, void *p, size_t size)
{
	struct buffer b;

	if (!find_block(class, p, &b) || !debug_redzone_is_intact(&b) ||
	    (class == PAGE_MAP_LARGE && !debug_large_open(&b, size)))
		return false;
	umem_assert(size <= debug_tag_offset(b.cache, p));
	debug_check_signal(b.cache);
	debug_set_size(&b, size);
	debug_stamp(&b);
	if (class == PAGE_MAP_LARGE)
		cache_upkeep.run(WORK_POLL);
	return true;
}

struct bufctl_audit *
debug_bufctl_near(const void *p)
{
	struct slab *slab;
	const struct umem_cache *cache = cache_of_address(p, &slab);
	const void *large = cache == NULL ? large_containing(p) : NULL;
	struct bufctl_audit *bufctl;

	if (cache != NULL)
		return (cache->debug & UMF_FIREWALL) != 0 ? slab_record(slab, 0)
							  : NULL;
	if (large != NULL)
		return debug_large() ? debug_large_peek(large) : NULL;
	bufctl = freed_near(&freed_firewall, p);
	return bufctl != NULL ? bufctl : freed_near(&freed_large, p);
}

void
debug_bad_address(const void *p)
{
	struct error_info info = {0};
	struct slab *slab;
	struct umem_cache *cache = cache_of_address(p, &slab);
	struct buffer b = {0};
	void *large;
	unsigned i = 0;

	if (cache != NULL) {
		enum slab_fault fault = slab_find_chunk(
		    &cache->slabs, (void *)(uintptr_t)p, &slab, &i);

		if (fault == SLAB_INTERIOR && cache->debug != 0) {
			report_interior_free(
			    cache, slab, i, (void *)(uintptr_t)p);
			return;
		}
		info.real_cache = cache;
		debug_report(UMERR_BADADDR, NULL, NULL, p, info);
		return;
	}
	info.buffer = large = large_containing(p);
	if (large != NULL) {
		if (debug_large())
			debug_large_find(large, &b);
		debug_report(UMERR_BADBASE, &debug_large_cache, &b, p, info);
		return;
	}
	report_freed_address(NULL, p);
}

void
debug_alloc_failed(struct umem_cache *cache, size_t size)
{
	audit_event(LOG_FAIL, cache, /* slab */ NULL, /* addr */ NULL, size);
	if (debug.checknull)
		panic("allocation: no memory for %zu bytes", size);
}

/* Adds an object in use to a report. */
static void
say_object(struct umem_cache *cache, void *p, uint64_t now)
{
	struct buffer b;
	const struct bufctl_audit *audit;

	report_line("    %p", p);
	if ((cache->debug & UMF_AUDIT) == 0)
		return;
	b = debug_buffer_of(cache, p);
	audit = debug_audit(&b);
	umem_assert(audit != NULL);
	report_caller("allocated", audit->thread, now - audit->timestamp,
	    audit->stack, audit->depth);
	report_send();
}

/*
 * Reports that the cache is destroyed while objects are in use: how many, some
 * of them and, with audit, who allocated these.
 */
static void
report_in_use(struct umem_cache *cache)
{
	const struct sample *sample[OBJECTS_REPORTED];
	void *object[OBJECTS_REPORTED];
	unsigned n = slab_some_used(&cache->slabs, object, OBJECTS_REPORTED);
	unsigned nsamples = load_relaxed(&cache->nsamples);
	size_t nused = slab_used(&cache->slabs) + nsamples;
	uint64_t now = os_exact_ns();
	unsigned nsaid = 0;

	if (nsamples != 0)
		nsamples = cache_sampler.find(cache, sample, OBJECTS_REPORTED);
	if (!report_begin("umem: "))
		return;
	report_line("umem_cache_destroy: '%s' (%p) not empty", cache->name,
	    (void *)cache);
	report_line("%zu object%s in use%s", nused, nused == 1 ? "" : "s",
	    n + nsamples == 0 ? "" : ":");
	/* The samples come first, because they have stacks. */
	for (; nsaid < nsamples; nsaid++)
		cache_sampler.report(sample[nsaid]);
	for (unsigned i = 0; i < n && nsaid < OBJECTS_REPORTED; i++, nsaid++)
		say_object(cache, object[i], now);
	if (nsaid != 0 && nsaid < nused)
		report_line("    and %zu more", nused - nsaid);
	report_end();
}

const struct cache_debugger cache_debugger = {
    .plan = debug_plan,
    .chunk = debug_chunk_bytes,
    .record_bytes = debug_bufctl_bytes,
    .alloc = debug_alloc,
    .free = debug_free,
    .release = debug_quarantine_flush,
    .forget = forget_cache,
    .report_in_use = report_in_use,
};
