/*
 * cpu_pushes.c - counts the pushes of a CPU, and estimates its rounds
 *
 * The top of a CPU's header 0 is the push counter of the CPU (cpu_layout.h).
 * Each push decrements it, and a push that finds it at 0 takes the slow path,
 * which calls cpu_ticked().  So maintenance is done although all calls are
 * served from magazines, and some rounds are marked.
 *
 * Two countdowns share the counter.  The counter holds the shorter one, and
 * left[i] is how much longer countdown i is.  When the counter is 0, the events
 * with left[i] == 0 are due; the push that finds it so belongs to them.  The
 * rest of the other event becomes shorter by 1.
 *
 * The counter costs each free() two instructions.  They stay, because nothing
 * else reaches a program with one thread whose calls all end in a magazine:
 * after 1 GiB of frees it would keep 420 MiB instead of 5, and a copy for the
 * command umem would have to stop it.  rseq_x86_64.h has the time without them.
 */
#include "magazine/cpu_inner.h"
#include "magazine/cpu_marks.h"

/* The push counter in a CPU's header 0. */
static uint32_t *
pushes_of(struct cpu_hot *none)
{
	return (uint32_t *)(void *)((char *)none + CPU_PUSHES_AT);
}

/* The cold part of a CPU's header 0, which has no magazines. */
static struct cpu_cold *
cold_of_none(struct cpu_hot *none)
{
	return (void *)((char *)none + CPU_COLD_AT);
}

/* The rest of a countdown at whose end nothing happens. */
#define LEFT_NEVER UINT32_MAX

struct cpu_marks cpu_marks;

static bool
marks_are_on(void)
{
	return load_relaxed(&cpu_marks.bytes_max) != 0;
}

/*
 * pushes is written first: bottom publishes the block (is_committed()).  The
 * counter is stored last, because a pop would treat it as the top of a magazine
 * while bottom is 0.  The countdown to a candidate starts when the counter has
 * run out: at the first push, if rounds are marked.
 */
void
cpu_pushes_start(struct cpu_hot *none)
{
	struct push_counter *pushes = &cold_of_none(none)->pushes;
	uint32_t n = load_relaxed(&cpu_layer.tick_pushes);
	uint32_t first = marks_are_on() ? 0 : n;

	pushes->left[COUNTED_TICK] = n - first;
	pushes->left[COUNTED_CANDIDATE] = LEFT_NEVER;
	store_release(&none->bottom, CPU_NO_BOTTOM);
	store_release(pushes_of(none), first);
}

/*
 * Shorten the counters above n.  A section on another CPU may overwrite a store
 * to its counter.  The next slow push on that CPU then sets the counter.
 */
static void
shorten_all_locked(uint32_t n)
{
	lock_assert_held(&cpu_regions_lock);
	for (unsigned cpu = 0; cpu < cpu_layer.nused; cpu++) {
		uint32_t *counter =
		    pushes_of(hot_of(header_hot(cpu_regions, 0), cpu));

		if (cpu_regions->committed[cpu] && load_relaxed(counter) > n)
			store_relaxed(counter, n);
	}
}

void
cpu_set_tick_pushes(uint32_t n)
{
	/* Otherwise a new block could start with the old number meanwhile. */
	lock_take(&cpu_regions_lock);
	store_relaxed(&cpu_layer.tick_pushes, n);
	shorten_all_locked(n);
	lock_release(&cpu_regions_lock);
}

void
cpu_set_marks(size_t bytes_max)
{
	size_t before;

	lock_take(&cpu_regions_lock);
	before = __atomic_exchange_n(
	    &cpu_marks.bytes_max, bytes_max, __ATOMIC_RELAXED);
	/* The next push of each CPU starts the countdown to a candidate. */
	if (before == 0 && bytes_max != 0)
		shorten_all_locked(0);
	lock_release(&cpu_regions_lock);
}

/* The pushes from the next one to that of an event that has just occurred. */
static uint32_t
distance_after(enum counted_event event)
{
	return event == COUNTED_TICK ? load_relaxed(&cpu_layer.tick_pushes)
				     : cpu_marks.chooser->candidate_distance();
}

/*
 * Restart a push counter that has run out.  Returns true if a tick is due.
 *
 * Relaxed: the owners of two headers of one CPU may run this at the same time,
 * and a store of one of them may be lost.
 */
