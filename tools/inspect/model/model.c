/*
 * model.c - the state of the target's allocator
 *
 * This file reads the copies of the target's memory (snapshot.c).  A target may
 * be stopped anywhere, also inside the library with a lock held.  Therefore
 * this file reads only data that is consistent at every moment:
 *	slabs and large blocks	from the page map, which the library writes last
 *				when it creates them and first when it destroys
 *				them; never from the lists, whose links may be
 *				incomplete
 *	a slab's free bits	the library clears a bit after it has recorded
 *				the chunk on the stack.  The record stays there
 *				until the chunk is stored at its destination.
 *				The library sets the bit before the chunk leaves
 *				that destination
 *	objects that wait	from the layers of deferred frees: a magazine is
 *				in a CPU's header, in a list, or held by a
 *				thread, in whose stack leaks.c finds it
 *	constructed chunks	bits after the free bits, set when the
 *				constructor has returned
 *	a CPU's magazine	a critical section commits by one store of top,
 *				its last store.  Therefore the rounds below top
 *				belong to complete operations; the object of an
 *				incomplete operation is in its thread's
 *				registers
 *	import caches		resources are not in a slab.  The number of
 *				resources outside the pool, less those in
 *				magazines, is the number that the program holds,
 *				except for resources that a thread is moving
 * A claimed header has no valid top: only its owner knows it.  snapshot.c tries
 * to stop the target while no header is claimed.
 *
 * The unit table has for each 64 KiB of the heap the index of a slab
 * (2 * i + 2) or of a large block (2 * i + 3), 0 for neither.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/model_inner.h"

/*
 * Bytes of structures that the model may read: this many times the memory of
 * the target, and some more.  A sound target has each structure once, and the
 * model reads some of them twice.
 */
#define READ_TIMES 8
#define READ_MIN   (16 * MIB)

/* No span has this address. */
#define SPAN_ANY UINT64_MAX

void
model_charge(struct model *model, uint64_t bytes)
{
	if (model->charge_most == 0)
		return;
	if (bytes > model->charge_most - model->charged)
		fail_with(EXIT_ERROR,
		    "%s: the library's structures are damaged: they overlap, "
		    "or a list has no end",
		    model->target->name);
	model->charged += bytes;
}

void
model_charge_anew(struct model *model)
{
	model->charged = 0;
	model->charge_most =
	    READ_MIN + READ_TIMES * target_resident(model->target);
}

uint64_t
model_map_table(struct model *model, enum layout_entry which)
{
	return model_peek_word(model, layout_value(model->layout, L_PAGE_MAP) +
					  layout_value(model->layout, which));
}

uint64_t
model_cpus_used(struct model *model)
{
	uint64_t n = model_member(
	    model, layout_value(model->layout, L_CPU_LAYER), L_LAYER_NUSED);

	return n < CPUS_MAX ? n : CPUS_MAX;
}

/* Returns the first item of a list of the target; head: its struct list. */
uint64_t
model_list_first(struct model *model, uint64_t head)
{
	return model_word(
	    model, head + layout_value(model->layout, L_LIST_NEXT));
}

static bool
cache_makes_sense(const struct cache *c)
{
	return c->chunk != 0 && c->nchunks > 0 && c->nchunks <= CHUNKS_MAX &&
	       c->bufsize <= c->chunk && c->slab_bytes >= c->chunk &&
	       c->slab_bytes <= UINT64_MAX / 2 &&
	       c->chunk <= c->slab_bytes / c->nchunks;
}

