/*
 * cpu_marks.h - marked rounds: allocations that take the slow path
 *
 * Heap profiling samples a few allocations.  To count the allocations would
 * cost each of them some instructions.  Instead a few rounds are marked when
 * they enter a loaded magazine, and the section refuses to pop a marked round.
 * The slow path allocates the round and tells the caller.  If each round is
 * marked with the same probability p, the slow path is told of each allocation
 * with the probability p, whatever code allocates or frees, in whatever order:
 * an allocation takes one round, and no decision depends on an earlier mark.
 *
 * A header has one mark at most: bottom is the address behind the marked round.
 * So a mark costs the sections nothing.  No round above the mark is marked.
 * The rounds below are undecided: they are decided when they become the newest
 * ones, or with the whole magazine.  To decide a round again is correct at any
 * time, because nobody has seen the first result.
 *
 * When rounds are decided
 *	push by a section	The push counter (cpu_pushes.c) forces one push
 *				in about CANDIDATE_EVERY into the slow path: a
 *				candidate.  Its round is marked with the
 *				probability p * CANDIDATE_EVERY.  If it is not,
 *				which is the rule, the section is run again.
 *				All pushes between are decided without any work:
 *				they are not marked.
 *	loaded magazine, push	When a thread releases a header in the slow
 *	by the slow path	path, it decides all rounds of the loaded
 *				magazine, except for the candidate.
 *	slabs			An object that the slow path allocates from the
 *				slabs is decided at once.
 * Rounds that were loaded before marks began are not decided before the next
 * slow path of their header.
 */
#ifndef MAGAZINE_CPU_MARKS_H
#define MAGAZINE_CPU_MARKS_H

#include "vmem/base.h"

/*
 * Mean number of pushes on a CPU from one candidate to the next.  In a loop
 * of malloc() and free(), candidates cost 0.8 to 3.8 % with 1024, and at most
 * 0.5 % with 2048.  A larger number leaves fewer sizes for marks.
 */
#define CANDIDATE_EVERY 2048

/* The functions that decide which rounds are marked. */
struct cpu_mark_chooser {
	/* Returns the number of pushes before the next candidate. */
	uint32_t (*candidate_distance)(void);
	/*
	 * Returns the number of rounds of this size before the first of n that
	 * is marked; n: none is.
	 */
	unsigned (*find)(size_t bytes, unsigned n);
	/* Is the round of a candidate marked? */
	bool (*accept)(size_t bytes);
};

struct cpu_marks {
	/*
	 * [a] Rounds of at most so many bytes are marked; 0: none.  Changed by
	 * cpu_set_marks().
	 */
	size_t bytes_max;
	/* Set before bytes_max. */
	const struct cpu_mark_chooser *chooser;
};

extern struct cpu_marks cpu_marks;

enum candidate {
	CANDIDATE_NONE,     /* the push was forced for another reason */
	CANDIDATE_REJECTED, /* its round is not marked */
	CANDIDATE_ACCEPTED  /* its round must be marked */
};

/*
 * Called by a push that takes the slow path, before cpu_ticked(): was it forced
 * there as a candidate?  Its round has this many bytes, 0 if it is not to be
 * marked.  The next call has another answer.  Not in locked mode.
 */
enum candidate cpu_take_candidate(size_t bytes);

/* Sets cpu_marks.bytes_max. */
void cpu_set_marks(size_t bytes_max);

#endif
