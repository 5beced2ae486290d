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
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/roots_inner.h"
#include "vmem/vmem.h"

/* Minimum memory for a packed copy. */
#define NEED_MIN (8 * MIB)

static bool
is_anonymous_file(const struct mapping *m)
{
	return text_begins(m->name, "/dev/zero") ||
	       text_begins(m->name, "/dev/shm/") ||
	       text_begins(m->name, "/memfd:") || text_begins(m->name, "/SYSV");
}

static bool
is_special(const struct mapping *m)
{
	return text_begins(m->name, "[v") ||
	       (text_begins(m->name, "/dev/") && !is_anonymous_file(m));
}

/* May a program keep pointers in mapping i? */
bool
roots_has_mapping(const struct target *target, size_t i)
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
	if (whole && !target->reads_lines)
		target_copy(target, at, bytes, /* sparse */ true);
	else
		target_pack(target, at, bytes);
}

bool
roots_is_outside_heap(const struct model *model, const struct mapping *m)
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

	assert(model->base <= model->end);
	f(model, model->base, model->end - model->base, arg);
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];

		if (roots_has_mapping(target, i) &&
		    roots_is_outside_heap(model, m))
			f(model, m->start, m->end - m->start, arg);
	}
}

static void
measure(struct model *model, uint64_t at, uint64_t bytes, void *size)
{
	target_measure(model->target, at, bytes, size);
}

uint64_t
roots_own_bytes(struct model *model)
{
	uint64_t mapped =
	    layout_variable(model->layout, model->target, L_MAPPED_BYTES);
	uint64_t resident = target_resident(model->target);

	/* A damaged target may give any number. */
	return mapped < resident ? mapped : resident;
}

struct roots_size
roots_measure(struct model *model, unsigned parts)
{
	uint64_t own = 2 * roots_own_bytes(model);
	struct target_size size = {0};
	struct roots_size out;
	double share;

	assert((parts & (MODEL_POINTERS | MODEL_MEMORY)) != 0);
	each_to_copy(model, measure, &size);
	share = size.looked_at == 0
		    ? 1
		    : (double)size.packed / (double)size.looked_at;
	out.present = size.present;
	out.need =
	    (uint64_t)(share * 1.25 * (double)size.present) + own + NEED_MIN;
	out.least = target_lines_bytes(size.present) + own + NEED_MIN;
	if ((parts & MODEL_MEMORY) != 0)
		out.need = size.present + own;
	return out;
}

/*
 * Shared memory, which other processes may change, need not be of the same
 * moment as the rest if it is not searched for leaks.
 */
static bool
is_lacking(const struct target *target, size_t i, unsigned parts)
{
	return roots_has_mapping(target, i) &&
	       target_copy_lacks(target, i, (parts & MODEL_MEMORY) == 0);
}

bool
roots_are_lacking(struct model *model, unsigned parts)
{
	for (size_t i = 0; i < model->target->nmaps; i++)
		if (is_lacking(model->target, i, parts))
			return true;
	return false;
}

