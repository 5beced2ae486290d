/*
 * defer.c - frees that wait for a grace period
 *
 * Layers
 *	A layer has the objects of one cache, or of one kind of block, that wait
 *	for the readers of one flavour.  The first free of a cache with a
 *	flavour makes the layer.  An object goes into the magazine of this CPU
 *	by one restartable section, as an ordinary free does; the rest is in
 *	magazine/deferred.c and grace.c.  After the grace period a magazine
 *	enters the depot of its cache as it is, with all objects constructed.
 *
 * Blocks
 *	A block of a size class is a chunk of the class's cache, so it is
 *	deferred as an object of that cache.  Large blocks and samples have
 *	layers of their own, from which each block is freed singly; they count
 *	with their own size.  If malloc() is another library's, its blocks are
 *	freed by that library's free().
 *
 * States of an object that waits
 *	A debugged cache records the state in the object's record
 *	(BUFCTL_WAITING).  A sample has a state of its own (SAMPLE_WAITING).  So
 *	a second free is noticed at once.  Otherwise the slow path compares the
 *	object with its slab's bits and with the newest rounds of the CPU's
 *	magazine, as that of an ordinary free does.
 *	    For valgrind the object is freed by the call, but its memory can be
 *	read and written until the grace period is over.  Of blocks of malloc()
 *	it is told nothing, because free() tells it nothing either.
 *
 * No memory
 *	A call needs a magazine when this CPU's is full.  If there is none, the
 *	call waits for a grace period and frees the object directly.  Inside a
 *	read-side section it cannot wait, and with a lock that a function of the
 *	program takes it must not call that function.  So then, and for a cache
 *	whose frees may call the program, the call fails with EAGAIN, and the
 *	object remains the caller's.
 */
#include <errno.h>

#include "umem/malloc/alloc_inner.h"
#include "umem/cache/cache_hooks.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/rcu/defer.h"
#include "umem/base/ready.h"
#include "umem/cache/misuse.h"
#include "umem/profile/sample_object.h"
#include "umem/upkeep/update.h"
#include "vmem/meta.h"
#include "vmem/panic.h"

/*
 * Bytes of the backlog that a block of another library's malloc() counts for if
 * that library does not tell its size: a guess at a small block.
 */
#define FOREIGN_BYTES 64

/*
 * Rounds of a magazine for a cache that has none itself.  As in every magazine,
 * two less than a power of two: tools know magazines by that.
 */
#define PLAIN_ROUNDS 62

/*
 * Bytes of the objects in such a magazine, unless that is only one or two:
 * the backlog does not count what lies on a CPU.  umem_rcu(3) has this bound.
 */
#define PLAIN_BYTES (64 * KIB)

/* Rounds of a magazine for one object: so many are 32 bytes. */
#define SINGLE_ROUND_CAPACITY 2

_Static_assert(((PLAIN_ROUNDS + 2) & (PLAIN_ROUNDS + 1)) == 0,
    "two less than a power of two");
_Static_assert(((SINGLE_ROUND_CAPACITY + 2) & (SINGLE_ROUND_CAPACITY + 1)) == 0,
    "two less than a power of two");

struct lock defer_lock = LOCK_INITIALIZER(LOCK_DEFER);

static const char *const api_names[DEFER_KINDS] = {
    "umem_cache_free_rcu", "free_rcu", "umem_free_rcu", "free_rcu"};

/* The function by which the program freed the objects in the layer. */
static const char *
layer_api_name(const struct defer *layer)
{
	return layer->cache != NULL && layer->cache->class != 0
		   ? "free_rcu"
		   : api_names[layer->kind];
}

static const char *
kind_api_name(unsigned kind)
{
	return kind == API_OBJECT ? api_names[DEFER_OBJECT]
	       : kind == API_UMEM ? api_names[DEFER_UMEM]
				  : api_names[DEFER_MALLOC];
}

static struct defer *
layer_find(const struct umem_cache *cache, const void *key)
{
	chain_foreach (layer, cache->defers, struct defer, next_of_cache)
		if (layer->key == key)
			return layer;
	return NULL;
}

