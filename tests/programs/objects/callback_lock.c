/*
 * Callbacks of caches take a lock of the program.  A thread that holds the lock
 * may call malloc(), free() and the functions for objects: no callback runs in
 * that thread, even if upkeep is due.  Only umem_reap() and the library's
 * thread, if there is one, call the callbacks.
 *
 * The program runs itself again as linked, without a thread of the library,
 * and with the library for malloc, alone and with a second thread.
 *
 * test link: umem
 * test no stderr: .
 *
 * test run: destructor
 * test args: destructor
 * test run: import
 * test args: import
 */
#include "tests/programs/check.h"

enum {
	N = 5000,
	NLARGE = 64
};

struct object {
	char rest[300];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool holds_lock;
static unsigned nconstructed, ndestructed, nasked; /* [atomic] */
static umem_cache_t *cache, *other;
static void *object[N];
static size_t nimported, nreleased; /* [atomic] */

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

static int
construct(void *p, void *arg, int flags)
{
	(void)p;
	(void)arg;
	(void)flags;
	nconstructed++;
	return 0;
}

static void
destruct(void *p, void *arg)
{
	(void)p;
	(void)arg;
	take_lock();
	__atomic_add_fetch(&ndestructed, 1, __ATOMIC_RELEASE);
	drop_lock();
}

static void
reclaim(void *arg)
{
	(void)arg;
	take_lock();
	__atomic_add_fetch(&nasked, 1, __ATOMIC_RELEASE);
	drop_lock();
}

static void
use_objects(umem_cache_t *of)
{
	for (unsigned i = 0; i < N; i++)
		check((object[i] = umem_cache_alloc(of, 0)) != NULL);
	for (unsigned i = 0; i < N; i++)
		umem_cache_free(of, object[i]);
}

/* Blocks of every size, so that the heap grows and has pages to release. */
static void
use_memory(void)
{
	static void *large[NLARGE];
	static size_t size[NLARGE];

	for (unsigned i = 0; i < NLARGE; i++) {
		size[i] = 100 * (i + 1) * (i + 1);
		large[i] = i % 2 == 0 ? malloc(size[i])
				      : umem_alloc(size[i], UMEM_DEFAULT);
		check(large[i] != NULL);
		memset(large[i], 1, size[i]);
	}
	for (unsigned i = 0; i < NLARGE; i++)
		if (i % 2 == 0)
			free(large[i]);
		else
			umem_free(large[i], size[i]);
}

/* Long enough for some updates; each is due after 250 ms. */
static void
use_all_with_the_lock(void)
{
	uint64_t end = now_ms() + 600;

	take_lock();
	use_objects(cache);
	while (now_ms() < end) {
		use_memory();
		use_objects(other);
	}
	drop_lock();
}

static void *
wait_for_destructors(void *arg)
{
	(void)arg;
	for (int i = 0;
	     i < 3000 && __atomic_load_n(&ndestructed, __ATOMIC_ACQUIRE) == 0;
	     i++) {
		usleep(10000);
		free(malloc(100));
	}
	return NULL;
}

/* A destructor and a reclaim callback; every function may be called. */
static void
run_destructor(bool threads)
{
	pthread_t thread;

	cache = umem_cache_create("kettles", sizeof(struct object), 0,
	    construct, destruct, reclaim, NULL, NULL, 0);
	other = umem_cache_create(
	    "spoons", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	check(cache != NULL && other != NULL);
	if (threads)
		thread = thread_start(wait_for_destructors, NULL);
	use_all_with_the_lock();
	if (threads) {
		/* The library's thread destructs idle objects. */
		thread_end(thread);
		check(__atomic_load_n(&ndestructed, __ATOMIC_ACQUIRE) > 0);
	} else {
		check(nconstructed == N && ndestructed == 0 && nasked == 0);
		umem_reap();
		check(ndestructed == N && nasked == 1);
	}
	umem_cache_destroy(cache);
	check(ndestructed == nconstructed);
	umem_cache_destroy(other);
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

static void
use_import_with_the_lock(void)
{
	uint64_t end = now_ms() + 600;

	take_lock();
	while (now_ms() < end) {
		for (unsigned i = 0; i < N; i++)
			check((object[i] = umem_cache_alloc(cache, 0)) != NULL);
		for (unsigned i = 0; i < N; i++)
			umem_cache_free(cache, object[i]);
		churn(end, 1000, 100000);
		for (unsigned i = 0; i < N; i++)
			check((object[i] = umem_cache_alloc(other, 0)) != NULL);
		umem_cache_free_bulk(other, N, object);
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

/*
 * release() of an import cache; umem_cache_free() and every function of other
 * caches may be called.
 */
static void
run_import(bool threads)
{
	pthread_t thread;

	other = umem_cache_create(
	    "spoons", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	cache =
	    umem_import_cache_create("kettles", import, release, NULL, 0, 0);
	check(cache != NULL && other != NULL);
	if (threads)
		thread = thread_start(wait_for_releases, NULL);
	use_import_with_the_lock();
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
run_again(const char *preload, const char *what, const char *how)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (preload != NULL)
			setenv("LD_PRELOAD", preload, 1);
		execl("/proc/self/exe", "callback_lock", what, how, NULL);
		_exit(99);
	}
	child_end(pid);
}

int
main(int argc, char **argv)
{
	bool threads = argc > 2 && strcmp(argv[2], "threads") == 0;

	check(argc > 1);
	if (argc < 3) {
		run_again(NULL, argv[1], "alone");
		if (getenv("SHIM") == NULL)
			return 0;
		run_again(getenv("SHIM"), argv[1], "alone");
		run_again(getenv("SHIM"), argv[1], "threads");
		return 0;
	}
	if (strcmp(argv[1], "import") == 0)
		run_import(threads);
	else
		run_destructor(threads);
	return 0;
}
