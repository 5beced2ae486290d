/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef MAGAZINE_DESCRIBED_H
#define MAGAZINE_DESCRIBED_H

/* cpu_region.c */
#define DESCRIBED_MAGAZINES(M, V, C, B)                                        \
	V(REGIONS, cpu_regions)                                                \
	B(REGION_BYTES, region, region)                                        \
	M(REGION_BLOCKS, region, region, blocks)                               \
	M(REGION_NEXT, region, region, next)                                   \
	V(CPU_LAYER, cpu_layer)                                                \
	C(CPU_BLOCK)                                                           \
	C(RSEQ_NONE)                                                           \
	C(CPU_CLAIMED)                                                         \
	B(HOT_BYTES, cpu_hot, cpu_hot)                                         \
	B(COLD_BYTES, cpu_cold, cpu_cold)                                      \
	M(HOT_TOP, cpu_hot, cpu_hot, top)                                      \
	M(COLD_LOADED, cpu_cold, cpu_cold, loaded)                             \
	M(COLD_PREVIOUS, cpu_cold, cpu_cold, previous)                         \
	M(COLD_NLOADS, cpu_cold, cpu_cold, nloads)                             \
	M(COLD_NPREVIOUS, cpu_cold, cpu_cold, nprevious)                       \
	M(COLD_NREFILLS, cpu_cold, cpu_cold, nrefills)                         \
	M(COLD_NRECEIVED, cpu_cold, cpu_cold, nreceived)                       \
	M(LAYER_OWNER, cpu_layer, cpu_layer, rseq.owner)                       \
	M(LAYER_BY_MM_CID, cpu_layer, cpu_layer, rseq.by_mm_cid)               \
	M(LAYER_NWANTED, cpu_layer, cpu_layer, nwanted)                        \
	M(LAYER_NUSED, cpu_layer, cpu_layer, nused)                            \
	B(DEPOT_BYTES, depot, depot)                                           \
	B(MAGAZINE_BYTES, magazine, magazine)                                  \
	M(DEPOT_FULL, depot, depot, full.head)                                 \
	M(DEPOT_EMPTY, depot, depot, empty.head)                               \
	M(DEPOT_NFULL, depot, depot, full.n)                                   \
	M(DEPOT_NCONTENDED, depot, depot, ncontended)                          \
	M(MAGAZINE_NEXT, magazine, magazine, next)                             \
	M(MAGAZINE_SIZE, magazine, magazine, size)                             \
	M(MAGAZINE_NROUNDS, magazine, magazine, nrounds)                       \
	M(MAGAZINE_ROUND, magazine, magazine, round[0])

#endif
