/*
 * roots.c - where a program may keep pointers
 *
 *	registers	all registers of every thread, including vector
 *			registers: during a copy, a pointer may be only there
 *	stacks		from each thread's stack pointer (less the red zone)
 *			up, including the thread's own data, which libc keeps
 *			above its stack.  The memory below the stack pointer is
 *			dead.  The stack of a thread that has ended, which libc
 *			keeps for the next thread, is dead, too, except for the
 *			thread's result until the thread is joined.
 *			So are the frames of the first thread after it has
 *			ended: libc's functions that end the thread have
 *			overwritten those of main().  argv and the environment
 *			above them are searched
 *			If a thread runs on a stack that the program made (for
 *			signals or a context), no memory is known to be dead,
 *			because other stacks may be below it
 *	data		the written or relocated data of every file except the
 *			library
 *	other memory	that the program or libc has mapped for itself, and
 *			brk's: a program may hold pointers there.  (mdb treats
 *			mappings as if they were blocks.  But a program need
 *			not keep their addresses.)
 *	handed over	the argument of a cache's functions, and the start of
 *			a span of an arena, which may be a block
 *	the kernel	the user data of epoll and timers (target_kernel.c)
 *	arenas		memory that vmem_alloc() took from the heap: the arenas
 *			of a program do not record the owners of segments
 *
 * The search excludes the library's own structures (a magazine has the address
 * of every object in it), files that are mapped shared, and devices.
 *
 * The search detects a dead stack as follows.  libc's descriptor of a thread
 * begins with its own address, twice, and contains the address of the stack.
 * If such a descriptor is near the end of a mapping and belongs to no live
 * thread, the thread has ended.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/memory.h"
#include "tools/inspect/roots.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

/* The end of a mapping that is searched for a thread descriptor, in bytes. */
#define THREAD_SEARCH (64 * KIB)
#define THREAD_BYTES  2304

/* Memory for smaller copies is not faulted in beforehand. */
#define PREPARE_LEAST (256 * KIB)

/* Maximum distance of the library's frames from the stack pointer. */
#define NEAR_FRAMES (16 * KIB)

/* Minimum memory for a packed copy. */
#define NEED_LEAST (8 * MIB)

struct range {
	uint64_t start;
	uint64_t end;
};

struct ranges {
	struct range *range; /* sorted before use */
	size_t n, capacity;
};

static void
range_add(struct ranges *ranges, uint64_t start, uint64_t bytes)
{
	if (bytes == 0 || start + bytes < start)
		return;
	ARRAY_GROW(ranges->range, ranges->n, ranges->capacity);
	ranges->range[ranges->n++] =
	    (struct range){.start = start, .end = start + bytes};
}

static int
by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return order_numbers(x->start, y->start);
}

static void
ranges_sort(struct ranges *ranges)
{
	if (ranges->n != 0)
		qsort(
		    ranges->range, ranges->n, sizeof(*ranges->range), by_start);
}

static uint64_t
number_at(struct model *model, uint64_t at)
{
	uint64_t value = 0;

	target_peek(model->target, at, &value, sizeof(value));
	return value;
}

static void
add_meta_list(struct model *model, struct ranges *out, enum layout_entry list)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, list);
	struct cycle_detector cycles = {0};
	const char *record;

	while (cycle_continues(&cycles, at) &&
	       (record = target_at(model->target, at,
		    layout_value(l, L_META_RANGE_BYTES))) != NULL) {
		range_add(out, layout_get(l, record, L_RANGE_AT),
		    layout_get(l, record, L_RANGE_BYTES));
		at = layout_get(l, record, L_RANGE_NEXT);
	}
}

static void
add_cpus(struct model *model, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, L_REGIONS);
	const char *layer = layout_at(l, model->target, L_CPU_LAYER);
	struct cycle_detector cycles = {0};
	const char *region;

	while (layer != NULL && cycle_continues(&cycles, at) &&
	       (region = target_at(model->target, at,
		    layout_value(l, L_REGION_BYTES))) != NULL) {
		range_add(out, layout_get(l, region, L_REGION_BLOCKS),
		    layout_get(l, layer, L_LAYER_NSLOTS) *
			layout_value(l, L_CPU_BLOCK));
		at = layout_get(l, region, L_REGION_NEXT);
	}
}

