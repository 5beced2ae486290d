/*
 * vmem.h - arenas: allocators for ranges of integers
 *
 * An arena owns spans, which are ranges of integers, and allocates segments of
 * them.  The program decides on the meaning of the integers: addresses,
 * identifiers, offsets, pages.  The arena keeps its records elsewhere and never
 * accesses memory at the addresses that it allocates.  Allocation and free take
 * constant time, independent of the number of segments, if the caller gives
 * neither a policy flag nor a constraint.
 *
 * Sizes are in units of the arena, which are bytes if the integers are
 * addresses.  They are rounded up to the quantum of the arena.  An integer is
 * passed as a void *.  Because NULL means failure, no span may contain 0.
 *
 * Any thread may call every function here at any time, also in a forked child.
 * Because the functions take locks, a signal handler must not call them.  No
 * function changes errno when it succeeds.  For the child of vfork(), see
 * umem.h.  A pointer to an arena must be a result of vmem_create(),
 * vmem_xcreate() or vmem_heap_arena(), and the arena must not be destroyed yet.
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

/*
 * An arena.  umem.h has this typedef too, and C99 does not allow a second one
 * of the same name.
 */
#ifndef UMEM_VMEM_T
#define UMEM_VMEM_T
typedef struct vmem vmem_t;
#endif

/*
 * vmflag of an allocation: at most one of VM_SLEEP, VM_NOSLEEP and VM_PANIC, at
 * most one policy, and any of the other flags, or-ed together.
 */
#define VM_SLEEP    0x00000000 /* may fail, as with VM_NOSLEEP */
#define VM_NOSLEEP  0x00000001 /* may fail */
#define VM_PANIC    0x00000002 /* on failure, print a message and abort() */
#define VM_PUSHPAGE 0x00000004 /* accepted, no effect */
#define VM_KMFLAGS  0x000000ff /* the flags that a source receives */

/* Policies.  The default is instant fit, which takes constant time. */
#define VM_BESTFIT  0x00000100 /* the smallest free segment that fits */
#define VM_FIRSTFIT 0x00000200 /* the lowest address that fits */
#define VM_NEXTFIT  0x00000400 /* the next fit above the last allocation */

/* Accepted, no effect. */
#define VM_MEMLOAD  0x00000800
#define VM_NORELOC  0x00001000
#define VM_ABORT    0x00002000
#define VM_ENDALLOC 0x00004000

/* vmflag of vmem_create(), besides VM_*. */
#define VMC_POPULATOR  0x00010000 /* accepted, no effect */
#define VMC_NO_QCACHE  0x00020000 /* no quantum caches */
#define VMC_IDENTIFIER 0x00040000 /* the integers are not addresses */
#define VMC_XALLOC     0x00080000 /* set by vmem_xcreate() itself */
#define VMC_XALIGN     0x00100000 /* the ximport function aligns spans */

/* typemask of vmem_walk() and vmem_size(). */
#define VMEM_ALLOC     0x00000001        /* allocated segments */
#define VMEM_FREE      0x00000002        /* free segments */
#define VMEM_SPAN      0x00000010        /* spans */
#define VMEM_ROTOR     0x00000020        /* never reported */
#define VMEM_WALKER    0x00000040        /* never reported */
#define VMEM_REENTRANT (-0x7fffffff - 1) /* the callback may use the arena */

/*
 * Functions by which an arena imports spans from its source and releases them.
 * The library calls them with none of its locks held.
 *
 * vmem_alloc_t		import: returns the start of a span of size units, a
 *			multiple of the importing arena's quantum, or NULL.
 *			vmem_alloc() is such a function
 * vmem_free_t		release: frees exactly one span that an import returned;
 *			cannot fail
 * vmem_ximport_t	import: like vmem_alloc_t, but may increase *size if the
 *			span is larger.  align is the alignment that the arena
 *			wants.  The function need not observe it unless the
 *			arena was created with VMC_XALIGN
 */
typedef void *(vmem_alloc_t)(vmem_t *source, size_t size, int vmflag);
typedef void(vmem_free_t)(vmem_t *source, void *addr, size_t size);
typedef void *(
    vmem_ximport_t)(vmem_t *source, size_t *size, size_t align, int vmflag);

/*
 * vmem_create - create an arena
 *
 * name		name of the arena in messages and tools; copied, truncated to
 *		31 bytes
 * base		start of the first span: a multiple of quantum and not 0;
 *		ignored if size is 0
 * size		size of the first span in units: a multiple of quantum; 0: the
 *		arena starts without a span
 * quantum	granule of allocation in units: a power of two.  Every segment
 *		starts and ends at a multiple of quantum
 * import	function that the arena calls for a new span when no free
 *		segment fits; NULL: the arena never imports
 * release	function that the arena calls for an imported span when all of
 *		it is free; NULL: the arena keeps imported spans
 * source	first argument of import and release; may be NULL.  If it is an
 *		arena, import sizes are rounded up to its quantum
 * qcache_max	quantum caches, which have per-CPU magazines, serve requests of
 *		up to this many units, and at most 16 multiples of the quantum;
 *		0: no quantum caches.  Ignored with VMC_NO_QCACHE, and while the
 *		library starts
 * vmflag	VM_NOSLEEP or VM_PANIC, VMC_*, and the policy of the arena,
 *		which serves allocations without a policy flag
 *
 * Returns the arena, which vmem_destroy() destroys, or NULL with errno set:
 *	EINVAL	name is NULL; quantum is not a power of two; base or size is
 *		not a multiple of quantum; size is not 0 and base is 0 or
 *		base + size - 1 exceeds the largest integer; two policies
 *	ENOMEM	no memory for the arena's records
 *
 * Any thread may call it, but not in a signal handler.
 *
 * Source: illumos vmem_create(9F).
 */
