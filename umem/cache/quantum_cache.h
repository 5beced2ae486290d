/* quantum_cache.h - quantum caches of arenas; see vmem/quantum.c */
#ifndef UMEM_QUANTUM_CACHE_H
#define UMEM_QUANTUM_CACHE_H

/* Registers the functions that create and use quantum caches of arenas. */
void quantum_cache_start(void);

#endif