static void
take_cache(struct model *model, uint64_t at, bool listed)
{
	const char *r = model_record(model, at, L_CACHE_BYTES);
	struct cache *c;

	if (r == NULL)
		return;
	ARRAY_GROW(model->caches, model->ncaches, model->caches_capacity);
	c = &model->caches[model->ncaches++];
	*c = (struct cache){.at = at,
	    .record = r,
	    .chunk = model_get(model, r, L_CACHE_CHUNK),
	    .bufsize = model_get(model, r, L_CACHE_BUFSIZE),
	    .slab_bytes = model_get(model, r, L_CACHE_SLAB_BYTES),
	    .source = model_get(model, r, L_CACHE_SOURCE),
	    .nchunks = (unsigned)model_get(model, r, L_CACHE_NCHUNKS),
	    .class = (unsigned)model_get(model, r, L_CACHE_CLASS),
	    .debug = (unsigned)model_get(model, r, L_CACHE_DEBUG),
	    .record_bytes = model_get(model, r, L_CACHE_RECORD_BYTES),
	    .has_magazines =
		listed && model_get(model, r, L_CACHE_HAS_MAGAZINES),
	    .constructs = model_get(model, r, L_CACHE_CONSTRUCTS),
	    .import = model_get(model, r, L_CACHE_IMPORT),
	    .nfailed = model_get(model, r, L_CACHE_NFAILED),
	    .ncontended = model_get(model, r, L_CACHE_NCONTENDED) +
			  model_get(model, r, L_CACHE_SLAB_NCONTENDED),
	    .counts = model_get(model, r, L_CACHE_COUNTS),
	    .limit = model_get(model, r, L_CACHE_LIMIT),
	    .nheld = model_get(model, r, L_CACHE_HELD),
	    .nwaiting = model_get(model, r, L_CACHE_WAITING),
	    .nwaits = model_get(model, r, L_CACHE_WAITS),
	    .nrefused = model_get(model, r, L_CACHE_REFUSED),
	    .reserve = model_get(model, r, L_CACHE_RESERVE_WANT),
	    .nready = model_get(model, r, L_CACHE_RESERVE_READY),
	    .nreserved = model_get(model, r, L_CACHE_RESERVE_USED),
	    .listed = listed};
	c->name = plain_text(r + layout_value(model->layout, L_CACHE_NAME), 31);
	if (!cache_makes_sense(c)) {
		model->ncaches--;
		model->ndamaged += listed;
	}
}

static void
take_cache_list(struct model *model, uint64_t head, bool listed)
{
	uint64_t link = model_list_first(model, head);
	struct cycle_detector cycles = {0};

	while (link != head && cycle_continues(&cycles, link)) {
		take_cache(model,
		    link - layout_value(model->layout, L_CACHE_LINK), listed);
		link = model_list_first(model, link);
	}
}

void
model_take_caches(struct model *model)
{
	const struct layout *l = model->layout;

	/* Slabs have indices of caches. */
	assert(model->nslabs == 0);
	while (model->ncaches != 0)
		free((char *)model->caches[--model->ncaches].name);
	model->ndamaged = 0;
	take_cache_list(model, layout_value(l, L_CACHE_LIST), true);
	take_cache_list(model, layout_value(l, L_CACHE_DESTROYED_LIST), false);
}

struct cache *
model_cache_at(struct model *model, uint64_t at)
{
	static size_t last;

	if (last < model->ncaches && model->caches[last].at == at)
		return &model->caches[last];
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].at == at) {
			last = i;
			return &model->caches[i];
		}
	return NULL;
}

/* A cache that is being created or destroyed is in no list. */
static struct cache *
cache_of_store(struct model *model, uint64_t store)
{
	uint64_t at = store - layout_value(model->layout, L_CACHE_SLABS);
	struct cache *c = model_cache_at(model, at);

	if (c == NULL) {
		take_cache(model, at, false);
		c = model_cache_at(model, at);
	}
	return c;
}

/*
 * Reads the slab described at at, without its entry in the unit table.  span is
 * the span that it must have, or SPAN_ANY.  Returns NULL and changes nothing if
 * the description is inconsistent.
 */
static struct slab *
take_slab(struct model *model, uint64_t at, uint64_t span)
{
	const char *r = model_record(model, at, L_SLAB_BYTES);
	uint64_t bits_at = at + layout_value(model->layout, L_SLAB_BITS);
	const uint64_t *bits;
	struct cache *c;
	struct slab *s;

	if (r == NULL ||
	    (span != SPAN_ANY && model_get(model, r, L_SLAB_SPAN) != span))
		return NULL;
	c = cache_of_store(model, model_get(model, r, L_SLAB_STORE));
	if (c == NULL)
		return NULL;
	assert(c->nchunks > 0 && c->nchunks <= CHUNKS_MAX);
	bits = model_array(model, bits_at,
	    (uint64_t)words_of_bits(c->nchunks) * (c->constructs ? 2 : 1));
	if (bits == NULL)
		return NULL;
	ARRAY_GROW(model->slabs, model->nslabs, model->slabs_capacity);
	s = &model->slabs[model->nslabs++];
	*s = (struct slab){.at = at,
	    .span = model_get(model, r, L_SLAB_SPAN),
	    .first = model_get(model, r, L_SLAB_FIRST),
	    .records = model_get(model, r, L_SLAB_RECORDS),
	    .cache = (unsigned)(c - model->caches),
	    .nchunks = c->nchunks,
	    .free = (uint64_t *)bits,
	    .constructed = c->constructs
			       ? (uint64_t *)bits + words_of_bits(c->nchunks)
			       : NULL};
	s->live = xalloc(8ull * words_of_bits(s->nchunks));
	for (unsigned w = 0; w < words_of_bits(s->nchunks); w++)
		s->live[w] = ~bits[w];
	if (s->nchunks % 64 != 0)
		s->live[words_of_bits(s->nchunks) - 1] &=
		    ((uint64_t)1 << (s->nchunks % 64)) - 1;
	c->nslabs++;
	c->ntotal += c->nchunks;
	c->nlive += bits_count(s->live, s->nchunks);
	assert(c->nlive <= c->ntotal);
	return s;
}

