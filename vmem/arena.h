/* arena.h - struct vmem and the internal functions of arenas */
#ifndef VMEM_ARENA_H
#define VMEM_ARENA_H

#include "vmem/freelist.h"
#include "vmem/lock.h"
#include "vmem/segment.h"
#include "vmem/seghash.h"
#include "vmem/vmem.h"
#include "vmem/xalloc.h"

#define ARENA_NAMELEN 31

/*
 * Most quantum caches of an arena: one for each multiple of the quantum up to
 * this one.  The number is that of libumem.
 */
#define ARENA_QCACHES 16

/* Statistics of one arena.  A unit is one integer, not always a byte. */
struct arena_stats {
	size_t inuse;      /* units in allocated segments */
	size_t total;      /* units in all spans */
	size_t imported;   /* units in imported spans */
	uint64_t nallocs;  /* segments allocated, slabs included */
	uint64_t nfrees;   /* segments freed, slabs included */
	uint64_t nfails;   /* requests that neither arena nor source served */
	uint64_t nimports; /* spans imported from the source */
	size_t nspans;     /* spans now */
	size_t nsegs;      /* allocated segments now */
	size_t nfree;      /* free segments now */
};

/*
 * One arena.
 *
 * Keys: [I] set at creation, [l] lock, [a] lock to write, atomic to read,
 * [L] arena_list_lock
 */
struct vmem {
	struct lock lock;         /* rank LOCK_ARENA */
	int policy;               /* [l] VM_*FIT, or 0 */
	size_t quantum;           /* [I] power of two */
	vmem_free_t *release;     /* [I] or NULL */
	vmem_t *source;           /* [I] or NULL */
	struct reserve reserve;   /* [l] spare tags */
	struct arena_stats stats; /* [l] the last three are not kept here */
	size_t nspans;            /* [l] */
	uintptr_t rotor_at;       /* [l] end of the last next-fit segment */
	struct segment *spans;    /* [l] root of the treap of spans */
	struct list walkers;      /* [l] reentrant walks in progress */
	struct segment head;      /* [l] start and end of the ring of tags */
	struct segment rotor;     /* [l] where next fit continues */
	struct seghash hash;      /* [l] allocated segments */
	struct freelist free;     /* [l] free segments */

	/* Quantum caches; see quantum.c. */
	struct lock gate;       /* rank LOCK_QUANTUM */
	struct segment *due;    /* [l] free spans to be released */
	uint32_t ntransit;      /* [l] calls of import/release in progress */
	uint32_t nmoved;        /* [l] spans imported or released, ever */
	uint32_t ncalled;       /* [a] calls that ended; futex word */
	uint32_t nwaiting;      /* [atomic] threads that wait on ncalled */
	bool import_failed;     /* [a] the last import returned NULL */
	unsigned nqcaches;      /* [I] entries of qcache[] in use */
	unsigned quantum_shift; /* [I] log2 of the quantum */
	void *qcache[ARENA_QCACHES]; /* [I] NULL: no cache for this size */

	int cflags;            /* [I] VMC_* */
	size_t import_quantum; /* [I] imports are multiples of it */
	union {                /* [I] ximport if cflags has VMC_XALLOC */
		vmem_alloc_t *import;
		vmem_ximport_t *ximport;
	};
	struct list link;             /* [L] in the list of all arenas */
	unsigned nchecks;             /* [l] DEBUG: changes since a check */
	char name[ARENA_NAMELEN + 1]; /* [I] */
};

/* A reentrant walk (walk.c); it is on the stack of the walking thread. */
struct walker {
	struct segment mark; /* VMEM_WALKER, in the ring */
	struct list link;    /* in arena->walkers */
	uint32_t thread;     /* id of the walking thread */
};

#define ARENA_POLICIES (VM_BESTFIT | VM_FIRSTFIT | VM_NEXTFIT)

/* Does vmflag contain at most one allocation policy? */
static inline bool
arena_one_policy(int vmflag)
{
	int policy = vmflag & ARENA_POLICIES;

	return (policy & (policy - 1)) == 0;
}

/* Round a size up to the quantum.  Returns false for 0 and on overflow. */
static inline bool
arena_round(const vmem_t *arena, size_t size, size_t *rounded)
{
	*rounded = align_up(size, arena->quantum);
	return *rounded != 0;
}

