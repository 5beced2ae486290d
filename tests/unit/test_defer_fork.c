/*
 * test_defer_fork.c - fork() in a signal handler within a deferred free
 *
 * A tracer stops a process with one thread before each instruction of a few
 * calls, and sends it a signal there.  The handler forks.  The child returns
 * from the handler and ends the interrupted call; so does the parent.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "tests/time_limit.h"
#include "tests/unit/step.h"
#include "umem/cache/cache.h"
#include "umem/rcu/defer.h"
#include "vmem/os.h"

#define NOBJECTS 4
#define LARGE    (256 * KIB)
#define SINGLE   (9 * MIB) /* a block of its own, above all size classes */

/* fork() of a sanitizer takes locks that the interrupted call may have. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

static const char key; /* of the flavour, which has no readers */
static umem_cache_t *cache;
static void *object[NOBJECTS], *block;
static unsigned nfreed;
static int nfailed;      /* children, and calls */
static uint64_t is_done; /* the calls have ended, or another thread exists */

static void
ignore(void)
{
}

static int
reading(void)
{
	return 0;
}

static void
grace_of(const void *of, struct umem_grace *grace)
{
	(void)of;
	*grace = (struct umem_grace){.synchronize = ignore,
	    .reading = reading,
	    .offline = ignore,
	    .online = ignore};
}

/* The second object fills its magazine, which the third one submits. */
static void
defer_all(void)
{
	nfailed += umem_defer_sized(block, SINGLE, &key, grace_of) != 0;
	for (int i = 0; i < NOBJECTS; i++)
		nfailed +=
		    umem_defer_object(cache, object[i], &key, grace_of) != 0;
	nfreed += 1 + NOBJECTS;
}

static void
wait_for_all(void)
{
	nfailed += umem_defer_barrier(&key) != 0;
}

static void (*calls)(void); /* that are interrupted */

extern char __libc_single_threaded __attribute__((weak));

/* With another thread, fork() would wait for the locks that this one has. */
static void
fork_here(int signal)
{
	int status = 1, saved = errno;
	pid_t child = os_is_single_threaded() ? fork() : -1;

	(void)signal;
	if (child == 0) {
		nfailed = 0;
		limit_time();
		return;
	}
	is_done |= child < 0;
	if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
		nfailed++;
	errno = saved;
	step_pause();
}

static unsigned
nthreads(void)
{
	unsigned n = 0;
	DIR *tasks = opendir("/proc/self/task");

	while (readdir(tasks) != NULL)
		n++;
	closedir(tasks);
	/* Without "." and "..". */
	return n - 2;
}

/* Nothing is lost, counted twice or held, and there is one thread at most. */
static bool
domain_is_whole(void)
{
	struct domain *domain = domain_find(&key);

	return umem_defer_barrier(&key) == 0 &&
	       __atomic_load_n(&domain->bytes, __ATOMIC_SEQ_CST) == 0 &&
	       __atomic_load_n(&domain->nreleased, __ATOMIC_SEQ_CST) ==
		   nfreed &&
	       !domain_is_broken(domain) && nthreads() <= 2;
}

static void
be_interrupted(void)
{
	enum rseq_owner owner = cpu_layer.rseq.owner;
	sigset_t of_children;

	/* It would stop the process whenever a child ends. */
	sigemptyset(&of_children);
	sigaddset(&of_children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &of_children, NULL);
	signal(SIGUSR1, fork_here);
	/* glibc 2.36 does not set it in the child of a process with threads. */
	if (&__libc_single_threaded != NULL)
		__libc_single_threaded = 1;
	/* A stepped thread gets no header in another mode. */
	cpu_layer.rseq.owner = RSEQ_NONE;
	step_pause();
	calls();
	is_done = 1;
	cpu_layer.rseq.owner = owner;
	_exit(nfailed != 0 || !domain_is_whole());
}

static void
setup(void)
{
	defer_delay_ns = 120000000000;
	cache = umem_cache_create(
	    "large", LARGE, 0, NULL, NULL, NULL, NULL, NULL, UMC_NOMAGAZINE);
	ck_assert_ptr_nonnull(cache);
	for (int i = 0; i < NOBJECTS; i++)
		object[i] = umem_cache_alloc(cache, UMEM_NOFAIL);
	block = umem_alloc(SINGLE, UMEM_NOFAIL);
}

/* Sends the signal before the next instruction, and returns to that. */
static void
interrupt(pid_t child)
{
	uintptr_t pc = step_pc(child);
	int status;

	do {
		ck_assert_int_eq(ptrace(PTRACE_CONT, child, NULL, SIGUSR1), 0);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
		/* The process blocks signals while it creates a thread. */
	} while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGUSR1);
	ck_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
	while (step_peek(child, &is_done) == 0 && step_pc(child) != pc)
		ck_assert(step_one(child));
}

/* Interrupts the calls of a child before every nth instruction. */
static void
interrupt_each(void (*f)(void), unsigned nth)
{
	unsigned n = 0;
	pid_t child;

	calls = f;
	child = IS_SANITIZED ? 0 : step_start(be_interrupted);
	if (child == 0)
		return;
	ck_assert(step_resume(child));
	while (step_peek(child, &is_done) == 0) {
		if (n++ % nth == 0)
			interrupt(child);
		if (step_peek(child, &is_done) == 0)
			ck_assert(step_one(child));
	}
	ck_assert(!step_resume(child));
}

/* The child begins with all of the domain. */
START_TEST(a_handler_forks_within_the_first_frees)
{
	setup();
	interrupt_each(defer_all, 97);
}
END_TEST

START_TEST(a_handler_forks_within_frees)
{
	void *first;

	setup();
	first = umem_cache_alloc(cache, UMEM_NOFAIL);
	ck_assert_int_eq(umem_defer_object(cache, first, &key, grace_of), 0);
	nfreed++;
	interrupt_each(defer_all, 97);
}
END_TEST

START_TEST(a_handler_forks_within_a_barrier)
{
	setup();
	defer_all();
	interrupt_each(wait_for_all, 97);
}
END_TEST

Suite *
defer_fork_suite(void)
{
	Suite *suite = suite_create("defer_fork");
	TCase *tcase = tcase_create("defer_fork");

	tcase_set_timeout(tcase, 300);
	tcase_add_test(tcase, a_handler_forks_within_the_first_frees);
	tcase_add_test(tcase, a_handler_forks_within_frees);
	tcase_add_test(tcase, a_handler_forks_within_a_barrier);
	suite_add_tcase(suite, tcase);
	return suite;
}
