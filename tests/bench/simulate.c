/*
 * simulate.c - counts how emulated CPUs share memory
 *
 * The library is linked into this program, and its threads are emulated: one
 * thread acts for each CPU in turn, and the word that the sections take for the
 * number of their CPU is a variable.  So the counts are the same on each run,
 * however busy the machine is.  simulate.py makes a prediction of them.
 *
 *	SIMULATE_CPUS=N simulate counts PATTERN STEPS
 *		A CPU is chosen at random for each step; each CPU takes STEPS
 *		of them.  Lines of the cache are counted if the library was
 *		built with SAN=thread, because the functions that the compiler
 *		then calls at each access are defined here.
 *	SIMULATE_CPUS=N simulate times PATTERN STEPS
 *		Each CPU takes many steps before it is the turn of the next, so
 *		that its lines are in the cache, as they are on a CPU of its
 *		own.  Prints the processor time of a step, and how long each
 *		lock is held.
 *	simulate threads PATTERN N
 *		Real threads on as many CPUs, in millions of operations a
 *		second.  Counts only slices of a millisecond in which no thread
 *		was interrupted.
 *	simulate costs
 *		The time in which two CPUs pass a line: one that the second CPU
 *		reads, and one of many that it writes to.
 *
 * Method
 *	A line is shared as by the protocol MESI, in caches without end: a read
 *	is a transfer if another CPU has written to the line since the last
 *	access of this CPU, a write also if another CPU has read it.  Accesses
 *	while a lock is held are counted for the lock, and for each lock around
 *	it.  The sections are assembly; their accesses to rounds are counted for
 *	a whole magazine when it is exchanged.
 *	    The clock of the library stands still, so there is no upkeep: it is
 *	rare beside the operations.
 */
#include "tests/bench/bench.h"

#include "magazine/cpu.h"
#include "magazine/depot.h"
#include "magazine/magazine.h"
#include "umem/slab/slab.h"
#include "vmem/lock.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

#define CPUS_MAX 256

static unsigned ncpus;              /* emulated; 0: none */
static unsigned nworkers;           /* CPUs or threads */
static __thread uint32_t cpu;       /* the number that the sections read */
static __thread uint32_t step_size; /* of the block of this step */
static bool tracking;               /* lines are followed */
static bool counting;               /* and counted */
static bool timing;                 /* ticks are read around locks */
static uint64_t ntrades, nmigrations, nrefills;

static inline uint64_t
ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return (uint64_t)bench_wall_ns();
#endif
}

/* ---- Lines of the cache, by address ---- */

#define NLINES ((size_t)1 << 23)

struct line {
	uintptr_t number;
	uint64_t sharers[CPUS_MAX / 64];
	uint32_t writer; /* last one */
};

/* A transfer is of a line of blocks, of rounds, or of the library. */
enum kind {
	KIND_PROGRAM,
	KIND_ROUNDS,
	KIND_LIBRARY,
	NKINDS
};

static struct line *lines;
static uint64_t ntransfers[NKINDS];
static char *stack_top;

/* A lock, and its counts. */
struct station {
	const struct lock *lock;
	uint64_t nvisits, ntransfers, ticks;
	uint32_t size; /* of the block of the first visitor */
};

#define NSTATIONS 65536
static struct station *stations;

/* The locks that the thread holds, and since when. */
#define DEPTH 16
static struct {
	struct station *station;
	uint64_t since;
} held[DEPTH];
static unsigned nheld;

/* The entry of a table of n entries, of which each begins with its key. */
static inline __attribute__((always_inline)) void *
find(void *table, size_t n, size_t bytes, uintptr_t key)
{
	size_t at = (key * 0x9e3779b97f4a7c15) >> 32;

	for (size_t i = 0; i < n; i++) {
		uintptr_t *word =
		    (void *)((char *)table + (at + i) % n * bytes);

		if (*word == key || *word == 0) {
			*word = key;
			return word;
		}
	}
	fprintf(stderr, "simulate: a table is full\n");
	exit(1);
}

static struct line *
line_of(const void *p)
{
	return find(lines, NLINES, sizeof(*lines), (uintptr_t)p / 64);
}