/*
 * vmem_alloc() and vmem_free() without the quantum caches: allocate and free a
 * segment.  Result and errors are those of the public functions.  Before it
 * fails, arena_alloc() reclaims idle memory of quantum caches
 * (quantum_handle_shortage()).
 */
void *arena_alloc(vmem_t *arena, const struct request *req, int vmflag);
void arena_free(vmem_t *arena, void *addr, size_t size);

/*
 * Allocate a segment, importing a span if none fits, without reclaiming from
 * quantum caches.  Returns NULL on failure and leaves errno alone.
 */
void *arena_alloc_or_import(
    vmem_t *arena, const struct request *req, int vmflag);

/*
 * Allocate a segment without an import.  slab: the segment becomes a slab of a
 * quantum cache.  Returns NULL on failure and leaves errno alone.
 */
void *arena_alloc_local(
    vmem_t *arena, const struct request *req, int vmflag, bool slab);

/*
 * Free a segment without releasing its span; arena_release_due() does that.
 * slab: the segment is a slab of a quantum cache.  Returns false if no such
 * segment of size units is allocated at addr.
 */
bool arena_free_local(vmem_t *arena, void *addr, size_t size, bool slab);

/*
 * Import a span in which the request fits and leave all of it free.  Returns
 * the start of the span, or NULL if the source has none.
 */
void *arena_import(vmem_t *arena, const struct request *req, int vmflag);

/* Release the span that arena_import() returned if all of it is free. */
void arena_import_end(vmem_t *arena, void *start);

/*
 * Cut the slab at addr into segments of chunk units.  Segment i becomes free if
 * bit i of free is set, otherwise allocated.  Returns false, and changes
 * nothing, if there is no memory for tags.
 */
bool arena_split(vmem_t *arena, void *addr, size_t chunk, const uint64_t *free);

/* Release the spans that arena_free_local() has left entirely free. */
void arena_release_due(vmem_t *arena);

/* Add a span to the arena; returns 0, EINVAL or ENOMEM as vmem_add() does. */
int arena_add_span(vmem_t *arena, uintptr_t start, size_t size);

/* Count a failed request, then fail as arena_error() with ENOMEM. */
void *arena_reject(vmem_t *arena, const struct request *req, int vmflag);

/*
 * Return NULL with errno set to error.  If vmflag has VM_PANIC, abort the
 * program instead.
 */
void *arena_error(vmem_t *arena, size_t size, int error, int vmflag);

/* Call func for every arena, oldest first, with arena_list_lock held. */
void arena_foreach(void (*func)(vmem_t *arena, void *arg), void *arg);

/* Copy the statistics of an arena. */
void arena_stats(vmem_t *arena, struct arena_stats *out);

/* Are the invariants of arena.c true?  Reads all segments (arena_check.c). */
bool arena_check(vmem_t *arena);

/* quantum.c: caches for small multiples of the quantum. */

/*
 * Create a quantum cache for each multiple of the quantum up to qcache_max,
 * which is rounded up, but at most ARENA_QCACHES.  If there is no memory for a
 * cache, segments serve its size.  Without registered hooks, or with
 * VMC_NO_QCACHE, the arena gets no caches.
 */
void quantum_create(vmem_t *arena, size_t qcache_max);
void quantum_destroy(vmem_t *arena);

/* The quantum cache for a size, or NULL if segments serve the size. */
static inline void *
quantum_cache(const vmem_t *arena, size_t size)
{
	size_t i = (size - 1) >> arena->quantum_shift;

	return i < arena->nqcaches ? arena->qcache[i] : NULL;
}

/* Allocate a piece from a quantum cache, or free it there. */
void *quantum_alloc(void *cache, int vmflag);
void quantum_free(void *cache, void *addr);

/*
 * Serve a request, for which no segment fits and an import failed, from the
 * idle memory of the arena's quantum caches.  cache is the quantum cache that
 * serves the size, or NULL.  Returns NULL if no idle memory fits.
 */
void *quantum_handle_shortage(
    vmem_t *arena, void *cache, const struct request *req, int vmflag);

#endif
