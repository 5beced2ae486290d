/*
 * rcu.c - updates of RCU-protected structures; the old nodes wait for a grace
 * period
 *
 * Updater threads replace the node of a random key, readers look random keys
 * up at the same time.  The structure is
 *	table	liburcu's hash table (cds_lfht)
 *	array	an array of pointers, where little but the allocator and the
 *		deferral costs time
 * An updater frees the node that it replaced by one of these methods:
 *	cache		umem_cache_free_rcu()
 *	call_rcu	call_rcu() with free(), by liburcu's one thread
 *	call_rcu_cpus	the same by a thread for each CPU
 *			(create_all_cpu_call_rcu_data())
 *	defer_rcu	defer_rcu() of free()
 * The first needs a library of umem in the process, the others allocate by
 * malloc().
 *
 * Each pair of structure and method runs in a process of its own, which does a
 * fixed number of updates.  Its time ends when the last old node has been
 * freed.
 *	rcu.STRUCTURE.METHOD		updates a second
 *	rcu.STRUCTURE.METHOD.peak	the most memory that was resident
 *	rcu.STRUCTURE.METHOD.each	processor time of an update, without
 *					that of the readers
 * So that allocators can be compared, two more names stand for a METHOD.  Under
 * an allocator with object caches both are cache.  Otherwise
 *	own.best	is the method with the most updates a second
 *	own.callback	is the better one of call_rcu and call_rcu_cpus
 * Two more figures are of the best:
 *	rcu.STRUCTURE.lookups		lookups a second meanwhile
 *	rcu.STRUCTURE.late		time from the last update until the last
 *					old node has been freed
 * If numbers of threads are given, each name ends in the number.
 *
 * The program looks up the functions of umem at run time, so that under another
 * allocator no code of umem is in the process.  A reader that finds a node with
 * a content that the node's updater did not write ends the program with an
 * error.
 *
 * Usage: rcu [scale [number of updaters, and of readers ...]]
 */
#include <dlfcn.h>
#include <libgen.h>
#include <sys/wait.h>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <urcu/rculfhash.h>

#include "tests/bench/bench.h"
#include "umem/umem.h"
#include "umem/umem_rcu.h"

#define NKEYS    65536
#define NUPDATES 2e6
#define NWORDS   5

/* 64 bytes; call_rcu() needs 16 more. */
struct node {
	struct cds_lfht_node link;
	uint64_t key;
	uint64_t word[NWORDS]; /* each follows from key and the first */
};

struct node_with_head {
	struct node node;
	struct rcu_head head;
};

struct method {
	const char *name;
	struct node *(*alloc)(void);
	void (*free_later)(struct node *);
	void (*barrier)(void);
};

struct structure {
	const char *name;
	/* Makes the node reachable, and returns its predecessor, or NULL. */
	struct node *(*replace)(struct node *);
	/* Inside a read-side critical section. */
	struct node *(*find)(uint64_t key);
};

/* Figures of a run, which a child process sends to its parent. */
struct figures {
	double rate;    /* million updates a second until all are freed */
	double each_ns; /* of processor time, without that of readers */
	double peak_mib;
	double lookup_rate; /* millions a second */
	double late_ms;
};

static umem_cache_t *cache;
static __typeof__(&umem_cache_create) cache_create;
static __typeof__(&umem_cache_alloc) cache_alloc;
static __typeof__(&umem_cache_free_rcu_flavor) cache_free_rcu;
static __typeof__(&umem_rcu_barrier_flavor) cache_barrier;

static struct cds_lfht *table;
static struct node *array[NKEYS];

/* How a run is set up; its threads only read these. */
static const struct method *method;
static const struct structure *structure;
static size_t nupdates; /* of one updater */
static unsigned nupdaters;
static atomic_uint nupdating;
static _Atomic uint64_t readers_ns;
static double updated_at;

/* Node content */

static uint64_t
word_of(uint64_t key, uint64_t first, unsigned i)
{
	return (key + i) * 0x9e3779b97f4a7c15 ^ first;
}

