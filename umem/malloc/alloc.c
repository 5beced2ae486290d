/*
 * alloc.c - the allocation engine under malloc() and umem_alloc()
 *
 * A size has a class (size_class.h), and the cache of the class allocates its
 * chunks.  A size without a class is large, and its block comes directly from
 * the heap (large.c).  The page map leads from an address back to the class.
 * No metadata is stored in a block.
 *
 * Built on this engine: realloc() in alloc_resize.c, umem_alloc() and its
 * relatives in alloc_sized.c, objects of caches in alloc_object.c.
 *
 * If there is no memory, update_reclaim() returns cached memory to the heap,
 * and the request is tried again.
 */
#include <errno.h>
#include <string.h>

#include "magazine/cpu_marks.h"
#include "umem/malloc/alloc_inner.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/base/ready.h"
#include "umem/base/large.h"
#include "umem/cache/misuse.h"
#include "umem/malloc/nofail.h"
#include "umem/profile/sample.h"
#include "umem/profile/sample_count.h"
#include "umem/upkeep/update.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/account.h"
#include "vmem/os.h"

/* For libumem, which is not malloc and has no pthread_create(). */
const bool umem_is_malloc replaceable = false;
const struct update_threads update_threads replaceable = {NULL, NULL};

struct alloc_fast alloc_fast = {.object_least = UINTPTR_MAX};

