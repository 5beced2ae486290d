/*
 * ready.c - the start of the library, and the calls before it is done
 *
 * The first call that needs the library starts it.  That call may be the
 * dynamic loader's, long before any constructor.  Until the library has
 * started, every per-CPU header is the closed one and every map is empty, so
 * fast paths fail into slow paths, and those call umem_ready().
 *
 * The steps are done in order, each once; init.c lists them.  If a step fails
 * for want of memory, the call that caused it fails with ENOMEM, and the next
 * call resumes at that step.
 *
 * Even earlier, an IFUNC resolver of a library that the loader relocates before
 * this one may call malloc(), when this library's own pointers are not
 * relocated.  Such a call gets memory from a static block in .bss, and so do
 * the calls that the starting thread itself causes (the program's
 * _umem_options_init() may allocate).
 *
 * Locking: start_lock is held during the start.  The state is read with
 * acquire.
 */
#include <assert.h>

#include "umem/base/described.h"
#include "umem/base/ready.h"
#include "vmem/describe.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/syscall.h"

int umem_state written_early;

static struct lock start_lock = LOCK_INITIALIZER(LOCK_INIT);
static uintptr_t starting_thread; /* [a] its thread pointer; 0: none */
static unsigned nsteps_done;      /* [start_lock] of the table */

/* The size of the static block for early calls; see the head of this file. */
#define BOOTSTRAP_BYTES (1 * MIB)

static char bootstrap[BOOTSTRAP_BYTES] seldom_used
    __attribute__((aligned(CACHE_LINE)));
static_assert(BOOTSTRAP_BYTES % CACHE_LINE == 0,
    "the block shares no cache line with other data");
static size_t bootstrap_used; /* [a] */

/* Points to itself after the loader has relocated the library. */
static void *volatile relocated = (void *)&relocated;

bool
bootstrap_is_active(void)
{
	if (likely(load_acquire(&umem_state) == UMEM_READY))
		return false;
	return relocated != (void *)&relocated ||
	       load_relaxed(&starting_thread) == thread_self();
}

/* Stores the size of each block in the 16 bytes before it. */
void *
bootstrap_alloc(size_t size, size_t align)
{
	uintptr_t base = (uintptr_t)bootstrap;
	size_t used = load_relaxed(&bootstrap_used);
	size_t at;

	umem_assert(align != 0 && (align & (align - 1)) == 0);
	align = size_max(align, 16);
	do {
		at = align_up(base + used + 16, align) - base;
		if (size > BOOTSTRAP_BYTES || at > BOOTSTRAP_BYTES - size)
			return NULL;
	} while (!__atomic_compare_exchange_n(&bootstrap_used, &used, at + size,
	    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	*(size_t *)(void *)(bootstrap + at - 16) = size;
	return bootstrap + at;
}

bool
bootstrap_owns(const void *p)
{
	return (uintptr_t)p - (uintptr_t)bootstrap < BOOTSTRAP_BYTES;
}

size_t
bootstrap_usable(const void *p)
{
	size_t bytes = *(const size_t *)(const void *)((const char *)p - 16);

	umem_assert(bootstrap_owns(p));
	umem_assert(
	    bytes <= (size_t)(bootstrap + BOOTSTRAP_BYTES - (const char *)p));
	return bytes;
}

/* Defined by the linker: the start of .bss. */
extern char bss_start[] __asm__("__bss_start")
    __attribute__((visibility("hidden")));

/* The most bytes of small variables in .bss; a debug build has 20 KiB. */
#define VARIABLES_MAX (32 * KIB)

/*
 * Gives the pages of the library's small variables memory at once, because the
 * start touches all of them: 7 page faults less in a library of 4 such pages.
 * In a program that is linked with libumem.a, they are among other variables.
 */
static void
variables_populate(void)
{
	uintptr_t from = align_up((uintptr_t)bss_start, os_page_size());
	uintptr_t end = align_up((uintptr_t)bootstrap, os_page_size());

	if (end > from && end - from <= VARIABLES_MAX)
		os_populate((void *)from, end - from);
}

/* Returns true if this call has made the library ready. */
static bool
start_locked(void)
{
	lock_assert_held(&start_lock);
	umem_assert(umem_state == 0 || umem_state == UMEM_READY);
	if (umem_state == UMEM_READY)
		return false;
	store_relaxed(&starting_thread, thread_self());
	/* After the store, because madvise() may be a program's function. */
	if (nsteps_done == 0)
		variables_populate();
	while (ready_start.steps[nsteps_done] != NULL &&
	       ready_start.steps[nsteps_done]())
		nsteps_done++;
	store_relaxed(&starting_thread, 0);
	if (ready_start.steps[nsteps_done] != NULL)
		return false;
	/* Release; pairs with umem_ready(). */
	store_release(&umem_state, UMEM_READY);
	return true;
}

bool
umem_start(void)
{
	bool first;

	/*
	 * A function that the start calls has called the library; see
	 * bootstrap_is_active().
	 */
	if (load_relaxed(&starting_thread) == thread_self())
		return false;
	lock_take(&start_lock);
	first = start_locked();
	lock_release(&start_lock);
	if (first)
		ready_start.started();
	return load_acquire(&umem_state) == UMEM_READY;
}

start_path bool
umem_start_early(void)
{
	return ready_start.is_early() && umem_ready();
}

DESCRIBE(DESCRIBED_START);
