/* quantum_cache.h - quantum caches of arenas; see vmem/quantum.c */
#ifndef UMEM_QUANTUM_CACHE_H
#define UMEM_QUANTUM_CACHE_H

/* From now on arenas get their quantum caches. */
void quantum_cache_start(void);

#endif
