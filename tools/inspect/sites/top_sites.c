/*
 * top_sites.c - call sites of samples, read again and again
 *
 * The records of samples are copied while the process runs.  A record that
 * changes meanwhile is one sample too many or too few, or has a stack that
 * nothing else has.  Names are looked up once for each stack, because a look
 * with umem top may last for days.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/sites/top_sites.h"

/* Records that are closer to each other are read at once. */
#define RUN_GAP 4096

/* The library's memory ends where a page ends, at a multiple of this. */
#define PAGE_MIN ((uint64_t)4096)

/* Copies a range of the target; behind the ranges copied before. */
static bool
range_copy(
    struct top_sites *sites, struct target *target, uint64_t at, uint64_t bytes)
{
	char *copy = xalloc(bytes + 8);

	if (at % 8 != 0 || !target_peek(target, at, copy, bytes)) {
		free(copy);
		return false;
	}
	ARRAY_ADD(sites->copies, sites->ncopies, sites->copies_capacity, copy);
	target_add_region(
	    target, (struct region){.at = at, .bytes = bytes, .local = copy});
	return true;
}

/* Returns the bytes of the largest stack, which is larger than a record. */
static uint64_t
piece_bytes(const struct layout *l)
{
	uint64_t stack = layout_value(l, L_SAMPLE_STACK_BYTES) +
			 8 * layout_value(l, L_SAMPLE_FRAMES);
	uint64_t record = layout_value(l, L_SAMPLE_BYTES);

	return stack > record ? stack : record;
}

/*
 * Copies the table of so many words, and the records and stacks at n addresses,
 * of which one is 0 and gets the address of the table.
 */
static void
samples_copy(struct top_sites *sites, struct model *model, uint64_t table,
    size_t words, uint64_t *at, size_t n)
{
	uint64_t bytes = piece_bytes(model->layout), end;
	size_t i = 0, first;

	at[0] = table;
	ARRAY_SORT(at, n, order_first_words);
	while (i < n && at[i] == 0)
		i++;
	while (i < n) {
		for (first = i++; i < n && at[i] - at[i - 1] < RUN_GAP; i++)
			;
		end = at[i - 1] + (at[i - 1] == table ? 8 * words : bytes);
		if (i < n && end > at[i])
			end = at[i];
		/* The last piece may be short, and end where memory ends. */
		if (range_copy(
			sites, model->target, at[first], end - at[first]))
			continue;
		end &= ~(PAGE_MIN - 1);
		if (end > at[first])
			range_copy(
			    sites, model->target, at[first], end - at[first]);
	}
}

/*
 * Adds the stacks of the n records that were copied to their addresses.
 * Returns the number of addresses.
 */
static size_t
stacks_add(struct model *model, uint64_t *at, size_t n)
{
	const struct layout *l = model->layout;
	size_t nall = n;

	for (size_t i = 0; i < n; i++) {
		const char *r = target_at(
		    model->target, at[i], layout_value(l, L_SAMPLE_BYTES));

		at[nall] = r == NULL ? 0 : layout_get(l, r, L_SAMPLE_STACK);
		nall += at[nall] != 0;
	}
	return nall;
}

void
top_sites_read(struct top_sites *sites, struct model *model)
{
	const struct layout *l = model->layout;
	struct target *target = model->target;
	uint64_t at = layout_variable(l, target, L_SAMPLES);
	uint64_t n = layout_variable(l, target, L_NSAMPLES) + 1, *table, *all;
	size_t nall;

	if (!target->live)
		model_take_samples(model);
	if (!target->live || at == 0 || n >= UINT32_MAX)
		return;
	table = xalloc(8 * n);
	all = xalloc(16 * n + 8);
	if (target_peek(target, at, table, 8 * n)) {
		memcpy(all, table, 8 * n);
		samples_copy(sites, model, at, n, all, n);
		memcpy(all, table, 8 * n);
		nall = stacks_add(model, all, n);
		/* Stacks lie between records, and a region is copied once. */
		top_sites_forget(sites, model);
		samples_copy(sites, model, at, n, all, nall);
	}
	free(table);
	free(all);
	if (target_array(target, at, n) != NULL)
		model_take_samples(model);
}

static int
order_top_stacks(const void *a, const void *b)
{
	const struct top_stack *x = a, *y = b;

	return audit_order_stacks(x->depth, x->stack, y->depth, y->stack);
}

static struct top_site *
site_named(struct top_sites *sites, const char *name)
{
	struct top_site key = {.name = name}, *site;
	bool is_new;

	site = tree_item(
	    &sites->by_name, &key, sizeof(key), order_first_texts, &is_new);
	if (!is_new)
		return site;
	ARRAY_GROW(sites->site, sites->n, sites->capacity);
	return sites->site[sites->n++] = site;
}

static struct top_stack *
top_stack_of(
    struct top_sites *sites, struct model *model, const struct sample *s)
{
	struct top_stack key = {.stack = s->stack, .depth = s->depth}, *known;
	struct site_tally tally = {.depth = s->depth, .sampled = true};
	uint64_t *stack;
	bool is_new;

	known = tree_item(
	    &sites->by_stack, &key, sizeof(key), order_top_stacks, &is_new);
	if (!is_new)
		return known;
	stack = xalloc(s->depth * sizeof(*stack));
	if (s->depth != 0)
		memcpy(stack, s->stack, s->depth * sizeof(*stack));
	known->stack = tally.stack = stack;
	known->site = site_named(
	    sites, s->depth == 0 ? "unknown" : site_tally_name(model, &tally));
	return known;
}

static int
order_top_sites(const void *a, const void *b)
{
	const struct top_site *x = *(struct top_site *const *)a;
	const struct top_site *y = *(struct top_site *const *)b;

	return order_rows(x->bytes, y->bytes, strcmp(x->name, y->name));
}

static void
count_sample(
    struct top_sites *sites, struct model *model, const struct sample *s)
{
	struct top_site *site = top_stack_of(sites, model, s)->site;
	double weight = sample_weight(s);

	site->bytes += weight * (double)s->size;
	site->blocks += weight;
	site->nsamples++;
}

void
top_sites_count(struct top_sites *sites, struct model *model)
{
	/* Names are not found if the process ends; the last look stays then. */
	for (size_t i = 0; i < model->nsamples; i++)
		if (sample_is_live(&model->samples[i]))
			top_stack_of(sites, model, &model->samples[i]);
	for (size_t i = 0; i < sites->n; i++)
		*sites->site[i] = (struct top_site){
		    sites->site[i]->name, .first = sites->site[i]->first};
	for (size_t i = 0; i < model->nsamples; i++)
		if (sample_is_live(&model->samples[i]))
			count_sample(sites, model, &model->samples[i]);
	ARRAY_SORT(sites->site, sites->n, order_top_sites);
	for (size_t i = 0; i < sites->n && !sites->looked; i++)
		sites->site[i]->first = sites->site[i]->bytes;
	sites->looked = true;
}

void
top_sites_forget(struct top_sites *sites, struct model *model)
{
	target_forget(model->target);
	for (size_t i = 0; i < sites->ncopies; i++)
		free(sites->copies[i]);
	sites->ncopies = 0;
	free(model->samples);
	model->samples = NULL;
	model->nsamples = 0;
}
