/*
 * soak.c - everything at once, for as long as wanted: see README.md
 *
 *	soak SECONDS SEED BOARD PLUGIN
 *	soak inner SEED
 *
 * BOARD is a file of sizeof(struct board) bytes or more that run.py shares.
 * Prints a line every 10 seconds and at the end.
 *
 * test link: rcu
 * test libs: -lurcu-memb
 * test cflags: -O2
 */
#include <dlfcn.h>
#include <sys/prctl.h>

#include "tests/soak/children.h"

enum {
	NWORKERS_MOST = NACTORS - NREADERS - 1,
	SUPERVISOR = NACTORS - NREADERS - 1, /* its actor */
	STEPS = 64,                          /* between looks at the world */
	CENSUS_MS = 10000
};

static struct worker workers[NWORKERS_MOST];
static unsigned nworkers;
static struct actor supervisor;
static const char *plugin_path;
static bool stopping;    /* [atomic] */
static bool parking;     /* [atomic] */
static unsigned tick;    /* [atomic] about one each millisecond */
static unsigned claimed; /* [atomic] tick of the last event */
static pthread_key_t last_words;

static unsigned
get(const unsigned *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static bool
is_set(const bool *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Calls that a handler may make. */
static void
on_signal(int signal)
{
	int saved = errno;
	struct umem_cache_limits limits;
	unsigned i = (unsigned)signal % NCACHES;
	volatile char frame[600] __attribute__((unused));

	frame[signal] = 1;
	count(signals);
	if (umem_cache_size(caches[i].cache) != caches[i].size ||
	    strcmp(umem_cache_name(caches[i].cache), caches[i].name) != 0 ||
	    umem_cache_limits(caches[LIMITED].cache, &limits, sizeof(limits)) !=
		0 ||
	    limits.in_use > limits.limit + 1)
		differs("wrong figures in a signal handler");
	errno = saved;
}

/* Signals for this thread, at a rate of its own. */
static void
timer_begin(struct worker *w)
{
	struct sigevent event = {0};
	struct itimerspec every = {{0, 0}, {0, 0}};

	every.it_value.tv_nsec = every.it_interval.tv_nsec = 100000
							     << draw(&w->a, 8);
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGUSR1;
	event._sigev_un._tid = w->tid;
	w->has_timer = timer_create(CLOCK_MONOTONIC, &event, &w->timer) == 0;
	if (w->has_timer)
		must(timer_settime(w->timer, 0, &every, NULL) == 0);
}

/* The destructor of a thread's own value, which it finds in libc's order. */
static void
last_words_end(void *p)
{
	must(is_stamped(p, 100, 7));
	free(p);
}

static void
publish(struct actor *a)
{
	__atomic_store_n(
	    &board->actor[a->number].ops, a->ops, __ATOMIC_RELAXED);
	__atomic_store_n(
	    &board->actor[a->number].bytes, a->bytes, __ATOMIC_RELAXED);
}

static void
event_plugin(struct worker *w)
{
	void *(*copy)(const char *);
	void *library, *p;

	/* Some of libc's failures to allocate there are fatal. */
	pthread_mutex_lock(&modules);
	if (scarce_hold()) {
		count(modules);
		library = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
		must(library != NULL);
		*(void **)&copy = dlsym(library, "plugin_copy");
		must(copy != NULL);
		p = copy("some text");
		must(dlclose(library) == 0);
		must(p != NULL && strcmp(p, "some text") == 0);
		free(p);
		w->a.ops += 2;
	}
	scarce_release();
	pthread_mutex_unlock(&modules);
}

static void
event_metrics(void)
{
	static char text[1 << 20];
	static unsigned busy;
	unsigned mark = scarce_mark();
	struct umem_stats stats;
	ssize_t n;

	must(umem_stats(&stats, sizeof(stats)) == 0);
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE) != 0)
		return;
	n = umem_metrics(text, sizeof(text));
	if (n < 0)
		failed(mark, "umem_metrics()", 0);
	else
		must((size_t)n < sizeof(text) &&
		     strcmp(text + n - 6, "# EOF\n") == 0);
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

/* About one in 8 ms, of some worker. */
static void
event(struct worker *w)
{
	unsigned mark = scarce_mark();
	size_t r = draw(&w->a, 100);

	if (r < 18)
		event_fork(w);
	else if (r < 28)
		event_vfork(w);
	else if (r < 42)
		event_clone(w);
	else if (r < 45)
		event_exec(w);
	else if (r < 65)
		season(&w->a);
	else if (r < 73)
		event_plugin(w);
	else if (r < 75)
		malloc_trim(0);
	else if (r < 80)
		umem_reap();
	else if (r < 85)
		must(umem_rcu_barrier() == 0 || may_fail(mark));
	else if (r < 90)
		umem_cache_reap_now(caches[draw_cache(&w->a)].cache);
	else if (r < 93)
		must(umem_cache_shrink(caches[LINES].cache) >= 0);
	else
		event_metrics();
}

static void
park(struct worker *w)
{
	publish(&w->a);
	__atomic_store_n(&w->state, PARKED, __ATOMIC_RELEASE);
	while (is_set(&parking))
		usleep(500);
	__atomic_store_n(&w->state, RUNNING, __ATOMIC_RELEASE);
}

static void
worker_step(struct worker *w)
{
	struct actor *a = &w->a;
	size_t r = draw(a, 256);
	int old;

	if (r < 190) {
		table_step(a, w->own, NOWN);
	} else if (r < 230) {
		struct block *b = &w->own[draw(a, NOWN)];

		if (b->origin != NOTHING)
			exchange(a, b);
	} else if (r < 236) {
		objects_bulk(a);
	} else if (r < 238) {
		blocks_bulk(a);
	} else if (r < 240) {
		resources_step(a);
	} else if (r < 246) {
		ranges_step(a, w->segments);
	} else {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
		deferred_step(a);
		pthread_setcancelstate(old, &old);
	}
}

/* Runs however the thread ends. */
static void
worker_end(void *arg)
{
	struct worker *w = arg;
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	/* Other threads free some of its blocks. */
	if (draw(&w->a, 2))
		for (int i = 0; i < NOWN; i += 3)
			if (w->own[i].origin != NOTHING)
				exchange(&w->a, &w->own[i]);
	table_free(&w->a, w->own, NOWN);
	ranges_free(&w->a, w->segments);
	if (w->has_timer)
		must(timer_delete(w->timer) == 0);
	w->has_timer = false;
	publish(&w->a);
	__atomic_store_n(&w->state, ENDED, __ATOMIC_RELEASE);
}

static void *
worker_run(void *arg)
{
	struct worker *w = arg;
	char *words;
	int old;

	w->tid = (pid_t)syscall(SYS_gettid);
	pthread_cleanup_push(worker_end, w);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	words = malloc(100);
	if (words != NULL) {
		stamp(words, 100, 7);
		if (pthread_setspecific(last_words, words) != 0)
			free(words);
	}
	timer_begin(w);
	for (uint64_t n = 0; n < w->nsteps && !is_set(&stopping); n++) {
		unsigned now = get(&tick), before = get(&claimed);

		/* In malloc() and the rest, there is no cancellation point. */
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
		for (int i = 0; i < STEPS; i++)
			worker_step(w);
		pthread_testcancel();
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
		publish(&w->a);
		if (is_set(&parking))
			park(w);
		if (now - before >= 8 &&
		    __atomic_compare_exchange_n(&claimed, &before, now, false,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			event(w);
	}
	if (draw(&w->a, 2))
		pthread_exit(NULL);
	pthread_cleanup_pop(1);
	return NULL;
}

static void
worker_start(struct worker *w)
{
	pthread_attr_t attr;
	int error;

	actor_begin(
	    &w->a, (unsigned)(w - workers), next_random(&supervisor.random));
	/* Some live for a moment, some for minutes. */
	w->nsteps = draw(&w->a, 4) == 0 ? 1 + draw(&w->a, 200)
					: (uint64_t)1000 << draw(&w->a, 8);
	__atomic_store_n(&w->state, RUNNING, __ATOMIC_RELEASE);
	must(pthread_attr_init(&attr) == 0);
	must(pthread_attr_setstacksize(
		 &attr, draw(&w->a, 2) ? 192 * KIB : 8 * MIB) == 0);
	error = pthread_create(&w->thread, &attr, worker_run, w);
	pthread_attr_destroy(&attr);
	if (error == 0) {
		count(threads);
		return;
	}
	must(error == EAGAIN || error == ENOMEM);
	__atomic_store_n(&w->state, EMPTY, __ATOMIC_RELEASE);
}

static void
workers_renew(void)
{
	for (unsigned i = 0; i < nworkers; i++) {
		struct worker *w = &workers[i];

		if (get(&w->state) == ENDED) {
			thread_end(w->thread);
			__atomic_store_n(&w->state, EMPTY, __ATOMIC_RELEASE);
		}
		if (get(&w->state) == EMPTY && !is_set(&stopping))
			worker_start(w);
	}
}

/* Another CPU, or all of them, for one of the threads. */
static void
move_worker(void)
{
	struct worker *w = &workers[draw(&supervisor, nworkers)];
	cpu_set_t set, all;
	int cpu = (int)draw(&supervisor, CPU_SETSIZE);

	if (get(&w->state) != RUNNING || w->tid == 0 ||
	    sched_getaffinity(getpid(), sizeof(all), &all) != 0)
		return;
	while (!CPU_ISSET(cpu, &all))
		cpu = (cpu + 1) % CPU_SETSIZE;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* run.py changes the CPUs of the process meanwhile. */
	if (sched_setaffinity(
		w->tid, sizeof(set), draw(&supervisor, 4) ? &set : &all) != 0)
		must(errno == ESRCH || errno == EINVAL);
}

static void
cancel_worker(void)
{
	struct worker *w = &workers[draw(&supervisor, nworkers)];

	/* It is joined here only, so its number is valid. */
	if (get(&w->state) == RUNNING) {
		must(pthread_cancel(w->thread) == 0);
		count(cancels);
	}
}

/* Ways to make memory scarce; each is in force for some milliseconds. */
enum shortage {
	NONE,
	BY_CHANCE,
	BY_KERNEL,
	BY_LIMIT,
	BY_CONSTRUCTOR,
	BY_RUN, /* run.py sets hard_limit */
	NSHORTAGES
};
static enum shortage shortage;

static void
set_space(rlim_t bytes)
{
	struct rlimit space;

	must(getrlimit(RLIMIT_AS, &space) == 0);
	space.rlim_cur = bytes < space.rlim_max ? bytes : space.rlim_max;
	must(setrlimit(RLIMIT_AS, &space) == 0);
}

static void
shortage_begin(enum shortage which)
{
	struct umem_stats stats;
	char limit[32];

	scarce_begin();
	if (__atomic_load_n(&scarce_held, __ATOMIC_SEQ_CST) != 0) {
		scarce_end();
		return;
	}
	shortage = which;
	switch (which) {
	case BY_CHANCE:
		umem_setmtbf(1 + (uint32_t)draw(&supervisor, 300));
		break;
	case BY_KERNEL:
		set_space((rlim_t)draw(&supervisor, 2) << 40);
		break;
	case BY_LIMIT:
		must(umem_stats(&stats, sizeof(stats)) == 0);
		snprintf(limit, sizeof(limit), "%zum",
		    1 + stats.heap_bytes / MIB * draw(&supervisor, 6) / 4);
		must(umem_ctl("hard_limit", limit, NULL, 0) == 0);
		break;
	case BY_CONSTRUCTOR:
		__atomic_store_n(&constructors_fail, 1, __ATOMIC_RELAXED);
		break;
	default:
		board->limit_granted = 1;
	}
	/* Requests find no object that exists already. */
	for (int i = 0; i < NCACHES && which != BY_RUN; i++)
		if (draw(&supervisor, 2))
			umem_cache_reap_now(caches[i].cache);
}

static void
shortage_end(void)
{
	switch (shortage) {
	case BY_CHANCE:
		umem_setmtbf(0);
		break;
	case BY_KERNEL:
		set_space(RLIM_INFINITY);
		break;
	case BY_LIMIT:
		must(umem_ctl("hard_limit", "none", NULL, 0) == 0);
		break;
	case BY_CONSTRUCTOR:
		__atomic_store_n(&constructors_fail, 0, __ATOMIC_RELAXED);
		break;
	default:
		board->limit_granted = 0;
	}
	shortage = NONE;
	scarce_end();
}

static void
shortage_step(void)
{
	bool is_wanted =
	    __atomic_load_n(&board->limit_wanted, __ATOMIC_ACQUIRE);

	if (shortage == BY_RUN ? !is_wanted
			       : shortage != NONE && draw(&supervisor, 4) == 0)
		shortage_end();
	else if (shortage == NONE && is_wanted)
		shortage_begin(BY_RUN);
	else if (shortage == NONE && draw(&supervisor, 150) == 0)
		shortage_begin(BY_CHANCE + draw(&supervisor, 4));
}

static void
supervise(void)
{
	struct timespec ms = {0, 1000000};

	nanosleep(&ms, NULL);
	__atomic_store_n(&soak_phase, get(&tick) / 512, __ATOMIC_RELAXED);
	__atomic_add_fetch(&tick, 1, __ATOMIC_RELEASE);
	__atomic_add_fetch(&board->beats, 1, __ATOMIC_RELAXED);
	workers_renew();
	if (draw(&supervisor, 3) == 0)
		move_worker();
	if (draw(&supervisor, 400) == 0)
		cancel_worker();
	shortage_step();
}

/* Waits until no worker is at work. */
static void
park_all(void)
{
	uint64_t end = now_ms() + 1000 * (uint64_t)time_limit();

	while (shortage != NONE)
		supervise();
	__atomic_store_n(&parking, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < nworkers; i++)
		while (get(&workers[i].state) == RUNNING) {
			if (now_ms() > end)
				differs("thread %d does not come to a stop",
				    workers[i].tid);
			usleep(500);
		}
	for (unsigned i = 0; i < nworkers; i++)
		table_check(workers[i].own, NOWN, "block at a census");
}

static struct umem_stats
stats_now(void)
{
	struct umem_stats stats;

	must(umem_stats(&stats, sizeof(stats)) == 0);
	return stats;
}

static uint64_t
sum_bytes(void)
{
	uint64_t bytes = 0;

	for (int i = 0; i < NACTORS; i++)
		bytes += board->actor[i].bytes;
	return bytes;
}

static uint64_t
sum_ops(void)
{
	uint64_t ops = board->child_ops;

	for (int i = 0; i < NACTORS; i++)
		ops += board->actor[i].ops;
	return ops;
}

static unsigned
count_mappings(void)
{
	static char text[1 << 16];
	int fd = open("/proc/self/maps", O_RDONLY);
	unsigned lines = 0;
	ssize_t n;

	must(fd >= 0);
	while ((n = read(fd, text, sizeof(text))) > 0)
		for (ssize_t i = 0; i < n; i++)
			lines += text[i] == '\n';
	close(fd);
	return lines;
}

static size_t base_bytes; /* in use before the first worker */

/*
 * Nothing grows without bound: memory that the program does not use, the
 * structures of the library, and mappings.  Runs of ten minutes had at most
 * 120 MiB, 12 MiB and 640 mappings.  In the hardened mode, a large block ends
 * at a guard page, so each has two mappings.
 */
static void
check_growth(const struct umem_stats *s, size_t expected, size_t rss)
{
	unsigned nmappings = count_mappings();

	if (rss > 4 * expected + 256 * MIB || s->own_bytes > 64 * MIB ||
	    nmappings > 4000 + 2 * expected / (64 * KIB))
		differs("it grows: RSS %zu KiB, %zu KiB of structures, %u "
			"mappings",
		    rss / KIB, s->own_bytes / KIB, nmappings);
	printf(", %zu KiB of structures, %u mappings", s->own_bytes / KIB,
	    nmappings);
}

static unsigned long long
ull(uint64_t n)
{
	return n;
}

/* With everything at rest, the sums must agree. */
static void
census(unsigned seconds)
{
	struct umem_stats s;
	size_t in_use, expected;

	park_all();
	must(umem_rcu_barrier() == 0);
	table_check(frozen, NFROZEN, "frozen block");
	publish(&supervisor);
	caches_check();
	s = stats_now();
	in_use = s.live_bytes + s.sampled_bytes;
	expected = base_bytes + sum_bytes();
	board->in_use = in_use;
	board->expected = expected;
	board->rss = (uint64_t)rss_kib() * KIB;
	count(censuses);
	printf("%5u s: %.1f M operations, %llu differences, %llu forks, in use "
	       "%zu KiB of %zu KiB, RSS %llu KiB",
	    seconds, (double)sum_ops() / 1e6, ull(board->differences),
	    ull(board->forks + board->vforks + board->clones + board->execs),
	    in_use / KIB, expected / KIB, ull(board->rss / KIB));
	check_growth(&s, expected, board->rss);
	printf(", %llu failed\n", ull(board->failed));
	fflush(stdout);
	if (in_use < expected || in_use > expected + expected / 2 + 32 * MIB)
		differs(
		    "%zu bytes are in use, %zu are expected", in_use, expected);
	__atomic_store_n(&parking, false, __ATOMIC_RELEASE);
}

static void *
planter(void *arg)
{
	volatile char deep[65536] __attribute__((unused));
	struct actor a = {0};

	(void)arg;
	deep[0] = 0;
	actor_begin(&a, 0, 99);
	for (int i = 0; i < NPLANTED; i++) {
		struct block b = {0};
		size_t size = (size_t)40 << 2 * i;

		b.at = malloc(size);
		must(b.at != NULL);
		b.size = size;
		fill_from(&b, 0);
		board->planted[i].at = (uintptr_t)b.at;
		board->planted[i].size = size;
	}
	deep[1] = 0;
	return NULL;
}

/* Blocks that stay, and blocks to which nothing points. */
static void
plant(void)
{
	for (int i = 0; i < NFROZEN; i++) {
		get_malloc(&supervisor, &frozen[i]);
		while (frozen[i].size > MIB || frozen[i].size == 0) {
			table_free(&supervisor, &frozen[i], 1);
			get_malloc(&supervisor, &frozen[i]);
		}
		board->frozen[i].at = (uintptr_t)frozen[i].at;
		board->frozen[i].size = frozen[i].size;
	}
	thread_end(thread_start(planter, NULL));
}

static void
plant_end(void)
{
	for (int i = 0; i < NPLANTED; i++) {
		struct block b = {(unsigned char *)board->planted[i].at,
		    board->planted[i].size, 0, MALLOC, 0};

		check_block(&b, "planted block");
		free(b.at);
	}
	table_free(&supervisor, frozen, NFROZEN);
}

static void *
canceled(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* Allocations that libc and the library make once, for threads. */
static void
warm_up(void)
{
	for (int round = 0; round < 3; round++) {
		for (unsigned i = 0; i < nworkers; i++)
			workers[i].thread = thread_start(canceled, NULL);
		for (unsigned i = 0; i < nworkers; i++) {
			must(pthread_cancel(workers[i].thread) == 0);
			thread_end(workers[i].thread);
		}
	}
}

static void
end_all(void)
{
	while (shortage != NONE)
		supervise();
	__atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
	for (bool is_busy = true; is_busy;) {
		is_busy = false;
		supervise();
		if (shortage != NONE)
			shortage_end();
		for (unsigned i = 0; i < nworkers; i++)
			is_busy |= get(&workers[i].state) != EMPTY;
	}
	slots_free(&supervisor);
	deferred_end(&supervisor);
	plant_end();
	publish(&supervisor);
	caches_end();
	ranges_end();
}

static void
begin(const char *board_path)
{
	struct sigaction action = {0};
	int fd = open(board_path, O_RDWR);

	/* A run.py that is killed ends its soak. */
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	must(fd >= 0);
	board = mmap(
	    NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(board != MAP_FAILED);
	close(fd);
	board->words = sizeof(*board) / 8;
	action.sa_handler = on_signal;
	action.sa_flags = SA_RESTART;
	must(sigaction(SIGUSR1, &action, NULL) == 0);
	must(pthread_key_create(&last_words, last_words_end) == 0);
	actor_begin(&supervisor, SUPERVISOR, 1);
	/* 2 to 8 for each CPU. */
	nworkers = (unsigned)sysconf(_SC_NPROCESSORS_ONLN) *
		   (2 + (unsigned)draw(&supervisor, 7));
	if (nworkers > NWORKERS_MOST)
		nworkers = NWORKERS_MOST;
	starts_make();
	warm_up();
}

int
main(int argc, char **argv)
{
	static struct board own_board;
	uint64_t started = now_ms(), next = CENSUS_MS, end;
	size_t left;

	board = &own_board;
	if (argc == 3 && strcmp(argv[1], "inner") == 0)
		return inner(strtoull(argv[2], NULL, 10));
	must(argc == 5);
	end = 1000 * strtoull(argv[1], NULL, 10);
	soak_seed = strtoull(argv[2], NULL, 10);
	plugin_path = argv[4];
	begin(argv[3]);
	malloc_trim(0);
	base_bytes = stats_now().live_bytes;
	ranges_make();
	caches_make();
	deferred_make();
	plant();
	__atomic_store_n(&board->ready, 1, __ATOMIC_RELEASE);
	if (end / 4 < next)
		next = end / 4;
	for (;;) {
		uint64_t now = now_ms() - started;

		supervise();
		if (now >= end)
			break;
		if (now >= next) {
			census((unsigned)(now / 1000));
			next += CENSUS_MS;
		}
	}
	census((unsigned)((now_ms() - started) / 1000));
	__atomic_store_n(&board->ready, 2, __ATOMIC_RELEASE);
	end_all();
	malloc_trim(0);
	left = stats_now().live_bytes + stats_now().sampled_bytes;
	printf("end: %llu operations, %zu bytes in use of %zu, sum %lld\n",
	    ull(sum_ops()), left, base_bytes, (long long)sum_bytes());
	if (sum_bytes() != 0)
		differs("the soak itself counts wrongly");
	if (left > base_bytes + 256 * KIB)
		differs("%zu bytes are in use at the end, %zu at the start",
		    left, base_bytes);
	return 0;
}
