/*
 * A destructor and a reclaim callback take a lock of the program.  A thread
 * that holds the lock may call malloc(), free() and every function for objects:
 * no callback runs in that thread, even if upkeep is due.  Only umem_reap() and
 * the library's thread, if there is one, call the callbacks.
 *
 * The program runs itself again as linked, without a thread of the library,
 * and with the library for malloc, alone and with a second thread.
 *
 * test link: umem
 * test no stderr: .
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

static void
run(bool threads)
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

static void
run_again(const char *preload, const char *how)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (preload != NULL)
			setenv("LD_PRELOAD", preload, 1);
		execl("/proc/self/exe", "destructor_lock", how, NULL);
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