/* Sections push only where a push is all there is to do. */
static bool
cache_is_plain(const struct umem_cache *cache)
{
	return cache == NULL ||
	       (cache->debug == 0 && !cache->slabs.is_annotated);
}

/*
 * May the free of an object call the program?  If the object is a sample, it
 * calls the destructor.  For a cache of which no further object can become one.
 */
static bool
cache_calls_program(const struct umem_cache *cache)
{
	return cache->free_calls_out ||
	       (cache->destruct != NULL && load_relaxed(&cache->nsamples) != 0);
}

static struct defer *
layer_create(
    struct domain *domain, struct umem_cache *cache, enum defer_kind kind)
{
	struct defer *layer = meta_alloc(sizeof(*layer));

	lock_assert_held(&defer_lock);
	umem_assert((kind == DEFER_OBJECT) == (cache != NULL));
	if (layer == NULL)
		return NULL;
	if (!deferred_init(
		&layer->mags, cache != NULL ? cache->slabs.layout.chunk : 0)) {
		meta_free(layer, sizeof(*layer));
		return NULL;
	}
	layer->header_offset =
	    (uintptr_t)(cache_is_plain(cache) ? layer->mags.hot
					      : cpu_header_none()) -
	    (uintptr_t)cpu_header_none();
	layer->key = domain->key;
	layer->domain = domain;
	layer->cache = cache;
	layer->kind = kind;
	layer->calls_program = cache != NULL && cache_calls_program(cache);
	return layer;
}

/*
 * Publishes a layer whose other members are set: after this the domain's thread
 * finds it.
 */
static void
domain_add_layer_locked(struct domain *domain, struct defer *layer)
{
	lock_assert_held(&defer_lock);
	layer->next = domain->layers;
	/* Release; pairs with the acquire in chain_foreach(). */
	store_release(&domain->layers, layer);
}

/*
 * Returns the layer of a cache, which it makes if need be, or NULL if there is
 * no memory.
 *
 * The layer is linked into both lists before either shows it.  The domain's
 * list shows it first: otherwise another thread could put an object into a
 * layer in which the domain's thread does not look before it falls asleep.
 */
static struct defer *
cache_layer(struct domain *domain, struct umem_cache *cache)
{
	struct defer *layer;

	sample_object_exclude(cache);
	lock_take(&defer_lock);
	layer = layer_find(cache, domain->key);
	if (layer == NULL &&
	    (layer = layer_create(domain, cache, DEFER_OBJECT)) != NULL) {
		layer->next_of_cache = cache->defers;
		domain_add_layer_locked(domain, layer);
		/* Release; pairs with the acquire in chain_foreach(). */
		store_release(&cache->defers, layer);
	}
	lock_release(&defer_lock);
	return layer;
}

/* Returns the layer of a kind of blocks, or NULL if there is no memory. */
static struct defer *
kind_layer(struct domain *domain, enum defer_kind kind)
{
	struct defer *layer = load_acquire(&domain->kinds[kind]);

	umem_assert(kind != DEFER_OBJECT && kind < DEFER_KINDS);
	if (layer != NULL)
		return layer;
	lock_take(&defer_lock);
	layer = domain->kinds[kind];
	if (layer == NULL &&
	    (layer = layer_create(domain, NULL, kind)) != NULL) {
		domain_add_layer_locked(domain, layer);
		store_release(&domain->kinds[kind], layer);
	}
	lock_release(&defer_lock);
	return layer;
}

/* Do the layer's magazines go to a depot as they are? */
static bool
layer_gives_magazines(const struct defer *layer)
{
	return layer->cache != NULL && layer->cache->has_magazines &&
	       layer->cache->debug == 0;
}

