/*
 * Small limits of address space: the program gets most of the memory below a
 * limit, may raise and lower a soft limit later, and thread stacks still fit,
 * also at addresses that the heap had.  The test repeats this after
 * mlockall(MCL_FUTURE), when reserved memory counts against the limit of locked
 * memory.
 *
 * test modes: default
 * test not with: undefined needs addresses for its libraries
 */
#include <linux/capability.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

/* As much as there is, or most bytes; all of it is freed again. */
static size_t
fill(size_t size, size_t most)
{
	static char **list;
	size_t total = 0;
	char **p;

	errno = 0;
	while (total < most && (p = malloc(size)) != NULL) {
		stamp(p + 1, size - 8, (uintptr_t)p);
		p[0] = (char *)list;
		list = p;
		total += size;
	}
	check(total >= most || errno == ENOMEM);
	for (p = list; p != NULL; p = list) {
		check(is_stamped(p + 1, size - 8, (uintptr_t)p));
		list = (char **)p[0];
		free(p);
	}
	return total;
}

static void
fill_well(size_t size, size_t least)
{
	size_t total = fill(size, SIZE_MAX);

	if (total < least)
		fprintf(stderr, "%zu of %zu by %zu\n", total, least, size);
	check(total >= least);
}

static void
set_limit(int resource, size_t soft, rlim_t hard)
{
	struct rlimit limit = {soft, hard};

	check(setrlimit(resource, &limit) == 0);
}

static void *
run(void *arg)
{
	char stack[100000];

	stamp(stack, sizeof(stack), 1);
	keep(stack);
	churn((uintptr_t)arg, 1000, 20000);
	return NULL;
}

/* The limit was there before this process. */
static void
limited(size_t limit, size_t size)
{
	pthread_t thread;

	/* The program, the libraries and umem's tables need some. */
	fill_well(size, limit < 24 * MIB ? limit / 2 : limit * 2 / 3);
	fill_well(1000, limit / 2);
	set_limit(RLIMIT_AS, 2 * limit, RLIM_INFINITY);
	fill_well(size, limit * 5 / 4);
	/* A heap that was filled keeps its addresses; here are new ones. */
	set_limit(RLIMIT_AS, 2 * limit + 20 * MIB, RLIM_INFINITY);
	thread = thread_start(run, &thread);
	thread_end(thread);
	set_limit(RLIMIT_AS, limit, RLIM_INFINITY);
	fill_well(size, limit / 2);
	/* The library itself takes nearly 2 MiB of the limit. */
	churn(size, 3000, limit < 32 * MIB ? MIB / 2 : MIB);
}

/* With half of the limit in use, there is room for stacks. */
static void
threads(size_t limit)
{
	pthread_t thread[2];
	char *half[64];

	for (int i = 0; i < 64; i++) {
		check((half[i] = malloc(limit / 128)) != NULL);
		stamp(half[i], limit / 128, (uint64_t)i);
	}
	for (int i = 0; i < 2; i++)
		thread[i] = thread_start(run, &thread[i]);
	for (int i = 0; i < 2; i++)
		thread_end(thread[i]);
	for (int i = 0; i < 64; i++) {
		check(is_stamped(half[i], limit / 128, (uint64_t)i));
		free(half[i]);
	}
}

static unsigned ntrims; /* [atomic] */

#define TRIMS 2000

/* A large block that grows in place and shrinks, at the heap's end. */
static void *
grow(void *arg)
{
	size_t n = 9 * MIB, more = 5 * MIB;
	char *p = malloc(n);

	check(p != NULL);
	p[0] = p[n - 1] = 7;
	while (__atomic_load_n(&ntrims, __ATOMIC_RELAXED) < TRIMS) {
		char *q = realloc(p, n + more);

		if (q == NULL)
			continue;
		p = q;
		check(p[0] == 7 && p[n - 1] == 7);
		p[n] = p[n + more - 1] = 1;
		p = realloc(p, n);
		check(p != NULL);
	}
	free(p);
	return arg;
}

static void *
trim(void *arg)
{
	while (__atomic_fetch_add(&ntrims, 1, __ATOMIC_RELAXED) < TRIMS)
		malloc_trim(0);
	return arg;
}

/* Stacks can use addresses that the heap had, and the heap still works. */
static void
released(size_t limit)
{
	pthread_t thread[3];

	fill_well(30000, limit / 2);
	malloc_trim(0);
	for (int i = 0; i < 3; i++)
		thread[i] = thread_start(run, &thread[i]);
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
	fill_well(1000, limit / 4);
	malloc_trim(0);

	for (int i = 0; i < 2; i++)
		thread[i] = thread_start(trim, NULL);
	thread[2] = thread_start(grow, NULL);
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

static bool
drop_ipc_lock(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) != 0)
		return false;
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	return syscall(SYS_capset, &head, data) == 0;
}

/* Its first malloc() comes after mlockall(). */
static void
locked(size_t limit)
{
	struct rlimit now;

	check(getrlimit(RLIMIT_MEMLOCK, &now) == 0);
	if (now.rlim_max < limit)
		_exit(0);
	set_limit(RLIMIT_MEMLOCK, limit, now.rlim_max);
	if (!drop_ipc_lock() || mlockall(MCL_FUTURE) != 0)
		_exit(0);
	fill_well(1000, limit / 2);
	fill_well(30000, limit / 2);
	check(munlockall() == 0);
	churn(1, 3000, MIB);
}

static void
again(const char *what, size_t limit, size_t size)
{
	char words[2][24];
	pid_t pid = fork();

	if (pid != 0) {
		child_end(pid);
		return;
	}
	snprintf(words[0], sizeof(words[0]), "%zu", limit);
	snprintf(words[1], sizeof(words[1]), "%zu", size);
	if (*what != 'm')
		set_limit(RLIMIT_AS, limit, RLIM_INFINITY);
	execl("/proc/self/exe", what, words[0], words[1], NULL);
	_exit(1);
}

int
main(int argc, char **argv)
{
	static const size_t limits[] = {12, 24, 32, 48, 64, 84, 96};
	static const size_t locks[] = {8, 16, 60, 100, 150, 300};

	if (argc > 2) {
		size_t limit = (size_t)atol(argv[1]);

		if (argv[0][0] == 'l')
			limited(limit, (size_t)atol(argv[2]));
		else if (argv[0][0] == 't')
			threads(limit);
		else if (argv[0][0] == 'r')
			released(limit);
		else
			locked(limit);
		return 0;
	}
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		again("limited", limits[i] * MIB, 30000);
	again("limited", 24 * MIB, 100);
	again("limited", 24 * MIB, 1000);
	again("limited", 24 * MIB, 300000);
	again("threads", 64 * MIB, 0);
	again("threads", 96 * MIB, 0);
	again("released", 64 * MIB, 0);
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		again("mlock", locks[i] * MIB, 0);
	return 0;
}
