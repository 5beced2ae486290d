/*
 * model_samples.c - blocks of the target that were sampled
 *
 * The library has a table of records by number, and stores the number in the
 * page map, so that a block leads to its record and a record to its block.  The
 * target may have been stopped between the two stores.  Therefore a record
 * counts as the record of a block only if its span is the unit in which the
 * block starts.
 */
#include <math.h>

#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/model_inner.h"

static uint64_t
sample_get(
    const struct model *model, const void *record, enum layout_entry entry)
{
	return layout_get(model->layout, record, entry);
}

/*
 * Reads a stack, or returns NULL.  That of a process that runs may be freed
 * and used again since the record was copied.
 */
static const uint64_t *
stack_at(struct model *model, uint64_t at, unsigned *depth)
{
	const struct layout *l = model->layout;
	const char *r = at == 0 ? NULL
				: target_at(model->target, at,
				      layout_value(l, L_SAMPLE_STACK_BYTES));
	const uint64_t *stack = NULL;
	uint64_t n = r == NULL ? 0 : sample_get(model, r, L_SAMPLE_STACK_DEPTH);

	if (n != 0 && n <= layout_value(l, L_SAMPLE_FRAMES))
		stack = model_array(
		    model, at + layout_value(l, L_SAMPLE_STACK_PCS), n);
	*depth = stack != NULL ? (unsigned)n : 0;
	return stack;
}

static void
read_one(struct model *model, uint64_t record, struct sample *s)
{
	const struct layout *l = model->layout;
	const char *r =
	    target_at(model->target, record, layout_value(l, L_SAMPLE_BYTES));
	uint64_t state;

	if (r == NULL)
		return;
	s->own_unit = sample_get(model, r, L_SAMPLE_OWN_UNIT);
	state = sample_get(model, r, L_SAMPLE_STATE);
	s->live = state == layout_value(l, L_SAMPLE_LIVE);
	s->waits = state == layout_value(l, L_SAMPLE_WAITING);
	if (!s->live && !s->waits && state != layout_value(l, L_SAMPLE_FREED))
		return;
	*s = (struct sample){.record = record,
	    .at = sample_get(model, r, L_SAMPLE_BLOCK),
	    .cache = sample_get(model, r, L_SAMPLE_CACHE),
	    .span = sample_get(model, r, L_SAMPLE_SPAN),
	    .own_unit = s->own_unit,
	    .size = sample_get(model, r, L_SAMPLE_SIZE),
	    .counted = sample_get(model, r, L_SAMPLE_COUNTED),
	    .mean = sample_get(model, r, L_SAMPLE_MEAN),
	    .time = sample_get(model, r, L_SAMPLE_TIME),
	    .thread = sample_get(model, r, L_SAMPLE_THREAD),
	    .freed_time = sample_get(model, r, L_SAMPLE_FREED_TIME),
	    .freed_thread = sample_get(model, r, L_SAMPLE_FREED_THREAD),
	    .guarded = sample_get(model, r, L_SAMPLE_GUARDED),
	    .counted_now = sample_get(model, r, L_SAMPLE_COUNTED_NOW),
	    .live = s->live,
	    .waits = s->waits};
	s->stack =
	    stack_at(model, sample_get(model, r, L_SAMPLE_STACK), &s->depth);
	if (!s->live)
		s->freed_stack =
		    stack_at(model, sample_get(model, r, L_SAMPLE_FREED_STACK),
			&s->freed_depth);
	assert(s->depth == 0 || s->stack != NULL);
	assert(s->freed_depth == 0 || s->freed_stack != NULL);
}

void
model_take_samples(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, L_SAMPLES);
	uint64_t n = layout_variable(l, model->target, L_NSAMPLES) + 1;
	uint64_t copied = target_run(model->target, at) / 8;
	const char *sampling =
	    target_at(model->target, layout_value(l, L_SAMPLING), 1);
	const uint64_t *table;

	assert(model->samples == NULL);
	if (sampling != NULL)
		model->sampling_mean =
		    sample_get(model, sampling, L_SAMPLING_MEAN);
	model->ntaken = layout_variable(l, model->target, L_NTAKEN);
	model->nlost = layout_variable(l, model->target, L_NLOST);
	model->nhalved = layout_variable(l, model->target, L_NHALVED);
	/* A process that runs may have added records since the copy. */
	if (n > copied)
		n = copied;
	table = target_array(model->target, at, n);
	if (at == 0 || table == NULL || n >= UINT32_MAX)
		return;
	model_charge(model, n * sizeof(*model->samples));
	model->samples = xalloc(n * sizeof(*model->samples));
	model->nsamples = n;
	/* Number 0 is not used. */
	for (uint64_t i = 1; i < n; i++)
		if (table[i] != 0)
			read_one(model, table[i], &model->samples[i]);
}

