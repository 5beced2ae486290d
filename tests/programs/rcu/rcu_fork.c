/*
 * fork(): parent and child both go on.  Both free the objects that wait at that
 * moment.  If a grace period does not end, deferred frees fail in the child,
 * instead of waiting for good.
 *
 * test not with: thread hung once in 40 runs, for an unknown reason
 * test link: rcu
 * test libs: -lurcu-memb -lurcu-mb -lurcu-bp -lurcu-qsbr
 */
#include "tests/programs/rcu/rcu.h"

enum {
	N = 400,
	NUPDATERS = 3,
	NFORKS = 12
};

static umem_cache_t *cache;
static bool stop;
static unsigned nupdates;

/*
 * With the address sanitizer, malloc() is its own.  Until gcc 13, a lock of it
 * that another thread has during fork() stays locked in the child.
 */
#ifdef __SANITIZE_ADDRESS__
#define block_new(size)    umem_alloc(size, UMEM_DEFAULT)
#define block_end(p, size) sized_free(p, size)
#else
#define block_new(size)    malloc(size)
#define block_end(p, size) block_free(p)
#endif

static void
free_new(unsigned n)
{
	void *object[N], *block[N];

	for (unsigned i = 0; i < n; i++) {
		object[i] = counted_alloc(cache);
		check((block[i] = block_new(50 + i)) != NULL);
	}
	for (unsigned i = 0; i < n; i++) {
		object_free(cache, object[i]);
		block_end(block[i], 50 + i);
	}
}

static void
free_and_wait(void)
{
	free_new(N);
	barrier();
}

/* Its own thread, and one that it starts. */
static void
go_on(void)
{
	struct task task;

	free_and_wait();
	task_start(&task, free_and_wait);
	free_new(10);
	task_end(&task);
	barrier();
	/* With no further calls. */
	free_new(3);
	check(free_rcu_flavor(malloc(10), rcu) == 0);
	umem_cache_destroy(cache);
	check(load(&ncounted_made) == load(&ncounted_gone));
}

static void
objects_wait_in_both(void)
{
	pid_t pid;

	free_new(N);
	if ((pid = rcu_fork()) == 0) {
		barrier();
		check(counted_out(cache) == 0);
		/* A child of the child. */
		free_new(N);
		if ((pid = rcu_fork()) == 0) {
			barrier();
			check(counted_out(cache) == 0);
			_exit(0);
		}
		go_on();
		child_end(pid);
		exit(0);
	}
	barrier();
	check(counted_out(cache) == 0);
	child_end(pid);
}

/* fork() comes while the library's thread is anywhere in its cycle. */
static void
the_forking_thread_has_never_read(void)
{
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid;

		free_new(N);
		usleep((unsigned)i * 2000);
		free_new(10);
		if ((pid = rcu_fork()) == 0) {
			free_and_wait();
			check(counted_out(cache) == 0);
			exit(0);
		}
		child_end(pid);
	}
}

/* The first use of the library is in the child. */
static void
a_child_begins(void)
{
	pid_t pid = rcu_fork();

	if (pid == 0) {
		go_on();
		exit(0);
	}
	child_end(pid);
}

static void *
updater(void *arg)
{
	while (!load(&stop)) {
		free_new(20);
		usleep(500);
		add(&nupdates, 1);
	}
	return arg;
}

/* Objects of other threads are out in the child for good. */
static void
updaters_are_at_work(void)
{
	pthread_t thread[NUPDATERS];

	for (uintptr_t i = 0; i < NUPDATERS; i++)
		thread[i] = thread_start(updater, (void *)i);
	for (int i = 0; i < NFORKS; i++) {
		unsigned before = load(&nupdates);
		pid_t pid;

		if ((pid = rcu_fork()) == 0) {
			stop = true;
			free_and_wait();
			free_new(30);
			if (i % 2 == 0)
				exit(0);
			_exit(0);
		}
		free_new(1);
		if (i % 4 == 0)
			barrier();
		child_end(pid);
		wait_until(load(&nupdates) > before);
	}
	store(&stop, true);
	for (int i = 0; i < NUPDATERS; i++)
		thread_end(thread[i]);
	barrier();
	check(counted_out(cache) == 0);
}

static void *
end_reader_later(void *arg)
{
	usleep(100000);
	store(&reader_may_go, true);
	return arg;
}

/*
 * A reader of the parent is in a section.  Its copy in the child, which is no
 * thread, never ends.  With bp, the program's own call before fork() waits for
 * the grace period, so there the reader has to end.
 */
static void
a_grace_period_is_in_progress(void)
{
	struct task task;
	pthread_t timer = 0;
	pid_t pid;
	void *object;

	reader_start();
	free_new(N);
	task_start(&task, barrier);
	usleep(30000);
	if (is_bp())
		timer = thread_start(end_reader_later, NULL);
	if ((pid = rcu_fork()) == 0) {
		int error;

		object = counted_alloc(cache);
		errno = 0;
		error = umem_cache_free_rcu_flavor(cache, object, rcu);
		check(error == 0 || errno == ENOTSUP);
		if (error != 0)
			umem_cache_free(cache, object);
		errno = 0;
		object = malloc(100);
		error = free_rcu_flavor(object, rcu);
		check(error == 0 || errno == ENOTSUP);
		if (error != 0)
			free(object);
		errno = 0;
		error = umem_rcu_barrier_flavor(rcu);
		check(error == 0 || errno == ENOTSUP);
		/* Other flavours are not concerned. */
		rcu = is_qsbr() ? &urcu_mb_flavor : &urcu_qsbr_flavor;
		free_and_wait();
		exit(0);
	}
	if (is_bp())
		thread_end(timer);
	reader_end();
	task_end(&task);
	barrier();
	check(counted_out(cache) == 0);
	child_end(pid);
	/* The parent's next child is as good as any. */
	objects_wait_in_both();
}

static void
run(void)
{
	cache = counted_cache(100);
	a_child_begins();
	the_forking_thread_has_never_read();
	objects_wait_in_both();
	a_grace_period_is_in_progress();
	updaters_are_at_work();
	go_on();
}