static inline void
alloc_store_word(size_t *word, size_t value)
{
	/* Sequentially consistent: precedes the caller's next load. */
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/*
 * Opens the sections to the sizes that need no slow path now.  The fast paths
 * do not know nodes.  With an mtbf every request takes the slow path, which may
 * fail it.
 */
static void
choose_sections(size_t mean, uint32_t mtbf)
{
	size_t marked_max = 0;
	size_t end = mtbf == 0 && nodes.mask == 0 ? SIZE_SMALL + 1 : 0;

	if (mean != 0 && end != 0) {
		marked_max = sample_count_marked_max(mean);
		end = marked_max == 0 ? 0 : marked_max + 1;
	}
	alloc_store_word(&alloc_fast.object_least, 1);
	alloc_store_word(&alloc_fast.units, mtbf == 0 ? page_map.units : 0);
	cpu_set_marks(marked_max);
	alloc_store_word(&sampling.counted_end,
	    mtbf == 0 && mean != 0 && end <= SIZE_SMALL ? SIZE_SMALL + 1 : 0);
	alloc_store_word(&alloc_fast.small_end, end);
}

/*
 * If mean or mtbf_interval changes meanwhile, the loop repeats.  Otherwise the
 * stores here could overwrite the stores that another thread made for the new
 * value.
 */
noinline void
alloc_choose_paths(void)
{
	size_t mean;
	uint32_t mtbf;

	do {
		mean = __atomic_load_n(&sampling.mean, __ATOMIC_SEQ_CST);
		mtbf = __atomic_load_n(&mtbf_interval, __ATOMIC_SEQ_CST);
		alloc_store_word(&sampling.chosen, mean);
		/* Without sections all calls are slow. */
		if (alloc_fast.place.base != NULL)
			choose_sections(mean, mtbf);
	} while (__atomic_load_n(&sampling.mean, __ATOMIC_SEQ_CST) != mean ||
		 __atomic_load_n(&mtbf_interval, __ATOMIC_SEQ_CST) != mtbf);
}

const struct sample_engine sample_engine = {.choose_paths = alloc_choose_paths};

/*
 * Pops an object of a class for a call whose fast path has no section for its
 * size: a size above the small table, or an alignment.  A miss of any other
 * call comes from a section on the same header, which is not run again: a
 * section that was interrupted leaves its rounds for magazine_get().
 */
static inline bool
class_pop(unsigned class, void **object)
{
	umem_assert(class != 0 && class <= size_classes.n + 1);
	return alloc_fast.units != 0 && alloc_pop(class_number(class), object);
}

/*
 * Allocates an object of a class after a miss of its section.  *is_marked
 * becomes true if its round was marked.
 */
static void *
class_alloc(unsigned class, size_t size, bool *is_marked)
{
	struct umem_cache *cache;
	unsigned work = 0;
	void *object;

	umem_assert(class != 0 && class <= size_classes.n + 1);
	umem_assert(
	    class > size_classes.n || size <= size_classes.bytes[class]);
	if (unlikely(debug.on) && class_cache[class]->debug != 0)
		return debug_alloc(class_cache[class], size, API_MALLOC);
	cache = class_cache_of(class_number(class));
	if (unlikely(cache == NULL))
		return NULL;
	object = cache_alloc_slow(cache, &work);
	if (work != 0) {
		*is_marked = (work & WORK_MARKED) != 0;
		update_run(work);
	}
	/*
	 * The chunk may still be poisoned from an earlier block of
	 * umem_alloc().  Unpoison it.
	 */
	if (unlikely(checker_on) && object != NULL)
		checker_unpoison(object, size_classes.bytes[class], false);
	return object;
}

/* Returns the class that serves a size; 0: a large block serves it. */
static unsigned
class_for_size(size_t size)
{
	unsigned class = size_class_of(size);

	return likely(!debug.on) ? class : debug_class(class, size);
}

/* The caller has decided whether the block is a sample. */
static void *
alloc_try(size_t size, bool *zeroed)
{
	unsigned class = class_for_size(size);
	bool is_marked;

	*zeroed = false;
	if (class != 0)
		return class_alloc(class, size, &is_marked);
	if (unlikely(debug_large()))
		return debug_large_alloc(size, HEAP_UNIT, zeroed, API_MALLOC);
	return large_alloc(size, HEAP_UNIT, zeroed);
}

void
alloc_count_failure(umem_cache_t *cache, size_t size)
{
	if (cache == NULL) {
		account_add(&account.nlarge_failed, 1);
		if (size <= PTRDIFF_MAX && umem_ready())
			heap_limit_blame(align_up(size, HEAP_UNIT));
		return;
	}
	add_relaxed(&cache->nfailed, 1);
	if (cache->has_heap_slabs)
		heap_limit_blame(cache->slabs.layout.slab_bytes);
}

void *
alloc_no_memory(umem_cache_t *cache, size_t size)
{
	alloc_count_failure(cache, size);
	if (unlikely(debug.on || debug.checknull))
		debug_alloc_failed(cache, size);
	return fail_null(ENOMEM);
}

/* Returns the cache of a class; NULL: class is 0, or there is none yet. */
static umem_cache_t *
cache_of_class(unsigned class)
{
	return class == 0 ? NULL : class_cache_if_made(class_number(class));
}

/*
 * Repeats a request that has found no memory while update_reclaim() releases
 * some.
 */
static noinline void *
alloc_after_reclaim(size_t size, bool *zeroed)
{
	void *p = NULL;

	for (unsigned i = 0;
	     p == NULL && update_reclaim(size, i, /* may_call */ false); i++)
		p = alloc_try(size, zeroed);
	if (p != NULL)
		return p;
	return alloc_no_memory(cache_of_class(class_for_size(size)), size);
}

/* Allocates memory; *zeroed says whether it is known to be zero. */
static void *
alloc_reclaiming(size_t size, bool *zeroed)
{
	void *p;

	*zeroed = false;
	if (unlikely(bootstrap_is_active())) {
		*zeroed = true;
		return bootstrap_alloc(size, 16);
	}
	if (size > PTRDIFF_MAX || !umem_ready())
		return alloc_no_memory(NULL, size);
	p = alloc_try(size, zeroed);
	return likely(p != NULL) ? p : alloc_after_reclaim(size, zeroed);
}

/*
 * Pops a block of a size that has a class but no fast path.  A size above the
 * small table may get a chunk of a larger class: such sizes vary, so the same
 * one seldom comes again, while a chunk that this CPU has cached costs neither
 * locks nor new memory.
 */
static bool
slow_pop(size_t size, void **object)
{
	unsigned class, end;

	/* Before the start the tables of size classes are empty. */
	if (alloc_fast.units == 0)
		return debug_has_sections() &&
		       (*object = hardened_alloc(size, API_MALLOC)) != NULL;
	class = size_class_of(size);
	if (class == 0)
		return false;
	end = size > SIZE_SMALL ? class + LARGER_CLASSES : class;
	while (!class_pop(class, object))
		if (++class > end || class > size_classes.n)
			return false;
	return true;
}

/* Like alloc_reclaiming(), for a tail call. */
static noinline void *
alloc_reclaiming_size(size_t size)
{
	bool zeroed;

	return alloc_reclaiming(size, &zeroed);
}

/* Allocates a block of a size without a fast path, which has been counted. */
static noinline void *
alloc_counted(size_t size)
{
	void *object;

	return slow_pop(size, &object) ? object : alloc_reclaiming_size(size);
}

/*
 * Takes a sample if it is due; otherwise returns NULL.  The size has not been
 * counted.
 */
static noinline void *
alloc_sample_if_due(size_t size, size_t align, bool *zeroed)
{
	return sample_count_block(size) ? sample_take(size, align, NULL, zeroed)
					: NULL;
}

/* Counts a block of a size without a fast path, and allocates it. */
static noinline void *
alloc_sample_or_not(size_t size)
{
	bool zeroed;
	void *p = alloc_sample_if_due(size, 1, &zeroed);

	return p != NULL ? p : alloc_counted(size);
}

/*
 * Returns a sample instead of an object of a class whose round was marked, or
 * the object if the block cannot be a sample.
 */
static noinline void *
alloc_sample_instead(void *object, unsigned class, size_t size, size_t align)
{
	bool zeroed;
	void *p = NULL;

	if (sample_count_marked(size, size_classes.bytes[class]))
		p = sample_take(size, align, NULL, &zeroed);
	if (p == NULL)
		return object;
	alloc_free(object);
	return p;
}

/*
 * Must a request of malloc() or a relative fail, for a test (umem_setmtbf())?
 * Requests of umem_alloc() and its relatives are exempt, because these
 * functions have asked themselves.
 */
static inline bool
alloc_must_fail(size_t size, bool is_exempt)
{
	return unlikely(load_relaxed(&mtbf_interval) != 0) && !is_exempt &&
	       !bootstrap_is_active() &&
	       mtbf_must_fail(UMEM_DEFAULT,
		   class_cache_if_made(size_class_of(size)), size);
}

/*
 * Returns the interval, for a block without a fast path.  If the umem command
 * has changed it, chooses the paths again; see "On and off" in sample.c.
 */
static inline size_t
mean_of_paths(void)
{
	size_t mean = load_relaxed(&sampling.mean);

	if (unlikely(mean != load_relaxed(&sampling.chosen)))
		alloc_choose_paths();
	return mean;
}

static void *
alloc_block(size_t size, bool is_exempt)
{
	size_t mean = mean_of_paths();

	if (alloc_must_fail(size, is_exempt))
		return NULL;
	return mean != 0 ? alloc_sample_or_not(size) : alloc_counted(size);
}

noinline void *
alloc_hardened(size_t size, unsigned kind)
{
	return debug_has_sections() && load_relaxed(&mtbf_interval) == 0
		   ? hardened_alloc(size, kind)
		   : NULL;
}

/* Like alloc_block(), for a tail call. */
static noinline void *
alloc_checked(size_t size)
{
	void *p = alloc_hardened(size, API_MALLOC);

	return likely(p != NULL) ? p : alloc_block(size, /* is_exempt */ false);
}

/*
 * A size below small_end has missed its section.  For such a size the library
 * is started, no request must fail, and marks decide about samples, so the
 * cache of the class is next.
 */
void *
alloc_missed(size_t size)
{
	unsigned class;
	bool zeroed, is_marked = false;
	void *object;

	if (unlikely(size >= alloc_fast.small_end) ||
	    unlikely((class = class_for_size(size)) == 0))
		return alloc_block(size, /* is_exempt */ false);
	object = class_alloc(class, size, &is_marked);
	if (unlikely(object == NULL))
		return alloc_after_reclaim(size, &zeroed);
	return unlikely(is_marked)
		   ? alloc_sample_instead(object, class, size, 1)
		   : object;
}

/* Does alloc_larger() count this size? */
static inline bool
is_counted(size_t size)
{
	return size < load_relaxed(&sampling.counted_end);
}

/* The countdown does not reach beyond this block. */
static noinline void *
alloc_countdown_ended(size_t size)
{
	sample_count_undo(size);
	return alloc_sample_or_not(size);
}

/* May a block be allocated that is not counted? */
static inline bool
sampling_is_off(void)
{
	return (load_relaxed(&sampling.mean) |
		   load_relaxed(&sampling.chosen)) == 0;
}

/* alloc_larger() for all sizes, with several nodes and without sampling. */
static noinline void *
alloc_on_node(size_t size)
{
	void *object;

	if (unlikely(size - 1 >= SIZE_CLASS_MAX) ||
	    unlikely(alloc_fast.units == 0))
		return alloc_block(size, /* is_exempt */ false);
	return alloc_pop(class_number(size_class_of(size)), &object)
		   ? object
		   : alloc_counted(size);
}

/*
 * While sampling is off, sizes above the small table use their section here,
 * unless requests must fail, the library is not started, or the machine has
 * several nodes (small_end is 0).  While it is on, a small size without a fast
 * path is counted, and then uses its section.  The function makes only tail
 * calls, so it needs no stack frame.  Every size that is counted is in the
 * small table.
 */
void *
alloc_larger(size_t size)
{
	void *object;

	if (likely(size - SIZE_SMALL - 1 < SIZE_CLASS_MAX - SIZE_SMALL) &&
	    likely(sampling_is_off()) && likely(alloc_fast.small_end != 0))
		return alloc_pop(size_class_medium(size), &object)
			   ? object
			   : alloc_counted(size);
	if (debug_has_sections())
		return alloc_checked(size);
	if (unlikely(nodes.mask != 0) && sampling_is_off())
		return alloc_on_node(size);
	if (unlikely(!is_counted(size)))
		return alloc_block(size, /* is_exempt */ false);
	if (unlikely(!sample_count_within(size)))
		return alloc_countdown_ended(size);
	return alloc_pop(class_number(size_class_small(size)), &object)
		   ? object
		   : alloc_reclaiming_size(size);
}

void *
alloc_slow(size_t size)
{
	return size < alloc_fast.small_end ? alloc_missed(size)
					   : alloc_larger(size);
}

/*
 * From this size on, dirty pages are purged instead of overwritten: most of the
 * block may be clean, and the program may not use all of it.
 */
#define ZERO_BY_PURGE_MIN (32 * MIB)

static void *
alloc_zeroed_block(size_t size, bool is_exempt)
{
	bool zeroed = false;
	void *p;

	if (size < alloc_fast.small_end || is_counted(size)) {
		p = alloc_get(size);
	} else {
		if (alloc_must_fail(size, is_exempt))
			return NULL;
		p = mean_of_paths() == 0
			? NULL
			: alloc_sample_if_due(size, 1, &zeroed);
		if (p == NULL && !slow_pop(size, &p))
			p = alloc_reclaiming(size, &zeroed);
	}
	umem_assert(!zeroed || p == NULL || size == 0 ||
		    (*(char *)p == 0 && ((char *)p)[size - 1] == 0));
	if (p == NULL || zeroed)
		return p;
	if (size < ZERO_BY_PURGE_MIN || debug_large() ||
	    !os_purge(p, align_up(size, HEAP_UNIT)))
		memset(p, 0, size);
	return p;
}

void *
alloc_zeroed(size_t size)
{
	return alloc_zeroed_block(size, /* is_exempt */ false);
}

/* Returns the smallest class with chunks of this alignment; 0: none. */
static unsigned
class_for_alignment(size_t size, size_t align)
{
	unsigned class = class_for_size(size < align ? align : size);

	umem_assert(is_pow2(align));
	if (unlikely(debug.on) && size == 0 && align <= CACHE_LINE)
		class = debug_class(class, size);
	if (class > size_classes.n)
		return class;
	if (align > HEAP_UNIT || class == 0)
		return 0;
	for (; class <= size_classes.n; class ++)
		if (size_classes.bytes[class] % align == 0 &&
		    ((debug_cache_of(class) == NULL && !checker_on) ||
			align <= class_cache[class]->align))
			return class;
	return 0;
}

static void *
alloc_try_aligned(size_t size, size_t align, bool *is_marked)
{
	unsigned class = class_for_alignment(size, align);
	bool zeroed;
	void *object;

	*is_marked = false;
	if (class != 0)
		return class_pop(class, &object)
			   ? object
			   : class_alloc(class, size, is_marked);
	if (unlikely(debug_large()))
		return debug_large_alloc(size, align, &zeroed, API_MALLOC);
	return large_alloc(size == 0 ? 1 : size, align, &zeroed);
}

/*
 * Does malloc() give this alignment anyway: 16 for sizes of at least 16 bytes,
 * 8 for smaller sizes?
 */
static inline bool
is_natural_alignment(size_t size, size_t align)
{
	return align <= 8 || (align == 16 && size >= 16);
}

size_t
alloc_round(size_t size, size_t align)
{
	unsigned class;

	if (size > PTRDIFF_MAX - HEAP_UNIT || align > PTRDIFF_MAX ||
	    !umem_ready())
		return 0;
	class = is_natural_alignment(size, align)
		    ? class_for_size(size)
		    : class_for_alignment(size, align);
	if (debug_cache_of(class == 0 ? PAGE_MAP_LARGE : class) != NULL)
		return size;
	if (class != 0)
		return size_classes.bytes[class];
	return align_up(size == 0 ? 1 : size, HEAP_UNIT);
}

static void *
alloc_aligned_block(size_t size, size_t align, bool is_exempt)
{
	unsigned class = 0;
	bool is_marked, by_marks = alloc_aligned_class(size, align, &class);
	void *p;

	umem_assert(is_pow2(align));
	if (unlikely(bootstrap_is_active()))
		return bootstrap_alloc(size, align);
	if (size > PTRDIFF_MAX || align > PTRDIFF_MAX || !umem_ready())
		return alloc_no_memory(NULL, size);
	if (is_natural_alignment(size, align))
		return is_exempt ? alloc_block(size, is_exempt)
				 : alloc_get(size);
	if (alloc_must_fail(size, is_exempt))
		return NULL;
	p = NULL;
	if (unlikely(mean_of_paths() != 0) && !by_marks) {
		bool zeroed;

		p = alloc_sample_if_due(size, align, &zeroed);
		if (p != NULL)
			return p;
	}
	p = alloc_try_aligned(size, align, &is_marked);
	if (by_marks && is_marked && p != NULL)
		p = alloc_sample_instead(p, class, size, align);
	for (unsigned i = 0;
	     p == NULL && update_reclaim(size, i, /* may_call */ false); i++)
		p = alloc_try_aligned(size, align, &is_marked);
	umem_assert((uintptr_t)p % align == 0);
	if (p != NULL)
		return p;
	class = class_for_alignment(size, align);
	return alloc_no_memory(cache_of_class(class), size);
}

void *
alloc_aligned(size_t size, size_t align)
{
	return alloc_aligned_block(size, align, /* is_exempt */ false);
}

void *
alloc_exempt(size_t size, size_t align, bool zero)
{
	void *p;

	/* A block with a tag inside is in a larger class, of less alignment. */
	if (align == 0 && !bootstrap_is_active() && umem_ready() &&
	    debug.hardened && class_for_size(size) != 0)
		align = class_align(size);
	if (align != 0) {
		p = alloc_aligned_block(size, align, /* is_exempt */ true);
		return p != NULL && zero ? memset(p, 0, size) : p;
	}
	return zero ? alloc_zeroed_block(size, /* is_exempt */ true)
		    : alloc_block(size, /* is_exempt */ true);
}

/*
 * Returns the class of the block that starts at p, or PAGE_MAP_LARGE; 0: no
 * block starts there.
 */
static inline unsigned
class_of_start(const void *p)
{
	size_t unit = page_map_unit(p);
	uint64_t entry;

	if (unlikely(unit >= page_map.units))
		return 0;
	entry = load_acquire(&page_map.entry[unit]);
	return likely(page_map_is_start(p, entry)) ? page_map_class(entry) : 0;
}

unsigned
alloc_block_class(const void *p, size_t *bytes, const char *api)
{
	unsigned class = class_of_start(p);

	if (unlikely(class == 0)) {
		if (!debug.on)
			misuse_address(api, p);
		debug_bad_address(p);
		return 0;
	}
	if (class == PAGE_MAP_LARGE) {
		void *owner = page_map_owner(p);
		uint32_t index = page_map_sample_index(owner);

		*bytes = page_map_large_bytes(owner);
		if (likely(index == 0))
			return PAGE_MAP_LARGE;
		if (unlikely(sample_cache(index) != NULL))
			misuse(api, p, "object of a cache, not a block");
		*bytes = sample_usable(index, api);
		return CLASS_SAMPLE;
	}
	*bytes = size_classes.bytes[class];
	return class;
}

unsigned
alloc_block_to_free(
    void *p, size_t size, unsigned kind, size_t *bytes, const char *api)
{
	struct umem_cache *cache;
	unsigned class;

	if (debug_has_sections() && hardened_free(p, size, kind))
		return 0;
	if (p == NULL || bootstrap_owns(p))
		return 0;
	if (unlikely(!umem_ready()))
		misuse(api, p, "not an address of the heap");
	class = alloc_block_class(p, bytes, api);
	if (likely(!debug.on) || class == CLASS_SAMPLE ||
	    (cache = debug_cache_of(class)) == NULL)
		return class;
	debug_free(cache, p, size, kind);
	if (!cache->has_magazines)
		update_poll();
	return 0;
}

void
alloc_free_as(void *p, unsigned kind, const char *api)
{
	size_t bytes;
	unsigned class = alloc_block_to_free(p, SIZE_MAX, kind, &bytes, api);
	unsigned work = 0;

	if (class == 0)
		return;
	if (class == PAGE_MAP_LARGE) {
		large_free(p, bytes);
		update_poll();
		return;
	}
	if (class == CLASS_SAMPLE) {
		sample_free(alloc_sample_index(p), api);
		update_poll();
		return;
	}
	/* Frees that exchange magazines are rare, so all lines are cold. */
	__builtin_prefetch(page_map_owner(p));
	cpu_prefetch(alloc_fast.place.base + alloc_number_at(p, class));
	cache_free_slow(class_cache[alloc_number_at(p, class)], p, api, &work);
	if (work != 0)
		update_run(work);
}

void
alloc_free_slow(void *p)
{
	alloc_free_as(p, API_MALLOC, "free");
}

void
alloc_set_kind(void *p, unsigned kind)
{
	if (unlikely(debug.on) && p != NULL)
		debug_set_api(p, kind);
}

/*
 * Is p an address that has no usable bytes, and is no misuse to ask about?  A
 * program may ask about memory of another allocator.  Only debugging reports
 * an address in the heap where no block starts.
 */
static bool
has_no_usable_bytes(const void *p)
{
	unsigned class;
	uint32_t index;

	if (!umem_ready() ||
	    (uintptr_t)p - heap_window.base >= heap_committed())
		return true;
	if (debug.on)
		return false;
	class = class_of_start(p);
	index = class == PAGE_MAP_LARGE ? alloc_sample_index(p) : 0;
	return class == 0 || (index != 0 && (!sample_is_live(index) ||
						sample_cache(index) != NULL));
}

size_t
alloc_usable(const void *p, const char *api)
{
	unsigned class = alloc_class_at(p);
	size_t bytes;

	if (likely(class != 0))
		return size_classes.bytes[class];
	if (bootstrap_owns(p))
		return bootstrap_usable(p);
	if (unlikely(has_no_usable_bytes(p)))
		return 0;
	class = alloc_block_class(p, &bytes, api);
	if (unlikely(class == 0))
		return 0;
	if (likely(class != CLASS_SAMPLE) &&
	    unlikely(debug_cache_of(class) != NULL)) {
		bytes = debug_usable(class, p);
		return bytes == SIZE_MAX ? 0 : bytes;
	}
	return bytes;
}

unsigned
alloc_sample_class(const void *p)
{
	unsigned class = size_class_of(sample_size(alloc_sample_index(p)));

	return class == 0 ? PAGE_MAP_LARGE : class;
}

/*
 * Frees a block, and counts or reports a size that does not fit it.  The class
 * of the block is that of its address, so a wrong size harms nothing, and
 * programs exist that pass one size for all blocks.
 */
static void
free_block_of_size(
    void *p, size_t size, bool fits, unsigned kind, const char *api)
{
	if (unlikely(!fits)) {
		if (debug.on)
			misuse_size(api, p, size);
		account_add(&account.nwrong_sizes, 1);
	}
	if (!alloc_free_fast(p))
		alloc_free_as(p, kind, api);
}

void
alloc_free_sized(void *p, size_t size, unsigned kind, const char *api)
{
	size_t bytes;
	unsigned class = alloc_block_to_free(p, size, kind, &bytes, api);
	unsigned own = class == CLASS_SAMPLE ? alloc_sample_class(p) : class;

	if (class != 0)
		free_block_of_size(
		    p, size, alloc_size_fits(own, bytes, size), kind, api);
}

/* An aligned block may be in a chunk of any class that is large enough. */
void
alloc_free_aligned(
    void *p, size_t align, size_t size, unsigned kind, const char *api)
{
	size_t bytes;

	if (alloc_block_to_free(p, size, kind, &bytes, api) != 0)
		free_block_of_size(p, size,
		    size <= bytes && ((uintptr_t)p & (align - 1)) == 0, kind,
		    api);
}