vmem_t *vmem_create(const char *name, void *base, size_t size, size_t quantum,
    vmem_alloc_t *import, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag);

/*
 * vmem_xcreate - create an arena with an import function that may return more
 *
 * Arguments, result, errors and safety are those of vmem_create(), except
 * import	see vmem_ximport_t.  The span must be at least as large as
 *		requested, and its start and size must be multiples of quantum.
 *		Otherwise the library aborts the program
 *
 * Source: illumos vmem_xcreate().
 */
vmem_t *vmem_xcreate(const char *name, void *base, size_t size, size_t quantum,
    vmem_ximport_t *import, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag);

/*
 * vmem_destroy - destroy an arena
 *
 * arena	the arena, which no other thread may use and which must not be
 *		the source of a live arena; NULL does nothing
 *
 * If segments are still allocated, vmem_destroy() reports them on standard
 * error as "vmem_destroy('NAME'): leaked N bytes" (or identifiers).  It does
 * not release the spans of these segments to the source.  Cannot fail.  Any
 * thread may call it, but not in a signal handler or in a callback of
 * vmem_walk() on the same arena.
 *
 * Source: illumos vmem_destroy(9F).
 */
void vmem_destroy(vmem_t *arena);

/*
 * vmem_add - add a span to an arena
 *
 * arena	the arena, which owns the span until it is destroyed
 * addr		start of the span: a multiple of the quantum and not 0
 * size		size of the span in units: a multiple of the quantum and not 0
 * vmflag	VM_NOSLEEP or VM_PANIC
 *
 * Returns addr, or NULL with errno set:
 *	EINVAL	addr or size is 0 or not a multiple of the quantum; the span
 *		exceeds the largest integer or overlaps another span of the
 *		arena
 *	ENOMEM	no memory for the arena's records
 *
 * Adjacent spans are not merged: no segment is in both.  The time is
 * logarithmic in the number of spans.  Any thread may call it, but not in a
 * signal handler.
 *
 * Source: illumos vmem_add(9F).
 */
void *vmem_add(vmem_t *arena, void *addr, size_t size, int vmflag);

/*
 * vmem_alloc - allocate a segment
 *
 * arena	arena to allocate from
 * size		size in units, not 0; rounded up to the quantum
 * vmflag	VM_NOSLEEP or VM_PANIC, and optionally a policy instead of the
 *		arena's own.  Requests that a quantum cache serves ignore the
 *		policy
 *
 * Returns the start of the segment, a multiple of the quantum, which
 * vmem_free() frees, or NULL with errno set:
 *	EINVAL	size is 0; two policies
 *	ENOMEM	no free segment is large enough and the source, if any, has
 *		no span either; or no memory for the arena's records.  Idle
 *		segments in quantum caches, on any CPU, count as free: before
 *		a call fails, it returns them to the arena
 *
 * A failed call leaves the arena unchanged.  Instant fit takes constant time.
 * It first examines a few free segments of about the requested size, newest
 * first, so that a request reuses a freed segment of its size.  Then it takes a
 * segment from the next power of two that has one.  The other policies search.
 * Any thread may call it, but not in a signal handler.
 *
 * Source: illumos vmem_alloc(9F).
 */
void *vmem_alloc(vmem_t *arena, size_t size, int vmflag);

/*
 * vmem_free - free a segment of vmem_alloc()
 *
 * arena	arena from which the segment was allocated
 * addr		result of vmem_alloc()
 * size		size in units that was passed to vmem_alloc(), or that size
 *		rounded up to the quantum
 *
 * Never fails, needs no memory and preserves errno.  The segment is merged with
 * adjacent free segments, and an imported span that is entirely free is
 * released.  Misuse aborts the program with one of
 *	vmem_hash_delete(ARENA, ADDR, SIZE): bad free
 *	vmem_hash_delete(ARENA, ADDR, SIZE): wrong size (expect SIZE)
 * The first means that no allocated segment starts at addr, for example because
 * it was freed before.  For a size that a quantum cache serves, the message
 * comes when the cache returns the segment to the arena, or it is that of
 * umem_cache_free() and names the cache, "ARENA_SIZE".  A segment of
 * vmem_xalloc() must be freed by vmem_xfree().  Any thread may call it, but not
 * in a signal handler.
 *
 * Source: illumos vmem_free(9F).
 */