/* The logs contain copies of freed buffers, which do not count as pointers. */
static void
add_logs(struct model *model, struct ranges *out)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_value(l, L_LOGS);
	uint64_t end = at + l->known[L_LOGS].bytes;

	for (; at < end; at += layout_value(l, L_LOG_BYTES)) {
		char log[256];
		uint64_t cpu;

		if (layout_value(l, L_LOG_BYTES) > sizeof(log) ||
		    !target_peek(
			model->target, at, log, layout_value(l, L_LOG_BYTES)) ||
		    layout_get(l, log, L_LOG_BASE) == 0)
			continue;
		/* One mapping: the chunks of the CPUs, then the log. */
		cpu = layout_get(l, log, L_LOG_CPU);
		range_add(out, cpu,
		    layout_get(l, log, L_LOG_BASE) +
			layout_get(l, log, L_LOG_SIZE) - cpu);
	}
}

/* Adds the library's data and bss, unless they are the program's, too. */
static void
add_object(struct model *model, struct ranges *out)
{
	uint64_t end = layout_value(model->layout, L_IMAGE_END);
	uint64_t start = UINT64_MAX;

	if (model->layout->in_program)
		return;
	for (size_t i = 0; i < model->target->nmaps; i++) {
		const struct mapping *m = &model->target->maps[i];

		if (strcmp(m->name, model->layout->object) != 0 || !m->file)
			continue;
		range_add(out, m->start, m->end - m->start);
		if (m->start < start)
			start = m->start;
	}
	if (start < end)
		range_add(out, start, end - start);
}

/* Returns all memory of the library itself, and the heap. */
static struct ranges
library_ranges(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t window = layout_value(l, L_HEAP_WINDOW);
	uint64_t units =
	    number_at(model, window + layout_value(l, L_WINDOW_UNITS));
	uint64_t map = layout_value(l, L_PAGE_MAP);
	struct ranges out = {0};

	range_add(&out, model->base, units * layout_value(l, L_HEAP_UNIT));
	range_add(&out, layout_variable(l, model->target, L_STATES), units);
	range_add(&out, number_at(model, map + layout_value(l, L_MAP_ENTRY)),
	    units * 4);
	range_add(&out, number_at(model, map + layout_value(l, L_MAP_OWNER)),
	    units * 8);
	add_meta_list(model, &out, L_CHUNKS);
	add_meta_list(model, &out, L_ALONES);
	add_cpus(model, &out);
	add_logs(model, &out);
	add_object(model, &out);
	ranges_sort(&out);
	return out;
}

static bool
starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool
is_special(const struct mapping *m)
{
	if (starts_with(m->name, "[v"))
		return true;
	return starts_with(m->name, "/dev/") &&
	       !starts_with(m->name, "/dev/zero") &&
	       !starts_with(m->name, "/dev/shm/");
}

static bool
is_anonymous_file(const struct mapping *m)
{
	return starts_with(m->name, "/dev/zero") ||
	       starts_with(m->name, "/dev/shm/") ||
	       starts_with(m->name, "/memfd:") || starts_with(m->name, "/SYSV");
}

/* May a program keep pointers in mapping i? */
static bool
is_root(const struct target *target, size_t i)
{
	const struct mapping *m = &target->maps[i];
	const struct mapping *next = m + 1;

	if (!m->read || is_special(m))
		return false;
	if (m->shared)
		return m->write && (!m->file || is_anonymous_file(m));
	if (m->write || !m->file)
		return true;
	/* Relocated data, which the loader made read-only afterwards. */
	return i + 1 < target->nmaps && next->start == m->end && next->write &&
	       strcmp(next->name, m->name) == 0;
}

static void
copy_root(struct target *target, uint64_t at, uint64_t bytes, bool whole)
{
	if (whole)
		target_copy(target, at, bytes, /* sparse */ true);
	else
		target_pack(target, at, bytes);
}

/* May a thread descriptor of libc be near the end of the mapping? */
static bool
may_have_thread(const struct mapping *m)
{
	return !m->file && !m->shared && m->end - m->start >= THREAD_SEARCH / 4;
}

static bool
is_outside_heap(const struct model *model, const struct mapping *m)
{
	return m->end <= model->base || m->start >= model->end;
}

/* Calls f for the heap, and for each root outside it. */
static void
each_to_copy(struct model *model,
    void (*f)(struct model *model, uint64_t at, uint64_t bytes, void *arg),
    void *arg)
{
	const struct target *target = model->target;

	f(model, model->base, model->end - model->base, arg);
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];

		if (is_root(target, i) && is_outside_heap(model, m))
			f(model, m->start, m->end - m->start, arg);
	}
}

static void
measure(struct model *model, uint64_t at, uint64_t bytes, void *size)
{
	target_measure(model->target, at, bytes, size);
}

