/*
 * misuse.h - common code of the programs of the misuse set
 *
 * Each program does one thing wrong with memory, once, and then looks for
 * harm.  It ends in one of these ways:
 *
 *	detected	the allocator, or the kernel, ends it
 *	harmless	it had no effect that a program could notice
 *	missed		it had such an effect: a neighbour was changed, an
 *			earlier owner's data was read, a block has two owners
 *	none		the allocator lacks the function in question
 *
 * Only judge() gives the verdict "harmless".  Before that it allocates
 * thousands of blocks of about the size in question, on each CPU and in other
 * threads, so that blocks in free lists are allocated again.  It checks
 * whether two blocks overlap, whether a block holds bytes that the program
 * wrote to it while it was free, and whether calloc() returns zeros.  Then it
 * frees most of the blocks and repeats the check, because some allocators
 * reuse a slab only when most of it is free.
 *
 * Until then the process stays on one CPU, or on two (elsewhere()), so that few
 * results depend on chance.  Some do: umem compares a free with the newest
 * frees of the same concurrency ID (mm_cid).  Two threads that run in turn
 * mostly have the same one, but not always.
 */
#ifndef TESTS_MISUSE_H
#define TESTS_MISUSE_H

#include <malloc.h>
#include <sched.h>

#include "tests/programs/check.h"

#ifdef __cplusplus
extern "C" {
#endif
void free_sized(void *p, size_t size);
void free_aligned_sized(void *p, size_t align, size_t size);
#ifdef __cplusplus
}
#endif

/* Other allocators lack them. */
#pragma weak umem_alloc
#pragma weak umem_free
#pragma weak umem_free_align
#pragma weak umem_alloc_align
#pragma weak umem_cache_create
#pragma weak umem_cache_alloc
#pragma weak umem_cache_free
#pragma weak umem_cache_destroy
#pragma weak free_sized
#pragma weak free_aligned_sized

#define need(function)                                                         \
	(keep((void *)(uintptr_t)(function)) != NULL ? (void)0 : none())

typedef void *get_fn(size_t size);
typedef void put_fn(void *p);

enum {
	SECRET = 0xa7,  /* data that nobody else may read */
	CONTENT = 0x5a, /* data that nobody else may change */
	SECRET_RUN = 8, /* so many bytes of it are no chance */
	ROW_MAX = 16384,
	OWNED_MAX = 1 << 18,
	CPUS_MAX = 4
};

static inline void
say(const char *line)
{
	if (write(1, line, strlen(line)) < 0)
		_exit(2);
}

static inline void
none(void)
{
	say("none\n");
	exit(77);
}

/* Numbers and bytes that a compiler cannot know anything of. */

static inline size_t
number(size_t n)
{
	__asm__ volatile("" : "+r"(n));
	return n;
}

static __attribute__((noinline, unused)) void
put_bytes(void *at, int byte, size_t n)
{
	volatile unsigned char *to = (volatile unsigned char *)keep(at);

	for (size_t i = 0; i < n; i++)
		to[i] = (unsigned char)byte;
}

static inline void
scribble(void *at, size_t n)
{
	put_bytes(at, SECRET, n);
}

