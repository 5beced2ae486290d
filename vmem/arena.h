/* arena.h - struct vmem and the internal functions of arenas */
#ifndef VMEM_ARENA_H
#define VMEM_ARENA_H

#include "vmem/freelist.h"
#include "vmem/lock.h"
#include "vmem/quantum.h"
#include "vmem/segment.h"
#include "vmem/seghash.h"
#include "vmem/vmem.h"
#include "vmem/xalloc.h"

#define ARENA_NAMELEN 31

/* Statistics of one arena.  A unit is one integer, not always a byte. */
struct arena_stats {
	size_t inuse;     /* units in allocated segments */
	size_t total;     /* units in all spans */
	size_t imported;  /* units in imported spans */
	uint64_t nallocs; /* segments allocated, also for quantum caches */
	uint64_t nfails;  /* requests that neither arena nor source served */
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
	struct arena_stats stats; /* [l] */
	size_t nspans;            /* [l] */
	uintptr_t rotor_at;       /* [l] end of the last next-fit segment */
	struct segment *spans;    /* [l] root of the treap of spans */
	struct list walkers;      /* [l] reentrant walks in progress */
	struct segment head;      /* [l] start and end of the ring of tags */
	struct segment rotor;     /* [l] where next fit continues */
	struct seghash hash;      /* [l] allocated segments */
	struct freelist free;     /* [l] free segments */

	int cflags;            /* [I] VMC_* */
	size_t import_quantum; /* [I] imports are multiples of it */
	union {                /* [I] ximport if cflags has VMC_XALLOC */
		vmem_alloc_t *import;
		vmem_ximport_t *ximport;
	};
	struct list link;  /* [L] in the list of all arenas */
	size_t qcache_max; /* [I] units that quantum caches serve */
	struct qcache qcache[ARENA_QCACHES]; /* [I] of 1 quantum, 2 and so on */
	unsigned nchecks;             /* [l] DEBUG: changes since a check */
	char name[ARENA_NAMELEN + 1]; /* [I] */
};

/* A reentrant walk (walk.c); it is on the stack of the walking thread. */
struct walker {
	struct segment mark; /* VMEM_WALKER, in the ring */
	struct list link;    /* in arena->walkers */
	uintptr_t thread;    /* the walking one, as thread_self() */
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

/* For sizes of at most arena->qcache_max, but not 0. */
static inline struct qcache *
arena_qcache(vmem_t *arena, size_t size)
{
	return &arena->qcache[(size - 1) >> lowbit(arena->quantum)];
}

/* Allocate a segment, or return NULL.  Leaves errno alone. */
void *arena_try(vmem_t *arena, const struct request *req, int vmflag);

/*
 * Allocate a segment, if need be of those in quantum caches.  Result and errors
 * are those of vmem_alloc().
 */
void *arena_alloc(vmem_t *arena, const struct request *req, int vmflag);

/* Add a span to the arena; returns 0, EINVAL or ENOMEM as vmem_add() does. */
int arena_add_span(vmem_t *arena, uintptr_t start, size_t size);

/*
 * Return NULL with errno set to error.  If vmflag has VM_PANIC, abort the
 * program instead.
 */
void *arena_error(vmem_t *arena, size_t size, int error, int vmflag);

/* Are the invariants of arena.c true?  Reads all segments (arena_check.c). */
bool arena_check(vmem_t *arena);

#endif
