/*
 * snapshot.c - a copy of the target's memory, and the model made from it
 *
 * While the target is stopped, this file copies the library's variables, all
 * memory that the library obtained for its own structures, the used part of the
 * page map, and each CPU's headers.  These copies are at most a hundredth of
 * the heap.  Then it resumes the target and lets model.c read the copies.
 *
 * The roots and the heap are read while the target is stopped if there is
 * little of them, and if the target has few threads.  Otherwise they are read
 * from a copy of the target, which the library's upkeep thread makes
 * (target_copy.c), if there is one.  The library's memory is read from a copy,
 * too, if there is much of it: with UMEM_DEBUG it may be more than that of the
 * program.
 *
 * A header that a thread has claimed has no valid top: only its owner knows it.
 * Therefore this file resumes a live target and stops it again, several times,
 * until no header is claimed.  If every attempt fails, leaks.c must treat the
 * rounds of that magazine as possibly in use.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/memory.h"
#include "tools/inspect/model/library.h"
#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/model/roots.h"
#include "tools/inspect/model/snapshot.h"

/* Maximum number of stops of a live target to find no header claimed. */
#define HOLD_TRIES 10

/* Maximum number of copies for the same purpose, or until one is made. */
#define COPY_TRIES 3

/* A process that has less than this part of its memory left is not copied. */
#define CHANGED_PART 16

/* A search is to take less than a tenth of the target's memory. */
#define PACKED_PART 16

/*
 * A target with less memory and fewer threads is stopped while it is read.  Of
 * 2000 threads, a stop in which all stacks are read takes twice as long as one
 * in which the kernel copies the page tables.
 */
#define COPY_MIN    (64 * MIB)
#define THREADS_MIN 1000

/*
 * To read memory takes longer than to copy the page tables of this many times
 * as much: 400 milliseconds for each GiB, and 3 to 10.
 */
#define STRUCTURES_PART 32

/* Copies a part of the library's memory; add: adds its ranges. */
static void
copy_part(struct model *model, void (*add)(struct model *, struct ranges *))
{
	struct ranges part = {0};

	add(model, &part);
	for (size_t i = 0; i < part.n; i++)
		target_copy(model->target, part.range[i].start,
		    part.range[i].end - part.range[i].start, false);
	free(part.range);
}

static size_t
units_used(struct model *model)
{
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);

	model->base = model_member(
	    model, layout_value(model->layout, L_HEAP_WINDOW), L_WINDOW_BASE);
	model->end = model_variable(model, L_COMMITTED_END);
	if (model->end < model->base)
		model->end = model->base;
	model->end = model->base + target_mapped(model->target, model->base,
				       model->end - model->base);
	assert(model->base <= model->end);
	return (model->end - model->base + unit - 1) / unit;
}

static void
copy_metadata(struct model *model)
{
	assert(target_is_still(model->target));
	model_charge_anew(model);
	layout_copy_variables(model->layout, model->target);
	copy_part(model, library_add_meta);
	model->nunits = units_used(model);
	if (model->nunits == 0)
		return;
	target_copy(model->target, model_map_table(model, L_MAP_OWNER),
	    model->nunits * 8, false);
	copy_part(model, library_add_cpus);
}

/* Does a thread have a header claimed at this moment? */
static bool
has_claimed_header(struct model *model)
{
	bool is_claimed;

	assert(model->ninconsistent == 0);
	model_take_caches(model);
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].has_magazines)
			model_take_headers(model, &model->caches[i], false);
	model_look_at_groups(model);
	is_claimed = model->ninconsistent != 0;
	model->ninconsistent = 0;
	return is_claimed;
}

/* Stops the target while no header is claimed, if that is possible. */
static void
hold_without_claims(struct model *model, enum hold what)
{
	struct target *target = model->target;

	for (unsigned i = 0;; i++) {
		target_hold(target, what);
		copy_metadata(model);
		if (!target->live || target->borrowed ||
		    !has_claimed_header(model) || i == HOLD_TRIES)
			return;
		target_release(target);
		target_forget(target);
		usleep(100 << (i < 6 ? i : 6));
	}
}

/* Widens the filter if a program's arena has slabs outside the heap. */
static void
choose_filter(struct model *model)
{
	const struct target *target = model->target;
	struct pack_filter *filter = &model->target->filter;

	*filter = (struct pack_filter){model->base, model->end - model->base};
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].source != 0 && target->nmaps != 0) {
			size_t last = target->nmaps - 1;

			/* [vsyscall] is at the end of the address space. */
			while (
			    last > 0 && target->maps[last].end > UINT64_MAX / 2)
				last--;
			filter->base = target->maps[0].start;
			filter->bytes = target->maps[last].end - filter->base;
		}
}

/*
 * Returns the futex word of the upkeep thread, or 0.  It is to be written to,
 * so it must be a variable of the library, also in a damaged target.
 */
static uint64_t
find_futex(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t start = UINT64_MAX, word = 0;

	for (size_t i = 0; i < model->target->nmaps; i++) {
		const struct mapping *m = &model->target->maps[i];

		if (m->file && m->start < start &&
		    strcmp(m->name, l->object) == 0)
			start = m->start;
	}
	layout_peek(l, model->target, layout_value(l, L_SNAPSHOT),
	    L_SNAPSHOT_SLEEPS_ON, &word);
	return word % sizeof(uint32_t) == 0 && word >= start &&
		       word < layout_value(l, L_IMAGE_END)
		   ? word
		   : 0;
}

