/*
 * sites.c - blocks counted by the call site that allocated them
 *
 * The call site of a block is the innermost frame of its stack that belongs to
 * the program: frames of the C and C++ libraries, and functions with the name
 * of an allocator (xmalloc, g_strdup, operator new), are passed over, because
 * the leak is in their caller.  Blocks with different stacks but one call site
 * are one row.
 *
 * Estimates
 *	Only samples have stacks in a process that samples.  A sample stands for
 *	sample_weight() blocks, itself included.  The other blocks of its size
 *	class, or objects of its cache, are also here, without a stack.  Both
 *	are of one bucket.  To count
 *	no block twice, the blocks without a stack are given to the call sites
 *	of their bucket, in the ratio of the weights.  If the weights stand for
 *	more blocks than there are, or for fewer within twice the standard
 *	deviation of such a sum, the sites get all blocks of the bucket.  This
 *	is the deviation if sampling met all blocks: that of the samples, with
 *	more of them.  Few samples by chance would else look like a late start.
 *	Otherwise they get as many as the weights say, and the rest remains
 *	unknown: blocks that were allocated before sampling began.
 *	    Bytes held by blocks without a stack are divided likewise, by the
 *	bytes that the samples hold.  Therefore the elements of a lost list
 *	belong to no call site if its head is not a sample, and if no sample of
 *	the head's size holds other blocks.
 *
 * Rate
 *	A row counts its bytes by the logarithm of their age.  Its rate is that
 *	of the last 2^k ns, the longest such time in which it has an older
 *	block.  Because this is at least half of the time since the oldest
 *	block, and not all of it, a loss at the start does not count as growth.
 *	Fewer than RATE_SAMPLES samples do not tell a rate.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/audit.h"
#include "tools/inspect/sites/sites.h"
#include "tools/inspect/sites/suppress.h"
#include "tools/inspect/symbols/symbols.h"

#define NS_PER_SECOND 1e9

/*
 * A rate is estimated from so many samples at least.  Of a steady growth, at
 * least half is in the last 2^k ns: one of these samples is the oldest, and
 * that none of the other 7 is there has a probability of at most 1/128.
 */
#define RATE_SAMPLES 8

static unsigned
log2_of(uint64_t n)
{
	return n == 0 ? 0 : 63 - (unsigned)__builtin_clzll(n);
}

/* Returns the cache of malloc() that serves a size, or NULL. */
static const struct cache *
cache_of_size(const struct model *model, uint64_t bytes)
{
	const struct cache *best = NULL;

	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (c->class != 0 && c->bufsize >= bytes &&
		    (best == NULL || c->bufsize < best->bufsize))
			best = c;
	}
	return best;
}

/* Returns the bucket of blocks among which this block may be a sample. */
static unsigned
bucket_of(const struct model *model, const struct site_block *b)
{
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);
	const struct cache *best = b->sampled && b->cache == NULL
				       ? cache_of_size(model, b->bytes)
				       : b->cache;

	if (best != NULL)
		return (unsigned)(best - model->caches);
	return (unsigned)model->ncaches +
	       log2_of((b->bytes + unit - 1) / unit * unit);
}

static int
order_tallies(const void *a, const void *b)
{
	const struct site_tally *x = a, *y = b;
	int way = audit_order_stacks(x->depth, x->stack, y->depth, y->stack);

	if (way == 0)
		way = order_numbers(x->sampled, y->sampled);
	if (way == 0)
		way = order_numbers((uintptr_t)x->cache, (uintptr_t)y->cache);
	if (way == 0)
		way = order_numbers(x->size, y->size);
	if (way == 0)
		way = order_numbers((uintptr_t)x->class, (uintptr_t)y->class);
	return way ? way : order_numbers(x->bucket, y->bucket);
}

static struct site_tally *
tally_of(struct sites *sites, const struct site_block *b)
{
	struct site_tally *t,
	    key = {.stack = b->stack, .depth = b->depth, .sampled = b->sampled};
	bool is_new;

	if (b->depth == 0) {
		key.cache = b->cache;
		key.size = b->cache == NULL ? b->bytes : 0;
		key.class = b->class;
	}
	if (b->depth == 0 || b->sampled)
		key.bucket = bucket_of(sites->model, b);
	t = tree_item(&sites->tree, &key, sizeof(key), order_tallies, &is_new);
	if (!is_new)
		return t;
	ARRAY_GROW(sites->tallies, sites->ntallies, sites->tallies_capacity);
	return sites->tallies[sites->ntallies++] = t;
}

