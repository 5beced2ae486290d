/*
 * init.c - the order of the library's start, and the calls before it is done
 *
 * The first call that needs the library starts it.  That call may be the
 * dynamic loader's, long before any constructor.  Until the library has
 * started, every per-CPU header is the closed one and every map is empty, so
 * fast paths fail into slow paths, and those call umem_ready().
 *
 * If there was no call before the constructors, they start the library when the
 * user has set an option, or when the program is linked with it for the object
 * caches.  As malloc() of a program the library waits for the first call,
 * because a shell script runs many programs that make none.  A fork() starts it
 * too (fork.c), and so does pthread_create(), so that a single thread does
 * everything that is done once.
 *
 * The steps are done in order, each once.  If a step fails for want of memory,
 * the call that caused it fails with ENOMEM, and the next call resumes at that
 * step.
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
#include <errno.h>

#include "umem/described.h"
#include "umem/malloc/alloc.h"
#include "umem/base/cgroup.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/debug/exit_check.h"
#include "umem/debug/report.h"
#include "umem/fork.h"
#include "umem/base/ready.h"
#include "umem/debug/log.h"
#include "umem/options.h"
#include "umem/cache/quantum_cache.h"
#include "umem/profile/fault.h"
#include "umem/profile/panic_report.h"
#include "umem/profile/sample.h"
#include "umem/debug/stack.h"
#include "umem/upkeep/update.h"
#include "umem/debug/unwind.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/panic.h"

int umem_state;

static struct lock start_lock = LOCK_INITIALIZER(LOCK_INIT);
static uintptr_t starting_thread; /* [a] its thread pointer; 0: none */
static unsigned nsteps_done;      /* [start_lock] */

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
	if (likely(
		__atomic_load_n(&umem_state, __ATOMIC_ACQUIRE) == UMEM_READY))
		return false;
	return relocated != (void *)&relocated ||
	       __atomic_load_n(&starting_thread, __ATOMIC_RELAXED) ==
		   (uintptr_t)__builtin_thread_pointer();
}