static struct copy_request
request_of(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_value(l, L_SNAPSHOT);

	return (struct copy_request){
	    .state_at = at + layout_value(l, L_SNAPSHOT_STATE),
	    .thread_at = at + layout_value(l, L_SNAPSHOT_THREAD),
	    .sleeps_on = find_futex(model),
	    .waking_at = at + layout_value(l, L_SNAPSHOT_WAKING),
	    .none = (uint32_t)layout_value(l, L_SNAPSHOT_NONE),
	    .asked = (uint32_t)layout_value(l, L_SNAPSHOT_ASKED),
	    .ready = (uint32_t)layout_value(l, L_SNAPSHOT_READY),
	    .go = (uint32_t)layout_value(l, L_SNAPSHOT_GO)};
}

/* Do these parts include memory of the program? */
static bool
reads_much(unsigned parts)
{
	return (parts & (MODEL_POINTERS | MODEL_MEMORY)) != 0;
}

/*
 * Makes a copy of the target that does not run, and copies the library's
 * structures from it.  bytes: to be read from it.  Returns false if the library
 * cannot make one now, or if little memory is left.
 */
static bool
copy_target(struct model *model, unsigned parts, uint64_t bytes)
{
	struct copy_request request = request_of(model);
	struct target *target = model->target;
	const char *limit;

	/* The process may change some of its memory until the copy ends. */
	if (!memory_is_left_to(target->pid, bytes / CHANGED_PART, &limit))
		return false;
	for (unsigned i = 0; i < COPY_TRIES; i++) {
		if (!target_ask_copy(target, &request))
			return false;
		target_hold(
		    target, reads_much(parts) ? HOLD_REGISTERS : HOLD_STACKS);
		if (!target_make_copy(target, &request)) {
			target_release(target);
			continue;
		}
		if (reads_much(parts) && roots_are_lacking(model, parts)) {
			copy_metadata(model);
			model_take_caches(model);
			choose_filter(model);
			roots_copy_lacking(model, parts);
		}
		target_read_kernel_references(target);
		target_use_copy(target);
		target_release(target);
		copy_metadata(model);
		if (!has_claimed_header(model) || i + 1 == COPY_TRIES)
			return true;
		target_forget(target);
		target_end_copy(target);
	}
	return false;
}

/*
 * Makes a copy of the target.  Decides that it is read by lines if it is read
 * unpacked, or if packing needs more than 1 / PACKED_PART of its memory, or
 * more than there is.
 */
static bool
read_copy(struct model *model, unsigned parts, const struct roots_size *size)
{
	memory_expect(model->target->name, size->least);
	if (!copy_target(model, parts, size->present))
		return false;
	if ((parts & MODEL_MEMORY) != 0 ||
	    size->need > size->present / PACKED_PART ||
	    !memory_suffices(size->need))
		target_use_lines(model->target, size->present);
	return true;
}

/*
 * Copies the library's structures of a target that was stopped for them, and
 * decides that the rest is read by lines while it runs.
 */
static void
hold_to_move(struct model *model, const struct roots_size *size)
{
	struct target *target = model->target;

	hold_without_claims(model, HOLD_REGISTERS);
	target_read_kernel_references(target);
	target_use_lines(target, size->present);
	print_warning("warning: %s was not copied, and is searched while it "
		      "runs: a pointer that moves meanwhile may be missed",
	    target->name);
}

/*
 * Copies the library's structures of a target that is stopped, or of a copy of
 * it if they take so much memory that the target would be stopped for longer
 * while they are read than while the kernel copies it.
 */
static void
hold_structures(struct model *model, unsigned parts)
{
	struct target *target = model->target;

	if (target->live) {
		uint64_t bytes = roots_own_bytes(model);
		long kib = live_status(target->pid, "VmRSS");

		memory_expect(target->name, 2 * bytes);
		if (!target->borrowed && bytes >= COPY_MIN && kib > 0 &&
		    bytes / KIB >= (uint64_t)kib / STRUCTURES_PART &&
		    copy_target(model, parts, bytes))
			return;
	}
	hold_without_claims(model, HOLD_STACKS);
}

/*
 * Stops the target or makes a copy of it, so that its memory stays as it is,
 * and copies the library's structures.
 */
static void
hold_memory(struct model *model, unsigned parts)
{
	struct target *target = model->target;

	if (!reads_much(parts)) {
		hold_structures(model, parts);
		return;
	}
	if (target->live) {
		struct roots_size size;
		bool is_large;

		units_used(model);
		choose_filter(model);
		size = roots_measure(model, parts);
		is_large = size.present >= COPY_MIN && !target->borrowed;
		if (!target->borrowed &&
		    (is_large ||
			live_status(target->pid, "Threads") >= THREADS_MIN) &&
		    read_copy(model, parts, &size))
			return;
		if (is_large && (parts & MODEL_MOVING) != 0) {
			hold_to_move(model, &size);
			return;
		}
		memory_expect(target->name, size.need);
	}
	hold_without_claims(model, HOLD_REGISTERS);
	target_read_kernel_references(target);
}

static void
take_memory(struct model *model, unsigned parts)
{
	struct target *target = model->target;

	hold_memory(model, parts);
	assert(target_is_still(target));
	model_take_caches(model);
	choose_filter(model);
	if (reads_much(parts))
		roots_copy(model, parts);
	if ((parts & MODEL_LOGS) != 0)
		copy_part(model, library_add_logs);
	target_release(target);
	if (!target->reads_lines)
		target_end_copy(target);
	assert(!target->held || target->borrowed);
}

struct model *
snapshot_take(
    struct target *target, const struct layout *layout, unsigned parts)
{
	struct model *model = xalloc(sizeof(*model));

	model->target = target;
	model->layout = layout;
	take_memory(model, parts);
	model_analyse(model);
	return model;
}

struct model *
snapshot_open(const char *name, unsigned parts)
{
	struct target *target = target_open(name);

	return snapshot_take(target, layout_find_ready(target), parts);
}
