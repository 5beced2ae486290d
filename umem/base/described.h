/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_BASE_DESCRIBED_H
#define UMEM_BASE_DESCRIBED_H

/* ready.c */
#define DESCRIBED_START(M, V, C, B)                                            \
	V(BOOTSTRAP, bootstrap)                                                \
	V(BOOTSTRAP_USED, bootstrap_used)                                      \
	V(UMEM_STATE, umem_state)                                              \
	C(UMEM_READY)

/* umem/describe.c */
#define DESCRIBED_BASE(M, V, C, B)                                             \
	V(PAGE_MAP, page_map)                                                  \
	M(MAP_ENTRY, page_map, page_map, entry)                                \
	M(MAP_OWNER, page_map, page_map, owner)                                \
	C(PAGE_MAP_SIZE_BITS)                                                  \
	V(SIZE_CLASSES, size_classes)                                          \
	M(CLASSES_N, size_classes, size_classes, n)                            \
	M(CLASSES_BYTES, size_classes, size_classes, bytes)

#endif