static void
count_transfer(enum kind kind)
{
	if (!counting)
		return;
	for (unsigned i = 0; i < nheld; i++)
		held[i].station->ntransfers++;
	ntransfers[kind] += nheld == 0;
}

static void
access_line(const void *p, bool write, enum kind kind)
{
	struct line *line = line_of(p);
	uint64_t own = (uint64_t)1 << (cpu % 64), others = 0;
	bool has = (line->sharers[cpu / 64] & own) != 0;

	line->sharers[cpu / 64] &= ~own;
	for (unsigned i = 0; i < CPUS_MAX / 64; i++)
		others |= line->sharers[i];
	if (others != 0 && (write || !has))
		count_transfer(kind);
	if (write) {
		memset(line->sharers, 0, sizeof(line->sharers));
		line->writer = cpu;
	}
	line->sharers[cpu / 64] |= own;
}

static noinline void
access_range(const void *p, size_t bytes, bool write, enum kind kind)
{
	uintptr_t at = (uintptr_t)p & ~(uintptr_t)63;

	for (; tracking && at < (uintptr_t)p + bytes; at += 64)
		access_line((const void *)at, write, kind);
}

#ifdef SIMULATE_LINES
/* All emulated CPUs have the stack and the TLS block of one thread. */
static bool
is_of_thread(const char *p)
{
	const char *self = (const char *)thread_self();

	return (p >= (char *)__builtin_frame_address(0) && p < stack_top) ||
	       (p >= self - 4096 && p < self + 4096);
}

static void
library_access(const void *p, size_t bytes, bool write)
{
	if (tracking && !is_of_thread(p))
		access_range(p, bytes, write, KIND_LIBRARY);
}

/* Compilers call these functions with -fsanitize=thread. */
#define PLAIN(n)                                                               \
	void __tsan_read##n(void *p)                                           \
	{                                                                      \
		library_access(p, n, false);                                   \
	}                                                                      \
	void __tsan_write##n(void *p)                                          \
	{                                                                      \
		library_access(p, n, true);                                    \
	}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define UPDATE(bits, type, name)                                               \
	type __tsan_atomic##bits##_##name(type *p, type x, int order)          \
	{                                                                      \
		(void)order;                                                   \
		library_access(p, sizeof(*p), true);                           \
		return __atomic_##name(p, x, __ATOMIC_SEQ_CST);                \
	}
#define EXCHANGE(bits, type, name)                                             \
	bool __tsan_atomic##bits##_compare_exchange_##name(                    \
	    type *p, type *from, type to, int order, int otherwise)            \
	{                                                                      \
		(void)order;                                                   \
		(void)otherwise;                                               \
		library_access(p, sizeof(*p), true);                           \
		return __atomic_compare_exchange_n(                            \
		    p, from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
	}
#define ATOMIC(bits, type)                                                     \
	type __tsan_atomic##bits##_load(type *p, int order)                    \
	{                                                                      \
		(void)order;                                                   \
		library_access(p, sizeof(*p), false);                          \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST);                   \
	}                                                                      \
	void __tsan_atomic##bits##_store(type *p, type x, int order)           \
	{                                                                      \
		(void)order;                                                   \
		library_access(p, sizeof(*p), true);                           \
		__atomic_store_n(p, x, __ATOMIC_SEQ_CST);                      \
	}                                                                      \
	type __tsan_atomic##bits##_exchange(type *p, type x, int order)        \
	{                                                                      \
		(void)order;                                                   \
		library_access(p, sizeof(*p), true);                           \
		return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);            \
	}                                                                      \
	UPDATE(bits, type, fetch_add)                                          \
	UPDATE(bits, type, fetch_sub)                                          \
	UPDATE(bits, type, fetch_and)                                          \
	UPDATE(bits, type, fetch_or)                                           \
	EXCHANGE(bits, type, strong)                                           \
	EXCHANGE(bits, type, weak)
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

#define EMPTY(name, type)                                                      \
	void __tsan_##name(type x)                                             \
	{                                                                      \
		(void)x;                                                       \
	}
EMPTY(func_entry, void *)
EMPTY(func_exit, void *)
EMPTY(init, void *)
EMPTY(acquire, void *)
EMPTY(release, void *)
EMPTY(atomic_thread_fence, int)
EMPTY(atomic_signal_fence, int)

