/*
 * create.c - creation, destruction and fork handling of all arenas
 *
 * All live arenas are on one list, oldest first.  A source therefore precedes
 * the arenas that import from it.
 *
 * A lookup in the list decides whether a source is an arena, because a program
 * may pass any pointer as the source of its own import function.
 *
 * Fork: the forking thread takes every arena's lock, so no arena is changing
 * while fork() copies it.  A reentrant walk drops the lock for its callback
 * and leaves a mark in the ring, on the stack of the walking thread.  In the
 * child the walking threads do not exist and their stacks may be reused.
 * Therefore the child removes their marks.
 *
 * Locking: arena_list_lock guards the list.  It is above the arenas' locks.
 */
#include <errno.h>

#include "vmem/arena.h"
#include "vmem/describe.h"
#include "vmem/described.h"
#include "vmem/arenas.h"
#include "vmem/meta.h"
#include "vmem/panic.h"
#include "vmem/string.h"
#include "vmem/syscall.h"

struct lock arena_list_lock = LOCK_INITIALIZER(LOCK_ARENA_LIST);
static struct list arena_list = {&arena_list, &arena_list};

/*
 * The thread that took the locks for a fork, as thread_self(): unlike its id,
 * this is the same in the child.
 */
static uintptr_t fork_thread;

/* The quantum of the source if it is an arena, else 0. */
static size_t
source_quantum(const vmem_t *source)
{
	size_t result = 0;

	lock_take(&arena_list_lock);
	list_foreach (arena, &arena_list, vmem_t, link)
		if (arena == source)
			result = arena->quantum;
	lock_release(&arena_list_lock);
	return result;
}

/* The import function of an arena with a larger quantum than its source. */
static void *
import_aligned(vmem_t *source, size_t *size, size_t align, int vmflag)
{
	return vmem_xalloc(source, *size, align, 0, 0, NULL, NULL, vmflag);
}

/*
 * Adapt imports to a source that is an arena.  Their sizes are multiples of the
 * source's quantum, because the source would waste the rest.  If the source has
 * a smaller quantum than the arena, import_aligned() aligns the spans.
 */
static void
source_adapt(vmem_t *arena)
{
	size_t quantum = source_quantum(arena->source);

	arena->import_quantum =
	    quantum > arena->quantum ? quantum : arena->quantum;
	if (quantum == 0 || quantum >= arena->quantum ||
	    (arena->cflags & VMC_XALLOC) != 0 || arena->import != vmem_alloc)
		return;
	arena->ximport = import_aligned;
	arena->cflags |= VMC_XALLOC | VMC_XALIGN;
	if (arena->release == vmem_free)
		arena->release = vmem_xfree;
}

static void
arena_init(vmem_t *arena, const char *name, size_t quantum, int vmflag)
{
	lock_init(&arena->lock, LOCK_ARENA);
	string_copy(arena->name, name, ARENA_NAMELEN);
	arena->quantum = quantum;
	arena->policy = vmflag & ARENA_POLICIES;
	segment_init(&arena->head, VMEM_SPAN);
	segment_init(&arena->rotor, VMEM_ROTOR);
	segment_link_after(&arena->head, &arena->rotor);
	list_init(&arena->walkers);
	seghash_init(&arena->hash, quantum);
	freelist_init(&arena->free);
}

/* Free all metadata of the arena, also if it still has segments. */
static void
arena_delete(vmem_t *arena)
{
	struct segment *seg = segment_next(&arena->head);

	umem_assert(list_empty(&arena->walkers));
	while (seg != &arena->head) {
		struct segment *next = segment_next(seg);

		meta_free(seg, sizeof(*seg));
		seg = next;
	}
	segment_reserve_free(&arena->reserve);
	seghash_destroy(&arena->hash);
	meta_free(arena, sizeof(*arena));
}

static void *
create_failed(const char *name, int error, int vmflag)
{
	if ((vmflag & VM_PANIC) != 0)
		panic("vmem_create('%s'): cannot create mandatory arena",
		    name != NULL ? name : "");
	return fail_null(error);
}

