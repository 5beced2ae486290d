/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_SLAB_DESCRIBED_H
#define UMEM_SLAB_DESCRIBED_H

/* umem/describe.c */
#define DESCRIBED_SLABS(M, V, C, B)                                            \
	C(SLAB_BINS)                                                           \
	B(SLAB_BYTES, slab, slab)                                              \
	B(CLAIM_BYTES, slab_claim, slab_claim)                                 \
	M(SLAB_LINK, slab, slab, link)                                         \
	M(SLAB_STORE, slab, slab, store)                                       \
	M(SLAB_SPAN, slab, slab, span)                                         \
	M(SLAB_FIRST, slab, slab, first)                                       \
	M(SLAB_BITS, slab, slab, bits[0])                                      \
	M(SLAB_RECORDS, slab, slab, records)                                   \
	M(CLAIM_SLAB, slab_claim, slab_claim, slab)                            \
	M(CLAIM_MASK, slab_claim, slab_claim, mask)                            \
	M(CLAIM_WORD, slab_claim, slab_claim, word)

#endif
