/*
 * limit_wait.c - threads wait at the limit of a cache: signals, cancelling,
 * fork() in the handler of a signal that has interrupted the wait, and fork()
 * in another thread
 *
 * test modes: rseq locked own
 * test link: umem
 *
 * test run: one
 * test run: fork
 * test args: fork
 */
#include <pthread.h>
#include <signal.h>

#include "tests/programs/check.h"

#define LIMIT    8
#define NTHREADS 4
#define NFORKS   40

static umem_cache_t *cache;
static void *first;  /* the one object that the limit allows */
static pid_t child;  /* of the handler that forked */
static bool forked;  /* this process is that child */
static unsigned nap; /* us that the handler takes there */
static int nhandled;

static struct umem_cache_limits
limits(void)
{
	struct umem_cache_limits out;

	check(umem_cache_limits(cache, &out, sizeof(out)) == 0);
	return out;
}

static void
create(int limit_wait)
{
	struct umem_cache_args args = {
	    .size = 100, .limit = 1, .limit_wait = limit_wait};

	cache = umem_cache_create_args("one", &args, sizeof(args));
	check(cache != NULL);
	first = umem_cache_alloc(cache, UMEM_DEFAULT);
	check(first != NULL);
}

static void
destroy(void)
{
	check(limits().in_use == 0 && limits().waiting == 0);
	umem_cache_destroy(cache);
}

static void
give_back(void *object)
{
	umem_cache_free(cache, object);
}

static void *
wait_and_free(void *arg)
{
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	check(object != NULL);
	pthread_cleanup_push(give_back, object);
	/* A cancel that came during the wait is heeded here. */
	pthread_testcancel();
	pthread_cleanup_pop(1);
	return arg;
}

/* A thread that waits, since the only object is out. */
static pthread_t
start(void)
{
	pthread_t thread = thread_start(wait_and_free, NULL);

	wait_until(limits().waiting == 1);
	check(limits().waiting == 1);
	return thread;
}

static void
note(int number)
{
	(void)number;
	__atomic_add_fetch(&nhandled, 1, __ATOMIC_RELAXED);
}

static void
handle(int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	check(sigaction(number, &action, NULL) == 0);
}

static void
signals(void)
{
	pthread_t thread;

	create(-1);
	handle(SIGUSR1, note);
	thread = start();
	for (int i = 1; i <= 50; i++) {
		check(pthread_kill(thread, SIGUSR1) == 0);
		wait_until(__atomic_load_n(&nhandled, __ATOMIC_RELAXED) == i);
	}
	check(limits().waiting == 1 && limits().waits == 1);
	umem_cache_free(cache, first);
	thread_end(thread);
	destroy();
}

static int over; /* [atomic] */

static void *
disturb(void *thread)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		check(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0);
		usleep(5000);
	}
	return NULL;
}

/* A wait that signals interrupt ends by itself, and not before its time. */
static void
signals_and_time(void)
{
	uint64_t began = now_ms();
	pthread_t self = pthread_self(), thread;

	create(150);
	thread = thread_start(disturb, &self);
	errno = 0;
	check(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL);
	check(errno == ETIMEDOUT && now_ms() - began >= 150);
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	thread_end(thread);
	umem_cache_free(cache, first);
	destroy();
}

static void
cancelling(void)
{
	pthread_t thread;
	void *result;

	create(-1);
	thread = start();
	check(pthread_cancel(thread) == 0);
	usleep(20000);
	/* It is no cancellation point, so the request still stands there. */
	check(limits().waiting == 1);
	umem_cache_free(cache, first);
	check(pthread_join(thread, &result) == 0);
	check(result == PTHREAD_CANCELED);
	destroy();
}

static void *
free_soon(void *arg)
{
	wait_until(limits().waiting == 1);
	umem_cache_free(cache, first);
	return arg;
}

