/*
 * cache_create.c - creation and destruction of caches
 *
 * The layout of a cache is fixed here once: its alignment, the space that
 * debugging or memcheck needs beside each object (debug.c, checker.c), and the
 * number of chunks in a slab (slab_layout.c).  The cache of a size class is
 * created when an object of the class is first requested.
 *
 * Source: arguments and errors of umem_cache_create(3MALLOC).
 */
#include <assert.h>
#include <errno.h>

#include "umem/base/page_map.h"
#include "umem/cache/cache.h"
#include "umem/cache/cache_check.h"
#include "umem/cache/cache_hooks.h"
#include "umem/base/checker.h"
#include "umem/slab/firewall.h"
#include "umem/base/ready.h"
#include "umem/cache/cache_walk.h"
#include "vmem/heap.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/string.h"
#include "vmem/vmem.h"

/*
 * Smallest alignment of objects, in bytes, and the default alignment of objects
 * of more than ALIGN_MIN bytes, as umem_cache_create() promises.
 */
#define ALIGN_MIN    8
#define ALIGN_SECOND 16

#define FLAGS_KNOWN                                                            \
	(UMC_NOTOUCH | UMC_NODEBUG | UMC_NOMAGAZINE | UMC_NOHASH |             \
	    UMC_QCACHE | UMC_TYPESAFE_BY_RCU | UMC_INTERNAL)

struct list cache_list = {&cache_list, &cache_list};
struct list cache_destroyed_list = {
    &cache_destroyed_list, &cache_destroyed_list};
struct lock cache_list_lock = LOCK_INITIALIZER(LOCK_CACHE_LIST);
bool cache_use_magazines = true;
struct umem_cache *class_cache[NODES * NODE_CLASSES];
size_t cache_nothers;

static_assert(
    (ALIGN_MIN & (ALIGN_MIN - 1)) == 0 && ALIGN_SECOND % ALIGN_MIN == 0,
    "alignments are powers of two");

static struct umem_cache *
cache_of(struct slab_store *store)
{
	return container_of(store, struct umem_cache, slabs);
}

static void
destruct_chunk(struct slab_store *store, void *object)
{
	struct umem_cache *cache = cache_of(store);

	if (cache->destruct == NULL || load_relaxed(&cache->destroyed))
		return;
	if (unlikely(store->is_annotated))
		checker_unpoison(object, cache->bufsize, /* defined */ true);
	cache->destruct(object, cache->priv);
	if (unlikely(store->is_annotated))
		checker_poison(object, cache->bufsize);
}

/* Are objects of the cache annotated for a memory checker? */
static bool
is_watched(const struct umem_cache *cache)
{
	return unlikely(checker_on) && cache->debug == 0 &&
	       (cache->flags & UMC_NOTOUCH) == 0;
}

/*
 * Called by a type-stable store: empty slabs may be released after a grace
 * period.
 */
static void
want_retire(struct slab_store *store)
{
	cache_deferral.retire(cache_of(store));
}

static const struct slab_owner slab_owner = {
    .destruct = destruct_chunk, .want_retire = want_retire};

/*
 * Sets up the members that every cache has.  Returns false if there is no
 * memory.
 */
