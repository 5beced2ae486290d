/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_RCU_DESCRIBED_H
#define UMEM_RCU_DESCRIBED_H

/* umem/describe.c */
#define DESCRIBED_GRACE(M, V, C, B)                                            \
	V(DOMAINS, domains)                                                    \
	C(DEFER_OBJECT)                                                        \
	C(DEFER_MALLOC)                                                        \
	C(DEFER_FOREIGN)                                                       \
	B(DOMAIN_BYTES, domain, domain)                                        \
	B(DEFER_BYTES, defer, defer)                                           \
	M(DOMAIN_KEY, domain, domain, key)                                     \
	M(DOMAIN_NEXT, domain, domain, next)                                   \
	M(DOMAIN_LAYERS, domain, domain, layers)                               \
	M(DOMAIN_BROKEN, domain, domain, is_broken)                            \
	M(DOMAIN_IN_GRACE, domain, domain, nsynchronizing)                     \
	M(DOMAIN_NGRACES, domain, domain, ngraces)                             \
	M(DOMAIN_NRELEASED, domain, domain, nreleased)                         \
	M(DEFER_HOT, defer, defer, mags.hot)                                   \
	M(DEFER_COLD, defer, defer, mags.cold)                                 \
	M(DEFER_PENDING, defer, defer, mags.pending)                           \
	M(DEFER_WAITING, defer, defer, mags.waiting)                           \
	M(DEFER_NSUBMITTED, defer, defer, mags.nsubmitted)                     \
	M(DEFER_CACHE, defer, defer, cache)                                    \
	M(DEFER_NEXT, defer, defer, next)                                      \
	M(DEFER_UNIT, defer, defer, mags.object_bytes)                         \
	M(DEFER_KIND, defer, defer, kind)

#endif
