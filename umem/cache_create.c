/*
 * cache_create.c - caches come and go
 *
 * A cache's layout is settled here once: its alignment, what debugging or
 * memcheck needs beside each object (debug.c, checker.c), how many chunks make
 * a slab (slab_layout.c).  The caches of size classes are made when somebody
 * first asks for an object of the class.
 *
 * Source: arguments and errors of umem_cache_create(3MALLOC).
 */
#include <errno.h>
#include <string.h>

#include "umem/addr_map.h"
#include "umem/cache.h"
#include "umem/cache_hooks.h"
#include "umem/checker.h"
#include "umem/firewall.h"
#include "umem/ready.h"
#include "umem/worker.h"
#include "vmem/heap.h"
#include "vmem/hooks.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

/* Least alignment of objects, and of those of 16 bytes or more. */
#define ALIGN_LEAST  8
#define ALIGN_SECOND 16

#define FLAGS_KNOWN                                                            \
	(UMC_NOTOUCH | UMC_NODEBUG | UMC_NOMAGAZINE | UMC_NOHASH |             \
	    UMC_QCACHE | UMC_TYPESAFE_BY_RCU | UMC_INTERNAL)

struct list cache_list = {&cache_list, &cache_list};
struct lock cache_list_lock = LOCK_INITIALIZER(LOCK_CACHE_LIST);
bool cache_use_magazines = true;
bool cache_checked;
void (*cache_retire_hook)(struct umem_cache *cache);
struct umem_cache *class_cache[SIZE_CLASSES + 1];
size_t cache_nsourced;
size_t cache_nothers;

static struct umem_cache *
cache_of(struct slab_store *store)
{
	return container_of(store, struct umem_cache, slabs);
}

static void
destruct_chunk(struct slab_store *store, void *object)
{
	struct umem_cache *cache = cache_of(store);

	if (cache->destruct == NULL)
		return;
	if (unlikely(store->watched))
		checker_open(object, cache->bufsize, /* defined */ true);
	cache->destruct(object, cache->priv);
	if (unlikely(store->watched))
		checker_close(object, cache->bufsize);
}

/* Are objects of the cache told to who watches the process? */
static bool
is_watched(const struct umem_cache *cache)
{
	return unlikely(checker_on) && cache->debug == 0 &&
	       (cache->flags & (UMC_NOTOUCH | UMC_QCACHE)) == 0;
}

/* For a type-stable store: empty slabs may go after a grace period. */
static void
want_retire(struct slab_store *store)
{
	/* Acquire: pairs with the release store of the hook. */
	void (*hook)(struct umem_cache *) =
	    __atomic_load_n(&cache_retire_hook, __ATOMIC_ACQUIRE);

	if (hook != NULL)
		hook(cache_of(store));
}

static void
name_copy(char *to, const char *from)
{
	size_t n = strnlen(from, UMEM_CACHE_NAMELEN);

	memcpy(to, from, n);
	to[n] = '\0';
}