/* Prepares memory for a copy; the heap may grow until then. */
static void
prepare(struct model *model, uint64_t at, uint64_t bytes, void *arg)
{
	(void)arg;
	if (at == model->base)
		target_prepare(model->target, at, bytes, bytes / 8 + 64 * MIB);
	else if (bytes >= PREPARE_LEAST)
		target_prepare(model->target, at, bytes, 0);
}

/* Returns the bytes for the copies and for the tables built from them. */
static uint64_t
bytes_needed(struct model *model, unsigned parts)
{
	uint64_t own =
	    layout_variable(model->layout, model->target, L_MAPPED_BYTES);
	struct target_size size = {0};
	double share;

	each_to_copy(model, measure, &size);
	if ((parts & MODEL_MEMORY) != 0)
		return size.present + 2 * own;
	share = size.looked_at == 0
		    ? 1
		    : (double)size.packed / (double)size.looked_at;
	return (uint64_t)(share * 1.25 * (double)size.present) + 2 * own +
	       NEED_LEAST;
}

void
roots_prepare(struct model *model, unsigned parts)
{
	memory_expect(model->target->name, bytes_needed(model, parts));
	if ((parts & MODEL_MEMORY) != 0 && !model->target->held)
		each_to_copy(model, prepare, NULL);
}

/* Adds the pages of [at - before, at + after) that are in at's mapping. */
static void
add_near(struct model *model, uint64_t at, uint64_t before, uint64_t after,
    struct ranges *out)
{
	const uint64_t page = 4096;
	struct target *target = model->target;
	const struct mapping *m = target_mapping(target, at);

	if (m == NULL || !is_root(target, (size_t)(m - target->maps)))
		return;
	if (at - m->start > before)
		at = (at - before) / page * page;
	else
		at = m->start;
	after = (before + after + 2 * page - 1) / page * page;
	range_add(out, at, m->end - at < after ? m->end - at : after);
}

/*
 * Copies memory unpacked that is read for more than pointers into the heap:
 * stacks near the stack pointer, and memory that may contain a thread
 * descriptor of libc.  Overlapping ranges form one region, because target_at()
 * finds nothing across the border of two regions.
 */
static void
copy_for_threads(struct model *model)
{
	struct target *target = model->target;
	struct ranges whole = {0};

	for (size_t i = 0; i < target->nthreads; i++) {
		const struct thread *t = &target->threads[i];

		add_near(model, t->sp, RED_ZONE, NEAR_FRAMES, &whole);
		add_near(model, t->tp, THREAD_BYTES, THREAD_BYTES, &whole);
	}
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];

		if (may_have_thread(m) && is_outside_heap(model, m))
			add_near(model, m->end - 1,
			    THREAD_SEARCH + THREAD_BYTES, 0, &whole);
	}
	ranges_sort(&whole);
	for (size_t i = 0, next; i < whole.n; i = next) {
		struct range r = whole.range[i];

		for (next = i + 1;
		     next < whole.n && whole.range[next].start <= r.end; next++)
			if (whole.range[next].end > r.end)
				r.end = whole.range[next].end;
		target_copy(target, r.start, r.end - r.start, true);
	}
	free(whole.range);
}

void
roots_copy(struct model *model, unsigned parts)
{
	const struct layout *l = model->layout;
	struct ranges library = library_ranges(model);
	struct target *target = model->target;
	bool whole = (parts & MODEL_MEMORY) != 0;

	target_read_kernel_references(target);
	if (!whole)
		copy_for_threads(model);
	copy_root(target, model->base, model->end - model->base, whole);
	target_copy(target, layout_value(l, L_BOOT),
	    layout_variable(l, target, L_BOOT_USED), false);
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];
		uint64_t at = m->start;

		if (!is_root(target, i))
			continue;
		for (size_t j = 0; j < library.n && at < m->end; j++) {
			const struct range *r = &library.range[j];

			if (r->end <= at || r->start >= m->end)
				continue;
			if (r->start > at)
				copy_root(target, at, r->start - at, whole);
			at = r->end;
		}
		if (at < m->end)
			copy_root(target, at, m->end - at, whole);
	}
	target_copy_end(target);
	free(library.range);
}

void
roots_copy_logs(struct model *model)
{
	struct ranges logs = {0};

	add_logs(model, &logs);
	for (size_t i = 0; i < logs.n; i++)
		target_copy(model->target, logs.range[i].start,
		    logs.range[i].end - logs.range[i].start, true);
	target_copy_end(model->target);
	free(logs.range);
}