/* Returns an empty magazine for the layer, or NULL if there is no memory. */
static struct magazine *
layer_magazine_alloc(struct defer *layer)
{
	unsigned capacity = PLAIN_ROUNDS;

	if (layer_gives_magazines(layer))
		return magazine_empty(&layer->cache->mag);
	while (capacity > SINGLE_ROUND_CAPACITY &&
	       capacity * layer->mags.object_bytes > PLAIN_BYTES)
		capacity = capacity / 2 - 1;
	return magazine_alloc(capacity);
}

/*
 * Marks a chunk of a cache as waiting.  Returns false after a report of misuse.
 */
static bool
chunk_mark_waiting(
    struct umem_cache *cache, void *p, size_t size, unsigned kind)
{
	enum slab_fault fault = SLAB_FINE;

	umem_assert(p != NULL);
	if (unlikely(cache->debug != 0))
		return debug_defer(cache, p, size, kind);
	if (cache->has_heap_slabs && !sample_is_object_of(cache, p))
		fault = slab_round_fault(&cache->slabs, p);
	if (fault != SLAB_FINE)
		misuse_slab(kind_api_name(kind), cache, p, fault);
	if (unlikely(cache->slabs.is_annotated) && kind != API_MALLOC) {
		if (kind == API_UMEM)
			checker_block_defer(p, cache->bufsize);
		else if (cache->slabs.is_type_stable)
			cache_tell_free(cache, p);
		else
			checker_object_defer(cache, p, cache->bufsize);
	}
	return true;
}

/* Undoes chunk_mark_waiting(): the object remains the caller's. */
static void
chunk_unmark_waiting(
    struct umem_cache *cache, void *p, size_t size, unsigned kind)
{
	if (cache->debug != 0)
		debug_defer_undo(cache, p);
	if (!cache->slabs.is_annotated || kind == API_MALLOC)
		return;
	if (kind == API_UMEM)
		checker_block(p, size, cache->bufsize, true);
	else if (cache->slabs.is_type_stable)
		cache_tell_alloc(cache, p);
	else
		checker_object(
		    cache, p, cache->bufsize, /* constructed */ true);
}

/* Returns a chunk to its cache, past the depot. */
static void
chunk_release(struct umem_cache *cache, void *p, const char *name)
{
	umem_assert(cache != NULL);
	if (sample_object_free(cache, p, name))
		return;
	if (cache->debug != 0) {
		debug_free_deferred(cache, p);
		cache_count_off(cache, 1);
		return;
	}
	if (cache->slabs.is_annotated && !cache->slabs.is_type_stable)
		checker_poison(p, cache->bufsize);
	cache_take_back_one(cache, p, name);
}

/* Returns the bytes that a block of no size class counts for. */
static size_t
single_bytes(const void *p)
{
	uint32_t sample = page_map_sample_at(p);

	return sample != 0 ? sample_size(sample)
			   : page_map_large_bytes(page_map_owner(p));
}

static unsigned
single_kind(enum defer_kind kind)
{
	return kind == DEFER_UMEM ? API_UMEM : API_MALLOC;
}

/* Is a checker told of the block?  It learns nothing of malloc(). */
static bool
single_is_watched(enum defer_kind kind)
{
	return unlikely(checker_on) && !debug.on && kind == DEFER_UMEM;
}

/*
 * Marks such a block as waiting.  Returns false after a report of misuse.
 */
static bool
single_mark_waiting(enum defer_kind kind, void *p, size_t size)
{
	umem_assert(kind == DEFER_UMEM || kind == DEFER_MALLOC);
	if (page_map_sample_at(p) != 0)
		sample_defer(page_map_sample_at(p), api_names[kind]);
	else if (debug_cache_of(PAGE_MAP_LARGE) != NULL)
		return debug_defer(
		    &debug_large_cache, p, size, single_kind(kind));
	if (single_is_watched(kind))
		checker_block_defer(p, single_bytes(p));
	return true;
}

