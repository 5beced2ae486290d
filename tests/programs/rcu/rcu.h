/*
 * rcu.h - shared by the tests of RCU-deferred frees
 *
 * A test defines run(), which tests the flavour `rcu`.  Without arguments of
 * its own, main() of this file executes the program again for each flavour of
 * liburcu, once on libumem.so.1 and once with libumem_malloc.so.1 preloaded.
 * The four flavours run at the same time, because most tests wait for grace
 * periods.  RCU_ONLY="FLAVOUR LIBRARY" in the environment, for example
 * "qsbr malloc", restricts the program to one of the eight.
 *
 * The tests know the contract of umem_rcu.h only: each flavour is used by the
 * pointers of its struct rcu_flavor_struct.
 */
#ifndef TESTS_PROGRAMS_RCU_H
#define TESTS_PROGRAMS_RCU_H

#include <malloc.h>
#include <umem_rcu.h>
#include <urcu/urcu-bp.h>

#include "tests/programs/check.h"

/*
 * ThreadSanitizer does not see that a grace period waits for sections.  Builds
 * for it have annotations: a section that has ended precedes the end of a grace
 * period.
 */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

static char rcu_sections;
#define rcu_section_ends() __tsan_release(&rcu_sections)
#define rcu_period_ends()  __tsan_acquire(&rcu_sections)
#else
#define rcu_section_ends() ((void)0)
#define rcu_period_ends()  ((void)0)
#endif

#define load(p)     __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define add(p, v)   __atomic_add_fetch((p), (v), __ATOMIC_SEQ_CST)

/* <urcu/flavor.h> declares that of the first flavour header only. */
extern const struct rcu_flavor_struct urcu_memb_flavor, urcu_mb_flavor,
    urcu_qsbr_flavor;

/* Accepts and ignores the arguments of the program. */
static void run(void);

static const struct {
	const char *name;
	const struct rcu_flavor_struct *flavor;
} flavours[] = {{"memb", &urcu_memb_flavor}, {"mb", &urcu_mb_flavor},
    {"bp", &urcu_bp_flavor}, {"qsbr", &urcu_qsbr_flavor}};

enum {
	NFLAVOURS = sizeof(flavours) / sizeof(flavours[0])
};

/* The flavour under test; run() may replace it by a copy (rcu_watch()). */
static const struct rcu_flavor_struct *rcu;
static const struct rcu_flavor_struct *rcu_true;

/* Words after the program's name, for run(). */
static char **rcu_args;

static inline bool
is_qsbr(void)
{
	return rcu_true == &urcu_qsbr_flavor;
}

static inline bool
is_bp(void)
{
	return rcu_true == &urcu_bp_flavor;
}

/* Is malloc() umem's? */
static inline bool
is_preloaded(void)
{
	return getenv("LD_PRELOAD") != NULL;
}

/*
 * A copy of the flavour that counts its grace periods, and sleeps up to
 * rcu_sleep_us microseconds before and after each.
 */
static struct rcu_flavor_struct rcu_copy;
static unsigned rcu_nperiods; /* that have begun */
static unsigned rcu_sleep_us;

static inline void
rcu_sleep(void)
{
	static uint64_t state = 88172645463325252ull;
	unsigned most = load(&rcu_sleep_us);
	uint64_t r = load(&state);

	if (most == 0)
		return;
	store(&state, next_random(&r));
	usleep((unsigned)(r % most));
}

static inline void
rcu_counted_synchronize(void)
{
	add(&rcu_nperiods, 1);
	rcu_sleep();
	rcu_true->update_synchronize_rcu();
	rcu_period_ends();
	rcu_sleep();
}

static inline void
rcu_watch(void)
{
	rcu_copy = *rcu_true;
	rcu_copy.update_synchronize_rcu = rcu_counted_synchronize;
	rcu = &rcu_copy;
}

/* A section of a registered thread; with qsbr, all between quiescent states. */

static inline void
section_begin(void)
{
	rcu_true->read_lock();
}

static inline void
section_end(void)
{
	rcu_section_ends();
	rcu_true->read_unlock();
	rcu_true->read_quiescent_state();
}

/*
 * A reader thread that is in a section from reader_start() until
 * reader_end().  One at a time.
 */
static pthread_t reader_thread;
static bool reader_is_in, reader_may_go;

static inline void *
reader_run(void *arg)
{
	rcu_true->register_thread();
	section_begin();
	store(&reader_is_in, true);
	while (!load(&reader_may_go))
		usleep(1000);
	store(&reader_is_in, false);
	section_end();
	rcu_true->unregister_thread();
	return arg;
}

static inline void
reader_start(void)
{
	store(&reader_may_go, false);
	reader_thread = thread_start(reader_run, NULL);
	wait_until(load(&reader_is_in));
	check(load(&reader_is_in));
}

static inline void
reader_end(void)
{
	store(&reader_may_go, true);
	thread_end(reader_thread);
}

/*
 * A thread that calls f once; task_is_done() tells whether f has returned.
 */
struct task {
	void (*f)(void);
	pthread_t thread;
	bool done;
};

static inline void *
task_run(void *arg)
{
	struct task *task = (struct task *)arg;

	task->f();
	store(&task->done, true);
	return NULL;
}

static inline void
task_start(struct task *task, void (*f)(void))
{
	task->f = f;
	task->done = false;
	task->thread = thread_start(task_run, task);
}