void
roots_copy_lacking(struct model *model, unsigned parts)
{
	struct target *target = model->target;

	assert(target->held && target->made != NULL);
	for (size_t i = 0; i < target->nmaps; i++)
		if (is_lacking(target, i, parts))
			copy_root(target, target->maps[i].start,
			    target->maps[i].end - target->maps[i].start,
			    (parts & MODEL_MEMORY) != 0);
	target_copy_end(target);
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

	roots_add_thread_memory(model, &whole);
	ranges_sort(&whole);
	for (size_t i = 0, next; i < whole.n; i = next) {
		struct range r = whole.range[i];

		for (next = i + 1;
		     next < whole.n && whole.range[next].start <= r.end; next++)
			if (whole.range[next].end > r.end)
				r.end = whole.range[next].end;
		assert(r.start < r.end && next > i);
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

	assert(target_is_still(target));
	if (!whole)
		copy_for_threads(model);
	copy_root(target, model->base, model->end - model->base, whole);
	target_copy(target, layout_value(l, L_BOOTSTRAP),
	    layout_variable(l, target, L_BOOTSTRAP_USED), false);
	for (size_t i = 0; i < target->nmaps; i++) {
		const struct mapping *m = &target->maps[i];
		uint64_t at = m->start;

		if (!roots_has_mapping(target, i))
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

/* Returns the memory that is not searched for pointers. */
static struct ranges
skipped_ranges(struct model *model)
{
	struct ranges out = library_ranges(model);

	roots_add_dead_stacks(model, &out);
	for (size_t i = 0; i < model->nsourced; i++) {
		const struct slab *s = &model->slabs[model->sourced[i]];
		const struct cache *c = &model->caches[s->cache];

		assert(c->source != 0);
		ranges_add(&out, s->span, c->slab_bytes);
	}
	ranges_sort(&out);
	return out;
}

void
roots_words(struct model *model, root_func *f, uint64_t start, uint64_t end,
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

		assert(r->start < r->end);
		assert(i == 0 || r[-1].start <= r->start);
		if (r->end <= start || r->start >= end)
			continue;
		if (r->start > start)
			roots_words(model, f, start, r->start, kind);
		start = r->end;
	}
	if (start < end)
		roots_words(model, f, start, end, kind);
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
#ifdef REGISTER_LINK
	/* A function that calls no other does not store it. */
	if (t->nwords > REGISTER_LINK &&
	    is_library_text(model, t->words[REGISTER_LINK] & ~t->signature))
		return true;
#endif
	if (run > NEAR_FRAMES)
		run = NEAR_FRAMES;
	words = target_array(model->target, t->sp, run / 8);
	for (uint64_t i = 0; words != NULL && i < run / 8; i++)
		if (is_library_text(model, words[i] & ~t->signature))
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
 * Returns a bit for each unit of the heap, set if it belongs to the record of a
 * sample (umem/profile/sample.c).  While the record is free, the unit has no
 * owner, but it has the words of the last block.
 */
static uint64_t *
sample_units(const struct model *model)
{
	uint64_t *units = xalloc(8ull * words_of_bits((unsigned)model->nunits));

	for (size_t i = 0; i < model->nsamples; i++) {
		uint64_t unit = (model->samples[i].own_unit - model->base) >>
				model->unit_shift;

		if (unit < model->nunits)
			bit_set(units, (unsigned)unit);
	}
	return units;
}

/*
 * Passes the parts of a piece of the heap that are no slab, no large block and
 * no unit of a sample to f.  Samples with a guard page are adjacent in one
 * piece (umem/profile/sample_unit.c), and live samples are among free ones.
 */
static void
give_units(struct model *model, root_func *f, const struct ranges *skip,
    const uint64_t *of_samples, uint64_t start, uint64_t end)
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

		assert(unit < model->nunits);
		if (model->unit[unit] == 0 &&
		    !bit_get(of_samples, (unsigned)unit))
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
	uint64_t *of_samples;
	size_t n;

	if (heap == NULL)
		return;
	of_samples = sample_units(model);
	segments = model_segments(model, heap, &n);
	for (size_t i = 0; i < n; i++)
		if (segments[i].type == VMEM_ALLOC)
			give_units(model, f, skip, of_samples,
			    segments[i].start,
			    segments[i].start + segments[i].size);
	free(segments);
	free(of_samples);
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
	/* The program did not create the spans of the heap, or import them. */
	for (size_t i = 0; i < model->narenas; i++) {
		if (model->arenas[i].at == heap ||
		    model->arenas[i].source == heap)
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

/*
 * Returns ranges without the heap, which is the first range, but with the free
 * memory of arenas that import from the heap, such as those of memory nodes.
 */
static struct ranges
without_heap(struct model *model, const struct ranges *ranges)
{
	uint64_t heap = model_variable(model, L_HEAP_ARENA);
	struct ranges out = {0};
	size_t n;

	for (size_t i = 0; i < ranges->n; i++)
		if (ranges->range[i].start != model->base)
			ranges_add(&out, ranges->range[i].start,
			    ranges->range[i].end - ranges->range[i].start);
	for (size_t i = 0; i < model->narenas; i++) {
		struct segment *s =
		    model_segments(model, &model->arenas[i], &n);

		while (n-- > 0)
			if (model->arenas[i].source == heap &&
			    s[n].type == VMEM_FREE)
				ranges_add(&out, s[n].start, s[n].size);
		free(s);
	}
	ranges_sort(&out);
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
		roots_words(model, f, layout_value(l, L_BOOTSTRAP),
		    layout_value(l, L_BOOTSTRAP) +
			layout_variable(l, target, L_BOOTSTRAP_USED),
		    ROOT_MEMORY);
	for (size_t i = 0; i < target->nmaps; i++)
		if (roots_has_mapping(target, i))
			give_piece(model, f, &skip, target->maps[i].start,
			    target->maps[i].end, ROOT_MEMORY);
	give_arenas(model, f, &in_heap);
	give_handed(model, f);
	free(skip.range);
	free(in_heap.range);
}