/* Undoes single_mark_waiting(): the block remains the caller's. */
static void
single_unmark_waiting(enum defer_kind kind, void *p, size_t size)
{
	umem_assert(kind == DEFER_UMEM || kind == DEFER_MALLOC);
	if (page_map_sample_at(p) != 0)
		sample_defer_undo(page_map_sample_at(p));
	else if (debug_cache_of(PAGE_MAP_LARGE) != NULL)
		debug_defer_undo(&debug_large_cache, p);
	if (single_is_watched(kind))
		checker_block(p, size, single_bytes(p), /* zeroed */ true);
}

static void
single_release(struct defer *layer, void *p)
{
	uint32_t sample = page_map_sample_at(p);

	sub_relaxed(&layer->domain->bytes, (intptr_t)single_bytes(p));
	if (single_is_watched(layer->kind))
		checker_poison(p, single_bytes(p));
	if (sample != 0 && sample_is_deferred(sample))
		sample_free_deferred(sample);
	else if (debug_cache_of(PAGE_MAP_LARGE) != NULL)
		debug_free_deferred(&debug_large_cache, p);
	else
		alloc_free_as(
		    p, single_kind(layer->kind), layer_api_name(layer));
}

/* Returns the bytes that a block of another library's malloc() counts for. */
static size_t
foreign_bytes(const struct domain *domain, void *p)
{
	/* Relaxed: every caller stores the same function. */
	size_t (*usable)(void *) = load_relaxed(&domain->usable);

	return usable != NULL ? usable(p) : FOREIGN_BYTES;
}

static void
foreign_release(struct domain *domain, void *p)
{
	void (*release)(void *) = load_relaxed(&domain->release);

	umem_assert(release != NULL);
	sub_relaxed(&domain->bytes, (intptr_t)foreign_bytes(domain, p));
	release(p);
}

/* Returns the bytes that an object counts for beside those of its magazine. */
static size_t
object_bytes(const struct defer *layer, void *p)
{
	return layer->kind == DEFER_OBJECT    ? 0
	       : layer->kind == DEFER_FOREIGN ? foreign_bytes(layer->domain, p)
					      : single_bytes(p);
}

size_t
defer_pending_bytes(const struct defer *layer)
{
	size_t bytes = 0;

	for (const struct magazine *mag = layer->mags.pending; mag != NULL;
	     mag = mag->next) {
		bytes += deferred_bytes(&layer->mags, mag);
		for (unsigned i = 0; i < mag->nrounds; i++)
			bytes += object_bytes(layer, mag->round[i]);
	}
	return bytes;
}

static void
layer_count_released(struct defer *layer, unsigned n)
{
	add_relaxed(&layer->domain->nreleased, n);
	if (layer->calls_program)
		add_relaxed(&layer->domain->ncalled, n);
}

/* Puts an object back where it came from, after a grace period. */
static void
defer_release(struct defer *layer, void *object)
{
	switch (layer->kind) {
	case DEFER_OBJECT:
		chunk_release(layer->cache, object, layer_api_name(layer));
		break;
	case DEFER_FOREIGN:
		foreign_release(layer->domain, object);
		break;
	default:
		single_release(layer, object);
		break;
	}
	layer_count_released(layer, 1);
}

/*
 * Moves the rounds of a magazine that is not full to *part, and deletes the
 * magazine.  Gives *part whenever it is full.
 */
static void
layer_give_rounds(
    struct defer *layer, struct magazine *mag, struct magazine **part)
{
	struct umem_cache *cache = layer->cache;

	while (mag->nrounds > 0) {
		void *object = mag->round[--mag->nrounds];

		if (*part == NULL)
			*part = magazine_empty(&cache->mag);
		if (*part == NULL) {
			cache_take_back_one(
			    cache, object, layer_api_name(layer));
			continue;
		}
		(*part)->round[(*part)->nrounds++] = object;
		if ((*part)->nrounds == (*part)->capacity)
			defer_give_part(layer, part);
	}
	magazine_delete(mag);
}

/*
 * Frees the samples among the rounds.  Only objects that were samples before
 * the cache had a layer can be there.
 */
