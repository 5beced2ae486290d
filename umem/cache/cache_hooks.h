/*
 * cache_hooks.h - calls of caches to the modules above them
 *
 * Debugging, upkeep and deferred frees build on caches.  A cache calls them by
 * these tables.  The module above defines its table, so no file of the caches
 * includes a header of that module.
 */
#ifndef UMEM_CACHE_HOOKS_H
#define UMEM_CACHE_HOOKS_H

#include "umem/cache/cache.h"

/* The checks of a debugged cache; the values are those of libumem. */
#define UMF_AUDIT       0x0001u /* thread, time, stack of the last use */
#define UMF_DEADBEEF    0x0002u /* patterns in free and in fresh buffers */
#define UMF_REDZONE     0x0004u /* a tag behind each buffer */
#define UMF_CONTENTS    0x0008u /* a copy of each freed buffer's contents */
#define UMF_CHECKSIGNAL 0x0010u /* no allocation from a signal handler */
#define UMF_FIREWALL    0x0040u /* each buffer ends where pages end */
#define UMF_HARDENED    0x2000u /* not libumem's: UMEM_OPTIONS=hardened */
#define UMF_RCU_WRITES  0x4000u /* likewise: buffers that wait may change */

#define UMF_TAGGED (UMF_DEADBEEF | UMF_REDZONE | UMF_AUDIT)

/* The API that allocated a block. */
enum alloc_api {
	API_OBJECT, /* umem_cache_alloc() */
	API_MALLOC,
	API_UMEM,     /* umem_alloc() */
	API_NEW,      /* operator new */
	API_ARRAY,    /* operator new[] */
	API_RESERVED, /* an object of a reserve (umem/malloc/reserve.c) */
	API_COUNT
};

/* Caches with checks; debug.h describes the functions. */
struct cache_debugger {
	void (*plan)(struct umem_cache *cache, const char *name, bool sourced);
	size_t (*chunk)(const struct umem_cache *cache);
	size_t (*record_bytes)(const struct umem_cache *cache);
	void *(*alloc)(struct umem_cache *cache, size_t size, unsigned api);
	bool (*free)(
	    struct umem_cache *cache, void *p, size_t size, unsigned api);
	void (*release)(struct umem_cache *cache);
	void (*forget)(const struct umem_cache *cache);
	void (*report_in_use)(struct umem_cache *cache);
};

extern hidden const struct cache_debugger cache_debugger; /* of debug.c */

struct sample;

/* Samples of objects. */
struct cache_sampler {
	/*
	 * Stores live samples of the cache, at most that many, and returns
	 * their number.  It takes a lock, and so comes before a report.
	 */
	unsigned (*find)(const struct umem_cache *cache,
	    const struct sample **found, unsigned most);
	void (*report)(const struct sample *sample);
};

extern hidden const struct cache_sampler cache_sampler; /* sample_object.c */

/* The periodic work on caches; update.h and update_thread.h describe it. */
struct cache_upkeep {
	void (*run)(unsigned work);
	bool (*enter)(bool calls);
	void (*leave)(void);
};

extern hidden const struct cache_upkeep cache_upkeep; /* of update.c */

/* Frees that wait for a grace period; defer.h describes the functions. */
struct cache_deferral {
	bool (*end_cache)(struct umem_cache *cache);
	size_t (*waiting)(const struct umem_cache *cache);
	void (*wake)(void);
	/*
	 * Called when slabs of a type-stable cache may be released after a
	 * grace period: slab_retire_wanted() returns how many empty slabs to
	 * keep.  It is called with no lock held, in any thread that reaps or
	 * does upkeep, also within malloc(), and again for the same slabs until
	 * slab_retire() has taken them.  It neither waits for a grace period
	 * nor calls a function of the program.  The cache is not destroyed
	 * meanwhile.
	 */
	void (*retire)(struct umem_cache *cache);
};

extern hidden const struct cache_deferral cache_deferral; /* of defer.c */

#endif