/* Stores the size of each block in the 16 bytes before it. */
void *
bootstrap_alloc(size_t size, size_t align)
{
	uintptr_t base = (uintptr_t)bootstrap;
	size_t used = __atomic_load_n(&bootstrap_used, __ATOMIC_RELAXED);
	size_t at;

	umem_assert(align != 0 && (align & (align - 1)) == 0);
	if (align < 16)
		align = 16;
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

static bool
start_options(void)
{
	variables_populate();
	report_start();
	panic_report_start();
	options_read();
	checker_start();
	if (checker_on)
		cache_use_magazines = false;
	size_class_start();
	heap_set_policy(options.policy);
	return true;
}

/*
 * With fewer CPUs, the caches of all CPUs together are too small for the quota
 * of processor time to be worth reading.
 */
#define QUOTA_CPUS 8

static bool
start_cpus(void)
{
	if (!cpu_start(options.mode, options.concurrency))
		return false;
	if (cpu_layer.nrun >= QUOTA_CPUS && !options.confined)
		cpu_layer.nquota = cgroup_cpu_quota(cpu_layer.nrun);
	umem_assert(cpu_layer.nwanted != 0);
	umem_assert(options.concurrency == 0 ||
		    cpu_layer.nwanted <= options.concurrency);
	umem_assert(
	    options.mode != RSEQ_NONE || cpu_layer.rseq.owner == RSEQ_NONE);
	cpu_warm();
	return true;
}

/*
 * The caches of the size classes are created when they are first used, because
 * a small program needs few.  Debugged ones are created here, because every
 * function that inspects a block uses them.
 */
static bool
start_class_caches(void)
{
	umem_assert(size_classes.n != 0 && size_classes.n < SIZE_CLASSES);
	umem_assert(debug.on || !debug_large());
	cpu_header_reserve(size_classes.n);
	if (!debug.on && !checker_on)
		return true;
	for (unsigned c = 1; c <= size_classes.n; c++)
		if (class_cache_of(c) == NULL)
			return false;
	return !debug.on || class_zero_make();
}

static bool
classes_are_debugged(void)
{
	for (unsigned c = 1; debug.on && c <= size_classes.n; c++) {
		umem_assert(class_cache[c] != NULL);
		if (class_cache[c]->debug != 0)
			return true;
	}
	return debug_large();
}

static bool
start_debugging(void)
{
	if (!debug.on)
		return true;
	log_start();
	debug_start();
	if (debug_has_guards())
		fault_explain_guards();
	return true;
}

static bool
start_fast_paths(void)
{
	quantum_cache_start();
	/*
	 * The fast paths are off where an allocation needs more than a
	 * restartable sequence does.
	 */
	if (cpu_layer.rseq.owner == RSEQ_NONE || classes_are_debugged() ||
	    checker_on)
		return true;
	umem_assert(page_map.base != 0 && page_map.entry != NULL);
	umem_assert(alloc_fast.units == 0);
	alloc_fast.place = cpu_layer.place;
	alloc_fast.base = page_map.base;
	alloc_fast.entry = page_map.entry;
	/*
	 * Without magazines no CPU owns the headers of the classes, and they
	 * refuse everything, as header 0 does.
	 */
	alloc_choose_paths();
	return true;
}

static bool
start_sampling(void)
{
	sample_start();
	return true;
}

static bool (*const start_steps[])(void) = {start_options, heap_start,
    start_cpus, page_map_start, start_debugging, start_class_caches,
    start_fast_paths, start_sampling};

static void
start_report_mode(void)
{
	struct umem_mode mode;

	umem_mode(&mode, sizeof(mode));
	message_line("%s mode %s (%s), indexed by %s, %u CPU slots",
	    UMEM_VERSION, mode.mode == UMEM_MODE_LOCKED ? "locked" : "rseq",
	    mode.mode == UMEM_MODE_RSEQ_LIBC  ? "libc's area"
	    : mode.mode == UMEM_MODE_RSEQ_OWN ? "own area"
					      : mode.reason,
	    mode.index == UMEM_INDEX_MM_CID ? "mm_cid" : "cpu_id", mode.ncpus);
}

/* Returns true if this call has made the library ready. */
static bool
start_locked(void)
{
	lock_assert_held(&start_lock);
	umem_assert(umem_state == 0 || umem_state == UMEM_READY);
	if (umem_state == UMEM_READY)
		return false;
	umem_assert(nsteps_done < array_size(start_steps));
	__atomic_store_n(&starting_thread,
	    (uintptr_t)__builtin_thread_pointer(), __ATOMIC_RELAXED);
	while (
	    nsteps_done < array_size(start_steps) && start_steps[nsteps_done]())
		nsteps_done++;
	__atomic_store_n(&starting_thread, 0, __ATOMIC_RELAXED);
	if (nsteps_done < array_size(start_steps))
		return false;
	/* Release; pairs with umem_ready(). */
	__atomic_store_n(&umem_state, UMEM_READY, __ATOMIC_RELEASE);
	return true;
}

/*
 * Registers what the library does at exit and at signals.  The earlier it is
 * registered, the more of the program's own functions at exit run before.
 */
static void
start_exits(void)
{
	static bool is_done seldom_used; /* [a] */

	if (__atomic_exchange_n(&is_done, true, __ATOMIC_RELAXED))
		return;
	dump_start();
	exit_check_start();
}

bool
umem_start(void)
{
	bool first;

	/*
	 * A function that the start calls has called the library; see
	 * bootstrap_is_active().
	 */
	if (__atomic_load_n(&starting_thread, __ATOMIC_RELAXED) ==
	    (uintptr_t)__builtin_thread_pointer())
		return false;
	lock_take(&start_lock);
	first = start_locked();
	lock_release(&start_lock);
	if (first) {
		int saved = errno;

		/* These may allocate, so they run after the start. */
		fork_register();
		if (options.confined)
			os_confine();
		if (options.verbose) {
			start_report_mode();
			option_report_changes();
		}
		if (options.help)
			dump_help();
		if (os_libc_is_ready())
			start_exits();
		errno = saved;
	}
	return __atomic_load_n(&umem_state, __ATOMIC_ACQUIRE) == UMEM_READY;
}

start_path bool
umem_start_early(void)
{
	if (&umem_is_malloc != NULL && !options_are_given())
		return false;
	return umem_ready();
}

/*
 * Registers the fork handlers here.  The first call may come in a thread that
 * is forking and holds the lock that pthread_atfork() takes.
 */
static __attribute__((constructor)) void
start_constructor(void)
{
	message_start();
	os_note_start_cpus();
	fork_register();
	if (os_constructed() && &umem_is_malloc != NULL)
		message_line("ThreadSanitizer does not know when this library "
			     "gives a freed block to another thread, and may "
			     "report a race between the two");
	if (__atomic_load_n(&umem_state, __ATOMIC_ACQUIRE) == UMEM_READY)
		start_exits();
	if (umem_start_early())
		update_thread_offer(/* created */ false);
}

const void *const umem_landmarks[] = {(void *)vmem_alloc, (void *)vmem_create,
    (void *)cpu_now, (void *)page_map_start, (void *)umem_alloc,
    (void *)umem_cache_alloc, (void *)cache_alloc_slow, (void *)debug_alloc,
    (void *)stack_trace, (void *)unwind_rule, (void *)umem_reap,
    (void *)update_poll, NULL};

public void
umem_startup(
    char *start, size_t bytes, size_t page, char *minstack, char *maxstack)
{
	int saved = errno;

	(void)start, (void)bytes, (void)page, (void)minstack, (void)maxstack;
	umem_ready();
	errno = saved;
}

public int
umem_mode(struct umem_mode *out, size_t bytes)
{
	static const int modes[] = {[RSEQ_NONE] = UMEM_MODE_LOCKED,
	    [RSEQ_LIBC] = UMEM_MODE_RSEQ_LIBC,
	    [RSEQ_OWN] = UMEM_MODE_RSEQ_OWN};

	if (out == NULL || bytes != sizeof(*out) || !umem_ready()) {
		errno = EINVAL;
		return -1;
	}
	umem_assert((size_t)cpu_layer.rseq.owner < array_size(modes));
	/* Locked mode always has a reason. */
	umem_assert(cpu_layer.rseq.owner != RSEQ_NONE ||
		    cpu_layer.rseq.reason[0] != '\0');
	out->mode = modes[cpu_layer.rseq.owner];
	out->index =
	    cpu_layer.rseq.by_mm_cid ? UMEM_INDEX_MM_CID : UMEM_INDEX_CPU_ID;
	out->ncpus = cpu_layer.nwanted;
	out->reason = cpu_layer.rseq.reason;
	return 0;
}

public const char *
umem_version(void)
{
	return UMEM_VERSION;
}

public vmem_t *
vmem_heap_arena(vmem_alloc_t **alloc, vmem_free_t **release)
{
	vmem_t *arena = umem_ready() ? heap_public_arena() : NULL;

	if (arena == NULL)
		return NULL;
	if (alloc != NULL)
		*alloc = vmem_alloc;
	if (release != NULL)
		*release = vmem_free;
	return arena;
}

DESCRIBE(DESCRIBED_START);
