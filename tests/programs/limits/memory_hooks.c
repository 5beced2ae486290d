/*
 * memory_hooks.c - a program that replaces madvise() and mmap(), as the drivers
 * of network cards do, learns of all pages that it loses
 *
 * The functions allocate, free, resize, fork, wait for a lock of the program,
 * set errno and are cancellation points.
 *
 * test timeout: 120
 * test account: 80
 *
 * test run: plain
 * test modes: rseq locked own
 * test run: debugged
 * test modes: default
 * test env: UMEM_DEBUG=default
 * test run: guarded
 * test modes: default
 * test env: UMEM_DEBUG=guards
 * test run: hardened
 * test modes: default
 * test env: UMEM_OPTIONS=hardened
 * test run: sampled
 * test modes: default
 * test env: UMEM_OPTIONS=sample=100k
 * test run: limited
 * test modes: default
 * test env: UMEM_OPTIONS=soft_limit=100m
 * test run: huge
 * test modes: default
 * test env: UMEM_OPTIONS=huge_pages=always
 * test run: no_thread
 * test modes: default
 * test env: UMEM_OPTIONS=thread=no
 */
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/programs/check.h"

#define NTHREADS 4
#define NHELD    64

static pthread_mutex_t lock; /* recursive */
/*
 * Volatile: the headers of libc tell the compiler that malloc_trim() calls
 * nothing here.
 */
static volatile size_t nlost;   /* [atomic] bytes of all calls */
static volatile size_t nwanted; /* [atomic] bytes of calls in [from, to) */
static volatile uintptr_t from, to;
static volatile bool hooks_on; /* the functions do all that is forbidden */
static volatile int forks_left;
static __thread volatile int depth;  /* of calls of the functions below */
static __thread char *volatile kept; /* a block that the last call has filled */
static __thread volatile size_t kept_bytes;

static void
kept_check(void)
{
	for (size_t i = 0; i < kept_bytes; i += 512)
		check(kept[i] == 'k');
	free(kept);
	kept = NULL;
	kept_bytes = 0;
}

static void
fork_and_allocate(void)
{
	int status, child = fork();

	check(child >= 0);
	if (child != 0) {
		check(waitpid(child, &status, 0) == child && status == 0);
		return;
	}
	/* Another thread may have had the lock. */
	hooks_on = false;
	for (size_t n = 100; n < 1000000; n *= 3) {
		char *p = malloc(n);

		check(p != NULL);
		memset(p, 'f', n);
		free(p);
	}
	_exit(0);
}

/*
 * Fills a block as large as the range before that is lost: it must not be part
 * of it.
 */
static void
keep_block(size_t bytes)
{
	if (kept != NULL)
		return;
	kept = malloc(bytes);
	check(kept != NULL);
	kept_bytes = bytes;
	memset(kept, 'k', bytes);
}

/* The child has another such block when it returns into the library. */
static void
fork_and_return(size_t bytes)
{
	int status, child;

	forks_left--;
	child = fork();
	check(child >= 0);
	if (child == 0) {
		hooks_on = false;
		kept_check();
		keep_block(bytes);
	} else {
		check(waitpid(child, &status, 0) == child && status == 0);
	}
}

static void
lose(void *at, size_t bytes)
{
	uintptr_t a = (uintptr_t)at, b = a + bytes;

	check(at != NULL && bytes != 0);
	__atomic_add_fetch(&nlost, bytes, __ATOMIC_RELAXED);
	if (a < to && b > from)
		__atomic_add_fetch(&nwanted,
		    (b < to ? b : to) - (a > from ? a : from),
		    __ATOMIC_RELAXED);
	if (!hooks_on)
		return;
	check(++depth == 1);
	pthread_mutex_lock(&lock);
	keep_block(bytes);
	for (size_t n = 8; n <= 100000; n *= 5)
		free(realloc(malloc(n), 2 * n));
	if (forks_left != 0)
		fork_and_return(bytes);
	pthread_mutex_unlock(&lock);
	pthread_testcancel();
	errno = ENOTTY;
	depth--;
}

int
madvise(void *at, size_t bytes, int advice)
{
	if (depth == 0 && advice == MADV_DONTNEED)
		lose(at, bytes);
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

void *
mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (depth == 0 && (flags & MAP_FIXED) != 0)
		lose(at, bytes);
#ifdef __s390x__
	/* This call takes its arguments in memory there. */
	return (void *)syscall(
	    SYS_mmap, (long[]){(long)at, (long)bytes, prot, flags, fd, offset});
#else
	return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
#endif
}

static void
watch(void *at, size_t bytes)
{
	from = (uintptr_t)at;
	to = from + bytes;
	__atomic_store_n(&nwanted, 0, __ATOMIC_RELAXED);
}

