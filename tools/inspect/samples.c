/*
 * samples.c - blocks of the target that were sampled
 *
 * The library has a table of records by number, and stores the number in the
 * page map, so that a block leads to its record and a record to its block.  The
 * target may have been stopped between the two stores.  Therefore a record
 * counts as the record of a block only if its span is the unit in which the
 * block starts.
 */
#include <math.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/samples.h"

static uint64_t
sample_get(
    const struct model *model, const void *record, enum layout_entry entry)
{
	return layout_get(model->layout, record, entry);
}

static const uint64_t *
stack_at(struct model *model, uint64_t record, uint64_t skip, unsigned *depth)
{
	uint64_t at =
	    record + layout_value(model->layout, L_SAMPLE_STACK) + 8 * skip;
	const uint64_t *stack = target_at(model->target, at, 8ull * *depth);

	if (stack == NULL)
		*depth = 0;
	return stack;
}

static void
read_one(struct model *model, uint64_t record, struct sample *s)
{
	const struct layout *l = model->layout;
	const char *r =
	    target_at(model->target, record, layout_value(l, L_SAMPLE_BYTES));
	uint64_t state, nframes;

	if (r == NULL)
		return;
	state = sample_get(model, r, L_SAMPLE_STATE);
	s->live = state == layout_value(l, L_SAMPLE_LIVE);
	s->waits = state == layout_value(l, L_SAMPLE_WAITING);
	if (!s->live && !s->waits && state != layout_value(l, L_SAMPLE_FREED))
		return;
	*s = (struct sample){.record = record,
	    .at = sample_get(model, r, L_SAMPLE_BLOCK),
	    .span = sample_get(model, r, L_SAMPLE_SPAN),
	    .size = sample_get(model, r, L_SAMPLE_SIZE),
	    .mean = sample_get(model, r, L_SAMPLE_MEAN),
	    .time = sample_get(model, r, L_SAMPLE_TIME),
	    .thread = sample_get(model, r, L_SAMPLE_THREAD),
	    .freed_time = sample_get(model, r, L_SAMPLE_FREED_TIME),
	    .freed_thread = sample_get(model, r, L_SAMPLE_FREED_THREAD),
	    .depth = (unsigned)sample_get(model, r, L_SAMPLE_DEPTH),
	    .freed_depth = (unsigned)sample_get(model, r, L_SAMPLE_FREED_DEPTH),
	    .guarded = sample_get(model, r, L_SAMPLE_GUARDED),
	    .live = s->live,
	    .waits = s->waits};
	nframes = sample_get(model, r, L_SAMPLE_NFRAMES);
	if (s->depth > nframes || s->freed_depth > nframes)
		s->depth = s->freed_depth = 0;
	s->stack = stack_at(model, record, 0, &s->depth);
	if (s->live)
		s->freed_depth = 0;
	if (s->freed_depth != 0)
		s->freed_stack =
		    stack_at(model, record, nframes, &s->freed_depth);
}

void
samples_take(struct model *model)
{
	const struct layout *l = model->layout;
	uint64_t at = layout_variable(l, model->target, L_SAMPLES);
	uint64_t n = layout_variable(l, model->target, L_NSAMPLES) + 1;
	const uint64_t *table = NULL;

	if (at != 0 && n < UINT32_MAX)
		table = target_at(model->target, at, 8 * n);
	if (table == NULL)
		return;
	model->samples = xalloc(n * sizeof(*model->samples));
	model->nsamples = n;
	/* Number 0 is not used. */
	for (uint64_t i = 1; i < n; i++)
		if (table[i] != 0)
			read_one(model, table[i], &model->samples[i]);
}

uint64_t
samples_mean(const struct model *model)
{
	const char *at = target_at(
	    model->target, layout_value(model->layout, L_SAMPLING), 1);

	return at ? sample_get(model, at, L_SAMPLING_MEAN) : 0;
}

const struct sample *
samples_of(const struct model *model, uint32_t index, uint64_t span)
{
	const struct sample *s = model->samples + index;

	return index < model->nsamples && s->record != 0 && s->span == span
		   ? s
		   : NULL;
}

const struct sample *
samples_by_record(const struct model *model, uint64_t record)
{
	for (size_t i = 0; i < model->nsamples; i++)
		if (model->samples[i].record == record && record != 0)
			return &model->samples[i];
	return NULL;
}

