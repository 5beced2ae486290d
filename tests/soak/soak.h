/*
 * soak.h - common parts of the soak: its board, its actors, its verdicts
 *
 * An actor is a thread or a child process that works on memory: it has random
 * numbers, a count of operations and the sum of the bytes that it allocated
 * less those that it freed.  Blocks travel between actors, so the sum of one
 * actor may be negative; only the total has a meaning.
 *
 * The board is a page that this process, its children and run.py share.  It has
 * no pointers: umem leaks does not search memory of a file.
 *
 * Failures: an allocation may fail only while the soak makes memory scarce, or
 * if it was scarce at some moment since the call began.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#define URCU_API_MAP
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

#include "tests/programs/check.h"
#include "vmem/vmem.h"

enum {
	NACTORS = 64,
	NFROZEN = 48,
	NPLANTED = 6
};

#define GOLD 0x9e3779b97f4a7c15ull

/* run.py reads it as an array of words: see BOARD there. */
struct board {
	uint64_t words; /* sizeof(struct board) / 8 */
	uint64_t ready;
	uint64_t beats; /* of the supervisor */
	uint64_t differences;
	uint64_t forks, vforks, clones, execs;
	uint64_t threads, cancels, signals, modules;
	uint64_t scarce; /* times that memory was made scarce */
	uint64_t failed; /* allocations that failed then */
	uint64_t child_ops;
	uint64_t sharing_begun, sharing_ended; /* children in this memory */
	uint64_t limit_wanted, limit_granted;  /* for hard_limit of run.py */
	uint64_t censuses;
	uint64_t in_use, expected, rss; /* bytes, at the last census */
	struct {
		uint64_t at, size;
	} planted[NPLANTED], frozen[NFROZEN];
	struct {
		uint64_t ops, bytes;
	} actor[NACTORS];
};

static struct board *board;
static uint64_t soak_seed;

#define count(what)                                                            \
	((void)__atomic_add_fetch(&board->what, 1, __ATOMIC_RELAXED))

struct actor {
	uint64_t random;
	uint64_t ops;
	uint64_t bytes; /* allocated less freed */
	unsigned number;
};

/*
 * Reports a finding in one line, and ends the process by a core.  run.py
 * prints the stacks of the core.
 */
__attribute__((format(printf, 3, 4), noreturn)) static inline void
difference(const char *file, int line, const char *format, ...)
{
	char text[600];
	va_list args;
	int n = snprintf(text, sizeof(text),
	    "soak: %s:%d: process %d, thread "
	    "%ld, seed %llu: ",
	    file, line, (int)getpid(), syscall(SYS_gettid),
	    (unsigned long long)soak_seed);

	va_start(args, format);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(text) - 2)
		n = (int)sizeof(text) - 2;
	text[n++] = '\n';
	if (write(2, text, (size_t)n) != n)
		_exit(2);
	count(differences);
	abort();
}

#define differs(...) difference(__FILE__, __LINE__, __VA_ARGS__)
#define must(x)      ((x) ? (void)0 : differs("not true: %s (errno %d)", #x, errno))

static inline uint64_t
mix(uint64_t x)
{
	x ^= x >> 31;
	x *= GOLD;
	return x ^ x >> 29;
}

/* Below n. */
static inline size_t
draw(struct actor *a, size_t n)
{
	return next_random(&a->random) % n;
}

static inline void
actor_begin(struct actor *a, unsigned number, uint64_t seed)
{
	a->random = mix(soak_seed + mix(seed + 1)) | 1;
	a->number = number;
}

static unsigned soak_phase; /* [atomic] changes every second or so */

/* Counters of the time when memory is scarce. */
static unsigned scarce_now;    /* [atomic] reasons in force */
static unsigned scarce_number; /* [atomic] of reasons that began */
static unsigned scarce_held;   /* [atomic] threads that need it to stay away */

static inline unsigned
scarce_mark(void)
{
	return __atomic_load_n(&scarce_number, __ATOMIC_ACQUIRE) +
	       (__atomic_load_n(&scarce_now, __ATOMIC_ACQUIRE) != 0 ? 1u << 31
								    : 0);
}

/* May a call fail that began when scarce_mark() was this? */
static inline bool
may_fail(unsigned mark)
{
	return mark >> 31 != 0 || scarce_mark() != mark;
}

/* A call that began at this mark has failed. */
static inline void
failed(unsigned mark, const char *call, size_t size)
{
	int error = errno;

	count(failed);
	if (!may_fail(mark) || error != ENOMEM)
		differs("%s of %zu bytes fails, errno %d, memory is %s", call,
		    size, error, may_fail(mark) ? "scarce" : "not scarce");
}

/*
 * Keeps memory from being scarce for a call that does not survive that, if
 * this returns true; scarce_release() follows in any case.
 */
static inline bool
scarce_hold(void)
{
	__atomic_add_fetch(&scarce_held, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&scarce_now, __ATOMIC_SEQ_CST) == 0;
}

static inline void
scarce_release(void)
{
	__atomic_sub_fetch(&scarce_held, 1, __ATOMIC_SEQ_CST);
}

static inline void
scarce_begin(void)
{
	__atomic_add_fetch(&scarce_number, 1, __ATOMIC_ACQ_REL);
	__atomic_add_fetch(&scarce_now, 1, __ATOMIC_SEQ_CST);
	count(scarce);
}

static inline void
scarce_end(void)
{
	__atomic_sub_fetch(&scarce_now, 1, __ATOMIC_ACQ_REL);
}

#endif