static void
layer_free_samples(struct defer *layer, struct magazine *mag)
{
	unsigned n = 0, all = mag->nrounds;

	for (unsigned i = 0; i < all; i++)
		if (!sample_object_free(
			layer->cache, mag->round[i], layer_api_name(layer)))
			mag->round[n++] = mag->round[i];
	mag->nrounds = n;
	layer_count_released(layer, all - n);
}

void
defer_give(struct defer *layer, struct magazine *mag, struct magazine **part)
{
	umem_assert(mag->nrounds <= mag->capacity);
	umem_assert(*part == NULL || (*part)->nrounds < (*part)->capacity);
	if (layer->cache != NULL && unlikely(cache_is_sampled(layer->cache)))
		layer_free_samples(layer, mag);
	if (!layer_gives_magazines(layer) || mag->nrounds == 0) {
		while (mag->nrounds > 0)
			defer_release(layer, mag->round[--mag->nrounds]);
		magazine_delete(mag);
		return;
	}
	layer_count_released(layer, mag->nrounds);
	if (unlikely(layer->cache->slabs.is_annotated) &&
	    !layer->cache->slabs.is_type_stable)
		for (unsigned i = 0; i < mag->nrounds; i++)
			checker_poison(mag->round[i], layer->cache->bufsize);
	if (mag->nrounds < mag->capacity)
		layer_give_rounds(layer, mag, part);
	else
		cache_take_back(layer->cache, mag);
}

void
defer_give_part(struct defer *layer, struct magazine **part)
{
	if (*part != NULL)
		cache_take_back(layer->cache, *part);
	*part = NULL;
}

static void
layer_return_magazine(struct defer *layer, struct magazine *mag)
{
	umem_assert(mag->nrounds == 0);
	if (layer_gives_magazines(layer))
		cache_take_back(layer->cache, mag);
	else
		magazine_delete(mag);
}

/*
 * Submits a magazine for the object alone, because this CPU's header is not to
 * be had.  That may last for thousands of calls, while the header's owner is
 * preempted or on a CPU that gets no memory, so the magazine is a small one.
 */
static bool
layer_put_alone(struct defer *layer, void *object)
{
	struct magazine *mag = magazine_alloc(SINGLE_ROUND_CAPACITY);
	size_t bytes;

	if (mag == NULL) {
		/* No memory: the caller waits and frees, if it may. */
		if (layer->calls_program || !domain_wait(layer->domain))
			return false;
		defer_release(layer, object);
		return true;
	}
	mag->round[0] = object;
	mag->nrounds = 1;
	bytes = deferred_bytes(&layer->mags, mag);
	/* The magazine may be gone after this. */
	deferred_submit(&layer->mags, mag);
	domain_submitted(layer, 1, bytes);
	return true;
}

/*
 * Puts an object into the layer.  Returns false if there is no memory, and the
 * caller cannot wait for readers.
 */
static bool
layer_put(struct defer *layer, void *object, const char *name)
{
	struct magazine *spare = NULL;
	enum magazine_result result;
	struct deferred_work pending_work;

	result = deferred_put(&layer->mags, object, &spare, &pending_work);
	if (result == MAGAZINE_FULL) {
		spare = layer_magazine_alloc(layer);
		if (spare != NULL)
			result = deferred_put(
			    &layer->mags, object, &spare, &pending_work);
		if (spare != NULL)
			layer_return_magazine(layer, spare);
	}
	if (result == MAGAZINE_TWICE)
		misuse_waiting(name, layer->cache, object);
	if (result != MAGAZINE_OK)
		return layer_put_alone(layer, object);
	if (pending_work.nsubmitted != 0)
		domain_submitted(
		    layer, pending_work.nsubmitted, pending_work.bytes);
	else if (pending_work.loaded)
		domain_loaded(layer->domain);
	if (pending_work.is_ticked)
		update_tick();
	return true;
}

/* Returns 0, or the error that keeps the domain from taking objects now. */
static int
domain_refusal(const struct domain *domain)
{
	if (domain_is_broken(domain))
		return ENOTSUP;
	/* Beyond the budget a caller waits; one that cannot stops at twice. */
	return domain_is_over(domain, 2) && domain_is_reader() ? EAGAIN : 0;
}