/* The parts that every cache has; false: no memory. */
static bool
cache_set_up(struct umem_cache *cache, const char *name,
    const struct slab_layout *layout, vmem_t *source)
{
	bool constructs = cache->construct != NULL || cache->destruct != NULL;
	unsigned rounds_most = 0;

	/* With patterns in free objects, none stays constructed. */
	if ((cache->debug & (UMF_DEADBEEF | UMF_LITE)) != 0)
		constructs = false;

	name_copy(cache->name, name);
	list_init(&cache->limit.waiting);
	slab_store_init(&cache->slabs, layout, source, cache->class,
	    constructs ? destruct_chunk : NULL);
	cache->slabs.record_bytes =
	    (uint32_t)cache_debugger.record_bytes(cache);
	cache->slabs.stable = (cache->flags & UMC_TYPESAFE_BY_RCU) != 0;
	cache->slabs.want_retire = want_retire;
	cache->slabs.watched = is_watched(cache);
	/* A piece of an arena need not lie in a slab. */
	cache->slabs.checked = cache_checked && cache->debug == 0 &&
			       !cache->slabs.watched && !cache->slabs.quantum &&
			       cache->import == NULL;
	cache->slabs.guarded = (cache->debug & UMF_FIREWALL) != 0;
	/* A type-stable cache ends no slab but in slab_end_retired(). */
	cache->calls_out =
	    cache->import != NULL ||
	    (!cache->slabs.stable &&
		((constructs && cache->destruct != NULL) ||
		    (source != NULL &&
			vmem_calls_out(source, heap_arena_release))));
	cache->has_magazines = cache_use_magazines && cache->debug == 0 &&
			       (cache->flags & UMC_NOMAGAZINE) == 0;
	if (cache->import != NULL) {
		cache->has_magazines = cache->import->has_magazines;
		rounds_most = cache->import->rounds_most;
		cache->mag.keeps_none = rounds_most != 0;
	}
	if ((cache->debug & (UMF_HARDENED | UMF_DEADBEEF)) != 0)
		quarantine_init(&cache->quarantine, layout->chunk);
	/* A chunk without a header of its own is known by who carries it. */
	if (!cache->has_magazines) {
		cache->mag.hot = cpu_header_none();
		cache_choose_fast(cache);
		return true;
	}
	if (cache->class == 0 &&
	    !magazine_layer_init(
		&cache->mag, layout->chunk, rounds_most, CPU_GUARD_NONE))
		return false;
	if (cache->class != 0)
		magazine_layer_init_at(&cache->mag, cache->class, layout->chunk,
		    addr_map.guard[cache->class]);
	cache_choose_fast(cache);
	return true;
}

/* A cache with a source comes or goes. */
static void
nsourced_add(const struct umem_cache *cache, size_t n)
{
	const vmem_t *source = cache->slabs.source;

	if (source != NULL && (!cache->slabs.quantum || vmem_imports(source)))
		__atomic_add_fetch(&cache_nsourced, n, __ATOMIC_RELAXED);
}

static void
cache_list_add(struct umem_cache *cache)
{
	nsourced_add(cache, 1);
	lock_take(&cache_list_lock);
	list_add_tail(&cache_list, &cache->link);
	cache_nothers++;
	lock_release(&cache_list_lock);
}

/* Those of classes come first, in their order. */
static void
cache_list_add_class_locked(struct umem_cache *cache)
{
	struct list *before = cache_list.next;

	while (before != &cache_list) {
		unsigned class =
		    container_of(before, struct umem_cache, link)->class;

		if (class == 0 || class > cache->class)
			break;
		before = before->next;
	}
	list_add_tail(before, &cache->link);
}

/* For a class, the list is locked; else not. */
static struct umem_cache *
cache_new(const char *name, const struct slab_layout *layout, vmem_t *source,
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
		cache_list_add_class_locked(cache);
		return cache;
	}
	if (cache->slabs.watched)
		checker_pool(cache);
	cache_list_add(cache);
	return cache;
}

/* What spans are multiples of: at least what the source rounds them to. */
static size_t
span_quantum(const vmem_t *source)
{
	size_t page = os_page_size();

	if (source == NULL)
		return HEAP_UNIT;
	return vmem_quantum(source) > page ? vmem_quantum(source) : page;
}

/* What the tag of a debugged block may not take away from it. */
static size_t
class_align(size_t bytes)
{
	if (bytes % os_page_size() == 0)
		return os_page_size();
	if (bytes % CACHE_LINE == 0)
		return CACHE_LINE;
	return bytes < 16 ? 8 : 16;
}

