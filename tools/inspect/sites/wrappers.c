/*
 * wrappers.c - allocation wrappers without a name
 *
 * sites_names.c passes over functions that have the name of an allocator, as
 * xmalloc().  In a program without symbols such a function would be the call
 * site of nearly all memory, and its callers would not be told apart.  This
 * file finds it by the stacks.
 *
 * A call site is in a wrapper if
 *	- its function has no name;
 *	- it has more than one caller, or one that has more, because a wrapper
 *	  may call another;
 *	- it has blocks of more than one size.  A function that makes objects of
 *	  one type has one size, and is a good name for them;
 *	- with at most WRAPPERS_MAX - 1 others of this kind, for malloc(),
 *	  calloc() and realloc(), it has at least three quarters of the blocks
 *	  of its program or library.
 * The callers are then the call sites, and are looked at likewise.  The search
 * ends where the blocks come from many places, so that their rows tell
 * something.
 *
 * A sample counts as one block, whatever it stands for: samples are about
 * proportional to bytes already, except that a few large blocks do not decide.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/sites/sites.h"
#include "tools/inspect/sites/wrappers.h"
#include "tools/inspect/symbols/symbols.h"

/* Call sites in the wrappers of a program or library, at each level. */
#define WRAPPERS_MAX 4

/* Fewer blocks of a program or library do not tell. */
#define BLOCKS_MIN 8

/* A program has few wrappers of wrappers of wrappers. */
#define LEVELS_MAX 4

/* Blocks that a call site has allocated for a caller. */
struct use {
	const char *object; /* the program or library */
	uint64_t pc;
	uint64_t caller, caller2; /* return addresses; 0: none */
	uint64_t size, n;
	bool has_name;
};

/* A call site that may be in a wrapper. */
struct candidate {
	uint64_t pc;
	uint64_t n;
};

bool
wrappers_have(const struct model *model, uint64_t pc)
{
	for (size_t i = 0; i < model->nwrappers; i++)
		if (model->wrappers[i] == pc)
			return true;
	return false;
}

static int
order_uses(const void *a, const void *b)
{
	const struct use *x = a, *y = b;
	int way = strcmp(x->object, y->object);

	return way ? way : order_numbers(x->pc, y->pc);
}

/* The most blocks first. */
static int
order_candidates(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->n != y->n ? order_numbers(y->n, x->n)
			    : order_numbers(x->pc, y->pc);
}

/* Fills a use from a stack; false: it has no call site in a known file. */
static bool
use_of(struct model *model, const struct wrapper_stack *s, struct use *use)
{
	unsigned i = site_frame(model, s->depth, s->stack, 0);
	const struct symbol_frame *frame;
	size_t n;

	if (i == s->depth)
		return false;
	frame = symbol_frames(model->target, s->stack[i], &n) + n - 1;
	if (frame->object == NULL)
		return false;
	*use = (struct use){.object = frame->object,
	    .pc = s->stack[i],
	    .size = s->size,
	    .n = s->n,
	    .has_name = frame->function != NULL};
	/* No wrapper: its callers need not be looked up. */
	if (use->has_name)
		return true;
	i = site_frame(model, s->depth, s->stack, i + 1);
	if (i < s->depth)
		use->caller = s->stack[i++];
	i = site_frame(model, s->depth, s->stack, i);
	if (i < s->depth)
		use->caller2 = s->stack[i];
	return true;
}

/*
 * Looks at the uses of one call site, and sets *n to their number.  Returns the
 * call site; its member n is 0 if it is in no wrapper.
 */
static struct candidate
candidate_of(const struct use *uses, size_t nuses, size_t *n)
{
	struct candidate found = {.pc = uses->pc};
	bool callers_differ = false, sizes_differ = false;

	for (*n = 0; *n < nuses && uses[*n].pc == uses->pc; ++*n) {
		found.n += uses[*n].n;
		callers_differ |= uses[*n].caller != uses->caller ||
				  uses[*n].caller2 != uses->caller2;
		sizes_differ |= uses[*n].size != uses->size;
	}
	if (uses->has_name || !callers_differ || !sizes_differ)
		found.n = 0;
	return found;
}