double
samples_weight(const struct sample *s)
{
	/* With an interval of 1, every block is a sample. */
	if (s->mean <= 1 || s->size == 0)
		return 1;
	return -1 / expm1(-(double)s->size / (double)s->mean);
}

uint64_t
samples_now(const struct model *model)
{
	uint64_t now = 0;

	/* The clock of this machine; the clock of a core stands still. */
	if (model->target->live)
		return (uint64_t)(model->target->stopped_at * 1e9);
	for (size_t i = 0; i < model->nsamples; i++) {
		const struct sample *s = &model->samples[i];

		if (s->record != 0 && s->time > now)
			now = s->time;
		if (s->record != 0 && !s->live && s->freed_time > now)
			now = s->freed_time;
	}
	return now;
}

/* Returns the sample that has this address in its units or guard page. */
static const struct sample *
sample_near(const struct model *model, uint64_t at)
{
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < model->nsamples; i++) {
		const struct sample *s = &model->samples[i];
		uint64_t end = s->at + s->size - s->span;
		uint64_t bytes = (end + unit - 1) / unit * unit;

		/* A guard page as large as a unit is a unit of its own. */
		if (s->guarded && unit <= page)
			bytes += page;
		if (s->record != 0 && at >= s->span && at - s->span < bytes)
			return s;
	}
	return NULL;
}

/* Returns the state of a sample in words. */
static const char *
state_text(struct model *model, const struct sample *s)
{
	const struct domain *domain =
	    s->waits ? model_waits_for(model, s->at) : NULL;

	if (!s->waits)
		return "";
	return domain == NULL ? ", waits for a grace period"
			      : xprint(", waits for a grace period of %s",
				    model_flavour(model, domain));
}

/* Returns one of two phrases for which a reader of a fault report searches. */
static const char *
where_text(const struct sample *s, uint64_t at)
{
	if (at < s->at)
		return "before";
	if (at - s->at >= s->size)
		return "past the end of";
	return "in";
}

static void
say_stack(struct model *model, const char *verb, uint64_t thread, uint64_t time,
    const uint64_t *stack, unsigned depth)
{
	struct audit audit = {.depth = depth,
	    .timestamp = time,
	    .thread = thread,
	    .stack = stack};

	audit_print_transaction(model, verb, &audit, samples_now(model));
}

static void
json_sample(struct model *model, const struct sample *s, uint64_t at)
{
	struct audit allocated = {.at = s->record,
	    .addr = s->at,
	    .size = s->size,
	    .depth = s->depth,
	    .timestamp = s->time,
	    .thread = s->thread,
	    .stack = s->stack};
	struct audit freed = allocated;

	freed.depth = s->freed_depth;
	freed.timestamp = s->freed_time;
	freed.thread = s->freed_thread;
	freed.stack = s->freed_stack;
	json_open(NULL, '{');
	json_address("address", at);
	json_text("kind", "sample");
	json_text("state", s->live    ? "allocated"
			   : s->waits ? "freed, waits for a grace period"
				      : "freed");
	json_text("where", where_text(s, at));
	json_bool("guarded", s->guarded);
	json_address("buffer", s->at);
	json_number("size", s->size);
	json_open("allocated", '{');
	audit_json(model, &allocated);
	json_close();
	if (!s->live) {
		json_open("freed", '{');
		audit_json(model, &freed);
		json_close();
	}
	json_close();
}

bool
samples_say(struct model *model, uint64_t at)
{
	const struct sample *s = sample_near(model, at);

	if (s == NULL)
		return false;
	if (json_wanted) {
		json_sample(model, s, at);
		return true;
	}
	if (at >= s->at)
		printf("%lx is %lx+%lx, ", at, s->at, at - s->at);
	else
		printf("%lx is %lx-%lx, ", at, s->at, s->at - at);
	printf("%s %s sample of %lu bytes (%lx)%s%s\n", where_text(s, at),
	    s->live ? "an allocated" : "a freed", s->size, s->record,
	    s->guarded ? ", between guards" : "", state_text(model, s));
	say_stack(model, "allocated", s->thread, s->time, s->stack, s->depth);
	if (!s->live)
		say_stack(model, "freed", s->freed_thread, s->freed_time,
		    s->freed_stack, s->freed_depth);
	return true;
}