void
sites_add(struct sites *sites, const struct site_block *b)
{
	struct site_tally *t = tally_of(sites, b);
	uint64_t age = 0;

	assert(b->weight >= 1 && b->n > 0 && sites->rows == NULL);
	if (b->time != 0)
		age = sites->now > b->time ? sites->now - b->time : 1;
	if (t->nseen < SITE_ADDRESSES)
		t->at[t->nseen] = b->at;
	t->nseen += b->n;
	t->blocks += (double)b->n;
	t->bytes += (double)(b->n * b->bytes);
	t->held += (double)b->held;
	t->more_blocks += b->weight - 1;
	t->more_bytes += (b->weight - 1) * (double)b->bytes;
	t->more_held += (b->weight - 1) * (double)b->held;
	t->blocks_variance += b->weight * (b->weight - 1);
	t->held_variance +=
	    b->weight * (b->weight - 1) * (double)b->held * (double)b->held;
	t->by_age[log2_of(age)] += (double)(b->n * b->bytes + b->held);
	if (age > t->oldest || t->nseen == b->n) {
		t->oldest = age;
		t->example = b->at;
	}
}

void
sites_add_sum(struct sites *sites, const struct sample_sums *stack,
    const struct sample_sum *sum, double part)
{
	struct site_block b = {.stack = stack->stack, .depth = stack->depth};
	struct site_tally *t = tally_of(sites, &b);

	t->blocks += sum->blocks;
	t->bytes += sum->bytes;
	t->part += part;
}

/* Finds the record of a buffer or block with its stack. */
static bool
has_stack(struct model *model, const struct slab *slab,
    const struct large *large, unsigned i, struct audit *audit)
{
	return (slab != NULL ? audit_of_chunk(model, slab, i, audit)
			     : audit_of_large(model, large, audit)) &&
	       audit->depth != 0;
}

uint64_t
site_bytes_of(struct model *model, const struct slab *slab,
    const struct large *large, unsigned i)
{
	struct audit audit;

	if (has_stack(model, slab, large, i, &audit))
		return audit.size;
	return slab != NULL ? model->caches[slab->cache].bufsize : large->size;
}

void
sites_add_buffer(struct sites *sites, const struct slab *slab,
    const struct large *large, unsigned i, uint64_t held)
{
	struct model *model = sites->model;
	struct site_block b = {.n = 1, .weight = 1, .held = held};
	struct audit audit;

	assert((slab != NULL) != (large != NULL));
	b.cache = slab != NULL ? &model->caches[slab->cache] : large->cache;
	b.at = slab != NULL ? slab_chunk_at(model, slab, i) : large->at;
	b.bytes = slab != NULL ? b.cache->bufsize : large->size;
	if (has_stack(model, slab, large, i, &audit)) {
		b.bytes = audit.size;
		b.depth = audit.depth;
		b.stack = audit.stack;
		b.time = audit.timestamp;
		b.sampled = large != NULL && large->sample != NULL;
		if (b.sampled)
			b.weight = sample_weight(large->sample);
	} else {
		if (large != NULL && large->is_ended && b.cache == NULL)
			b.cache = cache_of_size(model, b.bytes);
		if (sites->are_leaks)
			b.class = site_class_of(model, b.at);
	}
	sites_add(sites, &b);
}

/*
 * An estimate from samples of a figure of blocks without a stack, and the share
 * of this figure that belongs to the call sites of the samples.
 */
struct estimate {
	double weight, variance;
	double share;
};

/* The blocks of a bucket. */
struct bucket {
	double blocks, bytes, held; /* of blocks without a stack */
	struct estimate of_blocks, of_held;
};

static void
estimate_share(struct estimate *e, double figure)
{
	if (e->weight <= 0)
		e->share = 0;
	else if (e->weight + 2 * sqrt(e->variance * figure / e->weight) >=
		 figure)
		e->share = 1;
	else
		e->share = e->weight / figure;
}