static void
units_set(struct model *model, size_t unit, uint64_t bytes, uint32_t what)
{
	size_t n = (bytes + layout_value(model->layout, L_HEAP_UNIT) - 1) >>
		   model->unit_shift;

	assert(unit < model->nunits && what >= 2);
	for (size_t i = unit; i < unit + n && i < model->nunits; i++)
		model->unit[i] = what;
}

static void
take_large(struct model *model, size_t unit, uint64_t bytes)
{
	assert(model->unit[unit] == 0);
	model_charge(model, sizeof(struct large));
	units_set(model, unit, bytes, (uint32_t)(2 * model->nlarges + 3));
	ARRAY_ADD(model->larges, model->nlarges, model->larges_capacity,
	    (struct large){
		.at = model->base + ((uint64_t)unit << model->unit_shift),
		.bytes = bytes,
		.size = bytes});
}

/* Returns the bytes of the size class that serves a size; 0: there is none. */
static uint64_t
class_bytes(struct model *model, uint64_t size)
{
	const struct layout *l = model->layout;
	const char *classes = layout_at(l, model->target, L_SIZE_CLASSES);
	const char *bytes;
	uint64_t n;

	if (classes == NULL)
		return 0;
	n = model_get(model, classes, L_CLASSES_N);
	bytes = classes + layout_value(l, L_CLASSES_BYTES);
	/* Number 0 is not used. */
	for (uint64_t i = 1; i <= n && i < l->known[L_CLASSES_BYTES].bytes / 8;
	     i++)
		if (layout_number(bytes + 8 * i, 8) >= size)
			return layout_number(bytes + 8 * i, 8);
	return 0;
}

/*
 * Returns the usable bytes of a sample, of which most are in its span: as many
 * as an ordinary block of this size has, see sample_usable() of the library.
 * Behind them may be bytes that an earlier sample in the span has left.
 */
static uint64_t
usable_bytes(struct model *model, const struct sample *s, uint64_t most)
{
	uint64_t bytes = s->cache != 0 ? s->size : class_bytes(model, s->size);

	return bytes != 0 && bytes < most ? bytes : most;
}

/* A sample starts anywhere in its span, and may already be freed. */
static void
take_sample(struct model *model, size_t unit, uint64_t bytes, uint32_t index)
{
	uint64_t span = model->base + ((uint64_t)unit << model->unit_shift);
	const struct sample *s = model_sample_of(model, index, span);
	struct large *large;

	if (s != NULL && !s->live)
		return;
	take_large(model, unit, bytes);
	if (s == NULL)
		return;
	large = &model->larges[model->nlarges - 1];
	large->at = s->at;
	large->bytes = usable_bytes(model, s, span + bytes - s->at);
	large->size = s->size;
	large->cache = s->cache != 0 ? model_cache_at(model, s->cache) : NULL;
	large->is_ended = !s->counted_now;
	if (s->counted_now)
		large->sample = s;
}

/* Takes a large block; its size and its sample are in its owner word. */
static void
take_owner(struct model *model, size_t i, uint64_t owner)
{
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);
	unsigned bits =
	    (unsigned)layout_value(model->layout, L_PAGE_MAP_SIZE_BITS) & 63;
	uint64_t high = owner >> bits, rest = owner - (high << bits);
	uint64_t index = rest % unit / 2 + high * (unit / 2);

	/* A damaged core may give any size. */
	rest -= rest % unit;
	if (rest >> model->unit_shift <= model->nunits - i)
		take_sample(model, i, rest, (uint32_t)index);
}

static void
take_map(struct model *model)
{
	const uint64_t *owner = target_array(
	    model->target, model_map_table(model, L_MAP_OWNER), model->nunits);
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);

	model->unit_shift = (unsigned)__builtin_ctzll(unit);
	model->unit = xalloc((model->nunits + 1) * sizeof(*model->unit));
	if (owner == NULL)
		return;
	for (size_t i = 0; i < model->nunits; i++) {
		uint64_t at = model->base + ((uint64_t)i << model->unit_shift);
		struct slab *slab;

		if (owner[i] == 0 || model->unit[i] != 0)
			continue;
		if (owner[i] & 1) {
			take_owner(model, i, owner[i]);
			continue;
		}
		slab = take_slab(model, owner[i], at);
		if (slab == NULL)
			continue;
		assert(slab == &model->slabs[model->nslabs - 1]);
		units_set(model, i, model->caches[slab->cache].slab_bytes,
		    (uint32_t)(2 * model->nslabs));
	}
}

