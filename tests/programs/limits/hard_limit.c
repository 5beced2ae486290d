/*
 * hard_limit.c - requests beyond the hard limit fail with ENOMEM, after cached
 * memory was released for them, and the program continues
 *
 * While blocks are sampled, a sample counts by its pages.
 *
 * test run: plain
 * test env: UMEM_OPTIONS=hard_limit=64m
 * test run: sampled
 * test args: sampled
 * test env: UMEM_OPTIONS=hard_limit=64m,sample=64k
 * test run: hardened
 * test args: hardened
 * test env: UMEM_OPTIONS=hard_limit=64m,hardened
 */
#include "tests/programs/check.h"

#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
#pragma weak umem_cache_alloc_bulk
#pragma weak umem_cache_destroy
#pragma weak umem_ctl
#pragma weak umem_stats

#define LIMIT   (64 * MIB)
#define MOST    1000000
#define THREADS 4
#define SLOTS   256 /* four threads hold about 100 MiB */

static void *blocks[MOST];
static bool is_sampled;

/* Allocates until a request fails.  Returns the bytes. */
static size_t
fill(size_t size)
{
	size_t n = 0;

	errno = 0;
	while (n < MOST && (blocks[n] = malloc(size)) != NULL) {
		memset(blocks[n++], 1, size);
		check(n * size <= 2 * LIMIT);
	}
	check(n < MOST && errno == ENOMEM);
	blocks[n] = NULL;
	return n * size;
}

/* Freed blocks that wait for their reuse have no memory, and do not count. */
static void
check_quarantine(void)
{
	for (int i = 0; i < 2000; i++) {
		char *p = malloc(MIB);

		check(p != NULL);
		memset(p, 1, MIB);
		free(p);
	}
}

static void
empty(void)
{
	for (size_t n = 0; n < MOST && blocks[n] != NULL; n++) {
		free(blocks[n]);
		blocks[n] = NULL;
	}
}

/* Memory that is cached for one size serves every other size. */
static void
check_sizes(void)
{
	static const size_t sizes[] = {1 * MIB, 100, 3000, 40000, 5 * MIB, 100};
	long before = rss_kib();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t bytes = fill(sizes[i]);

		printf("%zu: %zu KiB\n", sizes[i], bytes / KIB);
		check(bytes <= LIMIT && bytes >= LIMIT * 3 / 4);
		check(rss_kib() - before < (long)((LIMIT + 8 * MIB) / KIB));
		empty();
	}
}

static void
check_resize(void)
{
	char *p = malloc(40 * MIB), *q;

	check(p != NULL);
	p[0] = 7;
	errno = 0;
	check(realloc(p, 65 * MIB) == NULL && errno == ENOMEM && p[0] == 7);
	q = realloc(p, 50 * MIB);
	check(q == NULL || q[0] == 7);
	free(q == NULL ? p : q);
	check(keep(malloc(SIZE_MAX / 4)) == NULL && errno == ENOMEM);
	check(keep(calloc(1, LIMIT + 1)) == NULL && errno == ENOMEM);
}

static struct umem_stats
stats_now(void)
{
	struct umem_stats stats;

	check(umem_stats(&stats, sizeof(stats)) == 0);
	return stats;
}

static struct umem_stats counted; /* by the last check_counted() */

/* Checks that n calls have failed since the last time, all at the limit. */
static void
check_counted(uint64_t n)
{
	struct umem_stats stats = stats_now();

	printf("%zu failed: %zu counted, %zu at the limit\n", (size_t)n,
	    (size_t)(stats.nfailures - counted.nfailures),
	    (size_t)(stats.nhard_limit - counted.nhard_limit));
	check(stats.nfailures - counted.nfailures == n);
	check(stats.nhard_limit - counted.nhard_limit == n);
	counted = stats;
}

/*
 * Samples leave room for some pages when there is none for a slab, so with
 * samples some of these succeed.
 */
static void
check_counts_of_small(umem_cache_t *cache)
{
	void *objects[64];

	if (is_sampled)
		return;
	fill(100);
	check_counted(1);
	for (int i = 0; i < 10; i++)
		check(keep(malloc(100)) == NULL);
	check(keep(aligned_alloc(64, 40000)) == NULL);
	check(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL);
	check(umem_cache_alloc_bulk(cache, 64, objects, UMEM_DEFAULT) == 0);
	check_counted(13);
	empty();
}