static bool
cache_set_up(struct umem_cache *cache, const char *name,
    const struct slab_layout *layout, vmem_t *source)
{
	bool constructs = cache->construct != NULL || cache->destruct != NULL;

	/* If free objects hold patterns, none of them stays constructed. */
	if ((cache->debug & UMF_DEADBEEF) != 0)
		constructs = false;

	string_copy(cache->name, name, UMEM_CACHE_NAMELEN);
	list_init(&cache->limit.waiting);
	umem_assert(is_pow2(cache->align) && layout->chunk >= cache->bufsize);
	umem_assert(layout->nchunks != 0 &&
		    layout->slab_bytes / layout->nchunks >= layout->chunk);
	slab_store_init(
	    &cache->slabs, layout, source, cache->class, constructs);
	cache->slabs.owner = &slab_owner;
	cache->slabs.name = cache->name;
	cache->has_heap_slabs =
	    cache->backend == &slab_backend && source == NULL;
	cache->slabs.record_bytes =
	    (uint32_t)cache_debugger.record_bytes(cache);
	cache->slabs.is_type_stable = (cache->flags & UMC_TYPESAFE_BY_RCU) != 0;
	cache->slabs.is_annotated = is_watched(cache);
	/* See sample_object.c. */
	cache->may_be_sampled = cache->class == 0 && cache->has_heap_slabs &&
				!cache->slabs.is_type_stable;
	cache->slabs.has_guard_pages = (cache->debug & UMF_FIREWALL) != 0;
	/*
	 * A type-stable cache ends slabs only in slab_end_retired(), outside of
	 * upkeep.
	 */
	cache->calls_out |=
	    !cache->slabs.is_type_stable &&
	    ((constructs && cache->destruct != NULL) ||
		(source != NULL &&
		    vmem_release_calls_program(source, heap_arena_release)));
	cache->free_calls_out |=
	    (cache->debug != 0 && cache->destruct != NULL) ||
	    (source != NULL && cache->calls_out);
	cache->has_magazines = cache_use_magazines &&
			       (cache->debug & ~UMF_HARDENED) == 0 &&
			       (cache->flags & UMC_NOMAGAZINE) == 0;
	/*
	 * Without magazines, the cache uses header 0, which refuses.  The slow
	 * paths know the cache by the caller's argument.  A debugged class has
	 * not the header of its number, which the fast paths use.
	 */
	if (!cache->has_magazines)
		cache->mag.hot = cpu_header_none();
	else if (cache->class != 0 && cache->debug == 0)
		magazine_layer_init_at(&cache->mag, cache->class, layout->chunk,
		    page_map.divisor[cache->class % NODE_CLASSES]);
	else if (!magazine_layer_init(&cache->mag, layout->chunk,
		     cache->mag.rounds_most, CPU_GUARD_NONE))
		return false;
	if ((cache->debug & (UMF_HARDENED | UMF_DEADBEEF)) != 0)
		quarantine_init(&cache->quarantine, layout->chunk);
	cache_choose_fast(cache);
	return true;
}

static void
cache_list_add(struct umem_cache *cache)
{
	lock_take(&cache_list_lock);
	list_add_tail(&cache_list, &cache->link);
	cache_nothers++;
	umem_assert(cache_list_check_locked());
	lock_release(&cache_list_lock);
}

/* Caches of size classes come first, in their order. */
static void
cache_list_add_class_locked(struct umem_cache *cache)
{
	struct list *before = cache_list.next;

	lock_assert_held(&cache_list_lock);
	while (before != &cache_list) {
		unsigned class =
		    container_of(before, struct umem_cache, link)->class;

		if (class == 0 || class > cache->class)
			break;
		before = before->next;
	}
	list_add_tail(before, &cache->link);
}

struct umem_cache *
cache_create(const char *name, const struct slab_layout *layout, vmem_t *source,
    const struct umem_cache *template)
{
	struct umem_cache *cache = meta_alloc(sizeof(*cache));

	if (cache == NULL)
		return NULL;
	*cache = *template;
	if (!cache_set_up(cache, name, layout, source)) {
		meta_free(cache, sizeof(*cache));
		return NULL;
	}
	if (cache->class != 0) {
		umem_assert(class_cache_if_made(cache->class) == NULL);
		cache_list_add_class_locked(cache);
		return cache;
	}
	if (cache->slabs.is_annotated)
		checker_pool_create(cache);
	cache_list_add(cache);
	return cache;
}

/*
 * Returns the unit of span sizes: at least the quantum to which the source
 * rounds them.
 */
static size_t
span_quantum(const vmem_t *source)
{
	size_t page = os_page_size();

	if (source == NULL)
		return HEAP_UNIT;
	return vmem_quantum(source) > page ? vmem_quantum(source) : page;
}

size_t
class_align(size_t bytes)
{
	if (bytes % os_page_size() == 0)
		return os_page_size();
	if (bytes % CACHE_LINE == 0)
		return CACHE_LINE;
	return bytes < 16 ? 8 : 16;
}