static bool
pushes_again(struct push_counter *pushes, uint32_t *counter, uint32_t reload)
{
	uint32_t left[COUNTED_EVENTS], least = reload;
	bool is_tick = false;

	for (unsigned i = 0; i < COUNTED_EVENTS; i++) {
		left[i] = load_relaxed(&pushes->left[i]);
		if (left[i] == 0) {
			is_tick |= i == COUNTED_TICK;
			left[i] = distance_after(i);
		} else if (left[i] != LEFT_NEVER) {
			left[i]--;
		}
	}
	if (left[COUNTED_TICK] > reload)
		left[COUNTED_TICK] = reload;
	if (!marks_are_on())
		left[COUNTED_CANDIDATE] = LEFT_NEVER;
	else if (left[COUNTED_CANDIDATE] == LEFT_NEVER)
		left[COUNTED_CANDIDATE] =
		    cpu_marks.chooser->candidate_distance();
	for (unsigned i = 0; i < COUNTED_EVENTS; i++)
		if (left[i] < least)
			least = left[i];
	for (unsigned i = 0; i < COUNTED_EVENTS; i++)
		store_relaxed(&pushes->left[i],
		    left[i] == LEFT_NEVER ? LEFT_NEVER : left[i] - least);
	store_relaxed(counter, least);
	return is_tick;
}

/*
 * The thread owns no header and may meanwhile have left the CPU, so a store
 * here can be lost, or can undo the decrement of a section.  Either only moves
 * the next forced push.
 */
enum candidate
cpu_take_candidate(size_t bytes)
{
	struct cpu_hot *none = cpu_header_none();
	unsigned cpu = rseq_cpu(&cpu_layer.place);
	struct push_counter *pushes;
	uint32_t *counter;

	if (!marks_are_on() || !is_cpu(cpu) || !is_committed(none, cpu))
		return CANDIDATE_NONE;
	none = hot_of(none, cpu);
	counter = pushes_of(none);
	pushes = &cold_of_none(none)->pushes;
	if ((int32_t)load_relaxed(counter) >= 0 ||
	    load_relaxed(&pushes->left[COUNTED_CANDIDATE]) != 0)
		return CANDIDATE_NONE;
	/* cpu_ticked() restarts the counter if it has run out for it, too. */
	if (load_relaxed(&pushes->left[COUNTED_TICK]) != 0)
		pushes_again(
		    pushes, counter, load_relaxed(&cpu_layer.tick_pushes));
	else
		store_relaxed(&pushes->left[COUNTED_CANDIDATE],
		    cpu_marks.chooser->candidate_distance() + 1);
	return bytes != 0 && cpu_marks.chooser->accept(bytes)
		   ? CANDIDATE_ACCEPTED
		   : CANDIDATE_REJECTED;
}

bool
cpu_ticked(const struct cpu_owned *owned, uint32_t npushes)
{
	uint32_t reload = load_relaxed(&cpu_layer.tick_pushes);
	struct cpu_hot *none = hot_of(header_hot(cpu_regions, 0), owned->cpu);
	uint32_t left;
	uint32_t *counter;

	counter = pushes_of(none);
	/*
	 * Relaxed: sections of this CPU continue to count meanwhile, and the
	 * exact count does not matter.
	 */
	left = load_relaxed(counter);
	if (npushes != 0) {
		left -= npushes;
		store_relaxed(counter, left);
	}
	if (left <= reload)
		return false;
	if ((int32_t)left < 0)
		return pushes_again(
		    &cold_of_none(none)->pushes, counter, reload);
	store_relaxed(counter, reload);
	return false;
}

/*
 * Racy estimate of the rounds in the loaded magazine.  Because top and bottom
 * may be of different moments, a wrong result is possible; it is harmless.  A
 * difference that no magazine can have counts as 0.
 */
static size_t
header_rounds_estimate(const struct cpu_hot *h)
{
	intptr_t top = (intptr_t)load_relaxed(&h->top);
	intptr_t bottom = (intptr_t)load_relaxed(&h->bottom);
	size_t n = top > bottom ? (size_t)(top - bottom) / sizeof(void *) : 0;

	return n <= MAGAZINE_ROUNDS_MAX ? n : 0;
}

size_t
cpu_rounds_estimate(struct cpu_hot *hot, unsigned cpu)
{
	return cpu < cpu_layer.nslots ? header_rounds_estimate(hot_of(hot, cpu))
				      : 0;
}
