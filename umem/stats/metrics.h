/*
 * metrics.h - the metrics of umem_metrics() and of the command umem
 *
 * The command umem includes this file too, so it depends on no other header of
 * the library than the public one.  Both fill the structures of figures, and
 * print each family with the value at its offset.
 *
 * Source: the OpenMetrics specification, version 1.0: the name of a family ends
 * in its unit, and the name of a counter's sample in _total.
 */
#ifndef UMEM_METRICS_H
#define UMEM_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "umem/umem.h"

/* The figures of a cache that are metrics. */
struct metric_cache {
	uint64_t object_bytes;
	uint64_t slab_bytes;
	uint64_t nlive;
	uint64_t ncached;
	uint64_t nfailures;
};

struct metric_family {
	char name[32]; /* with the unit */
	char type[8];
	char unit[8];
	size_t offset; /* of a member with 8 bytes */
	char help[64];
};

/* One sample each; the figures are a struct umem_stats. */
#define STATS(member) offsetof(struct umem_stats, member)
static const struct metric_family metrics_of_process[] = {
    {"umem_mapped_bytes", "gauge", "bytes", STATS(mapped_bytes),
	"Memory of the library: heap and own."},
    {"umem_heap_bytes", "gauge", "bytes", STATS(heap_bytes),
	"Heap memory that is not returned to the kernel."},
    {"umem_live_bytes", "gauge", "bytes", STATS(live_bytes),
	"Blocks and objects that the program holds."},
    {"umem_cached_bytes", "gauge", "bytes", STATS(cached_bytes),
	"Free blocks and objects, kept for the next use."},
    {"umem_cpu_cached_bytes", "gauge", "bytes", STATS(cpu_bytes),
	"Part of umem_cached_bytes in magazines of CPUs."},
    {"umem_depot_cached_bytes", "gauge", "bytes", STATS(depot_bytes),
	"Part of umem_cached_bytes in depots and reserves."},
    {"umem_slab_cached_bytes", "gauge", "bytes", STATS(slab_bytes),
	"Part of umem_cached_bytes in slabs."},
    {"umem_waiting_bytes", "gauge", "bytes", STATS(waiting_bytes),
	"Freed objects that wait for a grace period."},
    {"umem_dirty_bytes", "gauge", "bytes", STATS(dirty_bytes),
	"Free pages of the heap that are not returned yet."},
    {"umem_sampled_bytes", "gauge", "bytes", STATS(sampled_bytes),
	"Pages of sampled blocks."},
    {"umem_own_bytes", "gauge", "bytes", STATS(own_bytes),
	"Memory for the structures of the library."},
    {"umem_large_bytes", "gauge", "bytes", STATS(large_bytes),
	"Part of umem_live_bytes in large blocks."},
    {"umem_arenas_bytes", "gauge", "bytes", STATS(arena_bytes),
	"Part of umem_live_bytes in arenas of the program."},
    {"umem_soft_limit_bytes", "gauge", "bytes", STATS(soft_limit_bytes),
	"Heap memory above which unused memory is released; 0: none."},
    {"umem_soft_limit_hits", "counter", "", STATS(nsoft_limit),
	"Releases because of the soft limit."},
    {"umem_limited_bytes", "gauge", "bytes", STATS(limited_bytes),
	"Heap memory that the hard limit counts."},
    {"umem_hard_limit_bytes", "gauge", "bytes", STATS(hard_limit_bytes),
	"Heap memory above which requests fail; 0: none."},
    {"umem_hard_limit_hits", "counter", "", STATS(nhard_limit),
	"Allocations that failed because of the hard limit."},
    {"umem_failures", "counter", "", STATS(nfailures),
	"Allocations that failed."},
    {"umem_wrong_sizes", "counter", "", STATS(nwrong_sizes),
	"Frees with a size that does not fit the block."},
    {"umem_allocated_bytes", "counter", "bytes", STATS(allocated_bytes),
	"Allocated so far, estimated from samples."},
    {"umem_freed_bytes", "counter", "bytes", STATS(freed_bytes),
	"Freed of these."},
    {"umem_allocated_blocks", "counter", "blocks", STATS(nallocated),
	"Blocks allocated so far, estimated from samples."},
    {"umem_freed_blocks", "counter", "blocks", STATS(nfreed),
	"Freed of these."}};
#undef STATS

/* One sample for each cache that has slabs, of a struct metric_cache. */
#define CACHE(member) offsetof(struct metric_cache, member)
static const struct metric_family metrics_of_cache[] = {
    {"umem_cache_object_bytes", "gauge", "bytes", CACHE(object_bytes),
	"Memory of one object, with rounding."},
    {"umem_cache_slab_bytes", "gauge", "bytes", CACHE(slab_bytes),
	"Memory of the slabs of a cache."},
    {"umem_cache_live_objects", "gauge", "objects", CACHE(nlive),
	"Objects that the program holds."},
    {"umem_cache_cached_objects", "gauge", "objects", CACHE(ncached),
	"Free objects in magazines."},
    {"umem_cache_failures", "counter", "", CACHE(nfailures),
	"Allocations from a cache that failed."}};
#undef CACHE

static inline bool
metric_is_counter(const struct metric_family *family)
{
	return family->type[0] == 'c';
}

/* Returns the value of a family in the figures. */
static inline uint64_t
metric_value(const struct metric_family *family, const void *figures)
{
	return *(const uint64_t *)((const char *)figures + family->offset);
}

#endif