static void
take_slab_list(struct model *model, uint64_t head)
{
	uint64_t link = model_list_first(model, head);
	struct cycle_detector cycles = {0};

	while (link != head && cycle_continues(&cycles, link)) {
		uint64_t at = link - layout_value(model->layout, L_SLAB_LINK);

		if (take_slab(model, at, SPAN_ANY) == NULL)
			return;
		ARRAY_ADD(model->sourced, model->nsourced,
		    model->sourced_capacity, (uint32_t)(model->nslabs - 1));
		link = model_list_first(model, link);
	}
}

static struct model *sorted_model;

static int
by_span(const void *a, const void *b)
{
	uint64_t x = sorted_model->slabs[*(const uint32_t *)a].span;
	uint64_t y = sorted_model->slabs[*(const uint32_t *)b].span;

	return order_numbers(x, y);
}

/* Slabs from a program's arena are not in the page map: uses their lists. */
static void
take_sourced(struct model *model)
{
	static const enum layout_entry others[] = {
	    L_CACHE_FULL, L_CACHE_EMPTY, L_CACHE_RETIRED};
	uint64_t bins = layout_value(model->layout, L_SLAB_BINS);
	size_t ncaches = model->ncaches;

	for (size_t i = 0; i < ncaches; i++) {
		uint64_t at = model->caches[i].at;

		if (model->caches[i].source == 0)
			continue;
		for (uint64_t bin = 0; bin < bins; bin++)
			take_slab_list(model,
			    at + layout_value(model->layout, L_CACHE_PARTIAL) +
				bin *
				    layout_value(model->layout, L_LIST_BYTES));
		for (size_t j = 0; j < array_size(others); j++)
			take_slab_list(
			    model, at + layout_value(model->layout, others[j]));
	}
	sorted_model = model;
	ARRAY_SORT(model->sourced, model->nsourced, by_span);
}

static bool
find_sourced(struct model *model, uint64_t at, struct slab **slab)
{
	size_t low = 0, high = model->nsourced;

	while (low < high) {
		size_t middle = (low + high) / 2;
		struct slab *s = &model->slabs[model->sourced[middle]];

		if (at < s->span)
			high = middle;
		else if (at - s->span >= model->caches[s->cache].slab_bytes)
			low = middle + 1;
		else {
			*slab = s;
			return true;
		}
	}
	return false;
}

bool
model_find(struct model *model, uint64_t at, struct block *block)
{
	uint64_t unit = (at - model->base) >> model->unit_shift;
	uint32_t what = unit < model->nunits ? model->unit[unit] : 0;
	const struct cache *c;
	struct slab *s;

	block->slab = NULL;
	block->large = NULL;
	block->between = false;
	if (what & 1) {
		struct large *large = &model->larges[(what - 3) / 2];

		assert((what - 3) / 2 < model->nlarges);
		block->large = large;
		block->start = large->at;
		block->bytes = large->bytes;
		block->between = !large_has(large, at);
		return true;
	}
	if (what != 0)
		s = &model->slabs[(what - 2) / 2];
	else if (model->nsourced == 0 || !find_sourced(model, at, &s))
		return false;
	assert(s < model->slabs + model->nslabs && s->cache < model->ncaches);
	c = &model->caches[s->cache];
	block->slab = s;
	block->bytes = c->chunk;
	block->chunk = (unsigned)((at - s->first) / c->chunk);
	block->start = s->first + block->chunk * c->chunk;
	block->between = at < s->first || block->chunk >= s->nchunks;
	return true;
}

struct cache *
model_cache(struct model *model, const char *name)
{
	uint64_t at;

	for (size_t i = 0; i < model->ncaches; i++)
		if (strcmp(model->caches[i].name, name) == 0)
			return &model->caches[i];
	return parse_address(name, &at) ? model_cache_at(model, at) : NULL;
}

void
model_analyse(struct model *model)
{
	assert(
	    model->nslabs == 0 && model->nlarges == 0 && model->unit == NULL);
	model_take_caches(model);
	model_take_samples(model);
	take_map(model);
	take_sourced(model);
	model_take_magazines(model);
	model_take_freed(model);
	model_take_arenas(model);
	model->charge_most = 0;
	assert(model->nsourced <= model->nslabs);
	if (model->ndamaged != 0)
		print_warning("%s: %zu damaged cache%s left out",
		    model->target->name, model->ndamaged,
		    model->ndamaged == 1 ? " is" : "s are");
}