static void
fork_here(int number)
{
	pid_t pid = fork();

	(void)number;
	check(pid >= 0);
	if (pid != 0) {
		__atomic_store_n(&child, pid, __ATOMIC_RELEASE);
		return;
	}
	limit_time();
	forked = true;
	/* In the child no thread waits until the handler has returned. */
	check(limits().waiting == 0 && limits().in_use == 1);
	usleep(nap);
	if (first != NULL)
		thread_start(free_soon, NULL);
}

static void *
wait_in_both(void *arg)
{
	void *object = umem_cache_alloc(cache, UMEM_DEFAULT);

	/* If the wait has a time limit, neither process frees the object. */
	check((object == NULL) == (arg != NULL));
	check(object != NULL || errno == ETIMEDOUT);
	if (forked) {
		check(limits().waiting == 0 && limits().in_use == 1);
		_exit(0);
	}
	if (object != NULL)
		umem_cache_free(cache, object);
	return NULL;
}

/* The wait continues in the child, and ends there independently. */
static void
fork_in_a_handler(int limit_wait)
{
	pthread_t thread;
	void *object;

	create(limit_wait);
	object = first;
	if (limit_wait != -1)
		first = NULL;
	child = 0;
	handle(SIGUSR2, fork_here);
	thread = thread_start(wait_in_both, limit_wait == -1 ? NULL : cache);
	wait_until(limits().waiting == 1);
	check(pthread_kill(thread, SIGUSR2) == 0);
	wait_until(__atomic_load_n(&child, __ATOMIC_ACQUIRE) != 0);
	child_end(child);
	if (limit_wait == -1)
		umem_cache_free(cache, object);
	thread_end(thread);
	if (limit_wait != -1)
		umem_cache_free(cache, object);
	destroy();
}

static void *
take_some(void *arg)
{
	uint64_t r = (uintptr_t)arg;
	void *mine[LIMIT];

	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		size_t n = 1 + next_random(&r) % LIMIT;

		check(umem_cache_alloc_bulk(cache, n, mine, 0) == n);
		check(limits().in_use <= LIMIT);
		for (size_t i = 0; i < n; i++)
			stamp(mine[i], 200, r);
		umem_cache_free_bulk(cache, n, mine);
	}
	return NULL;
}

/* In the child, objects held by the parent's other threads count for ever. */
static void
use_in_the_child(void)
{
	struct umem_cache_limits now = limits();
	void *object;

	limit_time();
	check(now.in_use <= LIMIT && now.waiting == 0);
	check(umem_cache_set_limit(cache, LIMIT + 2) == 0);
	for (int i = 0; i < 100; i++) {
		object = umem_cache_alloc(cache, UMEM_DEFAULT);
		check(object != NULL);
		check(limits().in_use == now.in_use + 1);
		umem_cache_free(cache, object);
	}
	check(limits().in_use == now.in_use && limits().waits == now.waits);
}

/*
 * A thread forks while others wait.  Each child finds the count of its parent
 * and an empty queue, and its requests are served.
 */
static void
fork_beside_waiters(void)
{
	struct umem_cache_args args = {
	    .size = 200, .limit = LIMIT, .limit_wait = -1, .reserve = 4};
	pthread_t thread[NTHREADS];

	cache = umem_cache_create_args("shared", &args, sizeof(args));
	check(cache != NULL);
	for (uintptr_t i = 0; i < NTHREADS; i++)
		thread[i] = thread_start(take_some, (void *)(i + 1));
	wait_until(limits().waits > 10);
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			use_in_the_child();
			_exit(0);
		}
		child_end(pid);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < NTHREADS; i++)
		thread_end(thread[i]);
	check(limits().in_use == 0 && limits().waiting == 0);
	umem_cache_destroy(cache);
}

int
main(int argc, char **argv)
{
	(void)argv;
	limit_time();
	if (argc > 1) {
		fork_beside_waiters();
		return 0;
	}
	signals();
	signals_and_time();
	cancelling();
	fork_in_a_handler(-1);
	fork_in_a_handler(400);
	/* The time is over when the handler returns in the child. */
	nap = 300000;
	fork_in_a_handler(200);
	return 0;
}
