/*
 * vmem.h - arenas: ranges of integers, handed out piece by piece
 *
 * An arena owns spans of integers and allocates segments of them.  What the
 * integers mean is up to the program: addresses, identifiers, offsets, pages.
 * The arena keeps its own records elsewhere and never looks at what it hands
 * out.  Allocating and freeing takes the same time whatever the number of
 * segments, as long as no policy flag and no constraint is given.
 *
 * Sizes are in the arena's own unit (bytes, if it holds addresses), and are
 * rounded up to its quantum.  An integer travels as a void *; because NULL
 * means failure, no span may contain 0.
 *
 * Every function here may be called by any thread at any time, from a forked
 * child too, and none is for use in a signal handler: they take locks.  None
 * changes errno when it succeeds.  For the child of vfork(), see umem.h.  A
 * pointer to an arena must be one that vmem_create(), vmem_xcreate() or
 * vmem_heap_arena() returned and that was not destroyed.
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001; names, order
 * of arguments and values of constants are those of illumos <sys/vmem.h>.
 */
#ifndef UMEM_VMEM_H
#define UMEM_VMEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An arena.  C99 knows no second typedef of a name: the first of the two headers has it. */
#ifndef UMEM_VMEM_T
#define UMEM_VMEM_T
typedef struct vmem vmem_t;
#endif

/*
 * vmflag of an allocation: at most one of the first three, at most one
 * policy, and any of the others, or-ed together.
 */
#define VM_SLEEP    0x00000000 /* as VM_NOSLEEP: it may fail */
#define VM_NOSLEEP  0x00000001 /* may fail */
#define VM_PANIC    0x00000002 /* message and abort() on failure */
#define VM_PUSHPAGE 0x00000004 /* accepted, no effect */
#define VM_KMFLAGS  0x000000ff /* what a source is given to see */

/* Policies.  Without one: instant fit, that is, constant time. */
#define VM_BESTFIT  0x00000100 /* the smallest free one that fits */
#define VM_FIRSTFIT 0x00000200 /* the lowest address that fits */
#define VM_NEXTFIT  0x00000400 /* the next one behind the last given */

/* Accepted without effect. */
#define VM_MEMLOAD  0x00000800
#define VM_NORELOC  0x00001000
#define VM_ABORT    0x00002000
#define VM_ENDALLOC 0x00004000

/* vmflag of vmem_create(), besides VM_*. */
#define VMC_POPULATOR  0x00010000 /* accepted, no effect */
#define VMC_NO_QCACHE  0x00020000 /* no quantum caches */
#define VMC_IDENTIFIER 0x00040000 /* integers are no addresses */
#define VMC_XALLOC     0x00080000 /* set by vmem_xcreate() itself */
#define VMC_XALIGN     0x00100000 /* the ximport function aligns */

/* typemask of vmem_walk() and vmem_size(). */
#define VMEM_ALLOC     0x00000001 /* allocated segments */
#define VMEM_FREE      0x00000002 /* free segments */
#define VMEM_SPAN      0x00000010 /* spans */
#define VMEM_ROTOR     0x00000020 /* never reported */
#define VMEM_WALKER    0x00000040 /* never reported */
#define VMEM_REENTRANT 0x80000000 /* the callback may use the arena */

/*
 * How an arena gets spans from its source and gives them back.  Both are
 * called with no lock of the library held.
 *
 * import	returns size units at a multiple of the importing arena's
 *		quantum, or NULL.  vmem_alloc() itself is such a function.
 * release	takes back exactly what one import returned; cannot fail
 * ximport	as import, but may raise *size to say that it returned more,
 *		and is told the alignment that is wanted, which it need not
 *		follow unless the arena was created with VMC_XALIGN
 */
typedef void *(vmem_alloc_t)(vmem_t *source, size_t size, int vmflag);
typedef void(vmem_free_t)(vmem_t *source, void *addr, size_t size);
typedef void *(
    vmem_ximport_t)(vmem_t *source, size_t *size, size_t align, int vmflag);