static struct node *
node_create(uint64_t key, uint64_t first)
{
	struct node *node = method->alloc();

	if (node == NULL)
		bench_die("no memory for a node");
	cds_lfht_node_init(&node->link);
	node->key = key;
	node->word[0] = first;
	for (unsigned i = 1; i < NWORDS; i++)
		node->word[i] = word_of(key, first, i);
	return node;
}

static void
node_check(struct node *node, uint64_t key)
{
	bool right = node != NULL && node->key == key;

	for (unsigned i = 1; right && i < NWORDS; i++)
		right = node->word[i] == word_of(key, node->word[0], i);
	if (!right) {
		fprintf(stderr, "rcu: a reader met a node that was reused\n");
		_exit(1);
	}
}

/* Methods */

static struct node *
alloc_from_cache(void)
{
	return cache_alloc(cache, UMEM_DEFAULT);
}

static void
free_to_cache(struct node *node)
{
	if (cache_free_rcu(cache, node, &rcu_flavor) != 0)
		bench_die("umem_cache_free_rcu");
}

static void
wait_for_cache(void)
{
	if (cache_barrier(&rcu_flavor) != 0)
		bench_die("umem_rcu_barrier");
}

static struct node *
alloc_with_head(void)
{
	struct node_with_head *outer = malloc(sizeof(*outer));

	return outer == NULL ? NULL : &outer->node;
}

static void
free_from_head(struct rcu_head *head)
{
	free(caa_container_of(head, struct node_with_head, head));
}

static void
free_by_call_rcu(struct node *node)
{
	call_rcu(&caa_container_of(node, struct node_with_head, node)->head,
	    free_from_head);
}

static struct node *
alloc_plain(void)
{
	return malloc(sizeof(struct node));
}

static void
free_by_defer_rcu(struct node *node)
{
	defer_rcu(free, node);
}

enum {
	CACHE,
	CALL_RCU,
	CALL_RCU_CPUS,
	DEFER_RCU,
	NMETHODS
};

static const struct method methods[NMETHODS] = {
    [CACHE] = {"cache", alloc_from_cache, free_to_cache, wait_for_cache},
    [CALL_RCU] = {"call_rcu", alloc_with_head, free_by_call_rcu, rcu_barrier},
    [CALL_RCU_CPUS] = {"call_rcu_cpus", alloc_with_head, free_by_call_rcu,
	rcu_barrier},
    [DEFER_RCU] = {"defer_rcu", alloc_plain, free_by_defer_rcu,
	rcu_defer_barrier},
};

/* Structures */

static unsigned long
hash_of(uint64_t key)
{
	return (key + 1) * 0x9e3779b97f4a7c15 >> 20;
}

static int
matches(struct cds_lfht_node *link, const void *key)
{
	return caa_container_of(link, struct node, link)->key ==
	       *(const uint64_t *)key;
}

static struct node *
replace_in_table(struct node *node)
{
	struct cds_lfht_node *old;

	rcu_read_lock();
	old = cds_lfht_add_replace(
	    table, hash_of(node->key), matches, &node->key, &node->link);
	rcu_read_unlock();
	return old == NULL ? NULL : caa_container_of(old, struct node, link);
}

static struct node *
find_in_table(uint64_t key)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *link;

	cds_lfht_lookup(table, hash_of(key), matches, &key, &iter);
	link = cds_lfht_iter_get_node(&iter);
	return link == NULL ? NULL : caa_container_of(link, struct node, link);
}

static struct node *
replace_in_array(struct node *node)
{
	return rcu_xchg_pointer(&array[node->key], node);
}

static struct node *
find_in_array(uint64_t key)
{
	return rcu_dereference(array[key]);
}

static const struct structure structures[] = {
    {"table", replace_in_table, find_in_table},
    {"array", replace_in_array, find_in_array},
};

enum {
	NSTRUCTURES = sizeof(structures) / sizeof(*structures)
};

/* One run */

