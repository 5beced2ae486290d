/*
 * model_deferred.c - objects that wait for a grace period
 *
 * The program has freed them by a function of umem_rcu.h.  They are in the
 * magazines of layers: one magazine on each CPU, the submitted magazines
 * (pending), and the magazines that wait for the grace period in progress
 * (waiting).  See umem/rcu/defer.c and umem/rcu/grace.c.
 *
 * The library never releases a domain.  It releases a layer with its cache,
 * after it has taken the layer out of the domain's list.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/symbols/symbols.h"

/* Above the number of layers and domains of any program. */
#define LISTED_MAX 1000000

static void
read_layer(struct model *model, const char *r, uint64_t at, size_t domain)
{
	const struct layout *l = model->layout;
	uint64_t kind = model_get(model, r, L_DEFER_KIND);

	assert(domain == model->ndomains);
	ARRAY_GROW(model->layers, model->nlayers, model->layers_capacity);
	model->layers[model->nlayers++] = (struct waiting_layer){.at = at,
	    .domain = domain,
	    .cache = kind == layout_value(l, L_DEFER_OBJECT)
			 ? model_get(model, r, L_DEFER_CACHE)
			 : 0,
	    .foreign = kind == layout_value(l, L_DEFER_FOREIGN),
	    .malloced = kind == layout_value(l, L_DEFER_MALLOC),
	    .unit = model_get(model, r, L_DEFER_UNIT),
	    .hot = model_get(model, r, L_DEFER_HOT),
	    .cold = model_get(model, r, L_DEFER_COLD),
	    .pending = model_get(model, r, L_DEFER_PENDING),
	    .waiting = model_get(model, r, L_DEFER_WAITING)};
}

static void
read_domain(struct model *model, const char *r, uint64_t at)
{
	uint64_t layer = model_get(model, r, L_DOMAIN_LAYERS);
	struct cycle_detector cycles = {0};

	ARRAY_GROW(model->domains, model->ndomains, model->domains_capacity);
	model->domains[model->ndomains] = (struct domain){.at = at,
	    .key = model_get(model, r, L_DOMAIN_KEY),
	    .ngraces = model_get(model, r, L_DOMAIN_NGRACES),
	    .nreleased = model_get(model, r, L_DOMAIN_NRELEASED),
	    .in_grace = model_get(model, r, L_DOMAIN_IN_GRACE) != 0,
	    .broken = model_get(model, r, L_DOMAIN_BROKEN) != 0};
	while (cycle_continues(&cycles, layer) && model->nlayers < LISTED_MAX) {
		const char *record = model_record(model, layer, L_DEFER_BYTES);

		if (record == NULL)
			break;
		read_layer(model, record, layer, model->ndomains);
		layer = model_get(model, record, L_DEFER_NEXT);
	}
	model->ndomains++;
}

static void
take_domains(struct model *model)
{
	uint64_t at = model_variable(model, L_DOMAINS);
	struct cycle_detector cycles = {0};

	model->ndomains = model->nlayers = 0;
	while (cycle_continues(&cycles, at) && model->ndomains < LISTED_MAX) {
		const char *r = model_record(model, at, L_DOMAIN_BYTES);

		if (r == NULL)
			return;
		read_domain(model, r, at);
		at = model_get(model, r, L_DOMAIN_NEXT);
	}
}

/* Returns the sample at this address if it waits, or NULL. */
static const struct sample *
waiting_sample(const struct model *model, uint64_t at)
{
	for (size_t i = 0; i < model->nsamples; i++)
		if (model->samples[i].waits && model->samples[i].at == at)
			return &model->samples[i];
	return NULL;
}

/* Marks a large block or sample, and returns its bytes. */
static uint64_t
block_waits(struct model *model, uint64_t at)
{
	const struct sample *sample;
	struct place place;

	if (model_find(model, at, &place) && place.large != NULL &&
	    place.start == at) {
		place.large->waits = true;
		return place.bytes;
	}
	sample = waiting_sample(model, at);
	return sample != NULL ? sample->size : 0;
}

/* Returns the import cache of a layer, or NULL. */
static struct cache *
import_cache(struct model *model, const struct waiting_layer *layer)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].at == layer->cache &&
		    model->caches[i].import != 0)
			return &model->caches[i];
	return NULL;
}

