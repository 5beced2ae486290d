/* quantum.h - caches for small multiples of the quantum; see quantum.c */
#ifndef VMEM_QUANTUM_H
#define VMEM_QUANTUM_H

#include "vmem/base.h"
#include "vmem/vmem.h"

struct umem_cache;

/* An arena has at most so many quantum caches.  The number is libumem's. */
#define ARENA_QCACHES 16

/* One size of an arena.  Keys: [I] set at creation, [a] atomic */
struct qcache {
	vmem_t *arena;            /* [I] */
	size_t size;              /* [I] in units */
	struct umem_cache *cache; /* [I] */
	bool is_used;             /* [a] it has taken segments */
};

/*
 * Functions of umem/umem.h, of the same names, and object_alloc_once(); the
 * table is in umem/init.c.
 */
extern hidden const struct quantum_hooks {
	struct umem_cache *(*import_cache_create)(const char *name,
	    size_t (*take)(void *arg, void **segments, size_t n, int flags),
	    void (*give)(void *arg, void *const *segments, size_t n), void *arg,
	    size_t max_idle, int cflags);
	void (*cache_destroy)(struct umem_cache *cache);
	void *(*cache_alloc_once)(struct umem_cache *cache);
	void (*cache_free)(struct umem_cache *cache, void *segment);
	void (*cache_reap_now)(struct umem_cache *cache);
} quantum_hooks;

/*
 * Create a quantum cache for each multiple of the quantum up to qcache_max,
 * which is rounded up, but at most ARENA_QCACHES.  Creates fewer if there is no
 * memory, and none while the library starts.
 */
void quantum_create(vmem_t *arena, size_t qcache_max);
void quantum_destroy(vmem_t *arena);

/* Allocate a segment of at most arena->qcache_max units, or return NULL. */
void *quantum_alloc(vmem_t *arena, size_t size);

/*
 * Return the idle segments of all quantum caches to the arena.  Returns false
 * if the arena has no such caches.
 */
bool quantum_reap(vmem_t *arena);

#endif