/* A failed call counts once, however often the library has tried. */
static void
check_counts(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "counted", 3000, 0, NULL, NULL, NULL, NULL, NULL, 0);
	void *p;

	check(cache != NULL);
	p = malloc(2 * MIB);
	check(p != NULL);
	counted = stats_now();
	fill(1 * MIB);
	check_counted(1);
	for (int i = 0; i < 10; i++)
		check(keep(malloc(1 * MIB)) == NULL);
	check_counted(10);
	for (int i = 0; i < 10; i++)
		check(keep(malloc(100 * MIB)) == NULL);
	check_counted(10);
	check(realloc(p, 8 * MIB) == NULL);
	check(keep(calloc(1000, 8 * KIB)) == NULL);
	check(keep(aligned_alloc(1 * MIB, 1 * MIB)) == NULL);
	check_counted(3);
	empty();
	free(p);
	check_counts_of_small(cache);
	umem_cache_destroy(cache);
}

static pthread_barrier_t all_hold; /* the blocks of all threads */

static void *
churn_to_limit(void *seed)
{
	unsigned random = (unsigned)(uintptr_t)seed;
	void *own[SLOTS] = {0};
	uintptr_t nfailed = 0;

	for (int i = 0; i < 20000; i++) {
		void **at = &own[i % SLOTS];

		random = random * 1664525 + 1013904223;
		free(*at);
		*at = malloc((size_t)1 << (random >> 16) % 21);
		nfailed += *at == NULL;
		if (*at != NULL)
			memset(*at, 1, 1);
	}
	pthread_barrier_wait(&all_hold);
	for (int i = 0; i < SLOTS; i++)
		free(own[i]);
	return (void *)nfailed;
}

static void
check_threads(void)
{
	pthread_t threads[THREADS];
	uintptr_t nfailed = 0;
	struct umem_stats before = stats_now(), after;

	check(pthread_barrier_init(&all_hold, NULL, THREADS) == 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, churn_to_limit,
			  (void *)(i + 1)) == 0);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		check(pthread_join(threads[i], &result) == 0);
		nfailed += (uintptr_t)result;
	}
	check(nfailed != 0);
	after = stats_now();
	check(after.nfailures - before.nfailures == nfailed);
	check(after.nhard_limit - before.nhard_limit <= nfailed);
	check(fill(1 * MIB) >= LIMIT * 3 / 4);
	empty();
}

/* The limit is that of each process. */
static void
check_fork(void)
{
	size_t bytes = fill(1 * MIB);
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		check(keep(malloc(8 * MIB)) == NULL);
		empty();
		check(fill(1 * MIB) >= bytes * 3 / 4);
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
	empty();
}

static void *kept[40]; /* 1 MiB each, which the program can do without */
static unsigned nkept; /* [atomic] */
static pthread_barrier_t stops;

static void
give_kept(void *arg)
{
	unsigned n = __atomic_exchange_n(&nkept, 0, __ATOMIC_ACQ_REL);

	(void)arg;
	while (n > 0)
		free(kept[--n]);
}

static void *
wait_for_stop(void *arg)
{
	pthread_barrier_wait(&stops);
	return arg;
}

/*
 * With a second thread there is an upkeep thread, which calls the program
 * before a request fails.
 */
static void
check_callback(void)
{
	umem_cache_t *asks = umem_cache_create(
	    "asks", 100, 0, NULL, NULL, give_kept, NULL, NULL, 0);
	pthread_t thread;
	void *block;

	check(asks != NULL);
	check(pthread_barrier_init(&stops, NULL, 2) == 0);
	check(pthread_create(&thread, NULL, wait_for_stop, NULL) == 0);
	for (unsigned n = 0; n < 40; n++) {
		kept[n] = malloc(MIB);
		check(kept[n] != NULL);
		memset(kept[n], 1, MIB);
	}
	__atomic_store_n(&nkept, 40, __ATOMIC_RELEASE);
	/* On a slow machine the callback may take longer than the request. */
	for (int i = 0; i < 100; i++)
		if ((block = malloc(40 * MIB)) != NULL)
			break;
	check(block != NULL);
	check(__atomic_load_n(&nkept, __ATOMIC_ACQUIRE) == 0);
	free(block);
	pthread_barrier_wait(&stops);
	check(pthread_join(thread, NULL) == 0);
}

static void
check_change(void)
{
	check(keep(malloc(80 * MIB)) == NULL);
	check(umem_ctl("hard_limit", "128m", NULL, 0) == 0);
	free(keep(malloc(80 * MIB)));
	check(umem_ctl("hard_limit", "1m", NULL, 0) == 0);
	check(keep(malloc(2 * MIB)) == NULL);
	check(umem_ctl("hard_limit", "none", NULL, 0) == 0);
	blocks[0] = malloc(80 * MIB);
	check(blocks[0] != NULL);
	empty();
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "hardened") == 0) {
		check_quarantine();
		return 0;
	}
	is_sampled = argc > 1;
	/* The array itself is no memory of the heap. */
	memset(blocks, 1, sizeof(blocks));
	memset(blocks, 0, sizeof(blocks));
	check_sizes();
	check_resize();
	check_counts();
	check_threads();
	check_fork();
	check_callback();
	check_change();
	churn(2, 20000, 50000);
	return 0;
}