/* Defers the free of a chunk of a cache.  Returns 0 or an error. */
static int
defer_chunk(struct defer *layer, void *p, size_t size, unsigned kind)
{
	struct umem_cache *cache = layer->cache;
	int error = domain_refusal(layer->domain);

	if (error != 0 || !chunk_mark_waiting(cache, p, size, kind))
		return error;
	if (layer_put(layer, p, kind_api_name(kind)))
		return 0;
	chunk_unmark_waiting(cache, p, size, kind);
	return EAGAIN;
}

/* Defers the free of a block that a layer of its kind frees singly. */
static int
defer_single(struct domain *domain, enum defer_kind kind, void *p, size_t size)
{
	struct defer *layer = kind_layer(domain, kind);
	int error = layer == NULL ? EAGAIN : domain_refusal(domain);
	bool foreign = kind == DEFER_FOREIGN;
	size_t bytes;

	if (error != 0 || (!foreign && !single_mark_waiting(kind, p, size)))
		return error;
	bytes = object_bytes(layer, p);
	/* Counted first: the block may be gone when put() returns. */
	add_relaxed(&domain->bytes, (intptr_t)bytes);
	if (!layer_put(layer, p, api_names[kind])) {
		sub_relaxed(&domain->bytes, (intptr_t)bytes);
		if (!foreign)
			single_unmark_waiting(kind, p, size);
		return EAGAIN;
	}
	if (domain_is_over(domain, 1))
		domain_submitted(layer, 0, 0);
	return 0;
}

static inline bool
layer_push(const struct defer *layer, void *object)
{
	/* Also tells whether there are sections: alloc_object.c. */
	return likely((uintptr_t)object >= alloc_fast.object_least) &&
	       likely(rseq_push(&alloc_fast.place, layer->header_offset,
			  object) == RSEQ_OK);
}

static inline struct defer *
layer_if_first(const struct umem_cache *cache, const void *key)
{
	struct defer *layer = load_acquire(&cache->defers);

	return likely(layer != NULL) && likely(layer->key == key) ? layer
								  : NULL;
}

static int
errno_result(int error, int saved)
{
	errno = error != 0 ? error : saved;
	return error != 0 ? -1 : 0;
}

/*
 * Returns the domain of a key, which it makes if need be, or NULL if there is
 * no memory.
 */
static struct domain *
domain_get(const void *key, umem_grace_of_t *grace_of)
{
	struct domain *domain = domain_find(key);

	return likely(domain != NULL) ? domain : domain_make(key, grace_of);
}

/* Returns the layer of a cache, or NULL if there is no memory for it. */
static struct defer *
layer_get(struct domain *domain, struct umem_cache *cache)
{
	struct defer *layer = layer_find(cache, domain->key);

	return likely(layer != NULL) ? layer : cache_layer(domain, cache);
}

/* Frees without a layer, for want of memory.  Returns 0 or an error. */
static int
object_free_after_wait(struct domain *domain, struct umem_cache *cache, void *p,
    size_t size, unsigned kind)
{
	if (cache_calls_program(cache) || !domain_wait(domain))
		return domain_is_broken(domain) ? ENOTSUP : EAGAIN;
	if (kind == API_OBJECT)
		umem_cache_free(cache, p);
	else if (kind == API_UMEM)
		umem_free(p, size);
	else
		alloc_free(p);
	return 0;
}

static noinline int
object_defer_slow(umem_cache_t *cache, void *object, size_t size, unsigned kind,
    const void *key, umem_grace_of_t *grace_of)
{
	int saved = errno, error = EAGAIN;
	struct domain *domain;
	struct defer *layer;

	cache_check_poison(cache, kind_api_name(kind));
	domain = domain_get(key, grace_of);
	layer = domain == NULL ? NULL : layer_get(domain, cache);
	if (layer != NULL)
		error = defer_chunk(layer, object, size, kind);
	else if (domain != NULL)
		error =
		    object_free_after_wait(domain, cache, object, size, kind);
	return errno_result(error, saved);
}