void vmem_free(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_xalloc - allocate a segment under constraints
 *
 * arena	arena to allocate from
 * size		size in units, not 0; rounded up to the quantum
 * align	alignment in units: a power of two; 0: the quantum
 * phase	the segment starts phase units above a multiple of align: a
 *		multiple of the quantum, less than align
 * nocross	the segment crosses no multiple of nocross: a power of two; 0:
 *		no such constraint
 * minaddr	lowest start of the segment; NULL: no such constraint
 * maxaddr	upper bound of the integers in the segment, exclusive; NULL: no
 *		such constraint
 * vmflag	flags of vmem_alloc()
 *
 * Returns the start of the segment, which vmem_xfree() frees, or NULL with
 * errno set:
 *	EINVAL	size is 0; align or nocross is not a power of two; phase is
 *		not less than align or not a multiple of the quantum; a segment
 *		of this size and phase always crosses a multiple of nocross;
 *		maxaddr is not above minaddr; two policies
 *	ENOMEM	for the reasons given at vmem_alloc().  A request with minaddr
 *		or maxaddr does not import, because an import function has no
 *		arguments for them
 *
 * Any thread may call it, but not in a signal handler.  A constrained request
 * may have to examine every free segment.
 *
 * Source: illumos vmem_xalloc(9F).
 */
void *vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase,
    size_t nocross, void *minaddr, void *maxaddr, int vmflag);

/*
 * vmem_xfree - free a segment of vmem_xalloc()
 *
 * arena	arena from which the segment was allocated
 * addr		result of vmem_xalloc()
 * size		size in units that was passed to vmem_xalloc(), or that size
 *		rounded up to the quantum
 *
 * Never fails, needs no memory and preserves errno.  Misuse aborts the program
 * with the messages of vmem_free().  Any thread may call it, but not in a
 * signal handler.
 *
 * Source: illumos vmem_xfree(9F).
 */
void vmem_xfree(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_contains - is a range part of an arena?
 *
 * arena	arena to examine
 * addr		start of the range
 * size		size of the range in units
 *
 * Returns 1 if a single span of the arena contains all of [addr, addr + size),
 * allocated or free, otherwise 0.  Returns 0 if size is 0.  Sets no errno.  Any
 * thread may call it, but not in a signal handler.
 *
 * Source: illumos vmem_contains(9F).
 */
int vmem_contains(vmem_t *arena, void *addr, size_t size);

/*
 * vmem_walk - call a function for every segment
 *
 * arena	arena to walk through, in address order
 * typemask	VMEM_ALLOC, VMEM_FREE, VMEM_SPAN or-ed together, and optionally
 *		VMEM_REENTRANT.  A span is reported before its segments.
 *		Without VMEM_REENTRANT the arena is locked during the walk, and
 *		func must not use the arena or allocate any memory
 * func		called as func(arg, start, size) with size in units
 * arg		passed to func unchanged
 *
 * With VMEM_REENTRANT, func may allocate from the arena and free to it.  A
 * segment that does not change is reported once.  If segments change during the
 * walk, each report extends beyond the previous one, so the walk ends.  func
 * must return: no longjmp, no thread exit.  Returns nothing and sets no errno.
 * Any thread may call it, but not in a signal handler.
 *
 * Source: illumos vmem_walk(9F).
 */
void vmem_walk(vmem_t *arena, int typemask,
    void (*func)(void *arg, void *start, size_t size), void *arg);

/*
 * vmem_size - size of the allocated or free part of an arena
 *
 * arena	arena to examine
 * typemask	VMEM_ALLOC, VMEM_FREE, or both for the sum of all spans
 *
 * Returns a number of units.  Idle memory of quantum caches counts as
 * allocated.  Sets no errno.  Any thread may call it, but not in a signal
 * handler.
 *
 * Source: illumos vmem_size(9F).
 */
size_t vmem_size(vmem_t *arena, int typemask);

/*
 * vmem_reap - return idle memory of quantum caches to their arenas
 *
 * Another name of umem_reap(), see umem.h.  A program need not call it because
 * of a failed request: each request reclaims the idle memory of the arena's
 * quantum caches before it fails.
 *
 * Source: libumem's private interface.
 */
void vmem_reap(void);

/*
 * vmem_heap_arena - the arena of memory that the library itself uses
 *
 * import	where to store the function that allocates memory from the
 *		arena; may be NULL
 * release	where to store the function that frees memory to the arena; may
 *		be NULL
 *
 * Returns the arena, which exists until the process ends.  A program creates an
 * arena of memory with the result and the two functions: vmem_create(name,
 * NULL, 0, quantum, import, release, arena, ...).  The memory is readable and
 * writable, and its contents are undefined.  Returns NULL with errno ENOMEM if
 * the process has no address space.  Any thread may call it, but not in a
 * signal handler.
 *
 * Source: libumem's vmem_heap_arena().
 */
vmem_t *vmem_heap_arena(vmem_alloc_t **import, vmem_free_t **release);

#ifdef __cplusplus
}
#endif

#endif
