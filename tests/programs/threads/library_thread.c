/*
 * The thread of the library comes with threads of the program, and ends.
 *
 * test not with: qemu has a thread of its own in each process
 * test run: one_task
 * test args: one_task
 * test run: room
 * test args: room
 * test run: ended
 * test args: ended
 * test run: enters
 * test args: enters
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/programs/check.h"

static int
ntasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	if (dir == NULL)
		skip("no /proc here");
	while ((entry = readdir(dir)) != NULL)
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* The kernel may take a moment to release a task that was joined. */
static void
wait_for_tasks(int n)
{
	wait_until(ntasks() == n);
	check(ntasks() == n);
}

static int created; /* [atomic] */

static void *
run(void *arg)
{
	while (__atomic_load_n(&created, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	churn((uintptr_t)arg, 1000, 100000);
	/* With the library's. */
	if (arg != NULL)
		wait_for_tasks(3);
	return NULL;
}

static void
one_round(void *arg)
{
	pthread_t thread;

	__atomic_store_n(&created, 0, __ATOMIC_RELEASE);
	thread = thread_start(run, arg);
	__atomic_store_n(&created, 1, __ATOMIC_RELEASE);
	thread_end(thread);
	wait_for_tasks(1);
	check(unshare(CLONE_THREAD) == 0);
}

/*
 * A program that has joined its threads has one task, as before.  System calls
 * that the kernel allows only to a process with one task succeed, and no thread
 * of the library is left outside of a sandbox.
 */
static void
one_task(void)
{
	pthread_t other[2];

	for (uintptr_t i = 1; i <= 5; i++)
		one_round((void *)i);
	/* Two threads end at about the same time. */
	for (int i = 0; i < 50; i++) {
		for (int k = 0; k < 2; k++)
			other[k] = thread_start(run, NULL);
		for (int k = 0; k < 2; k++)
			thread_end(other[k]);
		wait_for_tasks(1);
		check(unshare(CLONE_THREAD) == 0);
	}
}

enum {
	LIMIT = 6,
	NLIMITED = 20,
	FIRST_USER = 100000
};

static int may_end; /* [atomic] */

static void *
hold(void *arg)
{
	churn((uintptr_t)arg, 1000, 10000);
	while (__atomic_load_n(&may_end, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	return NULL;
}

/* One more thread than there is room for is refused, and nothing is lost. */
static void
round_of_threads(uintptr_t seed)
{
	pthread_t thread[LIMIT];
	int n = 0, error = 0;

	__atomic_store_n(&may_end, 0, __ATOMIC_RELEASE);
	while (n < LIMIT && error == 0) {
		error = pthread_create(
		    &thread[n], NULL, hold, (void *)(seed + (unsigned)n));
		n += error == 0;
	}
	check(error == EAGAIN && n == LIMIT - 1);
	check(ntasks() == LIMIT);
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	while (n > 0)
		thread_end(thread[--n]);
	wait_until(ntasks() == 1);
}

/*
 * Under a limit of threads the program gets all of them: the thread of the
 * library makes room for one of the program.  It comes back when there is room
 * again.
 */
static void
room(void)
{
	struct rlimit limit = {LIMIT, LIMIT};
	pthread_t thread;

	if (geteuid() != 0)
		skip("only root can become a user without processes");
	/* A user without another process: the kernel does not limit root. */
	check(setuid(FIRST_USER + (uid_t)getpid()) == 0);
	check(setrlimit(RLIMIT_NPROC, &limit) == 0);
	for (uintptr_t i = 0; i < NLIMITED; i++)
		round_of_threads(i * LIMIT);
	__atomic_store_n(&may_end, 0, __ATOMIC_RELEASE);
	/* The library starts a few at once, then one in an interval. */
	usleep(600000);
	thread = thread_start(hold, (void *)1);
	wait_for_tasks(3);
	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	thread_end(thread);
}

enum {
	NTHREADS = 4,
	NBLOCKS = 40000,
	MOST_KIB = 8 << 10,
	STAY_MS = 3000, /* of a thread of the library that is idle */
	NTRIES = 10
};

static pthread_barrier_t all_full;

/* Blocks of many sizes, and large ones. */
static void *
use_and_free(void *arg)
{
	void *block[8];
	uint64_t r = (uintptr_t)arg + 1;
	char **small = malloc(NBLOCKS * sizeof(*small));

	check(small != NULL);
	for (int i = 0; i < NBLOCKS; i++)
		check((small[i] = calloc(1, next_random(&r) % 1500)) != NULL);
	for (int i = 0; i < 8; i++) {
		check((block[i] = malloc(1 << 20)) != NULL);
		memset(block[i], 1, 1 << 20);
	}
	pthread_barrier_wait(&all_full);
	for (int i = 0; i < NBLOCKS; i++)
		free(small[i]);
	free(small);
	for (int i = 0; i < 8; i++)
		free(block[i]);
	return NULL;
}

static void
job(uintptr_t seed)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] =
		    thread_start(use_and_free, (void *)(seed + 100 * i));
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
}

/* Waits without a call of the allocator. */
static void
nap(unsigned ms)
{
	uint64_t end = now_ms() + ms;

	while (now_ms() < end)
		usleep(10000);
}

/* The time that a process needs after the end of its last thread. */
static uint64_t
time_to_end(void)
{
	uint64_t began = 0;
	int ends[2];
	pid_t pid;

	check(pipe(ends) == 0);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		job(1);
		began = now_ms();
		check(write(ends[1], &began, sizeof(began)) == sizeof(began));
		pthread_exit(NULL);
	}
	check(read(ends[0], &began, sizeof(began)) == sizeof(began));
	child_end(pid);
	close(ends[0]);
	close(ends[1]);
	return now_ms() - began;
}

/*
 * A process that ends its first thread meanwhile ends at once.  On a busy
 * machine one of some tries is enough.
 */
static void
expect_end(void)
{
	for (int i = 0; i < NTRIES; i++)
		if (time_to_end() < STAY_MS / 2)
			return;
	check_failed("the process ends at once", __FILE__, __LINE__);
}

/*
 * Memory that threads have freed is released to the kernel after they have
 * ended, although the program makes no further call.  The thread of the library
 * that does it ends afterwards, or at once if the program makes a call that
 * only a process with one task may make.
 */
static void
ended(void)
{
	long before;

	limit_time();
	check(pthread_barrier_init(&all_full, NULL, NTHREADS) == 0);
	churn(1, 1000, 10000);
	before = rss_kib();
	for (uintptr_t i = 0; i < 2; i++) {
		job(i);
		wait_until(rss_kib() < before + MOST_KIB);
		check(rss_kib() < before + MOST_KIB);
		wait_for_tasks(1);
	}
	/* Jobs in a row, and the last one ends while the thread stays. */
	for (uintptr_t i = 0; i < 10; i++) {
		job(i);
		nap(50);
	}
	wait_until(rss_kib() < before + MOST_KIB);
	check(rss_kib() < before + MOST_KIB);
	wait_for_tasks(1);
	/* Calls that need a process with one task, after a time that varies. */
	for (unsigned i = 0; i < 20; i++) {
		job(i);
		nap(i * 20);
		check(unshare(CLONE_THREAD) == 0);
		wait_for_tasks(1);
	}
	expect_end();
	job(5);
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	wait_for_tasks(1);
}

/* Starts a child that waits in a user namespace of its own. */
static pid_t
child_in_namespace(void)
{
	int ready[2];
	char byte;
	pid_t child;

	check(pipe(ready) == 0);
	child = fork();
	if (child == 0) {
		byte = unshare(CLONE_NEWUSER) == 0;
		check(write(ready[1], &byte, 1) == 1);
		for (;;)
			pause();
	}
	check(read(ready[0], &byte, 1) == 1);
	if (byte == 0) {
		kill(child, SIGKILL);
		skip("no user namespaces here");
	}
	return child;
}

/*
 * The kernel refuses a user namespace to a process with several tasks: setns()
 * ends the library's thread before.
 */
static void
enters(void)
{
	pid_t other = child_in_namespace(), child;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)other);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	check(pthread_barrier_init(&all_full, NULL, NTHREADS) == 0);
	check(fd >= 0 && setns(fd, CLONE_NEWNET) == -1 && errno == EINVAL);
	for (unsigned i = 0; i < 5; i++) {
		child = fork();
		if (child == 0) {
			job(i);
			check(setns(fd, CLONE_NEWUSER) == 0);
			_exit(0);
		}
		child_end(child);
	}
	kill(other, SIGKILL);
	check(waitpid(other, NULL, 0) == other);
}

static const struct test_case cases[] = {{"one_task", one_task}, {"room", room},
    {"ended", ended}, {"enters", enters}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