void
__tsan_read_range(void *p, size_t bytes)
{
	library_access(p, bytes, false);
}

void
__tsan_write_range(void *p, size_t bytes)
{
	library_access(p, bytes, true);
}

#endif

/* ---- Functions of the library, which the linker gives these in front ---- */

#define WRAP(type, name, ...)                                                  \
	type __real_##name(__VA_ARGS__);                                       \
	type __wrap_##name(__VA_ARGS__)

WRAP(void, rseq_start, enum rseq_owner wanted, struct rseq_state *state,
    struct rseq_place *place)
{
	const char *number = getenv("SIMULATE_CPUS");

	__real_rseq_start(wanted, state, place);
	if (number != NULL) {
		ncpus = (unsigned)strtoul(number, NULL, 10);
		place->index = (intptr_t)((uintptr_t)&cpu - thread_self());
	}
}

WRAP(unsigned, os_cpus_allowed, void)
{
	const char *number = getenv("SIMULATE_CPUS");

	return number == NULL ? __real_os_cpus_allowed()
			      : (unsigned)strtoul(number, NULL, 10);
}

WRAP(unsigned, os_cpu_slots, void)
{
	unsigned n = __real_os_cpu_slots();

	return n < CPUS_MAX ? CPUS_MAX : n;
}

WRAP(uint64_t, os_now_ns, void)
{
	static uint64_t first;

	if (ncpus == 0)
		return __real_os_now_ns();
	if (first == 0)
		first = __real_os_now_ns();
	return first;
}

static void
lock_begin(struct lock *lock)
{
	struct station *station;

	if (!counting && !timing)
		return;
	station = find(stations, NSTATIONS, sizeof(*stations), (uintptr_t)lock);
	if (station->nvisits++ == 0)
		station->size = step_size;
	held[nheld++].station = station;
}

WRAP(void, lock_take, struct lock *lock)
{
	lock_begin(lock);
	__real_lock_take(lock);
	if (timing)
		held[nheld - 1].since = ticks();
}

WRAP(bool, lock_try, struct lock *lock)
{
	/* It succeeds: one thread acts for all CPUs. */
	lock_begin(lock);
	bool done = __real_lock_try(lock);

	if (timing)
		held[nheld - 1].since = ticks();
	return done;
}

WRAP(void, lock_release, struct lock *lock)
{
	uint64_t now = timing ? ticks() : 0;

	__real_lock_release(lock);
	if (nheld == 0)
		return;
	nheld--;
	/* In longer ones, the thread was interrupted. */
	if (timing && now - held[nheld].since < 250000)
		held[nheld].station->ticks += now - held[nheld].since;
}

/* The CPU gives a magazine away, or takes it, with its rounds. */
static void
rounds_pass(struct magazine *mag, bool in)
{
	if (mag == NULL || !tracking)
		return;
	if (!in && counting)
		nmigrations += line_of(mag)->writer != cpu;
	access_range(
	    mag->round, mag->nrounds * sizeof(void *), in, KIND_ROUNDS);
}

WRAP(struct magazine *, depot_trade, struct depot *depot, bool for_full,
    struct magazine *in)
{
	struct magazine *out;

	out = __real_depot_trade(depot, for_full, in);
	if (out != NULL) {
		ntrades += counting;
		rounds_pass(in, true);
		rounds_pass(out, false);
	}
	return out;
}

WRAP(bool, depot_put, struct depot *depot, struct magazine *mag)
{
	ntrades += counting;
	rounds_pass(mag, true);
	return __real_depot_put(depot, mag);
}

WRAP(unsigned, slab_take, struct slab_store *store, void **chunks, unsigned n)
{
	nrefills += counting;
	return __real_slab_take(store, chunks, n);
}

/* ---- Patterns, by steps ---- */

#define MOST  4096
#define MANY  65536 /* blocks that all share */
#define STACK 100   /* batches */

struct batch {
	struct batch *next;
	void *block[MOST];
};

struct worker {
	uint64_t seed;
	unsigned n, i;
	bool frees;
	struct batch *batch;
	void *blocks[MOST];
} BENCH_ALIGNED;

