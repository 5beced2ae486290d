/*
 * oracle.h - no block is allocated twice, and none is lost
 *
 * Every word of every block names its owner: the thread and the number of the
 * block in that thread's life.  If a block has two owners at once, one of them
 * finds the wrong name sooner or later.  Besides, a table has one byte for each
 * 16 bytes of the heap, which tells whether they are in use.  By this table the
 * test notices at once that a used block is allocated again, or that an unused
 * block is freed.
 *
 * Patterns, several threads each
 *	private		only the owner uses and frees the block
 *	shared		blocks lie in a common table of slots; a thread that
 *			finds a block there checks and frees it
 *	pairs		a producer allocates, a consumer frees
 *	churn		threads that live for some hundred calls
 *	objects		as private, from an object cache that the test creates
 *			and destroys repeatedly
 * Meanwhile one thread trims and reaps without pause, and all threads get
 * signals.
 * At the end everything is freed, and the library must count no more blocks
 * in use than at the start.
 */
#ifndef TESTS_PROGRAMS_ORACLE_H
#define TESTS_PROGRAMS_ORACLE_H

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "tests/programs/check.h"

enum {
	NSLOTS = 512,
	NRING = 64,
	NPAIRS = 2,
	NOWN = 100
};

struct oracle_block {
	uint64_t *p;
	size_t n; /* words */
	uint64_t name;
};

static uint64_t *oracle_slots[NSLOTS];
static uint64_t *oracle_ring[NPAIRS][NRING];
static volatile bool oracle_stop;
static unsigned oracle_id;
static unsigned long oracle_ops;

/* Table of the memory in use, for addresses in the window seen first. */
#define TABLE_BITS 32
static uint8_t *oracle_table;
static uintptr_t oracle_base;

static inline uint8_t *
oracle_cell(const void *p)
{
	uintptr_t offset = (uintptr_t)p - oracle_base;

	return offset < (uintptr_t)1 << TABLE_BITS ? oracle_table + offset / 16
						   : NULL;
}

/* The first two words of a block that travels: its size and its name. */
static inline void
oracle_take(uint64_t *p, size_t n, uint64_t name)
{
	uint8_t *cell = oracle_cell(p);

	check(is_aligned(p, 16));
	if (cell != NULL)
		check(__atomic_exchange_n(cell, 1, __ATOMIC_RELAXED) == 0);
	p[0] = n;
	for (size_t i = 1; i < n; i++)
		p[i] = name;
}

static inline void
oracle_check(const uint64_t *p)
{
	size_t n = p[0];

	check(n >= 2);
	for (size_t i = 2; i < n; i++)
		check(p[i] == p[1]);
}

static inline void
oracle_give(uint64_t *p)
{
	uint8_t *cell = oracle_cell(p);

	oracle_check(p);
	if (cell != NULL)
		check(__atomic_exchange_n(cell, 0, __ATOMIC_RELAXED) == 1);
	p[0] = p[1] = ~p[1];
}

static inline size_t
oracle_words(uint64_t *r)
{
	/* Mostly few sizes, so that threads meet; at times any size. */
	if (next_random(r) % 64 != 0)
		return 2 + next_random(r) % 4 * 5;
	return 2 + (next_random(r) % 60000 >> next_random(r) % 16);
}

static inline uint64_t *
oracle_new(uint64_t *r, uint64_t id)
{
	size_t n = oracle_words(r);
	uint64_t *p = (uint64_t *)malloc(n * 8);

	check(p != NULL);
	oracle_take(p, n, id << 40 | (next_random(r) >> 24));
	return p;
}

static inline void
oracle_delete(uint64_t *p)
{
	oracle_give(p);
	free(p);
}

static inline uint64_t
oracle_begin(uint64_t *r)
{
	uint64_t id = __atomic_add_fetch(&oracle_id, 1, __ATOMIC_RELAXED);

	*r = id * 0x9e3779b97f4a7c15ull + 1;
	return id;
}

static void *
oracle_private(void *arg)
{
	uint64_t *own[NOWN] = {0};
	uint64_t r, id = oracle_begin(&r);
	unsigned long ops = 0;

	for (; !oracle_stop; ops++) {
		uint64_t **slot = &own[next_random(&r) % NOWN];

		if (*slot == NULL) {
			*slot = oracle_new(&r, id);
		} else {
			check((*slot)[1] >> 40 == id);
			oracle_delete(*slot);
			*slot = NULL;
		}
	}
	for (int i = 0; i < NOWN; i++)
		if (own[i] != NULL)
			oracle_delete(own[i]);
	__atomic_add_fetch(&oracle_ops, ops, __ATOMIC_RELAXED);
	return arg;
}