/*
 * The cache will release the resource, so a block to which it points is not
 * leaked.
 */
static void
resource_waits(struct model *model, struct cache *c, uint64_t resource)
{
	assert(c->import != 0);
	if (c->nlive > 0)
		c->nlive--;
	c->ndeferred++;
	model_add_resource(model, resource);
}

/* An object of a cache waits: a chunk, or a sample. */
static void
object_waits(struct model *model, uint64_t at)
{
	struct place place;
	struct cache *c;

	if (!model_find(model, at, &place) || place.between ||
	    place.start != at)
		return;
	if (place.large != NULL)
		place.large->waits = true;
	if (place.slab == NULL || !bit_get(place.slab->live, place.chunk))
		return;
	c = &model->caches[place.slab->cache];
	bit_clear(place.slab->live, place.chunk);
	c->nlive--;
	c->ndeferred++;
}

/* Counts a round of a layer as free; its slab still has it as allocated. */
static void
round_waits(struct model *model, void *arg, uint64_t object)
{
	struct waiting_layer *layer = arg;
	struct domain *domain = &model->domains[layer->domain];
	uint64_t bytes = layer->unit;

	assert(
	    layer >= model->layers && layer < model->layers + model->nlayers);
	assert(layer->domain < model->ndomains);
	if (layer->import != NULL)
		resource_waits(model, layer->import, object);
	else if (layer->cache != 0)
		object_waits(model, object);
	else if (!layer->foreign)
		bytes = block_waits(model, object);
	layer->nwaiting++;
	layer->bytes += bytes;
	domain->nwaiting++;
	domain->bytes += bytes;
	ARRAY_GROW(model->waiting, model->nwaiting, model->waiting_capacity);
	model->waiting[model->nwaiting++] = (struct waiting_object){
	    .at = object, .layer = (size_t)(layer - model->layers)};
}

static void
take_layer_headers(struct model *model, struct waiting_layer *layer, bool count)
{
	uint64_t nused = model_cpus_used(model);

	for (uint64_t cpu = 0; cpu < nused; cpu++)
		model_take_header(model, layer->hot, layer->cold, cpu, count,
		    round_waits, layer);
}

void
model_look_at_layers(struct model *model)
{
	take_domains(model);
	for (size_t i = 0; i < model->nlayers; i++)
		take_layer_headers(model, &model->layers[i], false);
}

static int
by_address(const void *a, const void *b)
{
	const struct waiting_object *x = a, *y = b;

	return order_numbers(x->at, y->at);
}

void
model_take_waiting(struct model *model)
{
	assert(model->nwaiting == 0);
	take_domains(model);
	for (size_t i = 0; i < model->nlayers; i++) {
		struct waiting_layer *layer = &model->layers[i];

		layer->import = import_cache(model, layer);
		take_layer_headers(model, layer, true);
		model_take_list(model, layer->pending, round_waits, layer);
		model_take_list(model, layer->waiting, round_waits, layer);
	}
	if (model->nwaiting != 0)
		qsort(model->waiting, model->nwaiting, sizeof(*model->waiting),
		    by_address);
}

const struct domain *
model_waits_for(const struct model *model, uint64_t at)
{
	struct waiting_object sought = {.at = at};
	const struct waiting_object *found =
	    model->nwaiting == 0
		? NULL
		: bsearch(&sought, model->waiting, model->nwaiting,
		      sizeof(sought), by_address);

	assert(found == NULL || found->layer < model->nlayers);
	return found == NULL
		   ? NULL
		   : &model->domains[model->layers[found->layer].domain];
}

const char *
model_flavour(struct model *model, const struct domain *domain)
{
	/* symbol_name() takes a return address: one byte further. */
	const char *name = symbol_name(model->target, domain->key + 1);
	const char *symbol = strchr(name, '`');

	if (symbol == NULL)
		return xprint("0x%lx", domain->key);
	symbol++;
	return xprint("%.*s", (int)strcspn(symbol, "+"), symbol);
}

const char *
model_layer_name(struct model *model, const struct waiting_layer *layer)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (layer->cache != 0 && model->caches[i].at == layer->cache)
			return model->caches[i].name;
	if (layer->cache != 0)
		return "a cache that is destroyed";
	if (layer->foreign)
		return "[another malloc()]";
	return layer->malloced ? "[large, malloc()]" : "[large, umem_alloc()]";
}