static void
fill_buckets(const struct sites *sites, struct bucket *buckets, size_t n)
{
	for (size_t i = 0; i < sites->ntallies; i++) {
		const struct site_tally *t = sites->tallies[i];
		struct bucket *b = &buckets[t->bucket];

		assert(t->bucket < n);
		if (t->sampled) {
			b->of_blocks.weight += t->more_blocks;
			b->of_blocks.variance += t->blocks_variance;
			b->of_held.weight += t->more_held;
			b->of_held.variance += t->held_variance;
		} else if (t->depth == 0) {
			b->blocks += t->blocks;
			b->bytes += t->bytes;
			b->held += t->held;
		}
	}
	for (size_t i = 0; i < n; i++) {
		estimate_share(&buckets[i].of_blocks, buckets[i].blocks);
		estimate_share(&buckets[i].of_held, buckets[i].held);
	}
}

/* Gives blocks without a stack to the call sites of the samples. */
static void
estimate(struct sites *sites)
{
	size_t n = sites->model->ncaches + 64;
	struct bucket *buckets = xalloc(n * sizeof(*buckets));

	fill_buckets(sites, buckets, n);
	for (size_t i = 0; i < sites->ntallies; i++) {
		struct site_tally *t = sites->tallies[i];
		const struct bucket *b = &buckets[t->bucket];
		double given = b->of_blocks.share * b->blocks;

		if (t->sampled && b->of_blocks.weight > 0) {
			t->blocks +=
			    t->more_blocks / b->of_blocks.weight * given;
			t->bytes += t->more_bytes / b->of_blocks.weight * given;
		} else if (!t->sampled && t->depth == 0) {
			t->blocks *= 1 - b->of_blocks.share;
			t->bytes *= 1 - b->of_blocks.share;
			t->held *= 1 - b->of_held.share;
		}
		if (t->sampled && b->of_held.weight > 0)
			t->held += t->more_held / b->of_held.weight *
				   b->of_held.share * b->held;
	}
	free(buckets);
}

/*
 * Scales the held bytes to the sum of the table of the blocks that are held.
 * That table counts the requested bytes of blocks if their size class has
 * samples, while leaks_divide() counted whole size classes.
 */
static void
scale_held(struct sites *sites)
{
	double held = 0;

	for (size_t i = 0; i < sites->ntallies; i++) {
		held += sites->tallies[i]->held;
		sites->all_bytes += sites->tallies[i]->bytes;
	}
	if (held <= 0 || sites->all_held <= 0)
		return;
	for (size_t i = 0; i < sites->ntallies; i++)
		sites->tallies[i]->held *= sites->all_held / held;
}

static int
tallies_by_stack(const void *a, const void *b)
{
	const struct site_tally *x = *(struct site_tally *const *)a;
	const struct site_tally *y = *(struct site_tally *const *)b;
	int way = audit_order_stacks(x->depth, x->stack, y->depth, y->stack);

	return way ? way : order_numbers((uintptr_t)x, (uintptr_t)y);
}

/* Adds a tally of the same stack. */
static void
tally_merge(struct site_tally *to, const struct site_tally *from)
{
	to->nseen += from->nseen;
	to->blocks += from->blocks;
	to->bytes += from->bytes;
	to->held += from->held;
	for (unsigned i = 0; i < array_size(to->by_age); i++)
		to->by_age[i] += from->by_age[i];
	if (from->oldest > to->oldest) {
		to->oldest = from->oldest;
		to->example = from->example;
	}
}

/* Makes one tally of the samples with one stack and of several sizes. */
static void
merge_stacks(struct sites *sites)
{
	size_t n = 0;

	ARRAY_SORT(sites->tallies, sites->ntallies, tallies_by_stack);
	for (size_t i = 0; i < sites->ntallies; i++) {
		struct site_tally *t = sites->tallies[i];
		struct site_tally *last = n ? sites->tallies[n - 1] : NULL;

		if (last != NULL && t->depth != 0 &&
		    audit_order_stacks(
			last->depth, last->stack, t->depth, t->stack) == 0)
			tally_merge(last, t);
		else
			sites->tallies[n++] = t;
	}
	sites->ntallies = n;
}

/* A tally with the name of its row. */
struct named {
	const char *name;
	struct site_tally *tally;
};

static int
order_named(const void *a, const void *b)
{
	const struct named *x = a, *y = b;
	int way = strcmp(x->name, y->name);

	return way != 0
		   ? way
		   : order_rows(site_tally_total(x->tally),
			 site_tally_total(y->tally),
			 order_numbers(x->tally->example, y->tally->example));
}

static int
rows_by_bytes(const void *a, const void *b)
{
	const struct site *x = a, *y = b;

	return order_rows(
	    site_total(x), site_total(y), strcmp(x->name, y->name));
}

