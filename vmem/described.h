/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef VMEM_DESCRIBED_H
#define VMEM_DESCRIBED_H

/* create.c */
#define DESCRIBED_ARENAS(M, V, C, B)                                           \
	V(ARENA_LIST, arena_list)                                              \
	B(ARENA_BYTES, arena, vmem)                                            \
	B(SEGMENT_BYTES, segment, segment)                                     \
	B(LIST_BYTES, list, list)                                              \
	M(LIST_NEXT, list, list, next)                                         \
	M(ARENA_LINK, arena, vmem, link)                                       \
	M(ARENA_NAME, arena, vmem, name)                                       \
	M(ARENA_SOURCE, arena, vmem, source)                                   \
	M(ARENA_HEAD, arena, vmem, head)                                       \
	M(ARENA_INUSE, arena, vmem, stats.inuse)                               \
	M(ARENA_TOTAL, arena, vmem, stats.total)                               \
	M(ARENA_IMPORTED, arena, vmem, stats.imported)                         \
	M(ARENA_NALLOCS, arena, vmem, stats.nallocs)                           \
	M(ARENA_NFAILS, arena, vmem, stats.nfails)                             \
	M(SEGMENT_START, segment, segment, start)                              \
	M(SEGMENT_SIZE, segment, segment, size)                                \
	M(SEGMENT_ANEXT, segment, segment, anext)                              \
	M(SEGMENT_TYPE, segment, segment, type)

/* heap.c */
#define DESCRIBED_HEAP(M, V, C, B)                                             \
	V(ACCOUNT, account)                                                    \
	M(ACCOUNT_PROGRAM, account, account, program)                          \
	M(ACCOUNT_DONATED, account, account, donated)                          \
	M(ACCOUNT_FIREWALL, account, account, firewall)                        \
	M(ACCOUNT_PURGED, account, account, purged)                            \
	M(ACCOUNT_QUARANTINED, account, account, quarantined)                  \
	M(ACCOUNT_LARGE, account, account, large)                              \
	M(ACCOUNT_SAMPLE_UNITS, account, account, sample_units)                \
	M(ACCOUNT_SAMPLE_UNIT_SPANS, account, account, sample_unit_spans)      \
	M(ACCOUNT_SAMPLE_SPANS, account, account, sample_spans)                \
	M(ACCOUNT_SAMPLE_PAGES, account, account, sample_pages)                \
	M(ACCOUNT_SAMPLE_GUARDED, account, account, sample_guarded)            \
	M(ACCOUNT_SAMPLE_WARM, account, account, sample_warm)                  \
	M(ACCOUNT_TABLES, account, account, tables)                            \
	M(ACCOUNT_NLARGE_FAILED, account, account, nlarge_failed)              \
	M(ACCOUNT_NWRONG_SIZES, account, account, nwrong_sizes)                \
	M(ACCOUNT_ALLOCATED, account, account, allocated)                      \
	M(ACCOUNT_FREED, account, account, freed)                              \
	M(ACCOUNT_NALLOCATED, account, account, nallocated)                    \
	M(ACCOUNT_NFREED, account, account, nfreed)                            \
	V(HEAP_ARENA, heap_arena)                                              \
	V(NODE_ARENA, node_arena)                                              \
	V(HEAP_WINDOW, heap_window)                                            \
	C(HEAP_UNIT)                                                           \
	M(WINDOW_BASE, heap_window, heap_window, base)                         \
	M(WINDOW_UNITS, heap_window, heap_window, units)                       \
	V(HEAP_LIMITS, heap_limits)                                            \
	M(LIMITS_SOFT, heap_limits, heap_limits, soft)                         \
	M(LIMITS_NSOFT, heap_limits, heap_limits, nsoft)                       \
	M(LIMITS_HARD, heap_limits, heap_limits, hard)                         \
	M(LIMITS_NHARD, heap_limits, heap_limits, nhard)

/* heap_commit.c */
#define DESCRIBED_COMMIT(M, V, C, B)                                           \
	V(COMMITTED_END, committed_end)                                        \
	V(NFOREIGN, nforeign)

/* probe.c */
#define DESCRIBED_PROBES(M, V, C, B) C(PROBES_BUILT)

/* heap_purge.c */
#define DESCRIBED_STATES(M, V, C, B)                                           \
	V(STATES, states)                                                      \
	V(NDIRTY, ndirty)

/* meta.c */
#define DESCRIBED_META(M, V, C, B)                                             \
	V(FREED, freed)                                                        \
	V(META_POOLS, pools)                                                   \
	V(DEDICATED, dedicated)                                                \
	V(MAPPED_BYTES, mapped_bytes)                                          \
	B(META_RANGE_BYTES, meta_range, meta_range)                            \
	M(RANGE_NEXT, meta_range, meta_range, next)                            \
	M(RANGE_AT, meta_range, meta_range, at)                                \
	M(RANGE_BYTES, meta_range, meta_range, bytes)

#endif