struct pattern {
	const char *name;
	/* Takes a step; returns the number of operations that it has ended. */
	unsigned (*step)(struct worker *worker, const struct pattern *pattern);
	unsigned n; /* blocks */
	size_t low, high;
	unsigned turn; /* steps of a CPU in a row, for times */
};

static void *shared[MANY];    /* [atomic] */
static struct batch *batches; /* of xmalloc; [batches_lock] */
static unsigned nbatches;
static pthread_mutex_t batches_lock = PTHREAD_MUTEX_INITIALIZER;

static void *
block_alloc(size_t bytes)
{
	char *block;

	step_size = (uint32_t)bytes;
	block = bench_alloc(bytes);
	access_range(block, 1, true, KIND_PROGRAM);
	return block;
}

static void *
block_alloc_both_ends(size_t bytes)
{
	char *block = block_alloc(bytes);

	block[bytes - 1] = 1;
	access_range(block + bytes - 1, 1, true, KIND_PROGRAM);
	return block;
}

static unsigned
replace(struct worker *worker, const struct pattern *pattern)
{
	uint64_t r = bench_random(&worker->seed);
	void **slot = &worker->blocks[r % pattern->n];

	free(*slot);
	*slot = block_alloc_both_ends(
	    pattern->low + (r >> 32) % (pattern->high - pattern->low + 1));
	return 1;
}

/* In two steps, so that blocks of several CPUs are in use at a time. */
static unsigned
huge(struct worker *worker, const struct pattern *pattern)
{
	void **slot = &worker->blocks[0];

	if (*slot != NULL) {
		free(*slot);
		*slot = NULL;
		return 1;
	}
	*slot = block_alloc_both_ends(
	    bench_between(&worker->seed, pattern->low, pattern->high));
	return 0;
}

/* high is 0 for many sizes. */
static unsigned
burst(struct worker *worker, const struct pattern *pattern)
{
	if (!worker->frees) {
		size_t size = pattern->high;

		if (size == 0) {
			uint64_t r = bench_random(&worker->seed);

			size = (size_t)16 << (r & 7);
			size += (r >> 32) % size;
		}
		worker->blocks[worker->i++] = block_alloc(size);
		worker->frees = worker->i == pattern->n;
		worker->i = worker->frees ? 0 : worker->i;
		return 0;
	}
	step_size = (uint32_t)pattern->high;
	free(worker->blocks[worker->i++]);
	worker->frees = worker->i != pattern->n;
	worker->i = worker->frees ? worker->i : 0;
	return 1;
}

static unsigned
share(struct worker *worker, const struct pattern *pattern)
{
	uint64_t r = bench_random(&worker->seed);
	void *block = block_alloc(
	    pattern->low + (r >> 32) % (pattern->high - pattern->low + 1));

	access_range(&shared[r % MANY], sizeof(void *), true, KIND_PROGRAM);
	free(__atomic_exchange_n(&shared[r % MANY], block, __ATOMIC_ACQ_REL));
	return 1;
}

static const uint16_t xmalloc_sizes[] = {8, 12, 16, 24, 32, 48, 64, 96, 128,
    192, 256, 384, 512, 768, 1024, 1536, 2048};

static struct batch *
batch_pass(struct batch *in)
{
	struct batch *out = NULL;

	pthread_mutex_lock(&batches_lock);
	access_range(&batches, sizeof(batches), true, KIND_PROGRAM);
	if (in != NULL && nbatches < STACK) {
		in->next = batches;
		batches = in;
		nbatches++;
	} else if (in == NULL && batches != NULL) {
		out = batches;
		batches = out->next;
		nbatches--;
	} else {
		out = in;
	}
	pthread_mutex_unlock(&batches_lock);
	return out;
}

/*
 * Even CPUs allocate, and odd ones free; a single CPU does both in turn.  A CPU
 * that would have to wait takes the other role for one batch, so that none is
 * idle.
 */