public int
umem_defer_object(umem_cache_t *cache, void *object, const void *key,
    umem_grace_of_t *grace_of)
{
	struct defer *layer = layer_if_first(cache, key);

	if (likely(layer != NULL) && layer_push(layer, object))
		return 0;
	if (object == NULL)
		return 0;
	return object_defer_slow(
	    cache, object, SIZE_MAX, API_OBJECT, key, grace_of);
}

/* Defers the free of a block of this library; size is SIZE_MAX for malloc(). */
static noinline int
block_defer_slow(
    void *p, size_t size, const void *key, umem_grace_of_t *grace_of)
{
	bool sized = size != SIZE_MAX;
	const char *name = sized ? "umem_free_rcu" : "free_rcu";
	unsigned kind = sized ? API_UMEM : API_MALLOC;
	struct domain *domain;
	size_t bytes;
	unsigned class;
	int saved = errno;

	if (p == NULL || bootstrap_owns(p))
		return 0;
	if (unlikely(!umem_ready()))
		misuse(name, p, "not an address of the heap");
	class = alloc_block_class(p, &bytes, name);
	if (class == 0)
		return 0;
	if (sized && size == 0)
		size = alloc_zero_bytes;
	/* A debugged block has its size in its record. */
	if (sized && (class == CLASS_SAMPLE || debug_cache_of(class) == NULL) &&
	    !alloc_size_matches(p, class, bytes, size))
		misuse_size(name, p, size);
	if (class != PAGE_MAP_LARGE && class != CLASS_SAMPLE)
		return object_defer_slow(class_cache[alloc_number_at(p, class)],
		    p, size, kind, key, grace_of);
	domain = domain_get(key, grace_of);
	return errno_result(
	    domain == NULL ? EAGAIN
			   : defer_single(domain,
				 sized ? DEFER_UMEM : DEFER_MALLOC, p, size),
	    saved);
}

/* Returns the layer of a block of a class, or NULL if no section may push. */
static inline struct defer *
layer_of_block(const void *p, unsigned class, const void *key)
{
	return likely(class != 0)
		   ? layer_if_first(class_cache[alloc_number_at(p, class)], key)
		   : NULL;
}

public int
umem_defer_sized(
    void *buf, size_t size, const void *key, umem_grace_of_t *grace_of)
{
	unsigned class = alloc_class_at(buf);
	struct defer *layer = layer_of_block(buf, class, key);

	if (likely(layer != NULL) && likely(size - 1 < SIZE_SMALL) &&
	    likely(size_class_small(size) == class) && layer_push(layer, buf))
		return 0;
	/* No block is so large: alloc_size_matches() says so. */
	return block_defer_slow(
	    buf, size == SIZE_MAX ? SIZE_MAX - 1 : size, key, grace_of);
}

/* Defers the free of a block of another library's malloc(). */
static int
foreign_defer(void *p, void (*release)(void *), size_t (*usable)(void *),
    const void *key, umem_grace_of_t *grace_of)
{
	int saved = errno;
	struct domain *domain;

	if (!umem_ready() || (domain = domain_get(key, grace_of)) == NULL)
		return errno_result(EAGAIN, saved);
	store_relaxed(&domain->release, release);
	store_relaxed(&domain->usable, usable);
	return errno_result(defer_single(domain, DEFER_FOREIGN, p, 0), saved);
}

public int
umem_defer_block(void *p, void (*release)(void *), size_t (*usable)(void *),
    const void *key, umem_grace_of_t *grace_of)
{
	struct defer *layer;

	if (!umem_is_malloc)
		return p == NULL
			   ? 0
			   : foreign_defer(p, release, usable, key, grace_of);
	layer = layer_of_block(p, alloc_class_at(p), key);
	if (likely(layer != NULL) && layer_push(layer, p))
		return 0;
	/* Valgrind and sanitizers have a malloc() of their own. */
	if (unlikely(checker_on) && p != NULL && !bootstrap_owns(p) &&
	    page_map_unit(p) >= page_map.units)
		return foreign_defer(p, release, usable, key, grace_of);
	return block_defer_slow(p, SIZE_MAX, key, grace_of);
}

