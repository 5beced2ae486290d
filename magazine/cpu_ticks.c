/*
 * cpu_ticks.c - counts the pushes of a CPU, and estimates its rounds
 *
 * The top of a CPU's header 0 is the push counter of the CPU (cpu_layout.h).
 * Each push decrements it, and a push that finds it at 0 takes the slow path,
 * which calls cpu_ticked().  So maintenance is done although all calls are
 * served from magazines, and a sample of the pushes is checked.
 */
#include "magazine/cpu_inner.h"

/* The push counter in a CPU's header 0. */
static uint32_t *
ticks_of(struct cpu_hot *none)
{
	return (uint32_t *)(void *)((char *)none + CPU_TICKS_AT);
}

/* The cold part of a CPU's header 0, which has no magazines. */
static struct cpu_cold *
cold_of_none(struct cpu_hot *none)
{
	return (void *)((char *)none + CPU_COLD_AT);
}

/*
 * ticks_left is written first: bottom publishes the block (is_committed()).
 * The counter is stored last, because a pop would treat it as the top of a
 * magazine while bottom is 0.
 */
void
cpu_ticks_start(struct cpu_hot *none)
{
	uint32_t n = __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED);

	if (cpu_layer.checks)
		cold_of_none(none)->ticks_left = n;
	__atomic_store_n(&none->bottom, CPU_NO_BOTTOM, __ATOMIC_RELEASE);
	__atomic_store_n(
	    ticks_of(none), cpu_layer.checks ? 0 : n, __ATOMIC_RELEASE);
}

/*
 * A section on another CPU may overwrite a store to its counter.  The next slow
 * push on that CPU then sets the counter.
 */
void
cpu_set_ticks(uint32_t n)
{
	/* Otherwise a new block could start with the old number meanwhile. */
	lock_take(&cpu_regions_lock);
	__atomic_store_n(&cpu_layer.ticks, n, __ATOMIC_RELAXED);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		uint32_t *ticks =
		    ticks_of(hot_of(header_hot(cpu_regions, 0), cpu));

		if (cpu_regions->committed[cpu] &&
		    __atomic_load_n(ticks, __ATOMIC_RELAXED) > n)
			__atomic_store_n(ticks, n, __ATOMIC_RELAXED);
	}
	lock_release(&cpu_regions_lock);
}

/*
 * The first CHECKS_ALL pushes of a CPU are forced into the slow path and
 * checked.  Afterwards the distance between two checked pushes grows by
 * CHECKS_STEP each time.  Of n pushes about sqrt(2 * n / CHECKS_STEP) are
 * checked: 700 of a million.
 */
#define CHECKS_ALL  128
#define CHECKS_STEP 4

/*
 * Restart a push counter that has run out, if pushes are checked.  Returns the
 * flags of cpu_ticked().
 */
static unsigned
ticks_again(struct cpu_cold *cold, uint32_t *ticks, uint32_t reload)
{
	/*
	 * Relaxed: the owners of two headers of one CPU may run this at the
	 * same time, and a store of one of them may be lost.
	 */
	uint32_t left = __atomic_load_n(&cold->ticks_left, __ATOMIC_RELAXED);
	uint32_t n = __atomic_load_n(&cold->nchecks, __ATOMIC_RELAXED);
	uint32_t distance = 0;
	unsigned flags = CPU_CHECK;

	if (left == 0) {
		flags |= CPU_TICKED;
		left = reload;
	}
	if (left > reload)
		left = reload;
	if (n >= CHECKS_ALL)
		distance = (n - CHECKS_ALL + 1) * CHECKS_STEP;
	if (distance > left || n == UINT32_MAX / CHECKS_STEP)
		distance = left;
	else
		__atomic_store_n(&cold->nchecks, n + 1, __ATOMIC_RELAXED);
	left -= distance;
	__atomic_store_n(
	    &cold->ticks_left, left == 0 ? 0 : left - 1, __ATOMIC_RELAXED);
	__atomic_store_n(ticks, distance, __ATOMIC_RELAXED);
	return flags;
}

unsigned
cpu_ticked(const struct cpu_owned *owned, uint32_t npushes)
{
	uint32_t reload = __atomic_load_n(&cpu_layer.ticks, __ATOMIC_RELAXED);
	struct cpu_hot *none = hot_of(header_hot(cpu_regions, 0), owned->cpu);
	uint32_t left;
	uint32_t *ticks;

	ticks = ticks_of(none);
	/*
	 * Relaxed: sections of this CPU continue to count meanwhile, and the
	 * exact count does not matter.
	 */
	left = __atomic_load_n(ticks, __ATOMIC_RELAXED);
	if (npushes != 0) {
		left -= npushes;
		__atomic_store_n(ticks, left, __ATOMIC_RELAXED);
	}
	if (left <= reload)
		return 0;
	if (cpu_layer.checks && (int32_t)left < 0)
		return ticks_again(cold_of_none(none), ticks, reload);
	__atomic_store_n(ticks, reload, __ATOMIC_RELAXED);
	return (int32_t)left < 0 ? CPU_TICKED : 0;
}

/*
 * Racy estimate of the rounds in the loaded magazine.  Because top and bottom
 * may be of different moments, a wrong result is possible; it is harmless.  A
 * difference that no magazine can have counts as 0.
 */
static size_t
header_rounds_estimate(const struct cpu_hot *h)
{
	intptr_t top = (intptr_t)__atomic_load_n(&h->top, __ATOMIC_RELAXED);
	intptr_t bottom =
	    (intptr_t)__atomic_load_n(&h->bottom, __ATOMIC_RELAXED);
	size_t n = top > bottom ? (size_t)(top - bottom) / sizeof(void *) : 0;

	return n <= MAGAZINE_ROUNDS_MOST ? n : 0;
}

size_t
cpu_rounds_estimate(struct cpu_hot *hot)
{
	unsigned cpu = cpu_now();

	return cpu < cpu_layer.nslots ? header_rounds_estimate(hot_of(hot, cpu))
				      : 0;
}

size_t
cpu_rounds_estimate_all(unsigned *cpu)
{
	size_t n = 0;

	*cpu = cpu_now();
	if (*cpu >= cpu_layer.nslots ||
	    !__atomic_load_n(&cpu_regions->committed[*cpu], __ATOMIC_ACQUIRE))
		return 0;
	for (unsigned i = 0; i < CPU_HEADERS; i += 64) {
		uint64_t taken = __atomic_load_n(
		    &cpu_regions->taken[i / 64], __ATOMIC_RELAXED);

		if (i == 0)
			taken &= ~(uint64_t)1;
		for (; taken != 0; taken &= taken - 1)
			n += header_rounds_estimate(hot_of(
			    header_hot(cpu_regions, i + lowbit(taken)), *cpu));
	}
	return n;
}