static unsigned
xmalloc(struct worker *worker, const struct pattern *pattern)
{
	struct batch *batch = worker->batch;
	void **block;

	(void)pattern;
	if (batch == NULL) {
		worker->i = 0;
		worker->frees = worker->n % 2 == 1 || nbatches == STACK;
		batch = worker->frees ? batch_pass(NULL) : NULL;
		worker->frees = batch != NULL;
		if (batch == NULL)
			batch = block_alloc(sizeof(*batch));
		worker->batch = batch;
	}
	block = &batch->block[worker->i++];
	access_range(block, sizeof(*block), !worker->frees, KIND_PROGRAM);
	if (!worker->frees) {
		*block = block_alloc(xmalloc_sizes[bench_between(&worker->seed,
		    0, sizeof(xmalloc_sizes) / sizeof(*xmalloc_sizes) - 1)]);
		if (worker->i == MOST) {
			worker->batch = batch_pass(batch);
			worker->i = 0;
			/* The stack is full: these are freed here. */
			worker->frees = worker->batch != NULL;
			worker->n += nworkers == 1;
		}
		return 0;
	}
	free(*block);
	if (worker->i == MOST) {
		free(batch);
		worker->batch = NULL;
		worker->n += nworkers == 1;
	}
	return 1;
}

static const struct pattern patterns[] = {
    {"private", replace, 64, 16, 527, 65536},
    {"burst", burst, 4096, 64, 64, 65536},
    {"burst4k", burst, 512, 4096, 4096, 65536},
    {"sizes", burst, 2048, 0, 0, 65536},
    {"large", replace, 16, 32 << 10, 544 << 10, 2048},
    {"huge", huge, 1, 2 << 20, 6 << 20, 2048},
    {"shared", share, MANY, 32, 159, 65536},
    {"xmalloc", xmalloc, MOST, 8, 2048, 65536},
};

static const struct pattern *
pattern_find(const char *name)
{
	size_t n = sizeof(patterns) / sizeof(*patterns);

	for (size_t i = 0; i < n; i++)
		if (strcmp(patterns[i].name, name) == 0)
			return &patterns[i];
	fprintf(stderr, "simulate: no pattern %s\n", name);
	exit(2);
}

/* ---- Emulated CPUs ---- */

static struct worker *workers;

static unsigned
act(unsigned which, const struct pattern *pattern, unsigned nsteps)
{
	unsigned nops = 0;

	cpu = which;
	while (nsteps-- > 0)
		nops += pattern->step(&workers[which], pattern);
	return nops;
}

static void
start(const struct pattern *pattern, unsigned long nsteps)
{
	uint64_t seed = bench_seed(0);
	size_t total = nsteps * ncpus < 400000 ? 400000 : nsteps * ncpus;

	if (ncpus == 0 || ncpus > CPUS_MAX) {
		fprintf(stderr, "simulate: SIMULATE_CPUS is 1 to 256\n");
		exit(2);
	}
	nworkers = ncpus;
	workers = bench_pages(ncpus * sizeof(*workers));
	for (unsigned i = 0; i < ncpus; i++) {
		workers[i].seed = bench_seed(i);
		workers[i].n = i;
		/* CPUs are in different phases. */
		act(i, pattern, (unsigned)(bench_random(&seed) % 8192));
	}
	for (size_t i = 0; i < total; i++)
		act((unsigned)(bench_random(&seed) >> 32) % ncpus, pattern, 1);
}

static void
print_stations(double nops, double ns_a_tick)
{
	static const char *const names[LOCK_NRANKS] = {
	    [LOCK_CACHE_LIST] = "caches",
	    [LOCK_LIMIT] = "limit",
	    [LOCK_ARENA_LIST] = "arenas",
	    [LOCK_IMPORT] = "import",
	    [LOCK_REGION] = "regions",
	    [LOCK_DEPOT] = "depot",
	    [LOCK_SLAB] = "slabs",
	    [LOCK_ARENA] = "segments",
	    [LOCK_HEAP] = "heap",
	    [LOCK_META] = "metadata"};

	for (struct station *s = stations; s < stations + NSTATIONS; s++)
		if (s->nvisits != 0)
			printf("lock %s %u %.9g %.9g %.9g\n",
			    names[s->lock->rank] == NULL ? "other"
							 : names[s->lock->rank],
			    s->size, (double)s->nvisits / nops,
			    (double)s->ntransfers / (double)s->nvisits,
			    (double)s->ticks * ns_a_tick / (double)s->nvisits);
}