static void
update(struct bench_thread *thread)
{
	uint64_t state = thread->seed;

	for (size_t i = 0; i < nupdates; i++) {
		uint64_t key = bench_between(&state, 0, NKEYS - 1);

		method->free_later(structure->replace(node_create(key, state)));
	}
	if (atomic_fetch_sub(&nupdating, 1) == 1) {
		updated_at = bench_wall_ns();
		atomic_store(&thread->group->stop, true);
	}
}

static void
look_up(struct bench_thread *thread)
{
	uint64_t state = thread->seed;

	while (!bench_stopped(thread)) {
		for (int i = 0; i < 64; i++) {
			uint64_t key = bench_between(&state, 0, NKEYS - 1);

			rcu_read_lock();
			node_check(structure->find(key), key);
			rcu_read_unlock();
		}
		bench_did(thread, 64);
	}
	atomic_fetch_add(
	    &readers_ns, (uint64_t)bench_clock(CLOCK_THREAD_CPUTIME_ID));
}

static void
thread_begin(void)
{
	rcu_register_thread();
	if (method == &methods[DEFER_RCU] && rcu_defer_register_thread() != 0)
		bench_die("rcu_defer_register_thread");
}

/* rcu_defer_unregister_thread() frees the nodes in this thread's queue. */
static void
thread_end(void)
{
	if (method == &methods[DEFER_RCU])
		rcu_defer_unregister_thread();
	rcu_unregister_thread();
}

/* The first half of the threads update, the others look up. */
static void
work(struct bench_thread *thread)
{
	thread_begin();
	if (thread->number < nupdaters)
		update(thread);
	else
		look_up(thread);
	thread_end();
}

static void
set_up(void)
{
	uint64_t state = bench_seed(NKEYS);

	if (method == &methods[CACHE]) {
		cache = cache_create("node", sizeof(struct node), 0, NULL, NULL,
		    NULL, NULL, NULL, 0);
		if (cache == NULL)
			bench_die("umem_cache_create");
	}
	if (method == &methods[CALL_RCU_CPUS] &&
	    create_all_cpu_call_rcu_data(0) != 0)
		bench_die("create_all_cpu_call_rcu_data");
	table = cds_lfht_new(NKEYS, NKEYS, NKEYS, 0, NULL);
	if (table == NULL)
		bench_die("cds_lfht_new");
	for (uint64_t i = 0; i < NKEYS; i++)
		structure->replace(node_create(i, bench_random(&state)));
}

static struct figures
run(double scale, unsigned nthreads)
{
	struct figures figures;
	struct bench_group group;
	double cpu_ns, joined, end, n;

	/* This thread is the last: defer_rcu()'s thread goes on until then. */
	thread_begin();
	set_up();
	nupdates = bench_count(NUPDATES / nthreads, scale);
	nupdating = nupdaters = nthreads;
	n = (double)nupdates * nthreads;

	cpu_ns = bench_cpu_ns();
	group = bench_threads(2 * nthreads, work, NULL, 0);
	joined = bench_wall_ns();
	method->barrier();
	end = bench_wall_ns();
	cpu_ns = bench_cpu_ns() - cpu_ns - (double)readers_ns;
	figures.rate = n * 1e3 / (group.wall_ns + end - joined);
	figures.each_ns = cpu_ns / n;
	figures.peak_mib = bench_status_mib("VmHWM:");
	figures.lookup_rate = bench_mops(&group);
	figures.late_ms = (end - updated_at) / 1e6;
	thread_end();
	return figures;
}

