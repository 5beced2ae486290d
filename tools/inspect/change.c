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
 *	(umem/malloc/sample.c).
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
#include <sys/ptrace.h>

#include "tools/inspect/change.h"

struct target *
change_open(const char *name, struct layout **layout)
{
	struct target *target = target_open(name);

	if (!target->live)
		fail_with(EXIT_ERROR, "%s: is a core file", target->name);
	*layout = layout_find(target);
	target_hold(target);
	if (layout_variable(*layout, target, L_UMEM_STATE) !=
	    layout_value(*layout, L_UMEM_READY))
		fail_with(EXIT_ERROR,
		    "%s: libumem is loaded there and not in use yet",
		    target->name);
	return target;
}

static void
write_word(struct target *target, uint64_t at, uint64_t value)
{
	assert(target->held);
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].stopped &&
		    ptrace(PTRACE_POKEDATA, target->threads[i].tid, (void *)at,
			(void *)value) == 0)
			return;
	fail_with(EXIT_ERROR, "%s: cannot be changed: %s", target->name,
	    strerror(errno));
}

static uint64_t
read_word(struct target *target, uint64_t at)
{
	uint64_t value;

	if (!target_peek(target, at, &value, sizeof(value)))
		fail_with(EXIT_ERROR, "%s: cannot be read", target->name);
	return value;
}

/* The kernel writes whole words only, so the bytes around are written, too. */
void
change_number(
    struct target *target, uint64_t at, uint64_t bytes, uint64_t value)
{
	uint64_t offset = at % sizeof(uint64_t);
	uint64_t word = read_word(target, at - offset);

	if (bytes == 0 || bytes > sizeof(word) - offset)
		fail_with(EXIT_ERROR, "%s: an option lies at a wrong address",
		    target->name);
	memcpy((char *)&word + offset, &value, bytes);
	write_word(target, at - offset, word);
}

void
change_sampling(struct target *target, const struct layout *l, uint64_t mean)
{
	uint64_t sampling = layout_value(l, L_SAMPLING);
	uint64_t fast = layout_value(l, L_ALLOC_FAST);

	if (read_word(target, sampling + layout_value(l, L_SAMPLING_ABLE)) == 0)
		fail_with(EXIT_ERROR,
		    "%s: every block is checked there already "
		    "(UMEM_DEBUG, hardened, or a memory checker)",
		    target->name);
	write_word(target, sampling + layout_value(l, L_SAMPLING_MEAN), mean);
	write_word(
	    target, sampling + layout_value(l, L_SAMPLING_CHOSEN), ~mean);
	write_word(
	    target, sampling + layout_value(l, L_SAMPLING_COUNTED_END), 0);
	write_word(target, fast + layout_value(l, L_FAST_SMALL_END), 0);
}