/* All pages of a block go away once, and the hooks know before it is reused. */
static void
check_large(void)
{
	size_t bytes = 64 * MIB;
	char *p = malloc(bytes);

	memset(p, 1, bytes);
	watch(p, bytes);
	errno = 17;
	free(p);
	malloc_trim(0);
	check(errno == 17);
	check(nwanted >= bytes - MIB);
}

static void
check_small(void)
{
	static char *held[20000];

	for (int i = 0; i < 20000; i++) {
		held[i] = malloc(3000);
		memset(held[i], 1, 3000);
	}
	/* Pages within slabs that stay. */
	nlost = 0;
	for (int i = 0; i < 20000; i++)
		if (i % 200 != 0)
			free(held[i]);
	malloc_trim(0);
	check(nlost > 20 * MIB);
	for (int i = 0; i < 20000; i += 200)
		free(held[i]);
}

/* The old place of a block that has moved is lost, with or without a copy. */
static void
check_moved(void)
{
	size_t bytes = 64 * MIB;
	char *p = malloc(bytes), *wall = malloc(32 * MIB), *q;

	memset(p, 5, bytes);
	memset(wall, 1, 32 * MIB);
	watch(p, bytes);
	q = realloc(p, 4 * bytes);
	check(q != NULL);
	for (size_t i = 0; i < bytes; i += 1000)
		check(q[i] == 5);
	free(wall);
	if (q != p) {
		malloc_trim(0);
		check(nwanted >= bytes - 4 * MIB);
	}
	free(q);
	malloc_trim(0);
}

/* A dirty block of calloc() loses its pages, too. */
static void
check_zeroed(void)
{
	size_t bytes = 48 * MIB;
	char *p = malloc(bytes);

	memset(p, 5, bytes);
	free(p);
	p = calloc(1, bytes);
	for (size_t i = 0; i < bytes; i += 500)
		check(p[i] == 0);
	free(p);
}

static void *
cancelled(void *arg)
{
	char *p = malloc(16 * MIB);

	memset(p, 1, 16 * MIB);
	pthread_cancel(pthread_self());
	free(p);
	malloc_trim(0);
	kept_check();
	*(bool *)arg = true;
	pthread_testcancel();
	return NULL;
}

static void
check_cancel(void)
{
	bool is_done = false;
	pthread_t thread;
	void *result;

	check(pthread_create(&thread, NULL, cancelled, &is_done) == 0);
	check(pthread_join(thread, &result) == 0);
	check(is_done && result == PTHREAD_CANCELED);
}

static void *
churn_blocks(void *arg)
{
	static const size_t sizes[] = {24, 700, 9000, 70000, 300000, 1500000};
	char *held[NHELD] = {NULL};
	size_t bytes[NHELD] = {0};
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 400; i++) {
		unsigned at = (unsigned)rand_r(&seed) % NHELD;
		size_t n = sizes[(unsigned)rand_r(&seed) % 6];

		if (i % 8 == 0)
			pthread_mutex_lock(&lock);
		if (bytes[at] != 0)
			check(held[at][bytes[at] - 1] == (char)at);
		held[at] = i % 3 == 0 ? realloc(held[at], n) : held[at];
		if (i % 3 != 0) {
			free(held[at]);
			held[at] = malloc(n);
		}
		check(held[at] != NULL);
		memset(held[at], (int)at, n);
		bytes[at] = n;
		if (i % 40 == 20)
			malloc_trim(0);
		if (i % 8 == 0)
			pthread_mutex_unlock(&lock);
		if (i % 200 == 150)
			fork_and_allocate();
		if (kept != NULL && i % 20 == 0)
			kept_check();
	}
	for (unsigned i = 0; i < NHELD; i++)
		free(held[i]);
	kept_check();
	return NULL;
}

static void
check_threads(void)
{
	pthread_t thread[NTHREADS];

	for (uintptr_t i = 0; i < NTHREADS; i++)
		check(pthread_create(&thread[i], NULL, churn_blocks,
			  (void *)(i + 1)) == 0);
	for (int i = 0; i < NTHREADS; i++)
		check(pthread_join(thread[i], NULL) == 0);
}

static void *
sleep_long(void *arg)
{
	pause();
	return arg;
}

int
main(void)
{
	pthread_mutexattr_t recursive;
	pthread_t thread;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&lock, &recursive);
	limit_time();
	for (int i = 0; i < 2; i++) {
		check_large();
		check_small();
		check_moved();
		check_zeroed();
		kept_check();
		hooks_on = true;
	}
	check_cancel();
	check_threads();
	/* Another thread, so that the handlers of fork() take the locks. */
	check(pthread_create(&thread, NULL, sleep_long, NULL) == 0);
	forks_left = 20;
	check_large();
	check_small();
	kept_check();
	return 0;
}