/* Create an arena without a source and without an entry in the list. */
static vmem_t *
arena_create(
    const char *name, void *base, size_t size, size_t quantum, int vmflag)
{
	if (name == NULL || !is_pow2(quantum) || !arena_one_policy(vmflag))
		return create_failed(name, EINVAL, vmflag);

	vmem_t *arena = meta_alloc(sizeof(*arena));

	if (arena == NULL)
		return create_failed(name, ENOMEM, vmflag);
	arena_init(arena, name, quantum, vmflag);

	int error =
	    size == 0 ? 0 : arena_add_span(arena, (uintptr_t)base, size);

	if (error != 0) {
		arena_delete(arena);
		return create_failed(name, error, vmflag);
	}
	return arena;
}

/*
 * Set the source, add the arena to the list and create its quantum caches.
 * Walks of the list do not use these, and the program does not have the arena
 * yet.  NULL: the arena was not created.  import and ximport share their place.
 */
static vmem_t *
arena_publish(vmem_t *arena, vmem_alloc_t *import_func, vmem_ximport_t *ximport,
    vmem_free_t *release, vmem_t *source, size_t qcache_max, int cflags)
{
	if (arena == NULL)
		return NULL;
	arena->import = import_func;
	if (ximport != NULL)
		arena->ximport = ximport;
	arena->release = release;
	arena->source = source;
	arena->cflags = cflags;
	source_adapt(arena);
	lock_take(&arena_list_lock);
	list_add_tail(&arena_list, &arena->link);
	lock_release(&arena_list_lock);
	if ((cflags & VMC_NO_QCACHE) == 0)
		quantum_create(arena, qcache_max);
	return arena;
}

#define VMC_FLAGS (VMC_NO_QCACHE | VMC_IDENTIFIER)

public vmem_t *
vmem_create(const char *name, void *base, size_t size, size_t quantum,
    vmem_alloc_t *import_func, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag)
{
	vmem_t *arena = arena_create(name, base, size, quantum, vmflag);

	return arena_publish(arena, import_func, NULL, release, source,
	    qcache_max, vmflag & VMC_FLAGS);
}

public vmem_t *
vmem_xcreate(const char *name, void *base, size_t size, size_t quantum,
    vmem_ximport_t *import_func, vmem_free_t *release, vmem_t *source,
    size_t qcache_max, int vmflag)
{
	vmem_t *arena = arena_create(name, base, size, quantum, vmflag);

	return arena_publish(arena, NULL, import_func, release, source,
	    qcache_max, (vmflag & (VMC_FLAGS | VMC_XALIGN)) | VMC_XALLOC);
}

public void
vmem_destroy(vmem_t *arena)
{
	if (arena == NULL)
		return;
	quantum_destroy(arena);
	lock_take(&arena_list_lock);
	list_remove(&arena->link);
	lock_release(&arena_list_lock);

	if (arena->stats.inuse != 0)
		message_line("vmem_destroy('%s'): leaked %zu %s", arena->name,
		    arena->stats.inuse,
		    (arena->cflags & VMC_IDENTIFIER) != 0 ? "identifiers"
							  : "bytes");
	arena_delete(arena);
}

void
vmem_lock_for_fork(void)
{
	list_foreach (arena, &arena_list, vmem_t, link)
		lock_take_for_fork(&arena->lock);
	fork_thread = thread_self();
}

/* In the child: remove the marks of other threads' walks from the ring. */
static void
walkers_remove_others(vmem_t *arena)
{
	list_foreach_safe (walker, &arena->walkers, struct walker, link) {
		if (walker->thread == fork_thread)
			continue;
		segment_unlink(&walker->mark);
		list_remove(&walker->link);
	}
}

void
vmem_unlock_for_fork(bool child)
{
	list_foreach (arena, &arena_list, vmem_t, link) {
		if (child)
			walkers_remove_others(arena);
		lock_release_for_fork(&arena->lock);
	}
}

DESCRIBE(DESCRIBED_ARENAS);
