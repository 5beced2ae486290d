/*
 * larson.c - like a server: threads replace random blocks of a set, then hand
 * the set over to a new thread and end
 *
 *	larson.N	millions of replacements a second, N sets
 *
 * All blocks (5000 a set, 8 to 1000 bytes) are first allocated by the main
 * thread and dealt out mixed, so that a thread frees blocks of other threads.
 * A thread replaces 500,000 blocks, as by the customary arguments "8 1000 5000
 * 100".  A fixed amount of work.
 *
 * Source: Larson and Krishnan, "Memory allocation for long-running server
 * applications", ISMM 1998, after its description.
 *
 * Usage: larson [scale [N ...]]
 */
#include "tests/bench/bench.h"

#define NSLOTS    5000
#define NREPLACED 500000 /* by one thread: 100 rounds of 5000 */

struct set {
	void *slot[NSLOTS];
	uint64_t seed;
	size_t nthreads; /* still to come */
	struct server *server;
} BENCH_ALIGNED;

/* lock guards nrunning, the sets that are not done. */
struct server {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	unsigned nrunning;
	struct set *sets;
};

static size_t
some_size(uint64_t *seed)
{
	return bench_between(seed, 8, 1000);
}

static void *serve(void *arg);

static void
hand_over(struct set *set)
{
	pthread_attr_t detached;
	pthread_t id;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&id, &detached, serve, set) != 0)
		bench_die("pthread_create");
	pthread_attr_destroy(&detached);
}

static void *
serve(void *arg)
{
	struct set *set = arg;

	for (size_t i = 0; i < NREPLACED; i++) {
		size_t slot = bench_between(&set->seed, 0, NSLOTS - 1);

		free(set->slot[slot]);
		set->slot[slot] = bench_alloc(some_size(&set->seed));
	}
	if (--set->nthreads > 0) {
		hand_over(set);
		return NULL;
	}
	pthread_mutex_lock(&set->server->lock);
	if (--set->server->nrunning == 0)
		pthread_cond_signal(&set->server->ended);
	pthread_mutex_unlock(&set->server->lock);
	return NULL;
}

static void
deal(struct server *server, unsigned nsets, size_t nthreads)
{
	for (unsigned i = 0; i < nsets; i++) {
		server->sets[i].seed = bench_seed(i);
		server->sets[i].nthreads = nthreads;
		server->sets[i].server = server;
	}
	for (size_t i = 0; i < (size_t)nsets * NSLOTS; i++) {
		struct set *set = &server->sets[i % nsets];

		set->slot[i / nsets] = bench_alloc(some_size(&set->seed));
	}
}

static void
measure(unsigned nsets, double scale)
{
	struct server server = {.lock = PTHREAD_MUTEX_INITIALIZER,
	    .ended = PTHREAD_COND_INITIALIZER,
	    .nrunning = nsets};
	size_t nthreads = bench_count(60.0 / nsets, scale);
	double start;

	/* Each set is handed over at least once. */
	if (nthreads < 2)
		nthreads = 2;
	server.sets = bench_pages(nsets * sizeof(*server.sets));
	deal(&server, nsets, nthreads);
	start = bench_wall_ns();
	for (unsigned i = 0; i < nsets; i++)
		hand_over(&server.sets[i]);
	pthread_mutex_lock(&server.lock);
	while (server.nrunning > 0)
		pthread_cond_wait(&server.ended, &server.lock);
	pthread_mutex_unlock(&server.lock);
	bench_print((double)(nsets * nthreads * NREPLACED) * 1e3 /
			(bench_wall_ns() - start),
	    "Mops/s", "larson.%u", nsets);
	for (size_t i = 0; i < (size_t)nsets * NSLOTS; i++)
		free(server.sets[i % nsets].slot[i / nsets]);
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	for (int i = 2; i < argc; i++)
		measure((unsigned)strtoul(argv[i], NULL, 10), scale);
	if (argc <= 2) {
		measure(2, scale);
		measure(8, scale);
	}
	return 0;
}
