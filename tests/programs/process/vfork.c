/*
 * The child of vfork() shares memory and thread-local storage with the thread
 * that made it, until it executes a program or ends, while the other threads go
 * on allocating.
 *
 * test run: alloc
 * test args: alloc
 * test modes: rseq locked own
 * test run: exec
 * test args: exec
 */
#include <signal.h>
#include <spawn.h>

#include "tests/programs/check.h"

enum {
	NTHREADS = 3,
	NFORKS = 120
};
extern char **environ;
static volatile bool stop;
static char *program;

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	while (!stop)
		churn(++seed, 500, 3000);
	return NULL;
}

static void
in_handler(int number)
{
	churn((uint64_t)number, 50, 3000);
}

/* A function of its own, so that the parent's frame holds nothing of it. */
static __attribute__((noinline)) void
live(uintptr_t i)
{
	char *const args[] = {NULL};
	pid_t pid;

	churn(i, 300, 3000);
	if (i % 4 == 1)
		raise(SIGUSR1);
	if (i % 4 == 2) {
		execve("/nonexistent/file", args, args);
		churn(i + 1, 50, 3000);
	}
	if (i % 4 == 3) {
		pid = vfork();
		if (pid == 0) {
			churn(i + 2, 100, 3000);
			_exit(0);
		}
		child_end(pid);
		churn(i + 3, 50, 3000);
	}
}

static void
fork_once(uintptr_t i)
{
	pid_t pid = vfork();

	if (pid == 0) {
		live(i);
		_exit(0);
	}
	child_end(pid);
}

/* Its first call of the library may be that of its child. */
static void *
fork_at_once(void *arg)
{
	fork_once((uintptr_t)arg);
	churn((uintptr_t)arg, 300, 3000);
	return NULL;
}

/*
 * The child allocates.  The test calls vfork() in the initial thread and in
 * others, from a child, from a signal handler of the child, with an exec that
 * fails, and as the first call of a thread.
 */
static void
alloc(void)
{
	pthread_t thread[NTHREADS];

	fork_once(0);
	check(signal(SIGUSR1, in_handler) != SIG_ERR);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	for (uintptr_t i = 0; i < NFORKS; i++) {
		pthread_t forking = 0;

		if (i % 3 == 0)
			forking = thread_start(fork_at_once, (void *)i);
		fork_once(i);
		churn(i, 300, 3000);
		if (i % 3 == 0)
			thread_end(forking);
	}
	stop = true;
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

/* vfork and exec, posix_spawn and system. */
static void
exec(void)
{
	pthread_t thread[3];
	char *args[] = {program, (char *)"inner", NULL};

	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	for (int i = 0; i < 100; i++) {
		char *p = malloc(1000);
		pid_t pid;

		check(p != NULL);
		stamp(p, 1000, 1);
		if (i % 2) {
			check(posix_spawn(&pid, program, NULL, NULL, args,
				  environ) == 0);
		} else if ((pid = vfork()) == 0) {
			execv(program, args);
			_exit(3);
		}
		child_end(pid);
		check(is_stamped(p, 1000, 1));
		free(p);
	}
	/* The shell of another libc cannot load the library. */
	check(unsetenv("LD_PRELOAD") == 0);
	check(system("exit 3") == 3 << 8);
	stop = true;
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

static void
inner(void)
{
	churn(1, 500, 5000);
}

static const struct test_case cases[] = {
    {"alloc", alloc}, {"exec", exec}, {"inner", inner}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	program = argv[0];
	return run_case(argc, argv, cases);
}
