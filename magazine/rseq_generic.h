/*
 * rseq_generic.h - no restartable operations: each thread is one without an
 * area, and uses the locks
 *
 * The contracts are in rseq.h.
 */
#ifndef MAGAZINE_RSEQ_GENERIC_H
#define MAGAZINE_RSEQ_GENERIC_H

#define RSEQ_HAS_SECTIONS false
/* The kernel never sees it. */
#define RSEQ_SIGNATURE    0

static inline const char *
rseq_obstacle(void)
{
	return "the library has no sections for this architecture";
}

static inline enum rseq_result
rseq_pop(const struct rseq_place *place, uintptr_t at, void **object)
{
	(void)place;
	(void)at;
	*object = NULL;
	return RSEQ_UNREGISTERED;
}

static inline enum rseq_result
rseq_push(const struct rseq_place *place, uintptr_t at, void *object)
{
	(void)place;
	(void)at;
	(void)object;
	return RSEQ_UNREGISTERED;
}

static inline enum rseq_result
rseq_push_chunk(
    const struct rseq_place *place, uintptr_t at, void *object, uint32_t x)
{
	(void)x;
	return rseq_push(place, at, object);
}

static inline enum rseq_result
rseq_pop_many(
    const struct rseq_place *place, uintptr_t at, void **objects, uintptr_t n)
{
	(void)n;
	return rseq_pop(place, at, objects);
}

static inline enum rseq_result
rseq_push_many(const struct rseq_place *place, uintptr_t at,
    void *const *objects, uintptr_t n)
{
	(void)n;
	return rseq_push(place, at, *objects);
}

static inline enum rseq_result
rseq_claim(const struct rseq_place *place, struct cpu_hot *h, unsigned cpu,
    uintptr_t *top)
{
	(void)place;
	(void)h;
	(void)cpu;
	*top = 0;
	return RSEQ_UNREGISTERED;
}

static inline unsigned
rseq_cpu(const struct rseq_place *place)
{
	(void)place;
	return 0;
}

#endif