/*
 * vmem_create - make an arena
 *
 * name		what messages and tools call it; copied, cut to 31 bytes
 * base		start of a first span, a multiple of quantum and not 0;
 *		ignored if size is 0
 * size		of the first span, in units: a multiple of quantum; 0: none
 * quantum	the smallest amount handed out, in units: a power of two.
 *		Every segment starts and ends at a multiple of it
 * import	where a new span comes from when the arena has no room; NULL:
 *		nowhere
 * release	where an imported span goes when all of it is free; NULL: it
 *		stays
 * source	first argument of import and release; usually an arena, whose
 *		quantum imports are then rounded to.  May be NULL
 * qcache_max	requests up to this many units are served by caches of free
 *		segments (quantum caches) per CPU, at most 16 multiples of the
 *		quantum; 0: none.  Ignored with VMC_NO_QCACHE and where the
 *		object caches are not up yet
 * vmflag	VM_NOSLEEP or VM_PANIC, VMC_*, and a policy that becomes the
 *		arena's own: it is used where an allocation names none
 *
 * Returns the arena, to be ended with vmem_destroy(), or NULL with errno:
 *	EINVAL	name is NULL; quantum is no power of two; base or size is
 *		not a multiple of quantum; base is 0 or base + size is beyond
 *		the end of the integers while size is not 0; two policies
 *	ENOMEM	no memory for the arena's records
 *
 * Any thread may call it; not for signal handlers.
 *
 * Source: illumos vmem_create(9F).
 */
vmem_t *vmem_create(const char *name, void *base, size_t size, size_t quantum,
    vmem_alloc_t *import, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag);

/*
 * vmem_xcreate - make an arena whose import function may enlarge a request
 *
 * Arguments, result, errors and safety are those of vmem_create(), except
 * import	see vmem_ximport_t; it must return at least what it is asked
 *		for, a multiple of quantum, else the program is aborted
 *
 * Source: illumos vmem_xcreate().
 */
vmem_t *vmem_xcreate(const char *name, void *base, size_t size, size_t quantum,
    vmem_ximport_t *import, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag);

/*
 * vmem_destroy - end an arena
 *
 * arena	not used by any other thread, nor the source of a live arena;
 *		NULL does nothing
 *
 * Segments that are still allocated are reported on standard error as
 * "vmem_destroy('NAME'): leaked N bytes" (or identifiers); the spans they
 * lie in are not given back to the source.  Cannot fail.  Any thread may
 * call it; not for signal handlers, nor in a callback of vmem_walk() on the
 * same arena.
 *
 * Source: illumos vmem_destroy(9F).
 */
void vmem_destroy(vmem_t *arena);

/*
 * vmem_add - give an arena one more span
 *
 * arena	takes the span until it is destroyed
 * addr		start of the span: a multiple of the quantum and not 0
 * size		in units: a multiple of the quantum and not 0
 * vmflag	VM_NOSLEEP or VM_PANIC
 *
 * Returns addr, or NULL with errno set:
 *	EINVAL	addr or size is 0 or not a multiple of the quantum; the span
 *		goes beyond the end of the integers or overlaps another of
 *		the arena
 *	ENOMEM	no memory for records
 *
 * Two spans that touch stay two: no segment lies in both.  The time is
 * logarithmic in the number of spans.  Any thread may call it; not for
 * signal handlers.
 *
 * Source: illumos vmem_add(9F).
 */
void *vmem_add(vmem_t *arena, void *addr, size_t size, int vmflag);

/*
 * vmem_alloc - allocate a segment
 *
 * arena	where from
 * size		in units, not 0; rounded up to the quantum
 * vmflag	VM_NOSLEEP or VM_PANIC, and a policy if the arena's own will
 *		not do.  Requests that a quantum cache serves have no policy
 *
 * Returns the start of the segment, a multiple of the quantum, to be freed
 * with vmem_free(), or NULL with errno set:
 *	EINVAL	size is 0; two policies
 *	ENOMEM	no free segment is large enough and the source, if any, has
 *		none either; or no memory for records.  Segments that quantum
 *		caches hold idle, on whatever CPU, count as free: a call
 *		returns them to the arena before it fails
 *
 * A failed call leaves the arena as it was.  Instant fit takes constant
 * time: it looks at a few segments of about the size wanted, newest first, so
 * that a freed segment is used again for a request of its size, and then at
 * the next larger power of two.  The other policies search.  Any thread may
 * call it; not for signal handlers.
 *
 * Source: illumos vmem_alloc(9F).
 */
void *vmem_alloc(vmem_t *arena, size_t size, int vmflag);

/*
 * vmem_free - free what vmem_alloc() returned
 *
 * arena	it was allocated from
 * addr		what vmem_alloc() returned
 * size		in units, as it was asked for (or rounded to the quantum)
 *
 * Never fails, needs no memory and keeps errno.  Neighbouring free segments
 * become one; an imported span that is free as a whole is released.  Misuse
 * aborts the program with one of
 *	vmem_hash_delete(ARENA, ADDR, SIZE): bad free
 *	vmem_hash_delete(ARENA, ADDR, SIZE): wrong size (expect SIZE)
 * the first if no allocated segment starts at addr (it was freed before, for
 * example).  What vmem_xalloc() returned must go to vmem_xfree().  Any thread
 * may call it; not for signal handlers.
 *
 * Source: illumos vmem_free(9F).
 */