/*
 * Like slab_layout(), with space behind each object and before the first.  The
 * library must not store anything there that looks like a pointer to an object.
 */
static bool
watched_layout(
    const struct umem_cache *cache, struct slab_layout *layout, vmem_t *source)
{
	size_t align = cache->align;
	size_t front = align_up(CHECKER_REDZONE, align);
	size_t chunk = align_up(cache->bufsize + CHECKER_REDZONE, align);

	if (!slab_layout(layout, chunk, align, span_quantum(source)))
		return false;
	if (layout->slab_bytes - layout->nchunks * chunk < front) {
		if (layout->nchunks == 1)
			layout->slab_bytes += span_quantum(source);
		else
			layout->nchunks--;
	}
	umem_assert(layout->nchunks != 0 &&
		    layout->slab_bytes - layout->nchunks * chunk >= front);
	layout->colour_step = 0;
	layout->colour_max = front;
	return true;
}

/*
 * Lays out the objects of a cache in its slabs.  Returns false if they are too
 * large.
 */
static bool
cache_layout(const struct umem_cache *cache, struct slab_layout *layout,
    size_t align, vmem_t *source)
{
	size_t chunk = cache_debugger.chunk(cache);

	if ((cache->debug & UMF_FIREWALL) != 0)
		return firewall_layout(layout, chunk);
	if (is_watched(cache))
		return watched_layout(cache, layout, source);
	return chunk >= cache->bufsize &&
	       slab_layout(layout, chunk, align, span_quantum(source));
}

static struct umem_cache *
class_create_locked(unsigned number)
{
	unsigned class = number % NODE_CLASSES, node = number / NODE_CLASSES;
	size_t bytes = size_classes.bytes[class];
	struct umem_cache template = {.backend = &slab_backend,
	    .class = number,
	    .bufsize = bytes,
	    .align = bytes < 16 ? 8 : 16};
	struct slab_layout layout;
	struct message name = {0};

	lock_assert_held(&cache_list_lock);
	umem_assert(class != 0 && class <= size_classes.n);
	message_text(&name, "umem_alloc_");
	message_dec(&name, bytes);
	if (node != 0) {
		message_text(&name, "_n");
		message_dec(&name, node);
	}
	name.text[name.n] = '\0';
	cache_debugger.plan(&template, name.text, /* sourced */ false);
	if (template.debug != 0 || checker_on)
		template.align = class_align(bytes);
	if (!cache_layout(&template, &layout, 16, NULL))
		return NULL;
	if (template.debug != 0 || checker_on)
		page_map_set_divisor(class, layout.chunk);
	return cache_create(name.text, &layout, NULL, &template);
}

struct umem_cache *
class_cache_make(unsigned number)
{
	struct umem_cache *cache;

	lock_take(&cache_list_lock);
	cache = class_cache[number];
	if (cache == NULL) {
		cache = class_create_locked(number);
		/* Release: pairs with the acquire in class_cache_if_made(). */
		store_release(&class_cache[number], cache);
		umem_assert(cache_list_check_locked());
	}
	lock_release(&cache_list_lock);
	return cache;
}

/*
 * Bytes of addresses from one block of zero bytes to the next: such a block may
 * be requested with an alignment up to a cache line.
 */
#define ZERO_CHUNK CACHE_LINE

bool
class_zero_make(void)
{
	unsigned class = size_classes.n + 1;
	struct umem_cache template = {
	    .backend = &slab_backend, .class = class, .align = ZERO_CHUNK};
	struct slab_layout layout;
	struct umem_cache *cache;

	cache_debugger.plan(&template, "umem_alloc_0", /* sourced */ true);
	if (template.debug == 0 || class_cache[class] != NULL)
		return true;
	if (!slab_layout(&layout, ZERO_CHUNK, ZERO_CHUNK, HEAP_UNIT))
		return false;
	page_map_set_divisor(class, ZERO_CHUNK);
	lock_take(&cache_list_lock);
	cache = cache_create("umem_alloc_0", &layout, NULL, &template);
	if (cache != NULL)
		cache->slabs.is_unbacked = true;
	store_release(&class_cache[class], cache);
	lock_release(&cache_list_lock);
	return cache != NULL;
}