static void
counts(const struct pattern *pattern, unsigned long nsteps)
{
	uint64_t seed = bench_seed(1);
	double nops = 0;

	tracking = true;
	start(pattern, nsteps);
	counting = true;
	for (size_t i = 0; i < nsteps * ncpus; i++)
		nops += act(
		    (unsigned)(bench_random(&seed) >> 32) % ncpus, pattern, 1);
	counting = false;
	printf("exchanges %.9g\nmigrations %.9g\nrefills %.9g\n",
	    (double)ntrades / nops, (double)nmigrations / nops,
	    (double)nrefills / nops);
	printf("program %.9g\nrounds %.9g\nlibrary %.9g\n",
	    (double)ntransfers[KIND_PROGRAM] / nops,
	    (double)ntransfers[KIND_ROUNDS] / nops,
	    (double)ntransfers[KIND_LIBRARY] / nops);
	print_stations(nops, 0);
}

/* Each CPU takes its turn; returns the operations. */
static double
round_of_turns(const struct pattern *pattern)
{
	double nops = 0;

	for (unsigned i = 0; i < ncpus; i++)
		nops += act(i, pattern, pattern->turn);
	return nops;
}

/* Ticks that the clock itself adds between a lock and its release. */
static double
timing_ticks(void)
{
	double each[1001];

	for (int i = 0; i < 1001; i++) {
		uint64_t from = ticks();

		each[i] = (double)(ticks() - from);
	}
	return bench_median(each, 1001);
}

#define ROUNDS 12

static void
times(const struct pattern *pattern, unsigned long nsteps)
{
	double ns[ROUNDS], nops, from_ns, from_ticks, ns_a_tick;

	start(pattern, nsteps);
	for (int i = 0; i < 3; i++)
		round_of_turns(pattern);
	from_ns = bench_wall_ns();
	from_ticks = (double)ticks();
	for (int i = 0; i < ROUNDS; i++) {
		double before = bench_cpu_ns();
		double n = round_of_turns(pattern);

		ns[i] = (bench_cpu_ns() - before) / n;
	}
	bench_median(ns, ROUNDS);
	printf("ns %.9g\n", ns[ROUNDS / 4]);
	timing = true;
	nops = 0;
	for (int i = 0; i < 3; i++)
		nops += round_of_turns(pattern);
	timing = false;
	ns_a_tick =
	    (bench_wall_ns() - from_ns) / ((double)ticks() - from_ticks);
	printf("clock %.9g\n", timing_ticks() * ns_a_tick);
	print_stations(nops, ns_a_tick);
}

/* ---- Real threads ---- */

/*
 * Thread 0 begins the slices.  A thread that meets a new slice has done its
 * part of the last one, and says whether it was interrupted meanwhile: whether
 * a few steps took more than GAP_NS.
 */
#define SLICES   2048
#define SLICE_NS 1e6
#define GAP_NS   30e3

struct slice {
	atomic_size_t nops;
	atomic_uint nwhole; /* threads without interruption */
};

static struct slice slices[SLICES];
static atomic_uint slice_now;
static const struct pattern *threads_pattern;

static void
threads_run(struct bench_thread *thread)
{
	struct worker *worker = &workers[thread->number];
	unsigned slice = 0;
	double from = bench_wall_ns(), last = from, nops = 0;
	bool whole = false;

	bench_pin(thread->number);
	while (slice < SLICES) {
		for (unsigned i = 0; i < threads_pattern->turn / 1024; i++)
			nops += threads_pattern->step(worker, threads_pattern);
		double now = bench_wall_ns();

		whole &= now - last < GAP_NS;
		last = now;
		if (thread->number == 0 && now - from >= SLICE_NS)
			atomic_fetch_add(&slice_now, 1);
		if (atomic_load(&slice_now) == slice)
			continue;
		if (whole) {
			atomic_fetch_add(&slices[slice].nwhole, 1);
			slices[slice].nops +=
			    (size_t)(nops * SLICE_NS / (now - from));
		}
		slice = atomic_load(&slice_now);
		from = now;
		nops = 0;
		whole = true;
	}
}

