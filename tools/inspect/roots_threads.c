/*
 * roots_threads.c - stacks and thread descriptors: which memory is dead
 *
 * The search detects a dead stack as follows.  libc's descriptor of a thread
 * contains the thread's list of robust mutexes, which the kernel knows
 * (set_robust_list()), and the address of the stack.  If such a list is near
 * the end of a mapping and belongs to no live thread, the thread has ended.
 *
 * On x86-64 the thread pointer is the address of the descriptor, and
 * thread-local data is below it.  On aarch64 it is the end of the descriptor,
 * and thread-local data is above it, behind 16 bytes.
 */
#include <string.h>

#include "tools/inspect/roots_inner.h"

/* The end of a mapping that is searched for a thread descriptor, in bytes. */
#define THREAD_SEARCH (64 * KIB)
#define THREAD_BYTES  2304

static_assert(THREAD_BYTES < THREAD_SEARCH / 4, "in each mapping that may have "
						"one");

/* May a thread descriptor of libc be near the end of the mapping? */
static bool
may_have_thread(const struct mapping *m)
{
	return !m->file && !m->shared && m->end - m->start >= THREAD_SEARCH / 4;
}

/* Adds the pages of [at - before, at + after) that are in at's mapping. */
static void
add_near(struct model *model, uint64_t at, uint64_t before, uint64_t after,
    struct ranges *out)
{
	const uint64_t page = 4096;
	struct target *target = model->target;
	const struct mapping *m = target_mapping(target, at);

	if (m == NULL || !roots_has_mapping(target, (size_t)(m - target->maps)))
		return;
	if (at - m->start > before)
		at = (at - before) / page * page;
	else
		at = m->start;
	after = (before + after + 2 * page - 1) / page * page;
	ranges_add(out, at, m->end - at < after ? m->end - at : after);
}

/* Returns the range that has libc's descriptor of a thread. */
static struct range
range_near(struct target *target, uint64_t tp)
{
	const struct mapping *m = target_mapping(target, tp);
	struct range near = {tp - THREAD_BYTES, tp + THREAD_BYTES};

	if (m == NULL)
		return (struct range){0};
	if (tp - m->start < THREAD_BYTES)
		near.start = m->start;
	if (m->end - tp < THREAD_BYTES)
		near.end = m->end;
	return near;
}

static bool
has_thread_pointer(const struct target *target, uint64_t tp)
{
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].tp == tp)
			return true;
	return false;
}

/*
 * The words before and at the start of an empty list are the address of the
 * start.  Then comes the distance of a mutex's lock from its place in the list,
 * which is -32.
 */
#define LOCK_DISTANCE (UINT64_MAX - 31)

/* Returns the last empty list of robust mutexes in a range; 0: none. */
static uint64_t
robust_list(struct target *target, struct range range)
{
	size_t n = (range.end - range.start) / 8;
	const uint64_t *words = target_array(target, range.start, n);

	for (size_t i = words == NULL || n < 3 ? 0 : n - 2; i-- > 1;) {
		uint64_t at = range.start + 8 * i;

		if (words[i] == at && words[i - 1] == at &&
		    words[i + 1] == LOCK_DISTANCE)
			return at;
	}
	return 0;
}

/*
 * Returns the distance from a list of robust mutexes to the thread pointer,
 * which is that of a live thread; 0: not known.
 */
static uint64_t
robust_distance(const struct model *model)
{
	static const struct model *of;
	static uint64_t found;
	struct target *target = model->target;

	if (of == model)
		return found;
	of = model;
	found = 0;
	for (size_t i = 0; i < target->nthreads && found == 0; i++) {
		uint64_t tp = target->threads[i].tp;
		struct range near = range_near(target, tp);
		uint64_t list = robust_list(target, near);

		if (list != 0)
			found = tp - list;
	}
	return found;
}

/*
 * Returns the list of robust mutexes of an ended thread, whose descriptor is
 * near the end of a mapping; 0: none.
 */
static uint64_t
dead_thread(struct model *model, const struct mapping *m)
{
	struct range range = {m->start, m->end};
	uint64_t distance = robust_distance(model), list;

	if (!may_have_thread(m) || distance == 0)
		return 0;
	if (range.end - range.start > THREAD_SEARCH)
		range.start = range.end - THREAD_SEARCH;
	list = robust_list(model->target, range);
	return has_thread_pointer(model->target, list + distance) ? 0 : list;
}

/*
 * Returns the stack of a thread with the thread pointer tp, with the descriptor
 * and the data of the thread at its end.  Two words of the descriptor are the
 * address and the bytes of the stack.  Returns an empty range if these are not
 * found, as for the first thread.
 */
