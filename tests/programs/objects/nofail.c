/*
 * A UMEM_NOFAIL request fails.  Each answer of the callback is tested in a
 * child process of its own, with its message on standard error.
 *
 * test link: umem
 *
 * test run: fork
 * test args: fork
 * test timeout: 30
 * test run: answers
 * test stderr: ^umem: nofail callback returned (0x)?5123$
 * test stderr: ^umem: recursive UMEM_CALLBACK_EXIT\(\)$
 */
#include <setjmp.h>
#include <signal.h>

#include "tests/programs/check.h"

/* No machine has it. */
#define TOO_MUCH ((size_t)1 << 60)

static volatile int ncalls;
static sigjmp_buf back;

static void *
fail(void)
{
	return umem_alloc(TOO_MUCH, UMEM_NOFAIL);
}

static int
answer_exit(void)
{
	return UMEM_CALLBACK_EXIT(42);
}

static int
answer_exit_0(void)
{
	return UMEM_CALLBACK_EXIT(0);
}

static int
answer_odd(void)
{
	return 0x5123;
}

/* The third time the request is one that can be met: see retried(). */
static int
answer_retry(void)
{
	if (++ncalls < 3)
		return UMEM_CALLBACK_RETRY;
	umem_setmtbf(0);
	_exit(17);
}

static int
answer_jump(void)
{
	ncalls++;
	siglongjmp(back, 1);
}

static int
answer_thread_exit(void)
{
	ncalls++;
	pthread_exit((void *)5);
}

static int
answer_nested(void)
{
	/* A request of its own that can be met, and one that cannot. */
	void *p = umem_alloc(1000, UMEM_NOFAIL);

	check(p != NULL);
	umem_free(p, 1000);
	if (++ncalls < 4)
		keep(fail());
	return UMEM_CALLBACK_EXIT(60 + ncalls);
}

