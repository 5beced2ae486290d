/* arena.h - struct vmem, and what the files of this layer share about it */
#ifndef VMEM_ARENA_H
#define VMEM_ARENA_H

#include "vmem/freelist.h"
#include "vmem/lock.h"
#include "vmem/segment.h"
#include "vmem/seghash.h"
#include "vmem/vmem.h"
#include "vmem/xalloc.h"

#define ARENA_NAMELEN 31

/* Multiples of the quantum that can have a quantum cache; libumem's number. */
#define ARENA_QCACHES 16

/* What an arena has done so far; units are the arena's, not always bytes. */
struct arena_stats {
	size_t inuse;     /* units in allocated segments */
	size_t total;     /* units in all spans */
	size_t imported;  /* units of them that came from the source */
	uint64_t nallocs; /* segments allocated; quantum caches apart */
	uint64_t nfrees;
	uint64_t nfails;   /* allocations that were refused for lack */
	uint64_t nimports; /* spans fetched from the source */
	size_t nspans;
	size_t nsegs; /* allocated ones */
	size_t nfree; /* free segments */
};

/*
 * One arena.
 *
 * Keys: [I] set at creation, [l] lock, [a] lock to write, atomic to read,
 * [L] the lock of the list of arenas
 */
struct vmem {
	struct lock lock;         /* rank LOCK_ARENA */
	int policy;               /* [l] VM_*FIT, or 0 */
	size_t quantum;           /* [I] power of two */
	vmem_free_t *release;     /* [I] or NULL */
	vmem_t *source;           /* [I] or NULL */
	struct reserve reserve;   /* [l] spare tags */
	struct arena_stats stats; /* [l] the first seven are kept here */
	size_t nspans;            /* [l] */
	uintptr_t rotor_at;       /* [l] end of the last next fit */
	struct segment *spans;    /* [l] root of their treap */
	struct list walkers;      /* [l] reentrant walks under way */
	struct segment head;      /* [l] start and end of the ring */
	struct segment rotor;     /* [l] where next fit goes on */
	struct seghash hash;      /* [l] allocated segments */
	struct freelist free;     /* [l] free segments */

	/* Quantum caches; see quantum.c. */
	struct lock gate;            /* rank LOCK_QUANTUM */
	struct segment *due;         /* [l] free spans to be released */
	uint32_t ntransit;           /* [l] calls of import and release */
	uint32_t nmoved;             /* [l] spans that came or went, so far */
	uint32_t ncalled;            /* [a] calls that ended, to wait on */
	uint32_t nwaiting;           /* [a] threads that wait on it */
	bool import_failed;          /* [a] the last call of import */
	unsigned nqcaches;           /* [I] sizes with one: 1 .. nqcaches */
	unsigned quantum_shift;      /* [I] */
	void *qcache[ARENA_QCACHES]; /* [I] NULL: this size goes without */

	int cflags;            /* [I] VMC_* */
	size_t import_quantum; /* [I] imports are multiples of it */
	union {                /* [I] which: VMC_XALLOC */
		vmem_alloc_t *import;
		vmem_ximport_t *ximport;
	};
	struct list link;             /* [L] in the list of all arenas */
	unsigned nchecks;             /* [l] debug builds: since the last */
	char name[ARENA_NAMELEN + 1]; /* [I] */
};

/* A walk that drops the lock for its callback; lives on its thread's stack. */
struct walker {
	struct segment mark; /* VMEM_WALKER, in the ring */
	struct list link;    /* in arena->walkers */
	uint32_t thread;
};

#define ARENA_POLICIES (VM_BESTFIT | VM_FIRSTFIT | VM_NEXTFIT)

static inline bool
arena_one_policy(int vmflag)
{
	int policy = vmflag & ARENA_POLICIES;

	return (policy & (policy - 1)) == 0;
}

/* Round a size up to the quantum; false for 0 and beyond the end. */
static inline bool
arena_round(const vmem_t *arena, size_t size, size_t *rounded)
{
	*rounded = align_up(size, arena->quantum);
	return *rounded != 0;
}

/* The segment layer of vmem_alloc() and vmem_free(); same results. */
void *arena_alloc(vmem_t *arena, const struct request *req, int vmflag);
void arena_free(vmem_t *arena, void *addr, size_t size);

/* As arena_alloc(), but leaves what quantum caches hold alone; may import. */
void *arena_try(vmem_t *arena, const struct request *req, int vmflag);

/* As arena_try(), of what the arena has: no import.  slab: see vmem_slab_*. */
void *arena_take(
    vmem_t *arena, const struct request *req, int vmflag, bool slab);

/*
 * Free a segment, but release no span.  slab as in arena_take().  False: no
 * such segment is allocated.
 */
bool arena_give(vmem_t *arena, void *addr, size_t size, bool slab);

/*
 * Import a span for a request and leave all of it free; NULL: the source has
 * none.  arena_import_end() releases it if it is still free as a whole.
 */
void *arena_import(vmem_t *arena, const struct request *req, int vmflag);
void arena_import_end(vmem_t *arena, void *start);

/*
 * Cut a slab into chunks: those whose bit is set in free become free, the
 * others segments of their own.  False: no memory for tags.
 */
bool arena_split(vmem_t *arena, void *addr, size_t chunk, const uint64_t *free);

/* Release the spans that arena_give() left. */
void arena_settle(vmem_t *arena);

/* The body of vmem_add(): 0, EINVAL or ENOMEM. */
int arena_add_span(vmem_t *arena, uintptr_t start, size_t size);

/* Count a failure, and arena_failed() with ENOMEM. */
void *arena_refuse(vmem_t *arena, const struct request *req, int vmflag);

/* NULL with errno; with VM_PANIC the end of the program instead. */
void *arena_failed(vmem_t *arena, size_t size, int error, int vmflag);

/* Call func for every arena, oldest first, with the list locked. */
void arena_foreach(void (*func)(vmem_t *arena, void *arg), void *arg);

void arena_stats(vmem_t *arena, struct arena_stats *out);

/* Everything that must be true of an arena; takes time for every segment. */
bool arena_check(vmem_t *arena);

/* quantum.c: caches for small multiples of the quantum. */

/* Set up to nqcaches of them up, as far as there is memory. */
void quantum_create(vmem_t *arena, size_t qcache_max);
void quantum_destroy(vmem_t *arena);

/* The cache for a size, or NULL if segments serve it. */
static inline void *
quantum_cache(const vmem_t *arena, size_t size)
{
	size_t i = (size - 1) >> arena->quantum_shift;

	return i < arena->nqcaches ? arena->qcache[i] : NULL;
}

void *quantum_alloc(void *cache, int vmflag);
void quantum_free(void *cache, void *addr);

/*
 * No segment fits a request, and the source has none.  Take one from what the
 * quantum caches hold idle.  cache, if not NULL, is the one that serves the
 * request.  NULL: nothing idle fits.
 */
void *quantum_shortage(
    vmem_t *arena, void *cache, const struct request *req, int vmflag);

#endif