public int
umem_defer_attach(
    umem_cache_t *cache, const void *key, umem_grace_of_t *grace_of)
{
	int saved = errno;
	struct domain *domain = domain_get(key, grace_of);

	if (domain == NULL || layer_get(domain, cache) == NULL)
		return errno_result(ENOMEM, saved);
	store_relaxed(&domain->is_inherited, 0);
	return errno_result(domain_is_broken(domain) ? ENOTSUP : 0, saved);
}

public int
umem_defer_barrier(const void *key)
{
	int saved = errno;
	struct domain *domain = domain_find(key);

	return errno_result(domain == NULL ? 0 : domain_flush(domain), saved);
}

/*
 * Returns where the list of the cache's layers points to its last one, which
 * was made first; there is one.
 */
static struct defer **
cache_first_made(struct umem_cache *cache)
{
	struct defer **link = &cache->defers;

	while ((*link)->next_of_cache != NULL)
		link = &(*link)->next_of_cache;
	return link;
}

/*
 * The layer that was made first is the one that retires slabs (grace.c).  The
 * lock keeps the layers from ending meanwhile.
 */
static void
defer_retire(struct umem_cache *cache)
{
	struct domain *domain = NULL;

	if (load_relaxed(&cache->defers) == NULL)
		return;
	lock_take(&cache_list_lock);
	chain_foreach (layer, cache->defers, struct defer, next_of_cache)
		domain = layer->domain;
	lock_release(&cache_list_lock);
	if (domain != NULL && !domain_is_broken(domain))
		domain_retire(domain);
}

/*
 * Takes the caller offline for the flavours of the cache, each of which may
 * keep the thread of another one waiting.
 */
static void
cache_go_offline(struct umem_cache *cache)
{
	chain_foreach (layer, cache->defers, struct defer, next_of_cache)
		if (!domain_go_offline(layer->domain, &layer->was_online))
			panic("umem_cache_destroy(%s): in a read-side section, "
			      "or in a function that a grace period calls",
			    cache->name);
}

/*
 * Releases the objects of the layer that *link points to, unlinks the layer and
 * frees it.  Returns whether it could.
 */
static bool
layer_end(struct defer **link)
{
	struct defer *layer = *link;
	struct domain *domain = layer->domain;
	bool was_online = layer->was_online;

	if (!domain_flush_layer(domain, layer))
		return false;
	lock_take(&cache_list_lock);
	/* Relaxed: a domain only asks whether it is NULL. */
	store_relaxed(link, NULL);
	lock_release(&cache_list_lock);
	deferred_end(&layer->mags);
	meta_free(layer, sizeof(*layer));
	domain_go_online(domain, was_online);
	return true;
}

/*
 * The layer that was made first ends first.  Because its domain alone releases
 * slabs of the cache, and follows the list of the cache's layers meanwhile, the
 * other layers stay until it has been unlinked, and for ever if it cannot be.
 */
bool
defer_end_cache(struct umem_cache *cache)
{
	cache_go_offline(cache);
	while (cache->defers != NULL && layer_end(cache_first_made(cache)))
		;
	chain_foreach (layer, cache->defers, struct defer, next_of_cache)
		domain_go_online(layer->domain, layer->was_online);
	return cache->defers == NULL;
}

size_t
defer_waiting(const struct umem_cache *cache)
{
	size_t n = 0;

	chain_foreach (layer, cache->defers, struct defer, next_of_cache)
		n += deferred_rounds(&layer->mags);
	return n;
}

const struct cache_deferral cache_deferral = {
    .end_cache = defer_end_cache,
    .waiting = defer_waiting,
    .wake = defer_rouse,
    .retire = defer_retire,
};
