/*
 * model_deferred.c - objects that wait for a grace period
 *
 * The program has freed them by a function of umem_rcu.h.  They are in the
 * magazines of groups: one magazine on each CPU, the submitted magazines
 * (pending), and the magazines that wait for the grace period in progress
 * (waiting).  See umem/rcu/defer.c and umem/rcu/grace.c.
 *
 * The library never releases a domain.  It releases a group with its cache,
 * after it has taken the group out of the domain's list.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/symbols/symbols.h"

/* Above the number of groups and domains of any program. */
#define LISTED_MAX 1000000

static void
read_group(struct model *model, const char *r, uint64_t at, size_t domain)
{
	const struct layout *l = model->layout;
	uint64_t kind = model_get(model, r, L_DEFER_KIND);

	assert(domain == model->ndomains);
	ARRAY_GROW(model->groups, model->ngroups, model->groups_capacity);
	model->groups[model->ngroups++] = (struct waiting_group){.at = at,
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
	    .waiting = model_get(model, r, L_DEFER_WAITING),
	    .nsubmitted = model_get(model, r, L_DEFER_NSUBMITTED)};
}

static void
read_domain(struct model *model, const char *r, uint64_t at)
{
	uint64_t group = model_get(model, r, L_DOMAIN_LAYERS);
	struct cycle_detector cycles = {0};

	ARRAY_GROW(model->domains, model->ndomains, model->domains_capacity);
	model->domains[model->ndomains] = (struct domain){.at = at,
	    .key = model_get(model, r, L_DOMAIN_KEY),
	    .ngraces = model_get(model, r, L_DOMAIN_NGRACES),
	    .nreleased = model_get(model, r, L_DOMAIN_NRELEASED),
	    .in_grace = model_get(model, r, L_DOMAIN_IN_GRACE) != 0,
	    .broken = model_get(model, r, L_DOMAIN_BROKEN) != 0};
	while (cycle_continues(&cycles, group) && model->ngroups < LISTED_MAX) {
		const char *record = model_record(model, group, L_DEFER_BYTES);

		if (record == NULL)
			break;
		read_group(model, record, group, model->ndomains);
		group = model_get(model, record, L_DEFER_NEXT);
	}
	model->ndomains++;
}

void
model_take_domains(struct model *model)
{
	uint64_t at = model_variable(model, L_DOMAINS);
	struct cycle_detector cycles = {0};

	model->ndomains = model->ngroups = 0;
	while (cycle_continues(&cycles, at) && model->ndomains < LISTED_MAX) {
		const char *r = model_record(model, at, L_DOMAIN_BYTES);

		if (r == NULL)
			return;
		read_domain(model, r, at);
		at = model_get(model, r, L_DOMAIN_NEXT);
	}
}

/* Marks a large block or sample, and returns its bytes. */
static uint64_t
block_waits(struct model *model, uint64_t at)
{
	struct block block;

	if (model_find(model, at, &block) && block.large != NULL &&
	    block.start == at) {
		block.large->waits = true;
		return block.bytes;
	}
	for (size_t i = 0; i < model->nsamples; i++)
		if (model->samples[i].waits && model->samples[i].at == at)
			return model->samples[i].size;
	return 0;
}

/* An object of a cache waits: a chunk, or a sample. */
static void
object_waits(struct model *model, uint64_t at)
{
	struct block block;
	struct cache *c;

	c = model_take_chunk(model, at, &block);
	if (c != NULL)
		c->ndeferred++;
	else if (block.large != NULL && block.start == at && !block.between)
		block.large->waits = true;
}

/* Counts a round of a group as free; its slab still has it as allocated. */
static void
round_waits(struct model *model, void *arg, uint64_t object)
{
	struct waiting_group *group = arg;
	struct domain *domain = &model->domains[group->domain];
	uint64_t bytes = group->unit;

	assert(
	    group >= model->groups && group < model->groups + model->ngroups);
	assert(group->domain < model->ndomains);
	if (group->import != NULL) {
		/* The cache will release what the resource points to. */
		group->import->nlive -= group->import->nlive > 0;
		group->import->ndeferred++;
		model_add_resource(model, object);
	} else if (group->cache != 0)
		object_waits(model, object);
	else if (!group->foreign)
		bytes = block_waits(model, object);
	group->nwaiting++;
	group->bytes += bytes;
	domain->nwaiting++;
	domain->bytes += bytes;
	ARRAY_ADD(model->waiting, model->nwaiting, model->waiting_capacity,
	    (struct waiting_object){
		.at = object, .group = (size_t)(group - model->groups)});
}

static void
take_group_headers(struct model *model, struct waiting_group *group, bool count)
{
	uint64_t nused = model_cpus_used(model);

	for (uint64_t cpu = 0; cpu < nused; cpu++)
		model_take_header(model, group->hot, group->cold, cpu, count,
		    round_waits, group);
}

void
model_look_at_groups(struct model *model)
{
	model_take_domains(model);
	for (size_t i = 0; i < model->ngroups; i++)
		take_group_headers(model, &model->groups[i], false);
}

void
model_take_waiting(struct model *model)
{
	assert(model->nwaiting == 0);
	model_take_domains(model);
	for (size_t i = 0; i < model->ngroups; i++) {
		struct waiting_group *group = &model->groups[i];

		group->import = model_cache_at(model, group->cache);
		if (group->import != NULL && group->import->import == 0)
			group->import = NULL;
		take_group_headers(model, group, true);
		model_take_list(model, group->pending, round_waits, group);
		model_take_list(model, group->waiting, round_waits, group);
	}
	ARRAY_SORT(model->waiting, model->nwaiting, order_first_words);
}

const struct domain *
model_waits_for(const struct model *model, uint64_t at)
{
	struct waiting_object sought = {.at = at};
	const struct waiting_object *found =
	    model->nwaiting == 0
		? NULL
		: bsearch(&sought, model->waiting, model->nwaiting,
		      sizeof(sought), order_first_words);

	assert(found == NULL || found->group < model->ngroups);
	return found == NULL
		   ? NULL
		   : &model->domains[model->groups[found->group].domain];
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
model_group_name(struct model *model, const struct waiting_group *group)
{
	const struct cache *c = model_cache_at(model, group->cache);

	if (group->cache != 0)
		return c != NULL ? c->name : "a cache that is destroyed";
	if (group->foreign)
		return "[another malloc()]";
	return group->malloced ? "[large, malloc()]" : "[large, umem_alloc()]";
}
