/*
 * change.c - changes of a running process: its options, and sampling
 *
 * The commands sample and ctl are the only ones that change a process.  They
 * write while every thread is stopped.
 *
 * An option that may change while the program runs is one number, which the
 * library reads at each use, so a thread sees the old value or the new one.
 *
 * Sampling.  Four words are written: mean, a value other than mean to chosen,
 * and 0 to counted_end and small_end.  The next allocation in the process then
 * takes the slow path, finds that the paths were chosen for another mean, and
 * calls alloc_choose_paths().  Without the write to chosen it would not, if
 * mean becomes what it was when the paths were chosen.  A thread may have been
 * stopped at any instruction.
 *	Before it has read a word: it will see the complete new state.
 *	After it has read small_end: it finishes this allocation in the old
 *	state.  The block is a sample or not, and both are correct
 *	(umem/profile/sample.c).
 *	In alloc_choose_paths(): it reads mean again after its last store, finds
 *	the new value, and starts over.
 *	After it has read the old mean for its next sample, or has drawn a
 *	distance from it: it takes at most one sample by the old mean.
 * If the command is killed between two writes, the first allocation that takes
 * the slow path anyway chooses the paths.  Without critical sections
 * (locked mode, or umem_setmtbf() in force) small_end is 0 before and after.
 */
#include <errno.h>
#include <string.h>

#include "tools/inspect/model/change.h"

struct target *
change_open(const char *name, struct layout **layout)
{
	struct target *target = target_open(name);

	if (!target->live)
		fail_with(EXIT_ERROR, "%s: is a core file", target->name);
	target_hold(target, HOLD_STACKS);
	*layout = layout_find_ready(target);
	return target;
}

void
change_number(
    struct target *target, uint64_t at, uint64_t bytes, uint64_t value)
{
	if (bytes == 0 || bytes > sizeof(value))
		fail_with(
		    EXIT_ERROR, "%s: an option has a wrong size", target->name);
	if (!live_poke(target, at, &value, bytes))
		fail_with(EXIT_ERROR, "%s: cannot be changed: %s", target->name,
		    strerror(errno));
}

static void
write_word(struct target *target, uint64_t at, uint64_t value)
{
	change_number(target, at, sizeof(value), value);
}

void
change_sampling(struct target *target, const struct layout *l, uint64_t mean)
{
	uint64_t sampling = layout_value(l, L_SAMPLING);
	uint64_t fast = layout_value(l, L_ALLOC_FAST), able;

	if (!layout_peek(l, target, sampling, L_SAMPLING_ABLE, &able))
		fail_with(EXIT_ERROR, "%s: cannot be read", target->name);
	if (able == 0)
		fail_with(EXIT_ERROR,
		    "%s: every block is checked there already "
		    "(UMEM_DEBUG, hardened, or a memory checker)",
		    target->name);
	if (mean != 0)
		write_word(target, layout_value(l, L_SUMS_RESET), 1);
	write_word(target, sampling + layout_value(l, L_SAMPLING_MEAN), mean);
	write_word(
	    target, sampling + layout_value(l, L_SAMPLING_CHOSEN), ~mean);
	write_word(
	    target, sampling + layout_value(l, L_SAMPLING_COUNTED_END), 0);
	write_word(target, fast + layout_value(l, L_FAST_SMALL_END), 0);
}
