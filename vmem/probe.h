/*
 * probe.h - USDT probes, for perf, bpftrace and profilers; see probe.c
 */
#ifndef VMEM_PROBE_H
#define VMEM_PROBE_H

#include "vmem/base.h"

/*
 * Provider, name, parameters and arguments; the manual page umem.1 explains
 * them under "PROBES".
 */
#define PROBES(P)                                                              \
	P(otel_memory, alloc,                                                  \
	    (const void *block, size_t size, uint64_t weight), block, size,    \
	    weight)                                                            \
	P(otel_memory, free, (const void *block), block)                       \
	P(umem, refill,                                                        \
	    (const void *layer, const char *cache, unsigned wanted,            \
		unsigned taken),                                               \
	    layer, cache, wanted, taken)                                       \
	P(umem, depot_load,                                                    \
	    (const void *layer, unsigned cpu, unsigned objects), layer, cpu,   \
	    objects)                                                           \
	P(umem, depot_unload, (const void *layer, unsigned cpu), layer, cpu)   \
	P(umem, slab_create,                                                   \
	    (const char *cache, uintptr_t slab, size_t bytes), cache, slab,    \
	    bytes)                                                             \
	P(umem, slab_destroy,                                                  \
	    (const char *cache, uintptr_t slab, size_t bytes), cache, slab,    \
	    bytes)                                                             \
	P(umem, arena_import,                                                  \
	    (const char *arena, const void *span, size_t bytes), arena, span,  \
	    bytes)                                                             \
	P(umem, heap_grow, (uintptr_t end, size_t bytes), end, bytes)          \
	P(umem, purge, (uintptr_t start, size_t bytes), start, bytes)          \
	P(umem, limit, (const char *cache, size_t wanted, size_t limit),       \
	    cache, wanted, limit)

/* The semaphore of a probe, and the function that has the probe. */
#define PROBE_DECLARE(provider, name, parameters, ...)                         \
	extern unsigned short provider##_##name##_semaphore hidden;            \
	void probe_##provider##_##name parameters;
PROBES(PROBE_DECLARE)

/* A probe.  Its arguments are computed only if a tracer looks. */
#define probe_fire(provider, name, ...)                                        \
	do {                                                                   \
		if (unlikely(__atomic_load_n(&provider##_##name##_semaphore,   \
				 __ATOMIC_RELAXED) != 0))                      \
			probe_##provider##_##name(__VA_ARGS__);                \
	} while (0)

#endif
