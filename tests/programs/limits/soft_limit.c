/*
 * soft_limit.c - above the soft limit the library releases cached memory, the
 * oldest levels first, and asks the program last
 *
 * test env: UMEM_OPTIONS=soft_limit=32m
 */
#include "tests/programs/check.h"

#pragma weak umem_cache_create
#pragma weak umem_ctl
#pragma weak umem_metrics

#define LIMIT   (32 * MIB)
#define SIZE    2000
#define NBLOCKS (96 * MIB / SIZE)

static void *blocks[NBLOCKS];
static void *kept[64];      /* 1 MiB each, which the program can do without */
static unsigned nkept;      /* [atomic] */
static unsigned ncallbacks; /* [atomic] */

static void
give_kept(void *arg)
{
	unsigned n = __atomic_exchange_n(&nkept, 0, __ATOMIC_ACQ_REL);

	(void)arg;
	__atomic_add_fetch(&ncallbacks, 1, __ATOMIC_RELAXED);
	while (n > 0)
		free(kept[--n]);
}

/* The value of a metric that has one sample. */
static size_t
metric(const char *name)
{
	static char text[1 << 20];
	char *at;

	check(umem_metrics(text, sizeof(text)) < (ssize_t)sizeof(text));
	at = strstr(text, name);
	for (; at != NULL && (at[-1] != '\n' || at[strlen(name)] != ' ');
	     at = strstr(at + 1, name))
		;
	check(at != NULL);
	return strtoul(at + strlen(name), NULL, 10);
}

/*
 * Leaves one block of 30 in slabs of 96 MiB, and asks the heap for a little
 * more.  Returns the heap's memory then.
 */
static size_t
leave_sparse(void)
{
	size_t bytes;

	for (size_t i = 0; i < NBLOCKS; i++) {
		blocks[i] = malloc(SIZE);
		check(blocks[i] != NULL);
		memset(blocks[i], 1, SIZE);
	}
	for (size_t i = 0; i < NBLOCKS; i++)
		if (i % 30 != 0)
			free(blocks[i]);
	free(keep(malloc(8 * MIB)));
	free(keep(malloc(100)));
	bytes = metric("umem_heap_bytes");
	for (size_t i = 0; i < NBLOCKS; i += 30)
		free(blocks[i]);
	return bytes;
}

static void
check_sparse(void)
{
	size_t bytes = leave_sparse();

	printf("with the limit: %zu KiB\n", bytes / KIB);
	check(bytes <= LIMIT + LIMIT / 8);
	check(metric("umem_soft_limit_bytes") == LIMIT);
	check(metric("umem_soft_limit_hits_total") > 0);
}

/* A program that uses more than the limit itself is left in peace. */
static void
check_above(void)
{
	static char *live[48];
	size_t before, after;

	for (int i = 0; i < 48; i++) {
		live[i] = malloc(MIB);
		check(live[i] != NULL);
		memset(live[i], 1, MIB);
	}
	before = metric("umem_soft_limit_hits_total");
	for (int i = 0; i < 3000; i++)
		free(keep(malloc((size_t)(100 + i % 64) * KIB)));
	after = metric("umem_soft_limit_hits_total");
	printf("above the limit: %zu releases\n", after - before);
	check(after - before < 20);
	for (int i = 0; i < 48; i++)
		free(live[i]);
}

static void *
wait_for_callback(void *arg)
{
	for (int i = 0;
	     __atomic_load_n(&ncallbacks, __ATOMIC_ACQUIRE) == 0 && i < 10000;
	     i++)
		usleep(1000);
	return arg;
}

/* With a second thread there is an upkeep thread, which calls the program. */
static void
check_callback(void)
{
	umem_cache_t *asks = umem_cache_create(
	    "asks", 100, 0, NULL, NULL, give_kept, NULL, NULL, 0);
	pthread_t thread;
	unsigned n = 0;

	check(asks != NULL);
	check(pthread_create(&thread, NULL, wait_for_callback, NULL) == 0);
	for (; n < 48; n++) {
		kept[n] = malloc(MIB);
		check(kept[n] != NULL);
		memset(kept[n], 1, MIB);
	}
	__atomic_store_n(&nkept, n, __ATOMIC_RELEASE);
	free(keep(malloc(4 * MIB)));
	check(pthread_join(thread, NULL) == 0);
	check(__atomic_load_n(&ncallbacks, __ATOMIC_ACQUIRE) > 0);
}

static void
check_fork(void)
{
	pid_t child = fork();
	int status;

	check(child >= 0);
	if (child == 0) {
		check_sparse();
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0);
}

int
main(void)
{
	size_t before;

	check_sparse();
	check_fork();
	check_above();
	check_callback();
	check(umem_ctl("soft_limit", "none", NULL, 0) == 0);
	before = metric("umem_soft_limit_hits_total");
	leave_sparse();
	check(metric("umem_soft_limit_hits_total") == before);
	churn(2, 20000, 50000);
	return 0;
}