/* Reads all of n bytes; is there anything secret? */
static __attribute__((noinline, unused)) bool
sees_secret(const void *at, size_t n)
{
	const volatile unsigned char *from =
	    (const volatile unsigned char *)keep((void *)(uintptr_t)at);
	size_t run = 0, longest = 0;

	for (size_t i = 0; i < n; i++) {
		run = from[i] == SECRET ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest >= SECRET_RUN;
}

/* A block of content. */
static inline char *
block(size_t size)
{
	char *p = (char *)keep(malloc(size));

	check(p != NULL);
	put_bytes(p, CONTENT, size);
	return p;
}

static inline char *
secret_block(size_t size)
{
	char *p = block(size);

	scribble(p, size);
	return p;
}

static inline void
drop(void *p)
{
	free(keep(p));
}

/* Blocks that have an owner. */

struct owned {
	uintptr_t at;
	size_t n;
	bool found; /* by the search of judge() */
};

static struct owned owned[OWNED_MAX];
static unsigned nowned;

static inline void
own(const void *p, size_t n)
{
	if (p == NULL || nowned == OWNED_MAX)
		return;
	owned[nowned].at = (uintptr_t)p;
	owned[nowned].n = n == 0 ? 1 : n;
	owned[nowned++].found = false;
}

/* By address, without a call that might allocate. */
static inline void
owned_sort(struct owned *list, unsigned n)
{
	for (unsigned gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
		for (unsigned i = gap; i < n; i++) {
			struct owned one = list[i];
			unsigned j = i;

			for (; j >= gap && list[j - gap].at > one.at; j -= gap)
				list[j] = list[j - gap];
			list[j] = one;
		}
}

static inline bool
two_owners(void)
{
	owned_sort(owned, nowned);
	for (unsigned i = 0; i + 1 < nowned; i++)
		if (owned[i].at + owned[i].n > owned[i + 1].at)
			return true;
	return false;
}

/*
 * A row of blocks of content, side by side as far as the allocator lays them
 * so, and one of them that has others on both sides.
 */

static char *row[ROW_MAX];
static unsigned nrow, row_victim;
static size_t row_size;

/* The distance from one block to the next that is most usual. */
static inline unsigned
row_middle(void)
{
	size_t least = SIZE_MAX;

	for (unsigned i = 0; i + 1 < nrow; i++)
		if ((size_t)(row[i + 1] - row[i]) < least)
			least = (size_t)(row[i + 1] - row[i]);
	for (unsigned i = 0; i < nrow; i++) {
		unsigned at = (i + nrow / 2) % nrow;

		if (at > 0 && at + 1 < nrow &&
		    (size_t)(row[at + 1] - row[at]) == least &&
		    (size_t)(row[at] - row[at - 1]) == least)
			return at;
	}
	return nrow / 2;
}

static inline char *
row_of(size_t size, get_fn *get, int fill)
{
	size_t n = 256 * KIB / (size == 0 ? 16 : size);

	nrow = n < 6 ? 6 : n > ROW_MAX ? (unsigned)ROW_MAX : (unsigned)n;
	row_size = size;
	for (unsigned i = 0; i < nrow; i++) {
		void *p = keep(get(size));

		check(p != NULL);
		put_bytes(p, fill, size);
		own(p, size);
	}
	owned_sort(owned, nowned);
	check(nowned == nrow);
	for (unsigned i = 0; i < nrow; i++)
		row[i] = (char *)owned[i].at;
	nowned = 0;
	row_victim = row_middle();
	return (char *)keep(row[row_victim]);
}

static inline bool
row_changed(int fill)
{
	for (unsigned i = 0; i < nrow; i++)
		for (size_t j = 0; j < row_size; j++)
			if ((unsigned char)row[i][j] != fill)
				return true;
	return false;
}

/* All but the middle one stay where they are. */
static inline void
own_row(void)
{
	for (unsigned i = 0; i < nrow; i++)
		if (i != row_victim)
			own(row[i], row_size);
}

/* The middle one first. */
static inline void
row_free(put_fn *put)
{
	put(row[row_victim]);
	for (unsigned i = 0; i < nrow; i++)
		if (i != row_victim)
			put(row[i]);
	nrow = 0;
}

/* CPUs and threads. */

static cpu_set_t cpus_allowed;
static int cpu_home;

static inline void
on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Another CPU than home, if there is one. */
static inline int
cpu_other(void)
{
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (i != cpu_home && CPU_ISSET(i, &cpus_allowed))
			return i;
	return cpu_home;
}

static __attribute__((constructor)) void
cpu_settle(void)
{
	cpu_home = sched_getcpu();
	if (cpu_home < 0 ||
	    sched_getaffinity(0, sizeof(cpus_allowed), &cpus_allowed) != 0) {
		CPU_ZERO(&cpus_allowed);
		CPU_SET(cpu_home < 0 ? 0 : cpu_home, &cpus_allowed);
	}
	if (cpu_home >= 0)
		on_cpu(cpu_home);
}

struct errand {
	void *(*run)(void *);
	void *arg;
};

static inline void *
errand_run(void *arg)
{
	struct errand *errand = (struct errand *)arg;

	on_cpu(cpu_other());
	return errand->run(errand->arg);
}

/* In another thread, on another CPU if there is one; over on return. */
static inline void
elsewhere(void *(*run)(void *), void *arg)
{
	struct errand errand = {run, arg};

	thread_end(thread_start(errand_run, &errand));
}

/* The verdict. */

struct search {
	get_fn *get;
	size_t size;
	const char *harm;
};

/* A pointer that was written to a free block. */
static const void *planted;

/* Other sizes that may have been harmed. */
static size_t other_size[8];
static unsigned nother;

static inline void
also_search(size_t size)
{
	check(nother < sizeof(other_size) / sizeof(other_size[0]));
	other_size[nother++] = size;
}

/* By words, which is how it was written. */
static inline bool
holds_secret(const char *p, size_t size)
{
	const uint64_t *word = (const uint64_t *)(const void *)p;
	uint64_t secret;

	memset(&secret, SECRET, sizeof(secret));
	for (size_t i = 0; i < size / sizeof(*word); i++)
		if (word[i] == secret ||
		    (planted != NULL && word[i] == (uintptr_t)planted))
			return true;
	return false;
}

static inline void
search_one(struct search *search, size_t size, bool zeroed)
{
	char *p = (char *)keep(zeroed ? calloc(1, size) : search->get(size));

	if (p == NULL)
		return;
	own(p, size);
	owned[nowned - 1].found = true;
	if (zeroed && !is_zero(p, size))
		search->harm = "calloc() gives what is not zero";
	if (holds_secret(p, size))
		search->harm = "seen by the next owner";
}

static inline void
search_size(struct search *search, size_t size)
{
	size_t n = 8 * MIB / (size == 0 ? 16 : size);

	n = n < 2 ? 2 : n > 2000 ? 2000 : n;
	for (size_t i = 0; i < n; i++) {
		search_one(search, size, false);
		if (search->get != malloc || i % 4 != 0)
			continue;
		search_one(search, size, true);
		search_one(search, size / 2, i % 8 == 0);
		search_one(search, size * 2, i % 8 == 0);
	}
}

/* Searches the blocks that this thread gets on this CPU. */
static inline void *
search_here(void *arg)
{
	struct search *search = (struct search *)arg;

	search_size(search, search->size);
	for (unsigned i = 0; search->get == malloc && i < nother; i++)
		search_size(search, other_size[i]);
	return NULL;
}

static inline void
search_everywhere(struct search *search)
{
	int ncpus = 0;

	on_cpu(cpu_home);
	search_here(search);
	for (int i = 0; i < CPU_SETSIZE && ncpus < CPUS_MAX; i++) {
		if (!CPU_ISSET(i, &cpus_allowed))
			continue;
		ncpus++;
		on_cpu(i);
		if (i != cpu_home)
			search_here(search);
		thread_end(thread_start(search_here, search));
	}
	if (search->harm == NULL && two_owners())
		search->harm = "a block has two owners";
}

/* Frees 3 of 4 found blocks, so that the allocator reuses their slabs. */
static inline void
free_most(void)
{
	unsigned n = 0;

	on_cpu(cpu_home);
	for (unsigned i = 0; i < nowned; i++)
		if (owned[i].found && i % 4 != 0)
			free((void *)owned[i].at);
		else
			owned[n++] = owned[i];
	nowned = n;
}

/* harm describes the damage that the program itself saw, or is NULL. */
static inline __attribute__((noreturn)) void
judge_by(const char *harm, size_t size, get_fn *get)
{
	struct search search = {get, size, harm};

	search_everywhere(&search);
	if (search.harm == NULL && get == malloc) {
		free_most();
		/* Twice, as half the search is on the CPU that has freed. */
		for (int i = 0; i < 2; i++)
			search_everywhere(&search);
	}
	if (search.harm == NULL) {
		say("harmless\n");
		exit(0);
	}
	say("missed: ");
	say(harm != NULL ? harm : search.harm);
	say("\n");
	exit(1);
}

static inline __attribute__((noreturn)) void
judge(const char *harm, size_t size)
{
	judge_by(harm, size, malloc);
}

/* After a write beside a block of the row. */
static inline __attribute__((noreturn)) void
judge_row_by(get_fn *get, put_fn *put)
{
	bool changed = row_changed(CONTENT);

	row_free(put);
	judge_by(changed ? "another block was changed" : NULL, row_size, get);
}

static inline __attribute__((noreturn)) void
judge_row(void)
{
	judge_row_by(malloc, free);
}

/* Some use of the heap between two steps. */
static inline void
pass_time(size_t size)
{
	static char *other[1000];
	unsigned n = size > 64 * KIB ? 8 : 1000;

	also_search(size);
	for (unsigned i = 0; i < n; i++)
		other[i] = block(size);
	for (unsigned i = 0; i < n; i++)
		drop(other[i]);
}

/* The next owner of freed memory at p, if it gets one soon. */
static inline char *
next_owner(const void *p, size_t size)
{
	unsigned n = size > 64 * KIB ? 8 : 1000;

	for (unsigned i = 0; i < n; i++) {
		char *q = (char *)keep(malloc(size));

		check(q != NULL);
		own(q, size);
		if (q == p)
			return q;
	}
	return NULL;
}

#endif
