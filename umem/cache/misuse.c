/*
 * misuse.c - one message for each kind of misuse by the program, then abort
 *
 * The texts are part of the interface, because tests and users match them.
 */
#include "umem/base/large.h"
#include "umem/base/page_map.h"
#include "umem/cache/misuse.h"
#include "vmem/panic.h"

void
misuse(const char *function, const void *p, const char *text)
{
	panic_about(p, "%s(%p): %s", function, p, text);
}

static const char *
fault_text(enum slab_fault fault)
{
	switch (fault) {
	case SLAB_INTERIOR:
		return "not the start of a block";
	case SLAB_FREE:
		return "block freed twice";
	case SLAB_NEVER:
		return "block was never allocated";
	default:
		return "object of another cache";
	}
}

void
misuse_slab(const char *function, struct umem_cache *cache, const void *p,
    enum slab_fault fault)
{
	umem_assert(fault != SLAB_FINE);
	/*
	 * If the slab of a block no longer exists, the block was in a magazine
	 * twice.
	 */
	if (cache->class != 0 && fault == SLAB_FOREIGN)
		misuse_address(function, p);
	if (cache->class != 0)
		misuse(function, p, fault_text(fault));
	panic_about(
	    p, "%s(%s, %p): %s", function, cache->name, p, fault_text(fault));
}

void
misuse_waiting(
    const char *function, const struct umem_cache *cache, const void *p)
{
	if (cache == NULL || cache->class != 0)
		misuse(function, p, "block freed twice" MISUSE_WAITING);
	panic_about(p, "%s(%s, %p): block freed twice" MISUSE_WAITING, function,
	    cache->name, p);
}

void
misuse_address(const char *function, const void *p)
{
	struct slab *slab = page_map_owner(p);

	if (page_map_unit(p) >= page_map.units)
		misuse(function, p, "not an address of the heap");
	if (slab == NULL || page_map_large_bytes(slab) != 0) {
		if (large_containing(p) != NULL)
			misuse(function, p, "not the start of a block");
		if ((uintptr_t)p - heap_window.base < heap_committed())
			misuse(function, p, "block freed twice");
		misuse(function, p, "not an address of the heap");
	}
	/* p is in a slab: of a size class, or of an object cache. */
	if (slab->store->map_class == 0)
		misuse(function, p, "object of a cache, not a block");
	misuse(function, p,
	    fault_text(slab_round_fault(slab->store, (void *)p) == SLAB_INTERIOR
			   ? SLAB_INTERIOR
			   : SLAB_FREE));
}

void
misuse_size(const char *function, const void *p, size_t size)
{
	panic_about(
	    p, "%s(%p): size %zu does not fit the block", function, p, size);
}