static struct range
stack_of(struct target *target, uint64_t tp)
{
	const uint64_t page = 4096;
	struct range near = range_near(target, tp);
	size_t n = (near.end - near.start) / 8;
	const uint64_t *words = target_array(target, near.start, n);

	for (size_t i = 0; words != NULL && i + 1 < n; i++) {
		uint64_t start = words[i], bytes = words[i + 1];

		/* A 0 before the address of some page must not match. */
		if (start != 0 && start % page == 0 && bytes % page == 0 &&
		    start < tp && bytes >= 4 * page && start + bytes > tp &&
		    start + bytes - tp <= THREAD_SEARCH)
			return (struct range){start, start + bytes};
	}
	return (struct range){0};
}

/*
 * Adds the memory below a live thread's stack pointer, if the thread runs on
 * the stack that libc or, for the first thread, the kernel gave it.  A signal
 * stack, or a stack that the program made for a context, may have other stacks
 * below it.
 */
static void
add_below(struct target *target, const struct thread *t, struct ranges *dead)
{
	const struct mapping *m = target_mapping(target, t->sp);
	struct range stack = stack_of(target, t->tp);

	if (!t->stopped || m == NULL)
		return;
	if (strcmp(m->name, "[stack]") == 0)
		stack = (struct range){m->start, m->end};
	/* The lowest page is the guard page, which is a separate mapping. */
	if (stack.start < m->start)
		stack.start = m->start;
	if (t->sp < stack.end && t->sp - RED_ZONE > stack.start)
		ranges_add(dead, stack.start, t->sp - RED_ZONE - stack.start);
}

/*
 * Is a thread that has ended not joined yet?  Its result is then only in libc's
 * descriptor, and its number there is 0.  After the join the number is -1.  The
 * number of a detached thread is 0, too, but its descriptor contains its own
 * address, behind the list.
 */
static bool
awaits_join(struct target *target, uint64_t list, uint64_t end)
{
	uint64_t number = list - 16, descriptor = list - THREAD_ROBUST;
	const uint64_t *words =
	    target_array(target, number, (end - number) / 8);

	if (words == NULL)
		return true;
	for (size_t i = 2; i < (end - number) / 8; i++)
		if (words[i] == descriptor)
			return false;
	return (int)words[0] == 0;
}

/* Adds the stack of an ended thread, if the mapping is such a stack. */
static void
add_dead(struct model *model, const struct mapping *m, struct ranges *dead)
{
	uint64_t list = m->write ? dead_thread(model, m) : 0;
	uint64_t tp = list + robust_distance(model);
	uint64_t descriptor = list - THREAD_ROBUST;
	struct range stack = {0};

	if (list != 0)
		stack = stack_of(model->target, tp);
	/* The guard page is a separate mapping. */
	if (stack.start < m->start)
		stack.start = m->start;
	/* A damaged target may have any address. */
	if (stack.start >= descriptor || list >= stack.end ||
	    tp + 16 > stack.end)
		return;
	ranges_add(dead, stack.start, descriptor - stack.start);
	if (awaits_join(model->target, list, list < tp ? tp : stack.end))
		return;
	/* libc keeps the thread-local storage vector for the next thread. */
	if (descriptor < tp)
		ranges_add(dead, descriptor, tp - descriptor);
	ranges_add(dead, tp + 16, stack.end - (tp + 16));
}

/*
 * Adds the frames of the first thread if that thread has ended.  They are in
 * the memory that the kernel mapped for its stack, below the address with which
 * the program began, which libc stores.
 */
static void
add_first_dead(struct model *model, struct ranges *dead)
{
	struct target *target = model->target;
	uint64_t at = layout_variable(model->layout, target, L_LIBC_STACK_END);
	uint64_t begin = at == 0 ? 0 : roots_number_at(model, at);
	const struct mapping *m = target_mapping(target, begin);

	if (m == NULL || target->pid == 0)
		return;
	for (size_t i = 0; i < target->nthreads; i++) {
		const struct thread *t = &target->threads[i];

		if (t->tid == target->pid || target_mapping(target, t->sp) == m)
			return;
	}
	ranges_add(dead, m->start, begin - m->start);
}

void
roots_add_thread_memory(struct model *model, struct ranges *out)
{
	struct target *target = model->target;

	for (size_t i = 0; i < target->nthreads; i++) {
		const struct thread *t = &target->threads[i];

		add_near(model, t->sp, RED_ZONE, NEAR_FRAMES, out);
		add_near(model, t->tp, THREAD_BYTES, THREAD_BYTES, out);
	}
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];

		if (may_have_thread(m) && roots_is_outside_heap(model, m))
			add_near(model, m->end - 1,
			    THREAD_SEARCH + THREAD_BYTES, 0, out);
	}
}

void
roots_add_dead_stacks(struct model *model, struct ranges *out)
{
	struct target *target = model->target;

	for (size_t i = 0; i < target->nmaps; i++)
		add_dead(model, &target->maps[i], out);
	for (size_t i = 0; i < target->nthreads; i++)
		add_below(target, &target->threads[i], out);
	add_first_dead(model, out);
}
