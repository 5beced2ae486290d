/*
 * alloc.c - the allocation engine under malloc() and umem_alloc()
 *
 * A size has a class (size_class.h) whose cache hands out its chunks, or is
 * large and comes straight from the heap (large.c).  An address leads back by
 * the address map.  Nothing is stored with a block.
 *
 * When there is no memory, what is cached anywhere is given back once and
 * the request is tried again (update_reclaim).
 */
#include <errno.h>
#include <string.h>

#include "umem/alloc.h"
#include "umem/checker.h"
#include "umem/debug.h"
#include "umem/init.h"
#include "umem/large.h"
#include "umem/misuse.h"
#include "umem/nofail.h"
#include "umem/sample.h"
#include "umem/shrink.h"
#include "umem/update.h"
#include "vmem/os.h"

struct alloc_fast alloc_fast;

/* One for memory of our own structures, one for the block itself. */
#define RECLAIM_TRIES 2

/* Class byte that the address map does not have: a large block and sample. */
#define CLASS_SAMPLE (ADDR_LARGE - 1)

static inline void
set_word(size_t *word, size_t value)
{
	/* Before what the caller reads next. */
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Who changes one of the two meanwhile may not see what is stored for it. */
void
alloc_choose_paths(void)
{
	size_t mean;
	uint32_t mtbf;

	if (alloc_fast.hot == NULL)
		return;
	do {
		mean = __atomic_load_n(&sampling.mean, __ATOMIC_SEQ_CST);
		mtbf = __atomic_load_n(&mtbf_interval, __ATOMIC_SEQ_CST);
		set_word(&alloc_fast.units, mtbf == 0 ? addr_map.units : 0);
		set_word(&alloc_fast.counted_end,
		    mtbf == 0 && mean != 0 ? SIZE_SMALL + 1 : 0);
		set_word(&alloc_fast.small_end,
		    mtbf == 0 && mean == 0 ? SIZE_SMALL + 1 : 0);
	} while (__atomic_load_n(&sampling.mean, __ATOMIC_SEQ_CST) != mean ||
		 __atomic_load_n(&mtbf_interval, __ATOMIC_SEQ_CST) != mtbf);
}

/* The section again, for classes that the small table does not have. */
static inline bool
section_get(unsigned class, void **object)
{
	return alloc_fast.units != 0 &&
	       rseq_pop(&alloc_fast.place, alloc_fast.hot,
		   class * sizeof(struct cpu_hot), object) == RSEQ_OK;
}

static void *
class_alloc(unsigned class, size_t size)
{
	struct umem_cache *cache;
	void *object;

	if (unlikely(debug.on) && class_cache[class]->debug != 0)
		return debug_alloc(class_cache[class], size, KIND_MALLOC);

	if (section_get(class, &object))
		return object;
	cpu_bring_in(alloc_fast.hot + class);
	cache = class_cache_of(class);
	if (unlikely(cache == NULL))
		return NULL;
	object = cache_alloc_slow(cache);
	/* It may have been a block of umem_alloc(), and shut since. */
	if (unlikely(checker_on) && object != NULL)
		checker_open(object, size_classes.bytes[class], false);
	return object;
}

static void *
try_alloc(size_t size, bool *zeroed)
{
	unsigned class = size_class_of(size);

	*zeroed = false;
	if (class != 0)
		return class_alloc(class, size);
	if (unlikely(debug_large()))
		return debug_large_alloc(size, HEAP_UNIT, zeroed, KIND_MALLOC);
	return large_alloc(size, HEAP_UNIT, zeroed);
}

static void *
no_memory(size_t size)
{
	if (unlikely(debug.on || debug.checknull))
		debug_failed("allocation", size);
	errno = ENOMEM;
	return NULL;
}

/* Memory, and whether it is known to be zero. */
static void *
engine_alloc(size_t size, bool *zeroed)
{
	void *p;

	*zeroed = false;
	if (unlikely(boot_is_early())) {
		*zeroed = true;
		return boot_alloc(size, 16);
	}
	if (size > PTRDIFF_MAX || !umem_ready())
		return no_memory(size);
	p = try_alloc(size, zeroed);
	if (likely(p != NULL))
		return p;
	for (int i = 0; p == NULL && i < RECLAIM_TRIES; i++) {
		if (!update_reclaim(size))
			break;
		p = try_alloc(size, zeroed);
	}
	return p != NULL ? p : no_memory(size);
}

/* A size that has been counted. */
static noinline void *
counted_alloc(size_t size)
{
	bool zeroed;
	void *object;

	/* The small table ends before the classes do. */
	if (size > SIZE_SMALL && alloc_fast.units != 0) {
		unsigned class = size_class_medium(size);

		if (class != 0 && section_get(class, &object))
			return object;
	}
	return engine_alloc(size, &zeroed);
}

/* A sample if it is due; else NULL.  The size has not been counted. */
static noinline void *
sampled_alloc(size_t size, size_t align, bool *zeroed)
{
	return sample_is_due(size) ? sample_take(size, align, zeroed) : NULL;
}

/* The thread has counted size and come to the end of its stretch. */
static noinline void *
alloc_at_end(size_t size)
{
	bool zeroed;
	void *p = NULL;

	if (sample_ran_out(size))
		p = sample_take(size, 1, &zeroed);
	return p != NULL ? p : counted_alloc(size);
}

static noinline void *
uncounted_alloc(size_t size)
{
	bool zeroed;
	void *p = sampled_alloc(size, 1, &zeroed);

	return p != NULL ? p : counted_alloc(size);
}

void *
alloc_slow(size_t size)
{
	void *object;

	/* What alloc_get() does while small sizes need not be counted. */
	if (size < alloc_fast.counted_end) {
		if (unlikely(!sample_spend(size)))
			return alloc_at_end(size);
		if (likely(rseq_pop(&alloc_fast.place, alloc_fast.hot,
			       size_class_small(size) * sizeof(struct cpu_hot),
			       &object) == RSEQ_OK))
			return object;
		return counted_alloc(size);
	}
	if (unlikely(sample_is_on()))
		return uncounted_alloc(size);
	return counted_alloc(size);
}

/* Above this, dropping dirty pages is cheaper than writing zeros. */
#define CLEAR_BY_PURGE (32 * MIB)

void *
alloc_zeroed(size_t size)
{
	bool zeroed = false;
	void *p;

	if (size < alloc_fast.small_end || size < alloc_fast.counted_end) {
		p = alloc_get(size);
	} else {
		p = !sample_is_on() ? NULL : sampled_alloc(size, 1, &zeroed);
		if (p == NULL)
			p = engine_alloc(size, &zeroed);
	}
	if (p == NULL || zeroed)
		return p;
	if (size < CLEAR_BY_PURGE || debug_large() ||
	    !os_purge(p, align_up(size, HEAP_UNIT)))
		memset(p, 0, size);
	return p;
}

/* The least class whose chunks are aligned so; 0: none. */
static unsigned
class_aligned(size_t size, size_t align)
{
	unsigned class = size_class_of(size < align ? align : size);

	if (align > HEAP_UNIT || class == 0)
		return 0;
	for (; class <= size_classes.n; class ++)
		if (size_classes.bytes[class] % align == 0 &&
		    ((!debug_owns(class) && !checker_on) ||
			align <= class_cache[class]->align))
			return class;
	return 0;
}

static void *
try_aligned(size_t size, size_t align)
{
	unsigned class = class_aligned(size, align);
	bool zeroed;

	if (class != 0)
		return class_alloc(class, size);
	if (unlikely(debug_large()))
		return debug_large_alloc(size, align, &zeroed, KIND_MALLOC);
	return large_alloc(size == 0 ? 1 : size, align, &zeroed);
}

void *
alloc_aligned(size_t size, size_t align)
{
	void *p;

	if (unlikely(boot_is_early()))
		return boot_alloc(size, align);
	if (size > PTRDIFF_MAX || align > PTRDIFF_MAX || !umem_ready())
		return no_memory(size);
	/* malloc() aligns so anyway: 16 from 16 bytes on, 8 below. */
	if (align <= 8 || (align == 16 && size >= 16))
		return alloc_get(size);
	p = NULL;
	if (unlikely(sample_is_on())) {
		bool zeroed;

		p = sampled_alloc(size, align, &zeroed);
	}
	if (p == NULL)
		p = try_aligned(size, align);
	for (int i = 0; p == NULL && i < RECLAIM_TRIES; i++) {
		if (!update_reclaim(size))
			break;
		p = try_aligned(size, align);
	}
	return p != NULL ? p : no_memory(size);
}

static uint32_t
sample_of(const void *p)
{
	return addr_map_sample_index(addr_map_owner(p));
}

/*
 * Class of a block with its bytes, ADDR_LARGE or CLASS_SAMPLE, or the end of
 * the program; 0 if it is debugged with noabort, and the misuse was reported.
 */
static unsigned
block_class(const void *p, size_t *bytes, const char *who)
{
	size_t unit = addr_map_unit(p);
	uint32_t entry = 0;

	if (likely(unit < addr_map.units))
		entry =
		    __atomic_load_n(&addr_map.entry[unit], __ATOMIC_ACQUIRE);
	if (unlikely(
		addr_map_class(entry) == 0 || !addr_map_is_start(p, entry))) {
		if (!debug.on)
			misuse_address(who, p);
		debug_bad_address(p);
		return 0;
	}
	if (addr_map_class(entry) == ADDR_LARGE) {
		void *owner = addr_map_owner(p);
		uint32_t index = addr_map_sample_index(owner);

		*bytes = addr_map_large_bytes(owner);
		if (likely(index == 0))
			return ADDR_LARGE;
		*bytes = sample_usable(index, who);
		return CLASS_SAMPLE;
	}
	*bytes = size_classes.bytes[addr_map_class(entry)];
	return addr_map_class(entry);
}

/* Is the block debugged, or none?  Then it has been freed, or reported. */
static bool
free_debugged(unsigned class, void *p, size_t size, unsigned kind)
{
	if (class == 0)
		return true;
	if (class == CLASS_SAMPLE || !debug_owns(class))
		return false;
	if (class == ADDR_LARGE)
		debug_large_free(p, size, kind);
	else
		debug_free(class_cache[class], p, size, kind);
	update_poll();
	return true;
}

static void
free_as(void *p, const char *who)
{
	size_t bytes;
	unsigned class = block_class(p, &bytes, who);

	if (unlikely(debug.on) &&
	    free_debugged(class, p, SIZE_MAX, KIND_MALLOC))
		return;
	if (class == ADDR_LARGE) {
		large_free(p, bytes);
		update_poll();
		return;
	}
	if (class == CLASS_SAMPLE) {
		sample_free(sample_of(p), who);
		update_poll();
		return;
	}
	cpu_bring_in(alloc_fast.hot + class);
	cache_free_slow(class_cache[class], p, who);
}

void
alloc_free_slow(void *p)
{
	if (p == NULL || boot_owns(p))
		return;
	if (unlikely(!umem_ready()))
		misuse("free", p, "not an address of the heap");
	free_as(p, "free");
}

/*
 * Is the block's own chunk good enough for size?  A smaller size keeps it
 * while it is at least half used.
 */
static bool
stays(size_t bytes, size_t size)
{
	return size <= bytes && (size > bytes / 2 || bytes <= 64);
}

/*
 * [a] Some block may be larger than its size asks for, and stays() with it.
 * A sized free of less than a block's class is misuse as long as none is.
 */
static bool loose;

static void *
left_larger(void *p)
{
	if (!__atomic_load_n(&loose, __ATOMIC_RELAXED))
		__atomic_store_n(&loose, true, __ATOMIC_RELAXED);
	return p;
}

static void *
resize_by_copy(void *p, size_t bytes, size_t size)
{
	void *q = alloc_get(size);

	/* Nobody expects that making a block smaller may fail. */
	if (q == NULL)
		return size <= bytes ? left_larger(p) : NULL;
	large_copy(q, p, bytes < size ? bytes : size);
	alloc_free(p);
	return q;
}

/* Samples are taken, and debugging is done, where blocks are allocated. */
static noinline void *
grow_large(void *p, size_t bytes, size_t size)
{
	void *q = NULL;

	if (!sample_is_on() && !debug_large())
		q = large_from(p, bytes, size);
	if (q == NULL)
		return resize_by_copy(p, bytes, size);
	alloc_free(p);
	return q;
}

static noinline void *
resize_smaller(void *p, size_t bytes, size_t size)
{
	void *q;

	if (shrink_stays(bytes, size))
		return left_larger(p);
	q = resize_by_copy(p, bytes, size);
	if (q != p)
		shrink_moved(p, bytes, q, bytes - size);
	return q;
}

/* A block of a class, or one that is to be of a class. */
static inline void *
resize_class(void *p, size_t bytes, size_t size)
{
	size_t had;
	void *q;

	if (stays(bytes, size))
		return p;
	if (unlikely(size <= bytes))
		return resize_smaller(p, bytes, size);
	had = shrink_grows(p, size);
	q = likely(had <= LARGE_GROWN) ? resize_by_copy(p, bytes, had)
				       : grow_large(p, bytes, had);
	return likely(had == size) ? q : left_larger(q);
}

/* A large one grows as other large ones do, and stays a sample. */
static void *
resize_sample(void *p, size_t bytes, size_t size)
{
	uint32_t index = sample_of(p);
	void *q;

	if (bytes <= SIZE_CLASS_MAX || size <= SIZE_CLASS_MAX) {
		q = resize_class(p, bytes, size);
		if (q == p)
			sample_stays(index, size);
		return q;
	}
	q = sample_resize(index, size);
	if (q == NULL && update_reclaim(size))
		q = sample_resize(index, size);
	return q != NULL ? q : no_memory(size);
}

/* In the same chunk, or to another; anew, if that is the only way. */
static void *
resize_debugged(unsigned class, void *p, size_t size)
{
	size_t old = class == 0 ? SIZE_MAX : debug_usable(class, p);

	if (old == SIZE_MAX) {
		errno = EINVAL;
		return NULL;
	}
	if (old == size ||
	    (class != ADDR_LARGE && size <= SIZE_CLASS_MAX &&
		size_class_of(size) == class && debug_resize(class, p, size)))
		return p;
	return resize_by_copy(p, old, size);
}

/* Perhaps before memcpy() can be called. */
static void *
resize_boot(const char *p, size_t size)
{
	size_t bytes = boot_usable(p) < size ? boot_usable(p) : size;
	char *q = alloc_get(size);

	for (size_t i = 0; q != NULL && i < bytes; i++)
		((volatile char *)q)[i] = p[i];
	return q;
}

static noinline void *
resize_slow(void *p, size_t size)
{
	size_t bytes;
	unsigned class;

	if (size > PTRDIFF_MAX)
		return no_memory(size);
	if (boot_owns(p))
		return resize_boot(p, size);
	if (unlikely(!umem_ready()))
		misuse("realloc", p, "not an address of the heap");
	class = block_class(p, &bytes, "realloc");
	if (unlikely(class == CLASS_SAMPLE))
		return resize_sample(p, bytes, size);
	if (unlikely(debug.on) && (class == 0 || debug_owns(class)))
		return resize_debugged(class, p, size);
	if (class != ADDR_LARGE || size <= LARGE_GROWN)
		return resize_class(p, bytes, size);
	void *q = large_resize(p, bytes, size);
	if (q == NULL && update_reclaim(size))
		q = large_resize(p, bytes, size);
	if (q == p && size < bytes)
		left_larger(p);
	return q != NULL ? q : no_memory(size);
}

void *
alloc_resize(void *p, size_t size)
{
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;

	if (likely(unit < alloc_fast.units) && likely(size <= SIZE_SMALL) &&
	    likely(!debug.on)) {
		uint32_t entry =
		    __atomic_load_n(&alloc_fast.entry[unit], __ATOMIC_RELAXED);
		unsigned class = addr_map_class(entry);

		if (likely(class - 1 < size_classes.n) &&
		    likely(addr_map_is_start(p, entry)))
			return resize_class(p, size_classes.bytes[class], size);
	}
	return resize_slow(p, size);
}

size_t
alloc_usable(const void *p, const char *who)
{
	size_t bytes;
	unsigned class;

	if (boot_owns(p))
		return boot_usable(p);
	if (unlikely(!umem_ready()))
		misuse(who, p, "not an address of the heap");
	class = block_class(p, &bytes, who);
	if (unlikely(debug.on) && class == 0)
		return 0;
	if (likely(class != CLASS_SAMPLE) && unlikely(debug_owns(class))) {
		bytes = debug_usable(class, p);
		return bytes == SIZE_MAX ? 0 : bytes;
	}
	return bytes;
}

/* The class that a sample would be of, if it were none. */
static unsigned
sample_class(const void *p)
{
	unsigned class = size_class_of(sample_size(sample_of(p)));

	return class == 0 ? ADDR_LARGE : class;
}

/* May a block of so many bytes have been asked for, or resized, with size? */
static bool
fits(unsigned class, size_t bytes, size_t size)
{
	if (size <= bytes && __atomic_load_n(&loose, __ATOMIC_RELAXED))
		return true;
	return class == ADDR_LARGE
		   ? align_up(size, HEAP_UNIT) == bytes || stays(bytes, size)
		   : size_class_of(size) == class || stays(bytes, size);
}

void
alloc_free_sized_slow(void *p, size_t size, const char *who)
{
	size_t bytes;
	unsigned class;

	if (p == NULL || boot_owns(p))
		return;
	if (unlikely(!umem_ready()))
		misuse(who, p, "not an address of the heap");
	class = block_class(p, &bytes, who);
	if (unlikely(debug.on) && free_debugged(class, p, size, KIND_MALLOC))
		return;
	if (!fits(class == CLASS_SAMPLE ? sample_class(p) : class, bytes, size))
		misuse_size(who, p, size);
	free_as(p, who);
}

/* An aligned block may lie in any chunk that is large enough. */
void
alloc_free_aligned(void *p, size_t align, size_t size, const char *who)
{
	size_t bytes;
	unsigned class;

	if (p == NULL || boot_owns(p))
		return;
	if (unlikely(!umem_ready()))
		misuse(who, p, "not an address of the heap");
	class = block_class(p, &bytes, who);
	if (unlikely(debug.on) && free_debugged(class, p, size, KIND_MALLOC))
		return;
	if (size > bytes || ((uintptr_t)p & (align - 1)) != 0)
		misuse_size(who, p, size);
	free_as(p, who);
}

/* Public: sized memory. */

/* 0 bytes have no memory, and that is no failure. */
static void *
sized_alloc(size_t size, size_t align, int flags, bool zero)
{
	void *p;

	if (size == 0)
		return NULL;
	/* Off the fast path while umem_setmtbf() is in force. */
	if (unlikely(alloc_fast.small_end == 0) && mtbf_strikes(flags))
		return NULL;
	for (;;) {
		if (align != 0)
			p = alloc_aligned(size, align);
		else
			p = zero ? alloc_zeroed(size) : alloc_get(size);
		if (unlikely(debug.on) && p != NULL)
			debug_mark_umem(p);
		if (unlikely(checker_on) && p != NULL && !debug.on)
			checker_block(
			    p, size, alloc_usable(p, "umem_alloc"), zero);
		if (likely(p != NULL) || !nofail_again(flags))
			return p;
	}
}

public void *
umem_alloc(size_t size, int flags)
{
	return sized_alloc(size, 0, flags, false);
}

public void *
umem_zalloc(size_t size, int flags)
{
	return sized_alloc(size, 0, flags, true);
}

/* Is size what a block of umem_alloc() of this class was asked for with? */
static bool
size_is_right(const void *p, unsigned class, size_t bytes, size_t size)
{
	if (class == CLASS_SAMPLE)
		class = sample_class(p);
	if (class == ADDR_LARGE)
		return align_up(size, HEAP_UNIT) == bytes;
	return size_class_of(size) == class && size != 0;
}

static noinline void
sized_free_slow(void *p, size_t size)
{
	size_t bytes;
	unsigned class;

	if (p == NULL)
		return;
	if (unlikely(boot_owns(p)))
		return;
	if (unlikely(!umem_ready()))
		misuse("umem_free", p, "not an address of the heap");
	class = block_class(p, &bytes, "umem_free");
	if (unlikely(debug.on) && free_debugged(class, p, size, KIND_UMEM))
		return;
	if (unlikely(!size_is_right(p, class, bytes, size)))
		misuse_size("umem_free", p, size);
	if (unlikely(checker_on) && !debug.on)
		checker_block_end(p, bytes);
	alloc_free(p);
}

public void
umem_free(const void *buf, size_t size)
{
	void *p = (void *)(uintptr_t)buf;
	size_t unit = ((uintptr_t)p - alloc_fast.base) >> HEAP_UNIT_SHIFT;

	/* size - 1: none is for the slow way. */
	if (likely(unit < alloc_fast.units) && likely(size - 1 < SIZE_SMALL)) {
		uint32_t entry = alloc_fast.entry[unit];
		unsigned class = size_class_small(size);

		if (likely(addr_map_class(entry) == class) &&
		    alloc_free_in(p, entry))
			return;
	}
	sized_free_slow(p, size);
}

public void *
umem_alloc_align(size_t size, size_t align, int flags)
{
	if (!is_pow2(align)) {
		errno = EINVAL;
		return NULL;
	}
	return sized_alloc(size, align, flags, false);
}

public void
umem_free_align(void *buf, size_t size)
{
	size_t bytes;
	unsigned class;

	if (buf == NULL)
		return;
	if (unlikely(boot_owns(buf)))
		return;
	if (unlikely(!umem_ready()))
		misuse("umem_free_align", buf, "not an address of the heap");
	class = block_class(buf, &bytes, "umem_free_align");
	if (unlikely(debug.on) && free_debugged(class, buf, size, KIND_UMEM))
		return;
	if (unlikely(size > bytes || size == 0))
		misuse_size("umem_free_align", buf, size);
	if (unlikely(checker_on) && !debug.on)
		checker_block_end(buf, bytes);
	alloc_free(buf);
}

public void *
umem_alloc_aligned(size_t size, size_t align, int flags)
{
	return umem_alloc_align(size, align, flags);
}

public void
umem_free_aligned(void *buf, size_t size)
{
	umem_free_align(buf, size);
}

/* Public: objects. */

static uint64_t
cache_refused(const struct umem_cache *cache)
{
	return __atomic_load_n(&cache->nrefused, __ATOMIC_RELAXED);
}

/* Also in other regions, for they lie somewhere in the address space. */
static inline uintptr_t
header_at(const umem_cache_t *cache)
{
	return (uintptr_t)cache->mag.hot - (uintptr_t)alloc_fast.hot;
}

/* Out of line, so that the fast path saves no register. */
static noinline void *
cache_alloc_again(umem_cache_t *cache, int flags)
{
	void *object;

	if (mtbf_strikes(flags))
		return NULL;
	for (;;) {
		size_t bytes = cache->slabs.layout.slab_bytes;
		uint64_t nrefused = cache_refused(cache);

		cpu_bring_in(cache->mag.hot);
		object = cache_alloc_slow(cache);
		for (int i = 0; object == NULL && i < RECLAIM_TRIES; i++) {
			/* A constructor that refuses is no want of memory. */
			if (cache_refused(cache) != nrefused ||
			    !update_reclaim(bytes))
				break;
			object = cache_alloc_slow(cache);
		}
		if (object != NULL)
			break;
		if (!nofail_again(flags))
			return no_memory(bytes);
	}
	if (unlikely(cache->slabs.watched))
		checker_object(cache, object, cache->bufsize,
		    /* constructed */ cache->construct != NULL);
	return object;
}

public void *
umem_cache_alloc(umem_cache_t *cache, int flags)
{
	void *object;

	if (likely(alloc_fast.units != 0) &&
	    likely(rseq_pop(&alloc_fast.place, alloc_fast.hot, header_at(cache),
		       &object) == RSEQ_OK))
		return object;
	return cache_alloc_again(cache, flags);
}

/* A call of its own, so that the section's caller keeps nothing for it. */
static noinline void
cache_free_again(umem_cache_t *cache, void *object)
{
	if (unlikely(cache->slabs.watched))
		checker_object_end(cache, object, cache->bufsize);
	cpu_bring_in(cache->mag.hot);
	cache_free_slow(cache, object, "umem_cache_free");
}

public void
umem_cache_free(umem_cache_t *cache, void *object)
{
	if (likely(alloc_fast.units != 0) &&
	    likely(rseq_push(&alloc_fast.place, alloc_fast.hot,
		       header_at(cache), object) == RSEQ_OK))
		return;
	cache_free_again(cache, object);
}