/* No lock is held: everything may be used. */
static int
answer_busy(void)
{
	umem_cache_t *cache =
	    umem_cache_create("spoons", 50, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *object = umem_cache_alloc(cache, UMEM_NOFAIL);

	check(cache != NULL && object != NULL);
	umem_cache_free(cache, object);
	umem_cache_destroy(cache);
	umem_reap();
	umem_free(umem_alloc(300000, UMEM_NOFAIL), 300000);
	return UMEM_CALLBACK_EXIT(43);
}

static void
at_exit_fail(void)
{
	keep(fail());
	_exit(99);
}

static void
no_callback(void)
{
	keep(fail());
}

static void
taken_away(void)
{
	umem_nofail_callback(answer_exit);
	umem_nofail_callback(NULL);
	keep(fail());
}

static void
exits(void)
{
	umem_nofail_callback(answer_exit);
	keep(fail());
}

static void
exits_0(void)
{
	umem_nofail_callback(answer_exit_0);
	keep(fail());
	_exit(1);
}

static void
odd(void)
{
	umem_nofail_callback(answer_odd);
	keep(fail());
}

static void
retried(void)
{
	umem_nofail_callback(answer_retry);
	keep(fail());
}

static void
jumped(void)
{
	umem_nofail_callback(answer_jump);
	for (int i = 0; i < 100; i++)
		if (sigsetjmp(back, 1) == 0)
			keep(fail());
	check(ncalls == 100);
	umem_free(umem_alloc(100, UMEM_NOFAIL), 100);
	_exit(18);
}

static void *
thread_fail(void *arg)
{
	keep(fail());
	return arg;
}

static void
thread_exits(void)
{
	pthread_t thread;
	void *result;

	umem_nofail_callback(answer_thread_exit);
	thread = thread_start(thread_fail, NULL);
	check(pthread_join(thread, &result) == 0);
	check(result == (void *)5 && ncalls == 1);
	_exit(19);
}

static void
nested(void)
{
	umem_nofail_callback(answer_nested);
	keep(fail());
}

static void
busy(void)
{
	umem_nofail_callback(answer_busy);
	keep(fail());
}

static void
recursive(void)
{
	check(atexit(at_exit_fail) == 0);
	umem_nofail_callback(answer_exit);
	keep(fail());
}

/* Others that fail while one is in exit() block for good. */
static void
slow_exit(void)
{
	struct timespec t = {0, 200000000};

	nanosleep(&t, NULL);
}

static void
several(void)
{
	check(atexit(slow_exit) == 0);
	umem_nofail_callback(answer_exit);
	for (int i = 0; i < 8; i++)
		thread_start(thread_fail, NULL);
	pause();
}

static void
zero_bytes(void)
{
	umem_nofail_callback(answer_exit);
	check(umem_alloc(0, UMEM_NOFAIL) == NULL);
	check(umem_zalloc(0, UMEM_NOFAIL) == NULL);
	check(umem_alloc_align(0, 64, UMEM_NOFAIL) == NULL);
	errno = 0;
	check(umem_alloc_align(100, 24, UMEM_NOFAIL) == NULL);
	check(errno == EINVAL);
	errno = 0;
	check(umem_alloc(TOO_MUCH, UMEM_DEFAULT) == NULL && errno == ENOMEM);
	_exit(20);
}

static int
fail_construct(void *object, void *arg, int flags)
{
	(void)object;
	check(flags == UMEM_DEFAULT);
	return ++*(int *)arg < 3 ? -1 : 0;
}

static int
retry(void)
{
	ncalls++;
	return UMEM_CALLBACK_RETRY;
}

static void
constructor_fails(void)
{
	int n = 0;
	umem_cache_t *cache = umem_cache_create("kettles", 3 * MIB, 0,
	    fail_construct, NULL, NULL, &n, NULL, UMC_NOMAGAZINE);

	check(cache != NULL);
	umem_nofail_callback(retry);
	check(umem_cache_alloc(cache, UMEM_NOFAIL) != NULL);
	check(n == 3 && ncalls == 2);
	_exit(21);
}

/* For a request that fails in a child of a process that is in exit(). */
static int in_exit, ended; /* [atomic] */
static int child_status = -1;

static void
stay_in_exit(void)
{
	__atomic_store_n(&in_exit, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		usleep(1000);
	_exit(
	    WIFEXITED(child_status) && WEXITSTATUS(child_status) == 42 ? 0 : 1);
}

static void *
fork_meanwhile(void *arg)
{
	pid_t child;

	while (!__atomic_load_n(&in_exit, __ATOMIC_ACQUIRE))
		usleep(1000);
	child = fork();
	if (child == 0) {
		limit_time();
		keep(fail());
		_exit(9);
	}
	waitpid(child, &child_status, 0);
	__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	return arg;
}

/* Another request has failed in the parent. */
static int
fail_and_fork(void)
{
	umem_nofail_callback(answer_exit);
	check(atexit(stay_in_exit) == 0);
	thread_start(fork_meanwhile, NULL);
	keep(fail());
	return 3;
}

static const struct {
	void (*run)(void);
	int status;
} cases[] = {{no_callback, 255}, {taken_away, 255}, {exits, 42}, {exits_0, 0},
    {odd, 255}, {retried, 17}, {jumped, 18}, {thread_exits, 19}, {nested, 64},
    {busy, 43}, {recursive, -SIGABRT}, {several, 42}, {zero_bytes, 20},
    {constructor_fails, 21}};

int
main(int argc, char **argv)
{
	(void)argv;
	if (argc > 1)
		return fail_and_fork();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			limit_time();
			cases[i].run();
			_exit(111);
		}
		check(waitpid(pid, &status, 0) == pid);
		status = WIFSIGNALED(status) ? -WTERMSIG(status)
					     : WEXITSTATUS(status);
		if (status != cases[i].status)
			fprintf(stderr, "case %zu ended with %d\n", i, status);
		check(status == cases[i].status);
	}
	return 0;
}