/*
 * The same with room behind each object, and before the first: nothing of
 * ours may look like a pointer to an object.
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
	layout->colour_step = 0;
	layout->colour_max = front;
	return true;
}

/* How objects of a cache lie in its slabs; false: they are too large. */
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
class_create_locked(unsigned class)
{
	size_t bytes = size_classes.bytes[class];
	struct umem_cache template = {.class = class,
	    .bufsize = bytes,
	    .align = bytes < 16 ? 8 : 16,
	    .flags = UMC_INTERNAL};
	struct slab_layout layout;
	struct message name = {0};

	message_text(&name, "umem_alloc_");
	message_dec(&name, bytes);
	name.text[name.n] = '\0';
	cache_debugger.plan(&template, name.text, /* sourced */ false);
	if (template.debug != 0 || checker_on)
		template.align = class_align(bytes);
	if (!cache_layout(&template, &layout, 16, NULL))
		return NULL;
	if (template.debug != 0 || checker_on)
		addr_map_divide(class, layout.chunk);
	return cache_new(name.text, &layout, NULL, &template);
}

struct umem_cache *
class_cache_make(unsigned class)
{
	struct umem_cache *cache;

	lock_take(&cache_list_lock);
	cache = class_cache[class];
	if (cache == NULL) {
		cache = class_create_locked(class);
		/* Release: pairs with class_cache_of(). */
		__atomic_store_n(&class_cache[class], cache, __ATOMIC_RELEASE);
	}
	lock_release(&cache_list_lock);
	return cache;
}

/* Addresses from one block of no bytes to the next. */
#define ZERO_CHUNK CACHE_LINE

bool
class_zero_make(void)
{
	unsigned class = size_classes.n + 1;
	struct umem_cache template = {
	    .class = class, .align = ZERO_CHUNK, .flags = UMC_INTERNAL};
	struct slab_layout layout;
	struct umem_cache *cache;

	cache_debugger.plan(&template, "umem_alloc_0", /* sourced */ true);
	if (template.debug == 0 || class_cache[class] != NULL)
		return true;
	if (!slab_layout(&layout, ZERO_CHUNK, ZERO_CHUNK, HEAP_UNIT))
		return false;
	addr_map_divide(class, ZERO_CHUNK);
	lock_take(&cache_list_lock);
	cache = cache_new("umem_alloc_0", &layout, NULL, &template);
	if (cache != NULL)
		cache->slabs.hollow = true;
	__atomic_store_n(&class_cache[class], cache, __ATOMIC_RELEASE);
	lock_release(&cache_list_lock);
	return cache != NULL;
}

struct umem_cache *
cache_create_quantum(
    const char *name, size_t bytes, size_t quantum, vmem_t *arena)
{
	struct umem_cache template = {.bufsize = bytes,
	    .align = quantum,
	    .flags = UMC_QCACHE | UMC_NOTOUCH | UMC_INTERNAL};
	struct slab_layout layout;

	template.slabs.quantum = true;

	/* Slabs of at least four pieces, as the article does. */
	if (!slab_layout(&layout, bytes, quantum, align_up(4 * bytes, quantum)))
		return NULL;
	layout.colour_step = layout.colour_max = 0;
	return cache_new(name, &layout, arena, &template);
}

/*
 * What a resource counts for where the size of an object decides: magazines of
 * 30 rounds at first, which is the least of sizes.c.
 */
#define RESOURCE_BYTES 4096

struct umem_cache *
cache_create_import(const char *name, struct import *import, unsigned flags)
{
	/* A slab of one chunk, of which there is none. */
	const struct slab_layout layout = {.chunk = RESOURCE_BYTES,
	    .slab_bytes = RESOURCE_BYTES,
	    .nchunks = 1};
	struct umem_cache template = {
	    .import = import, .align = 1, .flags = flags | UMC_NOTOUCH};

	return cache_new(name, &layout, /* source */ NULL, &template);
}

