/*
 * roots_threads.c - stacks and thread descriptors: which memory is dead
 *
 * The search detects a dead stack as follows.  libc's descriptor of a thread
 * contains the thread's list of robust mutexes, which the kernel knows
 * (set_robust_list()), and the address of the stack.  If such a list belongs to
 * no live thread, the thread has ended.  The search looks for these lists in
 * two places:
 *
 *	near the end of each mapping, where the descriptor is if the stack has
 *	a mapping of its own
 *
 *	in libc's lists of all threads, because stacks whose guard pages are
 *	no mappings (MADV_GUARD_INSTALL of glibc 2.42 and later), and those
 *	without guard pages, are adjacent in one mapping
 *
 * On x86-64 the thread pointer is the address of the descriptor, and
 * thread-local data is below it.  On aarch64 it is the end of the descriptor,
 * and thread-local data is above it, behind 16 bytes.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/roots_inner.h"

/* The end of a mapping that is searched for a thread descriptor, in bytes. */
#define THREAD_SEARCH (64 * KIB)
#define THREAD_BYTES  2304

static_assert(THREAD_BYTES < THREAD_SEARCH / 4, "in each mapping that may have "
						"one");

/* In libc's descriptor, from the links of all threads to the robust mutexes. */
#define THREAD_LINKS 32

/* The heads of libc's lists of threads are adjacent; bytes of each. */
#define HEAD_BYTES ((uint64_t)16)

/* A list of more threads is damaged. */
#define THREADS_MAX (1 << 20)

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

/* Reads a range page by page; a page that cannot be read has zeros. */
static void
read_pages(struct target *target, struct range range, uint64_t *words)
{
	const uint64_t page = 4096;
	char *to = (char *)words;

	for (uint64_t at = range.start, n; at < range.end; at += n, to += n) {
		n = page - at % page;
		if (range.end - at < n)
			n = range.end - at;
		if (!target_peek(target, at, to, n))
			memset(to, 0, n);
	}
}