static void *
oracle_shared(void *arg)
{
	uint64_t r, id = oracle_begin(&r);
	unsigned long ops = 0;

	for (; !oracle_stop; ops++) {
		uint64_t *mine = oracle_new(&r, id);
		uint64_t *old =
		    __atomic_exchange_n(&oracle_slots[next_random(&r) % NSLOTS],
			mine, __ATOMIC_ACQ_REL);

		if (old != NULL)
			oracle_delete(old);
	}
	__atomic_add_fetch(&oracle_ops, ops, __ATOMIC_RELAXED);
	return arg;
}

static void *
oracle_producer(void *arg)
{
	uint64_t **ring = (uint64_t **)arg;
	uint64_t r, id = oracle_begin(&r);
	unsigned long ops = 0;

	for (; !oracle_stop; ops++) {
		uint64_t *block = oracle_new(&r, id);

		while (__atomic_load_n(&ring[ops % NRING], __ATOMIC_ACQUIRE) !=
		       NULL) {
			if (oracle_stop) {
				oracle_delete(block);
				return NULL;
			}
			sched_yield();
		}
		__atomic_store_n(&ring[ops % NRING], block, __ATOMIC_RELEASE);
	}
	__atomic_add_fetch(&oracle_ops, ops, __ATOMIC_RELAXED);
	return NULL;
}

static void *
oracle_consumer(void *arg)
{
	uint64_t **ring = (uint64_t **)arg;

	for (unsigned i = 0;; i++) {
		uint64_t *block;

		while ((block = __atomic_exchange_n(&ring[i % NRING], NULL,
			    __ATOMIC_ACQUIRE)) == NULL) {
			if (oracle_stop)
				return NULL;
			sched_yield();
		}
		oracle_delete(block);
	}
}

static void *
oracle_short(void *arg)
{
	uint64_t *own[30];
	uint64_t r, id = oracle_begin(&r);

	for (int i = 0; i < 300; i++) {
		if (i >= 30)
			oracle_delete(own[i % 30]);
		own[i % 30] = oracle_new(&r, id);
	}
	/* Leave the remaining blocks to other threads, which free them. */
	for (int i = 0; i < 30; i++) {
		uint64_t *old =
		    __atomic_exchange_n(&oracle_slots[next_random(&r) % NSLOTS],
			own[i], __ATOMIC_ACQ_REL);

		if (old != NULL)
			oracle_delete(old);
	}
	return arg;
}

static void *
oracle_churn(void *arg)
{
	while (!oracle_stop) {
		pthread_t thread[4];

		for (int i = 0; i < 4; i++)
			thread[i] = thread_start(oracle_short, NULL);
		for (int i = 0; i < 4; i++)
			thread_end(thread[i]);
	}
	return arg;
}

/* Weak: a program on our malloc may be linked without -lumem. */
#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
#pragma weak umem_cache_free
#pragma weak umem_cache_reap_now
#pragma weak umem_cache_destroy
#pragma weak umem_reap

static umem_cache_t *oracle_cache;

static void *
oracle_object_user(void *arg)
{
	uint64_t *own[NOWN] = {0};
	uint64_t r, id = oracle_begin(&r);

	for (int ops = 0; ops < 20000 && !oracle_stop; ops++) {
		uint64_t **slot = &own[next_random(&r) % NOWN];

		if (*slot == NULL) {
			*slot = (uint64_t *)umem_cache_alloc(oracle_cache, 0);
			check(*slot != NULL);
			oracle_take(*slot, 6, id << 40 | next_random(&r) >> 24);
		} else {
			oracle_give(*slot);
			umem_cache_free(oracle_cache, *slot);
			*slot = NULL;
		}
	}
	for (int i = 0; i < NOWN; i++)
		if (own[i] != NULL) {
			oracle_give(own[i]);
			umem_cache_free(oracle_cache, own[i]);
		}
	return arg;
}

