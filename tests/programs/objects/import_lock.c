/*
 * release() of an import cache takes a lock of the program's.  A thread that
 * holds it may call malloc(), free(), umem_cache_free() and every function of
 * other caches: release() does not run in that thread, even if upkeep is due.
 * umem_reap() and the library's thread, if there is one, call release().
 *
 * The program runs itself again as linked, without a thread of the library,
 * and with the library for malloc, alone and with a second thread.
 *
 * test link: umem
 * test no stderr: .
 */
#include "tests/programs/check.h"

enum {
	N = 5000
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool holds_lock;
static size_t nimported, nreleased; /* [atomic] */
static umem_cache_t *cache, *other;
static void *resource[N];

static void
take_lock(void)
{
	check(!holds_lock);
	pthread_mutex_lock(&lock);
	holds_lock = true;
}

static void
drop_lock(void)
{
	holds_lock = false;
	pthread_mutex_unlock(&lock);
}

/* Other caches and malloc() work in both functions. */
static void
use_others(void)
{
	void *object = umem_cache_alloc(other, UMEM_DEFAULT);

	check(object != NULL);
	free(malloc(300));
	umem_cache_free(other, object);
}

static size_t
import(void *arg, void **store, size_t n, int flags)
{
	(void)arg;
	(void)flags;
	use_others();
	for (size_t i = 0; i < n; i++)
		store[i] =
		    (void *)__atomic_add_fetch(&nimported, 1, __ATOMIC_RELAXED);
	return n;
}

static void
release(void *arg, void *const *store, size_t n)
{
	(void)arg;
	(void)store;
	take_lock();
	use_others();
	__atomic_add_fetch(&nreleased, n, __ATOMIC_RELEASE);
	drop_lock();
}

/* Long enough for some updates; each is due after 250 ms. */
static void
use_all_with_the_lock(void)
{
	uint64_t end = now_ms() + 600;

	take_lock();
	while (now_ms() < end) {
		for (unsigned i = 0; i < N; i++)
			check(
			    (resource[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (unsigned i = 0; i < N; i++)
			umem_cache_free(cache, resource[i]);
		churn(end, 1000, 100000);
		for (unsigned i = 0; i < N; i++)
			check(
			    (resource[i] = umem_cache_alloc(other, 0)) != NULL);
		umem_cache_free_bulk(other, N, resource);
	}
	drop_lock();
}

static size_t
released(void)
{
	return __atomic_load_n(&nreleased, __ATOMIC_ACQUIRE);
}

static void *
wait_for_releases(void *arg)
{
	(void)arg;
	wait_until(released() != 0 || (free(malloc(100)), false));
	return NULL;
}

static void
run(bool threads)
{
	pthread_t thread;

	other = umem_cache_create(
	    "spoons", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	cache =
	    umem_import_cache_create("kettles", import, release, NULL, 0, 0);
	check(cache != NULL && other != NULL);
	if (threads)
		thread = thread_start(wait_for_releases, NULL);
	use_all_with_the_lock();
	if (threads) {
		/* The library's thread releases idle resources. */
		thread_end(thread);
		check(released() > 0);
	} else {
		check(released() == 0);
		umem_reap();
		check(released() == nimported);
	}
	umem_cache_destroy(cache);
	check(released() == nimported);
	umem_cache_destroy(other);
}

static void
run_again(const char *preload, const char *how)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (preload != NULL)
			setenv("LD_PRELOAD", preload, 1);
		execl("/proc/self/exe", "import_lock", how, NULL);
		_exit(99);
	}
	child_end(pid);
}

int
main(int argc, char **argv)
{
	if (argc < 2) {
		run_again(NULL, "alone");
		if (getenv("SHIM") == NULL)
			return 0;
		run_again(getenv("SHIM"), "alone");
		run_again(getenv("SHIM"), "threads");
		return 0;
	}
	run(strcmp(argv[1], "threads") == 0);
	return 0;
}