/* Adds wrappers by the uses of one program or library. */
static bool
add_of_object(struct model *model, const struct use *uses, size_t nuses)
{
	struct candidate *found = xalloc(nuses * sizeof(*found));
	uint64_t all = 0, covered = 0;
	size_t nfound = 0, n;

	for (size_t i = 0; i < nuses; i++)
		all += uses[i].n;
	for (size_t i = 0; i < nuses; i += n)
		found[nfound++] = candidate_of(uses + i, nuses - i, &n);
	qsort(found, nfound, sizeof(*found), order_candidates);
	if (nfound > WRAPPERS_MAX)
		nfound = WRAPPERS_MAX;
	while (nfound > 0 && found[nfound - 1].n == 0)
		nfound--;
	for (size_t i = 0; i < nfound; i++)
		covered += found[i].n;
	if (all < BLOCKS_MIN || covered < all - all / 4)
		nfound = 0;
	for (size_t i = 0; i < nfound; i++) {
		ARRAY_GROW(model->wrappers, model->nwrappers,
		    model->wrappers_capacity);
		model->wrappers[model->nwrappers++] = found[i].pc;
	}
	free(found);
	return nfound != 0;
}

/* Adds the wrappers of one level; false: there are none. */
static bool
add_level(struct model *model, const struct wrapper_stack *stacks, size_t n)
{
	struct use *uses = xalloc((n + 1) * sizeof(*uses));
	size_t nuses = 0, first, last;
	bool added = false;

	for (size_t i = 0; i < n; i++)
		nuses += use_of(model, &stacks[i], &uses[nuses]);
	qsort(uses, nuses, sizeof(*uses), order_uses);
	for (first = 0; first < nuses; first = last) {
		last = first;
		while (last < nuses &&
		       strcmp(uses[last].object, uses[first].object) == 0)
			last++;
		added |= add_of_object(model, uses + first, last - first);
	}
	free(uses);
	return added;
}

static void
find_by(struct model *model, const struct wrapper_stack *stacks, size_t n)
{
	if (model->looked_for_wrappers || n == 0)
		return;
	model->looked_for_wrappers = true;
	for (unsigned i = 0; i < LEVELS_MAX; i++)
		if (!add_level(model, stacks, n))
			return;
}

void
wrappers_find_by_samples(struct model *model)
{
	struct wrapper_stack *stacks =
	    xalloc((model->nsamples + 1) * sizeof(*stacks));
	size_t n = 0;

	for (size_t i = 0; i < model->nsamples; i++) {
		const struct sample *s = &model->samples[i];

		if (s->record != 0 && s->live && s->depth != 0)
			stacks[n++] = (struct wrapper_stack){.stack = s->stack,
			    .depth = s->depth,
			    .size = s->size,
			    .n = 1};
	}
	find_by(model, stacks, n);
	free(stacks);
}

void
wrappers_find(struct model *model, const struct wrapper_stack *stacks, size_t n)
{
	struct use use;
	bool some = false;

	for (size_t i = 0; i < n && !some; i++)
		some = use_of(model, &stacks[i], &use) && !use.has_name;
	if (!some)
		return;
	wrappers_find_by_samples(model);
	find_by(model, stacks, n);
}

bool
wrappers_find_again(struct model *model)
{
	const struct model before = *model;
	bool same;

	model->wrappers = NULL;
	model->nwrappers = model->wrappers_capacity = 0;
	model->looked_for_wrappers = false;
	wrappers_find_by_samples(model);
	same = model->nwrappers == before.nwrappers;
	for (size_t i = 0; i < model->nwrappers; i++)
		same = same && wrappers_have(&before, model->wrappers[i]);
	free(before.wrappers);
	return !same;
}