/* Alignment in force for what the program asked; 0 if it cannot be had. */
static size_t
cache_align(const struct umem_cache *cache, size_t align, vmem_t *source)
{
	size_t most = source == NULL ? os_page_size() : vmem_quantum(source);

	if (align == 0)
		align =
		    cache->bufsize > ALIGN_LEAST ? ALIGN_SECOND : ALIGN_LEAST;
	if (!is_pow2(align))
		return 0;
	if (align < ALIGN_LEAST && (cache->flags & UMC_NOTOUCH) == 0)
		align = ALIGN_LEAST;
	return align <= most ? align : 0;
}

static bool
arguments_are_right(const char *name, size_t size, size_t align, int cflags)
{
	if (name == NULL || size == 0 || align == 0 ||
	    ((unsigned)cflags & ~FLAGS_KNOWN) != 0)
		return false;
	if ((cflags & UMC_NOHASH) != 0 && (cflags & UMC_NOTOUCH) != 0)
		return false;
	/* Pieces of a quantum cache go back to their arena at any time. */
	if ((cflags & UMC_QCACHE) != 0 && (cflags & UMC_TYPESAFE_BY_RCU) != 0)
		return false;
	/* Without a hash, libumem's slab is a page with its description. */
	return (cflags & UMC_NOHASH) == 0 || size <= os_page_size() - 64;
}

public umem_cache_t *
umem_cache_create(const char *name, size_t bufsize, size_t align,
    umem_constructor_t *construct, umem_destructor_t *destruct,
    umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags)
{
	struct umem_cache template = {.flags = (unsigned)cflags,
	    .bufsize = bufsize,
	    .construct = construct,
	    .destruct = destruct,
	    .reclaim = reclaim,
	    .priv = priv};
	struct slab_layout layout;
	struct umem_cache *cache;
	size_t in_force;

	in_force = cache_align(&template, align, source);
	if (!arguments_are_right(name, bufsize, in_force, cflags)) {
		errno = EINVAL;
		return NULL;
	}
	if (!umem_ready()) {
		errno = EAGAIN;
		return NULL;
	}
	template.align = in_force;
	cache_debugger.plan(&template, name, source != NULL);
	if (bufsize > PTRDIFF_MAX / 2 ||
	    !cache_layout(&template, &layout, in_force, source)) {
		errno = ENOMEM;
		return NULL;
	}
	/* Only chunk boundaries of a source are known to be aligned. */
	if (source != NULL && !is_watched(&template))
		layout.colour_step = layout.colour_max = 0;
	cache = cache_new(name, &layout, source, &template);
	if (cache == NULL)
		errno = EAGAIN;
	return cache;
}

/* A use of a cache that was destroyed while it was not empty ends here. */
static void
cache_leave_mines(struct umem_cache *cache, bool tell)
{
	if (tell)
		say("umem_cache_destroy: '%s' (%p) not empty", cache->name,
		    (void *)cache);
	cache->mag.hot = cpu_header_none();
	limit_end(cache);
	cache_choose_fast(cache);
	cache->destroyed = true;
}

public void
umem_cache_destroy(umem_cache_t *cache)
{
	bool released, drained, ended;

	if (cache == NULL)
		return;
	released = cache_deferral.end_cache(cache);
	reserve_end(cache);
	worker_let_go(cache);
	nsourced_add(cache, (size_t)-1);
	drained = cache_drain(cache);
	cache_close_gate(cache);
	ended = slab_store_end(&cache->slabs);
	cache_open_gate(cache);
	if (cache->import != NULL) {
		import_reap(cache);
		ended = import_count(cache) == 0;
	}
	if (!ended) {
		/*
		 * Objects in magazines out of reach, and those that still wait
		 * for a grace period, are not the program's.
		 */
		cache_leave_mines(cache, /* tell */ released && drained);
		return;
	}
	if (cache->has_magazines)
		magazine_layer_end(&cache->mag);
	if (cache->slabs.watched)
		checker_pool_end(cache);
	quarantine_end(&cache->quarantine);
	cache_debugger.forget(cache);
	if (cache->import != NULL)
		import_delete(cache->import);
	meta_free(cache, sizeof(*cache));
}