bool
roots_is_meta(struct model *model, uint64_t at)
{
	static struct ranges meta;
	static const struct model *of;
	size_t low = 0, high;

	if (of != model) {
		free(meta.range);
		meta = (struct ranges){0};
		add_meta_list(model, &meta, L_CHUNKS);
		add_meta_list(model, &meta, L_ALONES);
		ranges_sort(&meta);
		of = model;
	}
	high = meta.n;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (at < meta.range[middle].start)
			high = middle;
		else if (at >= meta.range[middle].end)
			low = middle + 1;
		else
			return true;
	}
	return false;
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
		const uint64_t *words = target_at(target, at, 24);

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
	const uint64_t *words = target_at(target, from, 2 * THREAD_BYTES);
	size_t n = 2 * THREAD_BYTES / 8;

	if (words == NULL) {
		n /= 2;
		words = target_at(target, tp, THREAD_BYTES);
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
		range_add(dead, stack.start, t->sp - RED_ZONE - stack.start);
}

static bool
has_tid(struct target *target, const struct thread *t, size_t i)
{
	const int *words = target_at(target, t->tp, THREAD_BYTES);

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
	const uint64_t *words = target_at(model->target, tcb, THREAD_BYTES);
	size_t nself = 0;

	if (words == NULL || tid == 0)
		return true;
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
	range_add(dead, bottom, tcb - bottom);
	/* libc keeps the thread-local storage vector for the next thread. */
	if (!awaits_join(model, tcb))
		range_add(dead, tcb + 16, THREAD_BYTES - 16);
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
	uint64_t at = layout_value(model->layout, L_LIBC_STACK_END);
	uint64_t begin = at == 0 ? 0 : number_at(model, at);
	const struct mapping *m = target_mapping(target, begin);

	if (m == NULL || target->pid == 0)
		return;
	for (size_t i = 0; i < target->nthreads; i++) {
		const struct thread *t = &target->threads[i];

		if (t->tid == target->pid || target_mapping(target, t->sp) == m)
			return;
	}
	range_add(dead, m->start, begin - m->start);
}

/* Returns the memory that is not searched for pointers. */
static struct ranges
skipped_ranges(struct model *model)
{
	struct ranges out = library_ranges(model);
	struct target *target = model->target;

	for (size_t i = 0; i < target->nmaps; i++)
		add_dead(model, &target->maps[i], &out);
	for (size_t i = 0; i < target->nthreads; i++)
		add_below(target, &target->threads[i], &out);
	add_first_dead(model, &out);
	for (size_t i = 0; i < model->nsourced; i++) {
		const struct slab *s = &model->slabs[model->sourced[i]];
		const struct cache *c = &model->caches[s->cache];

		if ((c->flags & UMC_QCACHE) == 0)
			range_add(&out, s->span, c->slab_bytes);
	}
	ranges_sort(&out);
	return out;
}

static void
give_words(struct model *model, root_func *f, uint64_t start, uint64_t end,
    enum root_kind kind)
{
	const uint64_t *words;
	size_t n;

	for (uint64_t at = start;
	     (words = target_words(model->target, &at, end, &n)) != NULL;
	     at += 8 * n)
		f(model, words, n, at, kind);
}

/* Passes a piece, without the ranges in skip, to f. */
static void
give_piece(struct model *model, root_func *f, const struct ranges *skip,
    uint64_t start, uint64_t end, enum root_kind kind)
{
	for (size_t i = 0; i < skip->n && start < end; i++) {
		const struct range *r = &skip->range[i];

		if (r->end <= start || r->start >= end)
			continue;
		if (r->start > start)
			give_words(model, f, start, r->start, kind);
		start = r->end;
	}
	if (start < end)
		give_words(model, f, start, end, kind);
}

static bool
is_library_text(const struct model *model, uint64_t pc)
{
	const struct mapping *m = target_mapping(model->target, pc);

	return m != NULL && m->file &&
	       strcmp(m->name, model->layout->object) == 0;
}

/* Is the thread inside the library, or in a function that it called? */
static bool
is_inside(struct model *model, const struct thread *t)
{
	uint64_t run = target_run(model->target, t->sp);
	const uint64_t *words;

	if (is_library_text(model, t->pc))
		return true;
	if (run > NEAR_FRAMES)
		run = NEAR_FRAMES;
	words = target_at(model->target, t->sp, run);
	for (uint64_t i = 0; words != NULL && i < run / 8; i++)
		if (is_library_text(model, words[i]))
			return true;
	return false;
}

/* Passes the newest frames to f once more, as ROOT_INSIDE. */
static void
give_frames(struct model *model, root_func *f, const struct ranges *skip,
    const struct thread *t)
{
	const struct mapping *m = target_mapping(model->target, t->sp);
	uint64_t end = t->sp + NEAR_FRAMES;

	if (m == NULL)
		return;
	give_piece(model, f, skip, t->sp - RED_ZONE,
	    end < m->end ? end : m->end, ROOT_INSIDE);
}

