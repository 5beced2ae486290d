/*
 * init.c - the steps of the library's start, and the constructor
 *
 * If there was no call before the constructors (base/ready.c), they start the
 * library when the user has set an option, or when the program is linked with
 * it for the object caches.  As malloc() of a program the library waits for the
 * first call, because a shell script runs many programs that make none.  A
 * fork() starts it too (fork.c), and so does pthread_create(), so that a single
 * thread does everything that is done once.
 */
#include <errno.h>

#include "umem/malloc/alloc.h"
#include "umem/malloc/replaced.h"
#include "umem/base/cgroup.h"
#include "umem/base/checker.h"
#include "umem/debug/debug.h"
#include "umem/debug/exit_check.h"
#include "umem/fork.h"
#include "umem/base/ready.h"
#include "umem/debug/log.h"
#include "umem/options.h"
#include "umem/profile/fault.h"
#include "umem/profile/sample.h"
#include "umem/debug/stack.h"
#include "umem/upkeep/update.h"
#include "umem/debug/unwind.h"
#include "umem/upkeep/update_thread.h"
#include "vmem/heap.h"
#include "vmem/os.h"
#include "vmem/quantum.h"

static bool
start_options(void)
{
	options_read();
	checker_start();
	cache_use_magazines = cache_use_magazines && !checker_on;
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

/* The kernel supplies the number of the node with mm_cid. */
static void
start_nodes(void)
{
	if (!cpu_layer.rseq.by_mm_cid || debug.on || checker_on)
		return;
	node_start(cpu_layer.place.cs - RSEQ_CS + RSEQ_NODE_ID);
	if (nodes.mask != 0)
		heap_nodes_start();
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
	start_nodes();
	for (unsigned i = 0; i <= nodes.mask; i++)
		cpu_header_reserve(i * NODE_CLASSES + 1, size_classes.n);
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
	store_release(&debug.has_sections,
	    debug.hardened && cpu_layer.rseq.owner != RSEQ_NONE);
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

static bool (*const start_steps[])(void) = {start_options, heap_start,
    start_cpus, page_map_start, start_debugging, start_class_caches,
    start_fast_paths, sample_start, NULL};

const struct quantum_hooks quantum_hooks = {
    .import_cache_create = umem_import_cache_create,
    .cache_destroy = umem_cache_destroy,
    .cache_alloc_once = object_alloc_once,
    .cache_free = umem_cache_free,
    .cache_reap_now = umem_cache_reap_now};

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

/* What the start leaves for later, because it may allocate. */
static void
started(void)
{
	int saved = errno;

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

static start_path bool
is_early(void)
{
	return !umem_is_malloc || options_are_given();
}

const struct ready_start ready_start = {
    .steps = start_steps, .started = started, .is_early = is_early};

REPLACEABLE_HERE(umem_version);

/*
 * A program that is linked with libumem may run on libumem_malloc, which it
 * finds first.  Nothing calls the former then, so it must not start, not at a
 * fork() either: it would take the only rseq area that a thread can register.
 *
 * Registers the fork handlers here.  The first call may come in a thread that
 * is forking and holds the lock that pthread_atfork() takes.
 */
static __attribute__((constructor)) void
start_constructor(void)
{
	if (is_replaced(umem_version))
		return;
	message_start();
	os_note_start_cpus();
	fork_register();
	if (os_constructed() && umem_is_malloc)
		message_line("ThreadSanitizer does not know when this library "
			     "gives a freed block to another thread, and may "
			     "report a race between the two");
	if (load_acquire(&umem_state) == UMEM_READY)
		start_exits();
	if (umem_start_early())
		update_thread_offer(/* created */ false);
}

const void *const stack_landmarks[] = {(void *)vmem_alloc, (void *)vmem_create,
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

public const char *
umem_version(void)
{
	return UMEM_VERSION;
}

public vmem_t *
vmem_heap_arena(vmem_alloc_t **alloc, vmem_free_t **release)
{
	vmem_t *arena = umem_ready() ? heap_public_arena() : NULL;

	if (arena != NULL && alloc != NULL)
		*alloc = vmem_alloc;
	if (arena != NULL && release != NULL)
		*release = vmem_free;
	return arena;
}