static void
threads(const struct pattern *pattern, unsigned n)
{
	double mops[SLICES];
	size_t nwhole = 0;

	nworkers = n;
	workers = bench_pages(n * sizeof(*workers));
	for (unsigned i = 0; i < n; i++) {
		workers[i].seed = bench_seed(i);
		workers[i].n = i;
	}
	threads_pattern = pattern;
	bench_threads(n, threads_run, NULL, 0);
	/* The first tenth is to warm up. */
	for (size_t i = SLICES / 10; i < SLICES; i++)
		if (slices[i].nwhole == n)
			mops[nwhole++] =
			    (double)slices[i].nops * 1e3 / SLICE_NS;
	printf("slices %zu\n", nwhole);
	if (nwhole != 0)
		printf("mops %.9g\n", bench_median(mops, nwhole));
}

/* ---- Costs of lines ---- */

#define CELLS 64

/* A line, in a list in random order. */
struct cell {
	struct cell *next;
	unsigned n;
} BENCH_ALIGNED;

static struct cell cells[64 * CELLS], *cell[CELLS];
static BENCH_ALIGNED atomic_uint turn;
static double pass_ticks[SLICES], many_ticks[SLICES];

/* The clock when all earlier accesses are done. */
static uint64_t
ticks_after(void)
{
#ifdef __x86_64__
	__builtin_ia32_mfence();
	__builtin_ia32_lfence();
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
	return ticks();
}

/* Writes to each line, between pairs of malloc() and free(). */
static void
cells_write(void)
{
	for (unsigned i = 0; i < CELLS; i++) {
		free(bench_alloc(64));
		store_relaxed(&cell[i]->n, i);
	}
}

/*
 * Thread 1 writes to the lines.  Then thread 0 reads the list, or writes to the
 * lines, and writes a second time to compare.
 */
static void
costs_pass(unsigned number, bool reads, double *each)
{
	for (unsigned i = 0; i < SLICES; i++) {
		uint64_t from, between;

		while (atomic_load(&turn) % 2 != number)
			cpu_relax();
		from = ticks_after();
		if (reads && number == 0)
			for (struct cell *c = cell[0]; c != NULL; c = c->next)
				bench_keep(c);
		else
			cells_write();
		between = ticks_after();
		if (!reads)
			cells_write();
		if (number == 0) {
			each[i] = (double)(between - from);
			if (!reads)
				each[i] -= (double)(ticks_after() - between);
			each[i] /= CELLS;
		}
		atomic_fetch_add(&turn, 1);
	}
}

static void
costs_run(struct bench_thread *thread)
{
	bench_pin(thread->number);
	costs_pass(thread->number, /* reads */ true, pass_ticks);
	costs_pass(thread->number, /* reads */ false, many_ticks);
}

static void
costs(void)
{
	uint64_t seed = bench_seed(0);
	double from_ns = bench_wall_ns(), from = (double)ticks(), ns_a_tick;

	/* One of each 64, so that no two are adjacent, in a random order. */
	for (unsigned i = 0; i < CELLS; i++) {
		size_t other = bench_between(&seed, 0, i);

		cell[i] = cell[other];
		cell[other] = &cells[64 * i + bench_between(&seed, 0, 63)];
	}
	for (unsigned i = 0; i + 1 < CELLS; i++)
		cell[i]->next = cell[i + 1];
	bench_threads(2, costs_run, NULL, 0);
	ns_a_tick = (bench_wall_ns() - from_ns) / ((double)ticks() - from);
	printf("pass %.4g\nmany %.4g\n",
	    bench_median(pass_ticks, SLICES) * ns_a_tick,
	    bench_median(many_ticks, SLICES) * ns_a_tick);
}

int
main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 4096);
	free(bench_alloc(1)); /* starts the library */
	stack_top = (char *)__builtin_frame_address(0) + 4096;
	lines = mmap(NULL, NLINES * sizeof(*lines), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	stations = bench_pages(NSTATIONS * sizeof(*stations));
	if (argc == 2 && strcmp(argv[1], "costs") == 0) {
		costs();
	} else if (argc == 4) {
		const struct pattern *pattern = pattern_find(argv[2]);
		unsigned long n = strtoul(argv[3], NULL, 10);

		if (strcmp(argv[1], "counts") == 0)
			counts(pattern, n);
		else if (strcmp(argv[1], "times") == 0)
			times(pattern, n);
		else
			threads(pattern, (unsigned)n);
	} else {
		fprintf(stderr, "usage: see the head of simulate.c\n");
		return 2;
	}
	return 0;
}
