/*
 * rseq_watcher.h - tells ThreadSanitizer of the effects of the sections
 *
 * Builds with SAN=thread include this file behind the sections, which are
 * assembler (magazine/rseq_ops.h).  It has the edges of "happens before" on
 * which the argument in magazine/cpu.c relies, and no others:
 *
 *	a push of an object		-> the pop of that object
 *	cpu_release() with an object	-> the pop of that object
 *	a push of an object		-> the claim, or the membarrier of a
 *					   drain, that finds the object loaded
 *
 * Two owners of a header are ordered by its word owned, and magazines in the
 * depot by a lock, both of which ThreadSanitizer sees.
 *
 * A round need not be an address, so each round has a word of a table.  Two
 * rounds may have the same word.  That can only hide a race.
 */
#ifndef TESTS_RSEQ_WATCHER_H
#define TESTS_RSEQ_WATCHER_H

#include <sanitizer/tsan_interface.h>

#define RSEQ_WATCHED (1u << 16)

/* One table for all files of a library or program. */
__attribute__((weak)) uint64_t rseq_watched[RSEQ_WATCHED];

static inline uint64_t *
rseq_word_of(const void *round)
{
	uint64_t hash = (uint64_t)(uintptr_t)round * 0x9e3779b97f4a7c15;

	return &rseq_watched[(hash >> 32) % RSEQ_WATCHED];
}

/* The calling thread has got these rounds from sections of other threads. */
static inline void
rseq_received(void *const *rounds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__tsan_acquire(rseq_word_of(rounds[i]));
}

/* A section of another thread may get these rounds from now on. */
static inline void
watched_release(void *const *rounds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__tsan_release(rseq_word_of(rounds[i]));
}

/* [a] 1: this process has claimed a header.  The locked mode claims none. */
__attribute__((weak)) uint32_t rseq_has_claimed;

/* Sections may get these rounds of the loaded magazine from now on. */
static inline void
rseq_handed_over(void *const *rounds, size_t n)
{
	if (load_relaxed(&rseq_has_claimed) != 0)
		watched_release(rounds, n);
}

static inline enum rseq_result
watched_pop(const struct rseq_place *place, uintptr_t at, void **object)
{
	enum rseq_result result = rseq_pop(place, at, object);

	if (result == RSEQ_OK)
		rseq_received(object, 1);
	return result;
}

static inline enum rseq_result
watched_pop_many(
    const struct rseq_place *place, uintptr_t at, void **objects, uintptr_t n)
{
	enum rseq_result result = rseq_pop_many(place, at, objects, n);

	if (result == RSEQ_OK)
		rseq_received(objects, n);
	return result;
}

static inline enum rseq_result
watched_push(const struct rseq_place *place, uintptr_t at, void *object)
{
	watched_release(&object, 1);
	return rseq_push(place, at, object);
}

static inline enum rseq_result
watched_push_chunk(
    const struct rseq_place *place, uintptr_t at, void *object, uint32_t x)
{
	watched_release(&object, 1);
	return rseq_push_chunk(place, at, object, x);
}

static inline enum rseq_result
watched_push_many(const struct rseq_place *place, uintptr_t at,
    void *const *objects, uintptr_t n)
{
	watched_release(objects, n);
	return rseq_push_many(place, at, objects, n);
}

/*
 * The rounds from bottom up.  Those below a mark were loaded when the last
 * owner released the header.
 */
static inline enum rseq_result
watched_claim(const struct rseq_place *place, struct cpu_hot *h, unsigned cpu,
    uintptr_t *top)
{
	enum rseq_result result = rseq_claim(place, h, cpu, top);
	uintptr_t bottom = load_relaxed(&h->bottom);

	store_relaxed(&rseq_has_claimed, 1);
	if (result == RSEQ_OK && (intptr_t)*top > (intptr_t)bottom)
		rseq_received(
		    (void **)bottom, (*top - bottom) / sizeof(void *));
	return result;
}

#define rseq_pop        watched_pop
#define rseq_pop_many   watched_pop_many
#define rseq_push       watched_push
#define rseq_push_chunk watched_push_chunk
#define rseq_push_many  watched_push_many
#define rseq_claim      watched_claim

#endif