static void
give_threads(struct model *model, root_func *f, const struct ranges *skip)
{
	struct target *target = model->target;

	for (size_t i = 0; i < target->nthreads; i++) {
		const struct thread *t = &target->threads[i];

		if (!t->stopped)
			continue;
		bool inside = is_inside(model, t);
		f(model, t->words, t->nwords, 0,
		    inside ? ROOT_INSIDE : ROOT_MEMORY);
		if (inside)
			give_frames(model, f, skip, t);
	}
}

/*
 * Passes the parts of a piece of the heap that are neither slab nor large block
 * to f.  Samples with a guard page are adjacent in one piece
 * (umem/malloc/sample_place.c), and live samples are among free ones.
 */
static void
give_units(struct model *model, root_func *f, const struct ranges *skip,
    uint64_t start, uint64_t end)
{
	uint64_t bytes = (uint64_t)1 << model->unit_shift;
	uint64_t heap_end = model->base + model->nunits * bytes;
	uint64_t from;

	/* A damaged core may give any size. */
	if (end > heap_end || end < start)
		end = heap_end;
	if (start < model->base)
		start = model->base;
	from = start;
	for (uint64_t at = start; at < end; at += bytes) {
		uint64_t unit = (at - model->base) >> model->unit_shift;

		if (model->unit[unit] == 0)
			continue;
		if (from < at)
			give_piece(model, f, skip, from, at, ROOT_MEMORY);
		from = at + bytes;
	}
	if (from < end)
		give_piece(model, f, skip, from, end, ROOT_MEMORY);
}

/* Passes allocated memory that is neither slab nor large block to f. */
static void
give_arenas(struct model *model, root_func *f, const struct ranges *skip)
{
	struct arena *heap = model_arena(
	    model, layout_variable(model->layout, model->target, L_HEAP_ARENA));
	struct segment *segments;
	size_t n;

	if (heap == NULL)
		return;
	segments = model_segments(model, heap, &n);
	for (size_t i = 0; i < n; i++)
		if (segments[i].type == VMEM_ALLOC)
			give_units(model, f, skip, segments[i].start,
			    segments[i].start + segments[i].size);
	free(segments);
}

/* Passes the pointers that the program gave to caches and arenas to f. */
static void
give_handed(struct model *model, root_func *f)
{
	uint64_t heap =
	    layout_variable(model->layout, model->target, L_HEAP_ARENA);

	for (size_t i = 0; i < model->ncaches; i++) {
		uint64_t word = layout_get(
		    model->layout, model->caches[i].record, L_CACHE_PRIV);

		f(model, &word, 1, 0, ROOT_MEMORY);
	}
	/* The program did not create the span of the heap. */
	for (size_t i = 0; i < model->narenas; i++) {
		if (model->arenas[i].at == heap)
			continue;
		size_t n;
		struct segment *segments =
		    model_segments(model, &model->arenas[i], &n);

		for (size_t j = 0; j < n; j++)
			if (segments[j].type == VMEM_SPAN)
				f(model, &segments[j].start, 1, 0, ROOT_MEMORY);
		free(segments);
	}
}

/* Returns ranges without the heap, which is the first range. */
static struct ranges
without_heap(const struct model *model, const struct ranges *ranges)
{
	struct ranges out = {0};

	for (size_t i = 0; i < ranges->n; i++)
		if (ranges->range[i].start != model->base)
			range_add(&out, ranges->range[i].start,
			    ranges->range[i].end - ranges->range[i].start);
	return out;
}

void
roots_each(struct model *model, root_func *f)
{
	const struct layout *l = model->layout;
	struct ranges skip = skipped_ranges(model);
	struct ranges in_heap = without_heap(model, &skip);
	struct target *target = model->target;

	give_threads(model, f, &in_heap);
	for (size_t i = 0; i < target->nkernel_references; i++)
		f(model, &target->kernel_references[i].word, 1, 0, ROOT_MEMORY);
	if (!l->in_program)
		give_words(model, f, layout_value(l, L_BOOT),
		    layout_value(l, L_BOOT) +
			layout_variable(l, target, L_BOOT_USED),
		    ROOT_MEMORY);
	for (size_t i = 0; i < target->nmaps; i++)
		if (is_root(target, i))
			give_piece(model, f, &skip, target->maps[i].start,
			    target->maps[i].end, ROOT_MEMORY);
	give_arenas(model, f, &in_heap);
	give_handed(model, f);
	free(skip.range);
	free(in_heap.range);
}