/* In a process of its own, so that its peak is that of one method. */
static struct figures
run_apart(double scale, unsigned nthreads)
{
	struct figures figures;
	int ends[2], status;
	pid_t child;

	if (pipe(ends) != 0)
		bench_die("pipe");
	child = fork();
	if (child == 0) {
		figures = run(scale, nthreads);
		_exit(write(ends[1], &figures, sizeof(figures)) !=
		      sizeof(figures));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		bench_die("fork");
	if (status != 0 ||
	    read(ends[0], &figures, sizeof(figures)) != sizeof(figures)) {
		fprintf(stderr, "rcu: %s by %s failed\n", structure->name,
		    method->name);
		exit(1);
	}
	close(ends[0]);
	close(ends[1]);
	return figures;
}

static unsigned
fastest(const struct figures *all, unsigned first, unsigned last)
{
	unsigned best = first;

	for (unsigned i = first; i <= last; i++)
		if (all[i].rate > all[best].rate)
			best = i;
	return best;
}

static void
print_method(
    const char *name, const struct figures *figures, const char *suffix)
{
	bench_print(figures->rate, "Mops/s", "rcu.%s.%s%s", structure->name,
	    name, suffix);
	bench_print(figures->peak_mib, "MiB", "rcu.%s.%s.peak%s",
	    structure->name, name, suffix);
	bench_print(figures->each_ns, "ns", "rcu.%s.%s.each%s", structure->name,
	    name, suffix);
}

/* The suffix ends the names of figures. */
static void
measure(double scale, unsigned nthreads, const char *suffix)
{
	bool has_cache = cache_free_rcu != NULL;
	struct figures all[NMETHODS];
	unsigned best, callback;

	for (unsigned i = has_cache ? CACHE : CALL_RCU; i < NMETHODS; i++) {
		method = &methods[i];
		all[i] = run_apart(scale, nthreads);
		print_method(method->name, &all[i], suffix);
	}
	best = has_cache ? CACHE : fastest(all, CALL_RCU, DEFER_RCU);
	callback = has_cache ? CACHE : fastest(all, CALL_RCU, CALL_RCU_CPUS);
	print_method("own.best", &all[best], suffix);
	print_method("own.callback", &all[callback], suffix);
	bench_print(all[best].lookup_rate, "Mops/s", "rcu.%s.lookups%s",
	    structure->name, suffix);
	bench_print(
	    all[best].late_ms, "ms", "rcu.%s.late%s", structure->name, suffix);
}

static void
measure_all(double scale, unsigned nthreads, const char *suffix)
{
	for (int i = 0; i < NSTRUCTURES; i++) {
		structure = &structures[i];
		measure(scale, nthreads, suffix);
	}
}

/*
 * Under umem's library for malloc(), the one for RCU lies in the same folder.
 * Under other libraries there is nothing to find.
 */
static void
find_caches(void)
{
	char of_malloc[4096], path[4160];
	Dl_info info;
	void *library;

	cache_create = dlsym(RTLD_DEFAULT, "umem_cache_create");
	cache_alloc = dlsym(RTLD_DEFAULT, "umem_cache_alloc");
	if (cache_create == NULL || cache_alloc == NULL)
		return;
	if (dladdr((void *)cache_create, &info) == 0)
		bench_die("dladdr");
	snprintf(of_malloc, sizeof(of_malloc), "%s", info.dli_fname);
	snprintf(path, sizeof(path), "%s/libumem_rcu.so.1", dirname(of_malloc));
	library = dlopen(path, RTLD_NOW);
	if (library == NULL) {
		fprintf(stderr, "rcu: %s\n", dlerror());
		exit(1);
	}
	cache_free_rcu = dlsym(library, "umem_cache_free_rcu_flavor");
	cache_barrier = dlsym(library, "umem_rcu_barrier_flavor");
	if (cache_free_rcu == NULL || cache_barrier == NULL) {
		fprintf(stderr, "rcu: %s\n", dlerror());
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	long ncpus = sysconf(_SC_NPROCESSORS_ONLN);
	double scale = bench_start(argc, argv);

	find_caches();
	if (argc <= 2)
		measure_all(scale, ncpus > 1 ? (unsigned)ncpus / 2 : 1, "");
	for (int i = 2; i < argc; i++) {
		unsigned nthreads = (unsigned)strtoul(argv[i], NULL, 10);
		char suffix[16];

		snprintf(suffix, sizeof(suffix), ".%u", nthreads);
		if (nthreads == 0) {
			fprintf(stderr, "rcu: %s threads?\n", argv[i]);
			return 2;
		}
		measure_all(scale, nthreads, suffix);
	}
	return 0;
}