static void *
oracle_objects(void *arg)
{
	while (!oracle_stop) {
		pthread_t thread[4];

		oracle_cache = umem_cache_create(
		    "oracle", 48, 0, NULL, NULL, NULL, NULL, NULL, 0);
		check(oracle_cache != NULL);
		for (int i = 0; i < 4; i++)
			thread[i] = thread_start(oracle_object_user, NULL);
		umem_cache_reap_now(oracle_cache);
		for (int i = 0; i < 4; i++)
			thread_end(thread[i]);
		/* Says so on standard error if an object was lost. */
		umem_cache_destroy(oracle_cache);
	}
	return arg;
}

static void *
oracle_drainer(void *arg)
{
	while (!oracle_stop) {
		malloc_trim(0);
		if (umem_reap != NULL)
			umem_reap();
		sched_yield();
	}
	return arg;
}

static void
oracle_on_signal(int signal)
{
	(void)signal;
}

/* Signals at about 10 kHz of processor time, wherever the threads are. */
static void
oracle_signals(void)
{
	struct sigaction act;
	struct sigevent event;
	struct itimerspec rate = {{0, 100000}, {0, 100000}};
	timer_t timer;

	memset(&act, 0, sizeof(act));
	memset(&event, 0, sizeof(event));
	act.sa_handler = oracle_on_signal;
	act.sa_flags = SA_RESTART;
	check(sigaction(SIGPROF, &act, NULL) == 0);
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGPROF;
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	check(timer_settime(timer, 0, &rate, NULL) == 0);
}

static void
oracle_table_make(void)
{
	void *p = malloc(100);

	oracle_base = (uintptr_t)p & ~(((uintptr_t)1 << TABLE_BITS) - 1);
	free(p);
	oracle_table = (uint8_t *)mmap(NULL, (size_t)1 << (TABLE_BITS - 4),
	    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	    -1, 0);
	check(oracle_table != MAP_FAILED);
}

static void
oracle_empty(void)
{
	for (int i = 0; i < NSLOTS; i++)
		if (oracle_slots[i] != NULL)
			oracle_delete(oracle_slots[i]);
	for (int i = 0; i < NPAIRS * NRING; i++)
		if (oracle_ring[i / NRING][i % NRING] != NULL)
			oracle_delete(oracle_ring[i / NRING][i % NRING]);
}

/* Bytes in use, as the library counts. */
static size_t
oracle_in_use(void)
{
	struct mallinfo2 info;

	malloc_trim(0);
	info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

/*
 * Runs for ms milliseconds, with npairs threads of each kind that allocates for
 * itself, and up to seven others.
 */
static void
oracle(unsigned ms, unsigned npairs)
{
	enum {
		MOST = 256
	};
	static pthread_t thread[MOST];
	size_t before, after;
	unsigned n = 0;

	oracle_table_make();
	/* Before the count, let threads and libc allocate their own blocks. */
	for (int i = 0; i < 40; i++)
		thread[i] = thread_start(oracle_short, NULL);
	for (int i = 0; i < 40; i++)
		thread_end(thread[i]);
	oracle_empty();
	memset(oracle_slots, 0, sizeof(oracle_slots));
	before = oracle_in_use();

	oracle_signals();
	check(2 * npairs + 2 * NPAIRS + 3 <= MOST);
	for (unsigned i = 0; i < npairs; i++) {
		thread[n++] = thread_start(oracle_private, NULL);
		thread[n++] = thread_start(oracle_shared, NULL);
	}
	for (int i = 0; i < NPAIRS; i++) {
		thread[n++] = thread_start(oracle_producer, oracle_ring[i]);
		thread[n++] = thread_start(oracle_consumer, oracle_ring[i]);
	}
	thread[n++] = thread_start(oracle_churn, NULL);
	if (umem_cache_create != NULL)
		thread[n++] = thread_start(oracle_objects, NULL);
	thread[n++] = thread_start(oracle_drainer, NULL);

	uint64_t end = now_ms() + ms;
	while (now_ms() < end) {
		struct timespec t = {0, 10000000};

		nanosleep(&t, NULL);
	}
	oracle_stop = true;
	while (n > 0)
		thread_end(thread[--n]);
	oracle_empty();
	/*
	 * A drain by the upkeep thread owns the magazines of one cache for the
	 * time of a membarrier.  They then count as in use.
	 */
	end = now_ms() + 10000;
	do {
		after = oracle_in_use();
	} while (after > before + 20000 && now_ms() < end);
	fprintf(stderr, "%lu operations, in use before %zu, after %zu\n",
	    oracle_ops, before, after);
	/* Half a dozen stacks' worth of libc's own, and no more. */
	check(after <= before + 20000);
	check(oracle_ops > 1000);
}

#endif