/*
 * Returns the alignment for the one that the program requested; 0 if that is
 * not possible.
 */
static size_t
cache_align(const struct umem_cache *cache, size_t align, vmem_t *source)
{
	size_t most = source == NULL ? os_page_size() : vmem_quantum(source);

	if (align == 0)
		align = cache->bufsize > ALIGN_MIN ? ALIGN_SECOND : ALIGN_MIN;
	if (!is_pow2(align))
		return 0;
	if (align < ALIGN_MIN && (cache->flags & UMC_NOTOUCH) == 0)
		align = ALIGN_MIN;
	return align <= most ? align : 0;
}

static bool
arguments_are_right(const char *name, size_t size, size_t align, int cflags)
{
	if (name == NULL || size == 0 || align == 0 ||
	    (cflags & ~FLAGS_KNOWN) != 0)
		return false;
	return (cflags & UMC_NOHASH) == 0 || (cflags & UMC_NOTOUCH) == 0;
}

public umem_cache_t *
umem_cache_create(const char *name, size_t bufsize, size_t align,
    umem_constructor_t *construct, umem_destructor_t *destruct,
    umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags)
{
	struct umem_cache template = {.backend = &slab_backend,
	    .flags = (unsigned)cflags,
	    .bufsize = bufsize,
	    .construct = construct,
	    .destruct = destruct,
	    .reclaim = reclaim,
	    .priv = priv};
	struct slab_layout layout;
	struct umem_cache *cache;
	size_t in_force;

	in_force = cache_align(&template, align, source);
	if (!arguments_are_right(name, bufsize, in_force, cflags))
		return fail_null(EINVAL);
	if (!umem_ready())
		return fail_null(EAGAIN);
	template.align = in_force;
	cache_debugger.plan(&template, name, source != NULL);
	if (bufsize > PTRDIFF_MAX / 2 ||
	    !cache_layout(&template, &layout, in_force, source))
		return fail_null(ENOMEM);
	/*
	 * Only boundaries of chunks of a source are known to be aligned, so
	 * slabs get no colours.
	 */
	if (source != NULL && !is_watched(&template))
		layout.colour_step = layout.colour_max = 0;
	cache = cache_create(name, &layout, source, &template);
	if (cache == NULL)
		errno = EAGAIN;
	return cache;
}

/*
 * Poisons a cache that was destroyed while objects were in use: later calls
 * with it abort.  Objects that still wait for a grace period go back to it
 * later, but it calls no function of the program any more.
 */
static void
cache_poison(struct umem_cache *cache, bool tell)
{
	if (tell)
		cache_debugger.report_in_use(cache);
	cache->mag.hot = cpu_header_none();
	limit_end(cache);
	cache_choose_fast(cache);
	store_relaxed(&cache->destroyed, true);
	/* Its slabs are counted. */
	lock_take(&cache_list_lock);
	list_add_tail(&cache_destroyed_list, &cache->link);
	lock_release(&cache_list_lock);
}

void
cache_destroy(struct umem_cache *cache)
{
	bool released = cache_deferral.end_cache(cache);
	bool drained, ended;

	cache_walk_unlink(cache);
	drained = cache_drain(cache, /* unused */ true);
	ended = cache->backend->end(cache);
	if (!ended) {
		/*
		 * Objects in magazines that could not be drained, and objects
		 * that still wait for a grace period, are not held by the
		 * program.
		 */
		cache_poison(cache, /* tell */ released && drained);
		return;
	}
	/* A layer that stays has objects that wait. */
	umem_assert(released);
	umem_assert(cache->reserve.nready == 0);
	if (cache->has_magazines)
		magazine_layer_end(&cache->mag);
	if (cache->slabs.is_annotated)
		checker_pool_destroy(cache);
	quarantine_end(&cache->quarantine);
	cache_debugger.forget(cache);
	meta_free(cache, sizeof(*cache));
}