/* Returns the last empty list of robust mutexes in a range; 0: none. */
static uint64_t
robust_list(struct target *target, struct range range)
{
	static uint64_t words[THREAD_SEARCH / 8];
	size_t n = (range.end - range.start) / 8;

	assert(range.end - range.start <= sizeof(words));
	read_pages(target, range, words);
	for (size_t i = n < 3 ? 0 : n - 1; i-- > 1;) {
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
 * libc's lists of threads, since 2.34: of those on its own stacks, of those on
 * stacks of the program, and of ended ones whose stacks it keeps for the next
 * thread (_dl_stack_used, _dl_stack_user and _dl_stack_cache, in this order).
 * The heads are in the data of the loader, the other links in descriptors.
 *
 * Returns the head of the list that has the links at at; 0: none, or the head
 * is in the .bss of a static program, and looks like a link.
 */
static uint64_t
list_head(struct model *model, uint64_t at)
{
	uint64_t first = at;

	for (size_t n = 0; n < THREADS_MAX; n++) {
		const struct mapping *m = target_mapping(model->target, at);

		if (m == NULL)
			return 0;
		if (m->file)
			return at;
		at = model_peek_word(model, at);
		if (at == first)
			return 0;
	}
	return 0;
}

/* Adds the addresses of the links in a list.  Returns false if it is none. */
static bool
add_links(struct model *model, uint64_t head, struct ranges *out)
{
	size_t before = out->n;
	uint64_t at = head, next, links[2] = {0}; /* to the next, and back */

	target_peek(model->target, head, links, sizeof(links));
	for (size_t n = 0; n < THREADS_MAX; n++) {
		next = links[0];
		if (!target_peek(model->target, next, links, sizeof(links)) ||
		    links[1] != at)
			break;
		if (next == head)
			return true;
		ranges_add(out, next, HEAD_BYTES);
		at = next;
	}
	out->n = before;
	return false;
}

/* Returns a head of libc's lists of threads; 0: not found. */
static uint64_t
some_head(struct model *model)
{
	struct target *target = model->target;
	uint64_t head = 0;

	for (size_t i = 0; i < target->nthreads && head == 0; i++) {
		uint64_t tp = target->threads[i].tp;

		head = list_head(
		    model, tp - robust_distance(model) - THREAD_LINKS);
	}
	return head;
}

/*
 * Returns the thread pointers of the ended threads in libc's lists of threads.
 * head is one of the three heads, or 0.  The last list is that of the stacks
 * that libc keeps; its threads, which were joined or detached, are those from
 * *first_joined on.
 */
static struct ranges
listed_dead(struct model *model, uint64_t head, size_t *first_joined)
{
	uint64_t distance = robust_distance(model);
	struct ranges out = {0};
	size_t n = 0, kept = 0;

	for (int i = -1; head != 0 && i <= 2; i++) {
		size_t before = out.n;

		if (add_links(model, head + (uint64_t)i * HEAD_BYTES, &out))
			kept = before;
	}
	*first_joined = 0;
	for (size_t i = 0; i < out.n; i++) {
		if (i == kept)
			*first_joined = n;
		uint64_t list = out.range[i].start + THREAD_LINKS;
		uint64_t tp = list + distance;
		struct range words = {list - 8, list + 16};

		if (!has_thread_pointer(model->target, tp) &&
		    robust_list(model->target, words) == list)
			out.range[n++].start = tp;
	}
	if (kept == out.n)
		*first_joined = n;
	out.n = n;
	return out;
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
thread_stack(struct target *target, uint64_t tp)
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
	struct range stack = thread_stack(target, t->tp);

	if (!t->stopped || m == NULL)
		return;
	if (strcmp(m->name, "[stack]") == 0)
		stack = (struct range){m->start, m->end};
	/* The lowest page, the guard page, may be a separate mapping. */
	if (stack.start < m->start)
		stack.start = m->start;
	if (t->sp < stack.end && t->sp - RED_ZONE > stack.start)
		ranges_add(dead, stack.start, t->sp - RED_ZONE - stack.start);
}

/*
 * Is a thread that has ended not joined yet?  Its result is then only in libc's
 * descriptor, and its number there is 0.  After the join the number is -1.  The
 * number of a detached thread is 0, too, but its descriptor contains its own
 * address, behind the list.  With glibc 2.43 the number is 0 after the join,
 * too; the thread is then in the list of kept stacks.
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

/*
 * Adds the stack of an ended thread, which had the thread pointer tp.
 * is_joined: it is known that the thread was joined or detached.
 */
static void
add_dead(struct model *model, uint64_t tp, bool is_joined, struct ranges *dead)
{
	uint64_t list = tp - robust_distance(model);
	const struct mapping *m = target_mapping(model->target, list);
	uint64_t descriptor = list - THREAD_ROBUST;
	struct range stack = thread_stack(model->target, tp);

	if (m == NULL || !m->write)
		return;
	/* The guard page may be a separate mapping. */
	if (stack.start < m->start)
		stack.start = m->start;
	/* A damaged target may have any address. */
	if (stack.start >= descriptor || list >= stack.end ||
	    tp + 16 > stack.end)
		return;
	ranges_add(dead, stack.start, descriptor - stack.start);
	if (!is_joined &&
	    awaits_join(model->target, list, list < tp ? tp : stack.end))
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
	uint64_t begin = at == 0 ? 0 : model_peek_word(model, at);
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
	uint64_t head = some_head(model);
	size_t first_joined;
	struct ranges listed = listed_dead(model, head, &first_joined);

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
	for (size_t i = 0; i < listed.n; i++)
		add_near(model, listed.range[i].start, THREAD_BYTES,
		    THREAD_BYTES, out);
	/* Read again by roots_add_dead_stacks(). */
	add_near(model, head, 2 * HEAD_BYTES, 4 * HEAD_BYTES, out);
	free(listed.range);
}

void
roots_add_dead_stacks(struct model *model, struct ranges *out)
{
	struct target *target = model->target;
	size_t first_joined;
	struct ranges listed =
	    listed_dead(model, some_head(model), &first_joined);

	for (size_t i = 0; i < target->nmaps; i++) {
		uint64_t list = dead_thread(model, &target->maps[i]);

		if (list != 0)
			add_dead(model, list + robust_distance(model),
			    /* is_joined */ false, out);
	}
	for (size_t i = 0; i < listed.n; i++)
		add_dead(model, listed.range[i].start, i >= first_joined, out);
	free(listed.range);
	for (size_t i = 0; i < target->nthreads; i++)
		add_below(target, &target->threads[i], out);
	add_first_dead(model, out);
}