/* Returns the bytes of a row in the last 2^k ns, for a minute. */
static double
rate_of(const struct site *site)
{
	unsigned k = log2_of(site->oldest);
	double bytes = 0, known = 0;

	if ((double)site->oldest < NS_PER_SECOND ||
	    (site->estimated && site->nseen < RATE_SAMPLES))
		return -1;
	for (size_t i = 0; i < site->ntallies; i++) {
		const struct site_tally *t = site->tallies[i];
		double seen = 0, young = 0;

		for (unsigned j = 0; j < 64; j++) {
			seen += t->by_age[j];
			young += j < k ? t->by_age[j] : 0;
		}
		if (seen > 0)
			bytes += young / seen * site_tally_total(t);
		known += seen;
	}
	if (known <= 0)
		return -1;
	return bytes * 60 * NS_PER_SECOND / (double)((uint64_t)1 << k);
}

static void
row_add(struct site *row, struct site_tally *t)
{
	row->tallies =
	    xresize(row->tallies, (row->ntallies + 1) * sizeof(*row->tallies));
	row->tallies[row->ntallies++] = t;
	row->nseen += t->nseen;
	row->blocks += t->blocks;
	row->bytes += t->bytes;
	row->held += t->held;
	row->part += t->part;
	/* Half a block is the error of rounding. */
	row->estimated |= fabs(t->blocks - (double)t->nseen) >= 0.5;
	if (t->oldest > row->oldest)
		row->oldest = t->oldest;
}

/* Takes suppressed tallies out; the call sites of samples may be some. */
static void
suppress(struct sites *sites)
{
	for (size_t i = 0; i < sites->ntallies; i++) {
		struct site_tally *t = sites->tallies[i];

		if (!suppress_matches(sites->model, t->depth, t->stack))
			continue;
		sites->suppressed_blocks += t->blocks;
		sites->suppressed_bytes += t->bytes;
		t->blocks = t->held = 0;
	}
}

static bool
tally_is_wanted(const struct sites *sites, const struct site_tally *t)
{
	/* Less than half a block is the rest of an estimate. */
	return (t->blocks >= 0.5 || t->held >= 0.5) &&
	       (sites->caller == NULL ||
		   symbols_match(sites->model->target, t->depth, t->stack,
		       sites->caller));
}

/*
 * Takes out rows of less than half a block and half a percent of all bytes:
 * they are the rest of an estimate, and would be printed as nothing.
 */
static void
drop_empty_rows(struct sites *sites)
{
	double all = 0;
	size_t n = 0;

	for (size_t i = 0; i < sites->nrows; i++)
		all += site_total(&sites->rows[i]);
	for (size_t i = 0; i < sites->nrows; i++)
		if (sites->rows[i].blocks >= 0.5 ||
		    site_total(&sites->rows[i]) >= all / 200)
			sites->rows[n++] = sites->rows[i];
	sites->nrows = n;
}

void
sites_finish(struct sites *sites)
{
	struct named *named;
	size_t n = 0;

	estimate(sites);
	scale_held(sites);
	merge_stacks(sites);
	suppress(sites);
	named = xalloc((sites->ntallies + 1) * sizeof(*named));
	for (size_t i = 0; i < sites->ntallies; i++)
		if (tally_is_wanted(sites, sites->tallies[i]))
			named[n++] = (struct named){
			    site_tally_name(sites->model, sites->tallies[i]),
			    sites->tallies[i]};
	ARRAY_SORT(named, n, order_named);
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || strcmp(named[i - 1].name, named[i].name) != 0)
			ARRAY_ADD(sites->rows, sites->nrows,
			    sites->rows_capacity,
			    (struct site){.name = named[i].name});
		row_add(&sites->rows[sites->nrows - 1], named[i].tally);
	}
	free(named);
	drop_empty_rows(sites);
	for (size_t i = 0; i < sites->nrows; i++) {
		sites->rows[i].rate = rate_of(&sites->rows[i]);
		sites->estimated |= sites->rows[i].estimated;
		sites->has_unknown |= sites->rows[i].tallies[0]->depth == 0;
		sites->blocks += sites->rows[i].blocks;
		sites->bytes += sites->rows[i].bytes;
	}
	ARRAY_SORT(sites->rows, sites->nrows, rows_by_bytes);
}