const struct sample *
model_sample_of(const struct model *model, uint32_t index, uint64_t span)
{
	const struct sample *s = model->samples + index;

	return index < model->nsamples && s->record != 0 && s->span == span
		   ? s
		   : NULL;
}

/* Reads a sum, of which blocks is the first member; freed may be below 0. */
static struct sample_sum
sum_of(const struct model *model, const char *record, enum layout_entry blocks)
{
	const struct layout *l = model->layout;

	return (struct sample_sum){
	    (double)(int64_t)sample_get(model, record, blocks) /
		(double)layout_value(l, L_SAMPLE_BLOCK_PARTS),
	    (double)(int64_t)sample_get(model, record, blocks + 1)};
}

/* A stack that has changed since the peak has kept its sum of that time. */
static void
read_sums(struct model *model, const char *r, uint64_t npeaks,
    struct sample_sums *sums)
{
	struct sample_sum freed = sum_of(model, r, L_STACK_FREED_BLOCKS);

	sums->allocated = sum_of(model, r, L_STACK_ALLOCATED_BLOCKS);
	sums->live = (struct sample_sum){sums->allocated.blocks - freed.blocks,
	    sums->allocated.bytes - freed.bytes};
	sums->lived_ms = sum_of(model, r, L_STACK_LIVED_MS_BLOCKS);
	sums->lived_s = sum_of(model, r, L_STACK_LIVED_S_BLOCKS);
	sums->peak = sample_get(model, r, L_SAMPLE_STACK_NPEAKS) == npeaks
			 ? sum_of(model, r, L_STACK_PEAK_BLOCKS)
			 : sums->live;
}

uint64_t
model_each_stack(struct model *model,
    void (*add)(const struct sample_sums *, void *arg), void *arg)
{
	const struct layout *l = model->layout;
	struct target *target = model->target;
	uint64_t npeaks = layout_variable(l, target, L_NPEAKS);
	uint64_t n = layout_value(l, L_SAMPLE_BUCKETS);
	bool resets = layout_variable(l, target, L_SUMS_RESET) != 0;
	const uint64_t *first =
	    target_array(target, layout_value(l, L_STACKS), n);
	struct cycle_detector cycles = {0};

	for (uint64_t i = 0; first != NULL && i < n; i++)
		for (uint64_t at = first[i]; cycle_continues(&cycles, at);) {
			const char *r = target_at(
			    target, at, layout_value(l, L_SAMPLE_STACK_BYTES));
			struct sample_sums sums;

			if (r == NULL)
				break;
			sums.stack = stack_at(model, at, &sums.depth);
			read_sums(model, r, npeaks, &sums);
			if (resets)
				sums.allocated = sums.lived_s = sums.lived_ms =
				    (struct sample_sum){0};
			add(&sums, arg);
			at = sample_get(model, r, L_SAMPLE_STACK_NEXT);
		}
	return audit_now(model) - layout_variable(l, target, L_PEAK_TIME);
}

double
sample_weight(const struct sample *s)
{
	double weight;

	/*
	 * With an interval of 1, every block is a sample.  Blocks of no bytes
	 * are samples with no other one; each halving drops half of them.
	 */
	if (s->mean <= 1 || s->counted == 0)
		return s->mean > 1 ? (double)s->mean : 1;
	weight = -1 / expm1(-(double)s->counted / (double)s->mean);
	assert(weight >= 1);
	return weight;
}

bool
model_can_sample(const struct model *model)
{
	uint64_t is_able = 1;

	layout_peek(model->layout, model->target,
	    layout_value(model->layout, L_SAMPLING), L_SAMPLING_ABLE, &is_able);
	return is_able != 0;
}
