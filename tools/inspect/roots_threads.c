/*
 * roots_threads.c - stacks and thread descriptors: which memory is dead
 *
 * The search detects a dead stack as follows.  libc's descriptor of a thread
 * begins with its own address, twice, and contains the address of the stack.
 * If such a descriptor is near the end of a mapping and belongs to no live
 * thread, the thread has ended.
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

static bool
has_thread_pointer(const struct target *target, uint64_t tp)
{
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].tp == tp)
			return true;
	return false;
}

/* Returns the address of the descriptor of an ended thread; 0: none. */
static uint64_t
dead_thread(struct target *target, const struct mapping *m)
{
	uint64_t at = m->end - THREAD_BYTES;
	uint64_t least = m->start;

	if (!may_have_thread(m))
		return 0;
	if (m->end - least > THREAD_SEARCH)
		least = m->end - THREAD_SEARCH;
	for (at &= ~(uint64_t)63; at > least; at -= 64) {
		const uint64_t *words = target_array(target, at, 3);

		if (words != NULL && words[0] == at && words[2] == at)
			return has_thread_pointer(target, at) ? 0 : at;
	}
	return 0;
}

/*
 * Returns the stack of a thread, from libc's descriptor of the thread at tp.
 * Two words of the descriptor are the address and the bytes of the stack, and
 * the descriptor is near the end of the stack.  Returns an empty range if these
 * are not found, as for the first thread.
 */
static struct range
stack_of(struct target *target, uint64_t tp)
{
	const uint64_t page = 4096;
	uint64_t from = tp - THREAD_BYTES;
	const uint64_t *words =
	    target_array(target, from, 2 * THREAD_BYTES / 8);
	size_t n = 2 * THREAD_BYTES / 8;

	if (words == NULL) {
		n /= 2;
		words = target_array(target, tp, THREAD_BYTES / 8);
	}
	for (size_t i = 0; words != NULL && i + 1 < n; i++) {
		uint64_t start = words[i], bytes = words[i + 1];

		/* A 0 before the address of some page must not match. */
		if (start != 0 && start % page == 0 && bytes % page == 0 &&
		    start < tp && bytes >= 4 * page && start + bytes > tp &&
		    start + bytes - tp <= THREAD_SEARCH)
			return (struct range){start, tp};
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

static bool
has_tid(struct target *target, const struct thread *t, size_t i)
{
	const int *words =
	    (const int *)target_array(target, t->tp, THREAD_BYTES / 8);

	return words != NULL && words[i] == t->tid;
}

/*
 * Returns the index of the integer in libc's thread descriptor that equals the
 * thread's number in every live thread.  0: none, as in a container.
 */
static size_t
tid_index(const struct model *model)
{
	static const struct model *of;
	static size_t found;
	struct target *target = model->target;

	if (of == model)
		return found;
	of = model;
	found = 0;
	for (size_t i = 4; i < THREAD_BYTES / 4 && found == 0; i++) {
		size_t n = 0;

		while (n < target->nthreads &&
		       has_tid(target, &target->threads[n], i))
			n++;
		if (n == target->nthreads)
			found = i;
	}
	return found;
}

/*
 * Is a thread that has ended not joined yet?  Its result is then only in libc's
 * descriptor, and its number there is 0.  After the join the number is -1.  The
 * number of a detached thread is 0, too, but its descriptor contains its own
 * address once more.
 */
static bool
awaits_join(struct model *model, uint64_t tcb)
{
	size_t tid = tid_index(model);
	const uint64_t *words =
	    target_array(model->target, tcb, THREAD_BYTES / 8);
	size_t nself = 0;

	if (words == NULL || tid == 0)
		return true;
	assert(tid < THREAD_BYTES / 4);
	for (size_t i = 0; i < THREAD_BYTES / 8; i++)
		nself += words[i] == tcb;
	return ((const int *)words)[tid] == 0 && nself == 2;
}

/* Adds the stack of an ended thread, if the mapping is such a stack. */
static void
add_dead(struct model *model, const struct mapping *m, struct ranges *dead)
{
	struct target *target = model->target;
	uint64_t tcb = m->write ? dead_thread(target, m) : 0;
	uint64_t bottom = tcb ? stack_of(target, tcb).start : 0;

	if (bottom == 0)
		return;
	/* The guard page is a separate mapping. */
	if (bottom < m->start)
		bottom = m->start;
	ranges_add(dead, bottom, tcb - bottom);
	/* libc keeps the thread-local storage vector for the next thread. */
	if (!awaits_join(model, tcb))
		ranges_add(dead, tcb + 16, THREAD_BYTES - 16);
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
