/*
 * A seccomp filter allows the system calls of libc's malloc() and of the
 * program itself, and kills the process at any other.  The library works under
 * it: before its first call, with one thread, with several, and with new
 * threads; after prctl(PR_SET_SECCOMP), and after seccomp() for all threads.
 *
 * test not with: qemu has no seccomp filters
 * test not with: musl makes other system calls for new threads
 * test account: no
 * test modes: rseq own locked
 */
#include <malloc.h>
#include <signal.h>

#include "tests/programs/seccomp.h"

#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
#pragma weak umem_cache_free
#pragma weak umem_cache_reap_now
#pragma weak umem_cache_destroy
#pragma weak umem_reap

enum {
	NOBJECTS = 3000,
	NCACHES = 600,
	NLARGE = 12,
	NTHREADS = 3,
	NROUNDS = 6
};

/* Of malloc(), then of the program, then of its new threads. */
static const int calls[] = {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap,
    SYS_mprotect, SYS_madvise, SYS_futex, SYS_write, SYS_exit, SYS_exit_group,
    SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_nanosleep, SYS_clock_nanosleep,
    SYS_clone3, SYS_clone, SYS_rseq, SYS_set_robust_list, SYS_rt_sigaction};
#define NCALLS    (sizeof(calls) / sizeof(*calls))
#define NTHREADED 5

/* threads: new ones are allowed. */
static void
confine(bool threads, bool all)
{
	allow_only(calls, NCALLS - (threads ? 0 : NTHREADED), all);
}

/* Growth, moves, and all of it back. */
static void
use_large(void)
{
	static char *p[NLARGE];
	char *moved = NULL;

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < NLARGE; i++) {
			p[i] = malloc(MIB + i * 1000);
			check(p[i] != NULL);
			memset(p[i], 1, MIB);
		}
		for (int i = 0; i < NLARGE; i++)
			free(p[i]);
		malloc_trim(0);
	}
	for (size_t n = 5000; n < 30 * MIB; n = n * 3 / 2) {
		moved = realloc(moved, n);
		check(moved != NULL);
		moved[n - 1] = 1;
	}
	free(moved);
	free(calloc(300, MIB));
}

/* A cache that is drained and ended, and more of them than have a block. */
static void
use_caches(int n)
{
	static void *object[NOBJECTS];
	static umem_cache_t *cache[NCACHES];

	for (int i = 0; i < n; i++) {
		cache[i] = umem_cache_create(
		    "confined", 100, 0, NULL, NULL, NULL, NULL, NULL, 0);
		check(cache[i] != NULL);
	}
	for (int i = 0; i < NOBJECTS; i++)
		object[i] = umem_cache_alloc(cache[0], UMEM_DEFAULT);
	for (int i = 0; i < NOBJECTS; i++)
		umem_cache_free(cache[0], object[i]);
	umem_cache_reap_now(cache[0]);
	umem_reap();
	for (int i = 0; i < n; i++)
		umem_cache_destroy(cache[i]);
}

/* Calls that magazines serve, until the free memory has gone back. */
static void
be_quiet(void)
{
	char *p = malloc(20 * MIB);

	memset(p, 1, 20 * MIB);
	free(p);
	for (int i = 0; i < 50000; i++)
		free(keep(malloc(100)));
}

static void
use(int ncaches)
{
	for (uint64_t i = 0; i < 3; i++)
		churn(i, 2000, 300000);
	use_large();
	if (umem_cache_create != NULL)
		use_caches(ncaches);
	be_quiet();
	malloc_trim(0);
}

static void
late(void)
{
	confine(/* threads */ false, /* all */ false);
	use(NCACHES);
}

static void
warm(void)
{
	use(10);
	late();
}

static int nstarted;  /* [atomic] threads that run */
static int nconfined; /* [atomic] rounds since */

static void *
load(void *arg)
{
	uint64_t seed = (uintptr_t)arg;

	__atomic_add_fetch(&nstarted, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&nconfined, __ATOMIC_ACQUIRE) < NROUNDS) {
		churn(++seed, 500, 100000);
		if (seed % 16 == 0)
			malloc_trim(0);
	}
	return NULL;
}

static void
with_threads(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(load, (void *)(i * 100000));
	/* A thread that begins asks for more. */
	while (__atomic_load_n(&nstarted, __ATOMIC_ACQUIRE) < NTHREADS)
		usleep(1000);
	use(10);
	confine(/* threads */ false, /* all */ true);
	for (int i = 0; i < NROUNDS; i++) {
		if (i == 0)
			use(10);
		/* Time for the thread of the library. */
		usleep(60000);
		__atomic_add_fetch(&nconfined, 1, __ATOMIC_RELEASE);
	}
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	use(10);
}

/* The child of a vfork() confines itself, which leaves the parent as it is. */
static void
with_vfork(void)
{
	pid_t pid;

	use(10);
	pid = vfork();
	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		_exit(0);
	}
	child_end(pid);
	check(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
	late();
}

static void *
use_in_thread(void *arg)
{
	churn((uintptr_t)arg, 5000, 100000);
	return NULL;
}

/*
 * A copy of the process that clone() made as a system call confines itself; no
 * handler of fork() has run in it.
 */
static void
with_copy(void)
{
	pid_t pid;

	/* With a second thread the library uses membarrier, also in copies. */
	thread_end(thread_start(use_in_thread, NULL));
	use(10);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		late();
		_exit(0);
	}
	child_end(pid);
}

/*
 * Without membarrier, which a confined process does not use, the magazines of
 * a cache that ends go back nevertheless.
 */
static void
with_ended_caches(void)
{
	static void *object[200];
	umem_cache_t *cache;
	long before = 0;

	if (umem_cache_create == NULL)
		return;
	thread_end(thread_start(use_in_thread, NULL));
	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	for (int round = 0; round < 1000; round++) {
		cache = umem_cache_create(
		    "ended", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
		check(cache != NULL);
		for (int i = 0; i < 200; i++) {
			object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
			memset(object[i], 1, 200);
		}
		for (int i = 0; i < 200; i++)
			umem_cache_free(cache, object[i]);
		umem_cache_destroy(cache);
		if (round == 100)
			before = rss_kib();
	}
	check(rss_kib() < before + 4096);
}

static void
with_new_threads(void)
{
	pthread_t thread[NTHREADS];

	confine(/* threads */ true, /* all */ true);
	for (int round = 0; round < 2; round++) {
		for (uintptr_t i = 0; i < NTHREADS; i++)
			thread[i] = thread_start(use_in_thread, (void *)i);
		use(10);
		for (int i = 0; i < NTHREADS; i++)
			thread_end(thread[i]);
	}
}

int
main(int argc, char **argv)
{
	static void (*const cases[])(void) = {late, warm, with_threads,
	    with_vfork, with_copy, with_new_threads, with_ended_caches};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			cases[i]();
			_exit(0);
		}
		check(waitpid(pid, &status, 0) == pid);
		if (status == 77 << 8)
			return 77;
		check(status == 0);
	}
	/* Again where nothing has started the library before. */
	if (argc == 1 && getenv("UMEM_OPTIONS") != NULL) {
		unsetenv("UMEM_OPTIONS");
		start_again(argv, "unstarted");
	}
	return 0;
}