static inline bool
task_is_done(struct task *task)
{
	return load(&task->done);
}

static inline void
task_end(struct task *task)
{
	thread_end(task->thread);
	check(task_is_done(task));
}

/* Frees that must succeed and leave errno alone. */

static inline void
object_free(umem_cache_t *cache, void *object)
{
	errno = 4321;
	check(umem_cache_free_rcu_flavor(cache, object, rcu) == 0);
	check(errno == 4321);
}

static inline void
block_free(void *p)
{
	errno = 4322;
	check(free_rcu_flavor(p, rcu) == 0);
	check(errno == 4322);
}

static inline void
sized_free(void *p, size_t size)
{
	errno = 4323;
	check(umem_free_rcu_flavor(p, size, rcu) == 0);
	check(errno == 4323);
}

static inline void
barrier(void)
{
	errno = 4324;
	check(umem_rcu_barrier_flavor(rcu) == 0);
	check(errno == 4324);
}

/*
 * The constructor and the destructor of this cache count their calls.  The
 * counts tell a test whether each object came back.  Because a slab with one
 * object in use keeps all its objects constructed, only 0 is exact.
 */
static unsigned ncounted_made, ncounted_gone;

enum {
	COUNTED_MARK = 0x600df00d
};

static inline int
counted_make(void *object, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	*(unsigned *)object = COUNTED_MARK;
	add(&ncounted_made, 1);
	return 0;
}

static inline void
counted_unmake(void *object, void *priv)
{
	(void)priv;
	check(*(unsigned *)object == COUNTED_MARK);
	*(unsigned *)object = 0;
	add(&ncounted_gone, 1);
}

static inline umem_cache_t *
counted_cache(size_t size)
{
	umem_cache_t *cache = umem_cache_create("counted", size, 0,
	    counted_make, counted_unmake, NULL, NULL, NULL, 0);

	check(cache != NULL);
	return cache;
}

static inline void *
counted_alloc(umem_cache_t *cache)
{
	unsigned *object = (unsigned *)umem_cache_alloc(cache, UMEM_DEFAULT);

	check(object != NULL && *object == COUNTED_MARK);
	return object;
}

/* 0 if no object is in use; otherwise at least as many as are in use. */
static inline unsigned
counted_out(umem_cache_t *cache)
{
	umem_cache_reap_now(cache);
	return load(&ncounted_made) - load(&ncounted_gone);
}

/* fork() as liburcu wants it. */
static inline pid_t
rcu_fork(void)
{
	pid_t pid;

	if (is_bp())
		urcu_bp_before_fork();
	pid = fork();
	if (is_bp()) {
		if (pid == 0)
			urcu_bp_after_fork_child();
		else
			urcu_bp_after_fork_parent();
	}
	if (pid == 0)
		limit_time();
	return pid;
}

static inline pid_t
rcu_again(char **argv, const char *flavour, bool preload)
{
	pid_t pid = fork();

	check(pid >= 0);
	if (pid != 0)
		return pid;
	if (preload)
		check(setenv("LD_PRELOAD", getenv("SHIM"), 1) == 0);
	check(setenv("RCU_FLAVOUR", flavour, 1) == 0);
	execv("/proc/self/exe", argv);
	check_failed("exec", __FILE__, __LINE__);
	return -1;
}

/* Each child must end with the same status, which is this program's. */
static inline void
rcu_all(char **argv)
{
	static const char *const libraries[] = {"umem", "malloc"};
	const char *only = getenv("RCU_ONLY");
	unsigned nlibraries = getenv("SHIM") == NULL ? 1 : 2;
	int first = -1;

	for (unsigned lib = 0; lib < nlibraries; lib++) {
		pid_t pid[NFLAVOURS] = {0};

		for (unsigned i = 0; i < NFLAVOURS; i++) {
			char name[32];

			snprintf(name, sizeof(name), "%s %s", flavours[i].name,
			    libraries[lib]);
			if (only == NULL || strcmp(only, name) == 0)
				pid[i] =
				    rcu_again(argv, flavours[i].name, lib == 1);
		}
		for (unsigned i = 0; i < NFLAVOURS; i++) {
			int status = 0;

			if (pid[i] == 0)
				continue;
			check(waitpid(pid[i], &status, 0) == pid[i]);
			if (first == -1)
				first = status;
			if (status == first &&
			    (status == 0 || !WIFEXITED(status) ||
				WEXITSTATUS(status) != 1))
				continue;
			dprintf(2, "%s on %s: status 0x%x\n", flavours[i].name,
			    libraries[lib], status);
			first = first == 0 ? status : first;
		}
	}
	check(first != -1);
	if (WIFSIGNALED(first)) {
		signal(WTERMSIG(first), SIG_DFL);
		raise(WTERMSIG(first));
	}
	exit(WEXITSTATUS(first));
}

int
main(int argc, char **argv)
{
	const char *name = getenv("RCU_FLAVOUR");

	(void)argc;
	if (name == NULL)
		rcu_all(argv);
	for (unsigned i = 0; i < NFLAVOURS; i++)
		if (strcmp(flavours[i].name, name) == 0)
			rcu = rcu_true = flavours[i].flavor;
	check(rcu != NULL);
	rcu_args = argv + 1;
	limit_time();
	run();
	return 0;
}

#endif