void vmem_free(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_xalloc - allocate a segment under constraints
 *
 * arena	where from
 * size		in units, not 0; rounded up to the quantum
 * align	the start is phase beyond a multiple of this: a power of two,
 * phase	less than align and a multiple of the quantum.  align 0: the
 *		quantum
 * nocross	the segment crosses no multiple of this: a power of two; 0:
 *		no such limit
 * minaddr	lowest start; NULL: none
 * maxaddr	the segment ends at or below this: the first integer that it
 *		may not contain; NULL: none
 * vmflag	as for vmem_alloc()
 *
 * Returns the start, to be freed with vmem_xfree(), or NULL with errno set:
 *	EINVAL	size is 0; align or nocross is no power of two; phase is not
 *		less than align or no multiple of the quantum; phase + size
 *		does not go into nocross; maxaddr is not above minaddr; two
 *		policies
 *	ENOMEM	as for vmem_alloc().  A request with minaddr or maxaddr does
 *		not import, because a source cannot be told of them
 *
 * Any thread may call it; not for signal handlers.  A constrained request
 * may have to look at every free segment.
 *
 * Source: illumos vmem_xalloc(9F).
 */
void *vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase,
    size_t nocross, void *minaddr, void *maxaddr, int vmflag);

/*
 * vmem_xfree - free what vmem_xalloc() returned
 *
 * arena	it was allocated from
 * addr		what vmem_xalloc() returned
 * size		in units, as it was asked for (or rounded to the quantum)
 *
 * Never fails, needs no memory and keeps errno; misuse aborts, with the
 * messages of vmem_free().  Any thread may call it; not for signal handlers.
 *
 * Source: illumos vmem_xfree(9F).
 */
void vmem_xfree(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_contains - is this range part of the arena?
 *
 * arena	to look in
 * addr		start of the range
 * size		in units
 *
 * Returns 1 if one span of the arena contains all of [addr, addr + size),
 * allocated or not, else 0; 0 if size is 0.  Sets no errno.  Any thread may
 * call it; not for signal handlers.
 *
 * Source: illumos vmem_contains(9F).
 */
int vmem_contains(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_walk - call a function for every segment
 *
 * arena	to walk through, in the order of addresses
 * typemask	VMEM_ALLOC, VMEM_FREE, VMEM_SPAN or-ed together.  A span comes
 *		before its segments.  Without VMEM_REENTRANT the arena is
 *		locked meanwhile, and func must not use it or allocate at all
 * func		called as func(arg, start, size) with size in units
 * arg		handed to func as it is
 *
 * With VMEM_REENTRANT func may allocate from the arena and free to it.  A
 * segment that stays as it is, is reported once.  Of those that change
 * meanwhile each report reaches beyond the one before, so the walk ends.
 * func must return (no longjmp, no thread exit).  Returns nothing, sets no
 * errno.  Any thread may call it; not for signal handlers.
 *
 * Source: illumos vmem_walk(9F).
 */
void vmem_walk(vmem_t *arena, int typemask,
    void (*func)(void *arg, void *start, size_t size), void *arg);

/*
 * vmem_size - how much is allocated, or free
 *
 * arena	to ask
 * typemask	VMEM_ALLOC, VMEM_FREE, or both for the sum of all spans
 *
 * Returns units.  What lies in quantum caches counts as allocated.  Sets no
 * errno.  Any thread may call it; not for signal handlers.
 *
 * Source: illumos vmem_size(9F).
 */
size_t vmem_size(vmem_t *arena, int typemask);

/*
 * vmem_reap - give back what quantum caches keep, as far as it is not needed
 *
 * The same as umem_reap(), which see.  A request that fails does so by itself.
 *
 * Source: libumem's private interface.
 */
void vmem_reap(void);

/*
 * vmem_heap_arena - the arena of memory that the library itself uses
 *
 * import	where to store the function that allocates memory from it;
 *		may be NULL
 * release	where to store the function that frees it; may be NULL
 *
 * Returns the arena, which lives as long as the process.  Together the three
 * make an arena of memory: vmem_create(name, NULL, 0, quantum, import,
 * release, arena, ...).  Memory is readable and writable, and has whatever was
 * left in it.  Returns NULL with errno ENOMEM if the process has no address
 * space.  Any thread may call it; not for signal handlers.
 *
 * Source: libumem's vmem_heap_arena().
 */
vmem_t *vmem_heap_arena(vmem_alloc_t **import, vmem_free_t **release);

#ifdef __cplusplus
}
#endif

#endif
