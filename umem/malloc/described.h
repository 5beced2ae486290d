/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_MALLOC_DESCRIBED_H
#define UMEM_MALLOC_DESCRIBED_H

/* umem/describe.c */
#define DESCRIBED_ALLOC(M, V, C, B)                                            \
	V(ALLOC_FAST, alloc_fast)                                              \
	M(FAST_SMALL_END, alloc_fast, alloc_fast, small_end)

#endif
