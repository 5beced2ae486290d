/*
 * metrics.h - the metrics of umem_metrics() and of the command umem
 *
 * The command umem includes this file too, so it depends on no other header of
 * the library.  A list calls M(id, name, type, unit, help) for each metric
 * family: its name without the unit and the suffix of its samples, its type,
 * its unit or "", and its explanation.
 *
 * Source: the OpenMetrics specification, version 1.0: the name of a family ends
 * in its unit, and the name of a counter's sample in _total.
 */
#ifndef UMEM_METRICS_H
#define UMEM_METRICS_H

/* One sample each. */
#define METRICS_OF_PROCESS(M)                                                  \
	M(MAPPED, "umem_mapped", "gauge", "bytes",                             \
	    "Memory of the library: heap and own.")                            \
	M(HEAP, "umem_heap", "gauge", "bytes",                                 \
	    "Heap memory that is not returned to the kernel.")                 \
	M(LIVE, "umem_live", "gauge", "bytes",                                 \
	    "Blocks and objects that the program holds.")                      \
	M(CACHED, "umem_cached", "gauge", "bytes",                             \
	    "Free blocks and objects, kept for the next use.")                 \
	M(CPUS, "umem_cpu_cached", "gauge", "bytes",                           \
	    "Part of umem_cached_bytes in magazines of CPUs.")                 \
	M(DEPOTS, "umem_depot_cached", "gauge", "bytes",                       \
	    "Part of umem_cached_bytes in depots and reserves.")               \
	M(SLABS, "umem_slab_cached", "gauge", "bytes",                         \
	    "Part of umem_cached_bytes in slabs.")                             \
	M(WAITING, "umem_waiting", "gauge", "bytes",                           \
	    "Freed objects that wait for a grace period.")                     \
	M(DIRTY, "umem_dirty", "gauge", "bytes",                               \
	    "Free pages of the heap that are not returned yet.")               \
	M(SAMPLES, "umem_sampled", "gauge", "bytes",                           \
	    "Pages of sampled blocks.")                                        \
	M(OWN, "umem_own", "gauge", "bytes",                                   \
	    "Memory for the structures of the library.")                       \
	M(LARGE, "umem_large", "gauge", "bytes",                               \
	    "Part of umem_live_bytes in large blocks.")                        \
	M(ARENAS, "umem_arenas", "gauge", "bytes",                             \
	    "Part of umem_live_bytes in arenas of the program.")               \
	M(SOFT_LIMIT, "umem_soft_limit", "gauge", "bytes",                     \
	    "Heap memory above which unused memory is released; 0: none.")     \
	M(SOFT_HITS, "umem_soft_limit_hits", "counter", "",                    \
	    "Releases because of the soft limit or pressure.")                 \
	M(LIMITED, "umem_limited", "gauge", "bytes",                           \
	    "Heap memory that the hard limit counts.")                         \
	M(HARD_LIMIT, "umem_hard_limit", "gauge", "bytes",                     \
	    "Heap memory above which requests fail; 0: none.")                 \
	M(HARD_HITS, "umem_hard_limit_hits", "counter", "",                    \
	    "Allocations that failed because of the hard limit.")              \
	M(FAILURES, "umem_failures", "counter", "",                            \
	    "Allocations that failed.")                                        \
	M(WRONG_SIZES, "umem_wrong_sizes", "counter", "",                      \
	    "Frees with a size that does not fit the block.")

/* One sample for each cache that has slabs. */
#define METRICS_OF_CACHE(M)                                                    \
	M(CACHE_CHUNK, "umem_cache_object", "gauge", "bytes",                  \
	    "Memory of one object, with rounding.")                            \
	M(CACHE_SLABS, "umem_cache_slab", "gauge", "bytes",                    \
	    "Memory of the slabs of a cache.")                                 \
	M(CACHE_LIVE, "umem_cache_live", "gauge", "objects",                   \
	    "Objects that the program holds.")                                 \
	M(CACHE_CACHED, "umem_cache_cached", "gauge", "objects",               \
	    "Free objects in magazines.")                                      \
	M(CACHE_FAILURES, "umem_cache_failures", "counter", "",                \
	    "Allocations from a cache that failed.")

#define METRICS_ID(id, name, type, unit, help) METRIC_##id,
enum metric {
	METRICS_OF_PROCESS(METRICS_ID) METRIC_CACHE_FIRST,
	METRIC_BEFORE_CACHES = METRIC_CACHE_FIRST - 1,
	METRICS_OF_CACHE(METRICS_ID) METRICS
};

struct metric_family {
	char name[24];
	char type[8];
	char unit[8];
	char help[64];
};

#define METRICS_FAMILY(id, name, type, unit, help)                             \
	[METRIC_##id] = {name, type, unit, help},
static const struct metric_family metric_families[METRICS] = {
    METRICS_OF_PROCESS(METRICS_FAMILY) METRICS_OF_CACHE(METRICS_FAMILY)};

#endif
