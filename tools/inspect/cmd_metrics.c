/*
 * cmd_metrics.c - umem metrics: the use of memory as OpenMetrics text
 *
 * The families, their names and their values are those of umem_metrics()
 * (umem/malloc/metrics.h).
 */
#include <string.h>

#include "tools/inspect/account.h"
#include "tools/inspect/model.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "umem/malloc/metrics.h"

static const char *
sample_name(const struct metric_family *family)
{
	return xprint(
	    "%s%s%s", family->name, *family->unit ? "_" : "", family->unit);
}

static void
print_header(const struct metric_family *family)
{
	const char *name = sample_name(family);

	printf("# TYPE %s %s\n", name, family->type);
	if (*family->unit != '\0')
		printf("# UNIT %s %s\n", name, family->unit);
	printf("# HELP %s %s\n", name, family->help);
}

static const char *
suffix_of(const struct metric_family *family)
{
	return strcmp(family->type, "counter") == 0 ? "_total" : "";
}

/* Returns the labels of a cache, without markup in its name. */
static const char *
labels_of(const struct cache *c)
{
	char *name = xprint("%s", c->name);

	for (char *at = name; *at != '\0'; at++)
		if (strchr("<>&\"\\", *at) != NULL || *at < ' ' || *at > '~')
			*at = '_';
	return c->class != 0
		   ? xprint("{cache=\"%s\"}", name)
		   : xprint("{cache=\"%s\",address=\"0x%lx\"}", name, c->at);
}

static uint64_t
cache_value(const struct cache *c, enum metric metric)
{
	switch (metric) {
	case METRIC_CACHE_CHUNK:
		return c->chunk;
	case METRIC_CACHE_SLABS:
		return c->ntotal * c->chunk;
	case METRIC_CACHE_LIVE:
		return c->nlive;
	case METRIC_CACHE_CACHED:
		return c->ncached;
	default:
		return c->nfailed;
	}
}

static void
print_caches(const struct model *model, enum metric metric)
{
	const struct metric_family *family = &metric_families[metric];

	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (c->nslabs != 0)
			printf("%s%s%s %lu\n", sample_name(family),
			    suffix_of(family), labels_of(c),
			    cache_value(c, metric));
	}
}

static void
read_values(struct model *model, uint64_t values[METRICS])
{
	struct memory_account a = account_read(model);

	values[METRIC_MAPPED] = a.mapped;
	values[METRIC_HEAP] = a.heap;
	values[METRIC_LIVE] = a.live;
	values[METRIC_CACHED] = a.cached;
	values[METRIC_WAITING] = a.waiting;
	values[METRIC_FREE] = a.free;
	values[METRIC_DIRTY] = a.dirty;
	values[METRIC_OWN] = a.own;
	values[METRIC_LARGE] = a.large;
	values[METRIC_SAMPLES] = a.samples;
	values[METRIC_ARENAS] = a.arenas;
	values[METRIC_LIMITED] = a.limited;
	for (size_t i = 0; i < model->ncaches; i++)
		values[METRIC_FAILURES] += model->caches[i].nfailed;
}

static void
add_limits(struct model *model, uint64_t values[METRICS])
{
	const struct layout *l = model->layout;
	const char *limits = layout_at(l, model->target, L_HEAP_LIMITS);

	if (limits == NULL)
		return;
	values[METRIC_SOFT_LIMIT] = layout_get(l, limits, L_LIMITS_SOFT);
	values[METRIC_SOFT_HITS] = layout_get(l, limits, L_LIMITS_NSOFT);
	values[METRIC_HARD_LIMIT] = layout_get(l, limits, L_LIMITS_HARD);
	values[METRIC_HARD_HITS] = layout_get(l, limits, L_LIMITS_NHARD);
}

int
command_metrics(int argc, char **argv)
{
	struct model *model;
	uint64_t values[METRICS] = {0};
	const char *target = target_argument(argc, argv);

	if (json_wanted)
		fail_usage(argv[0]);
	model = snapshot_open(target, 0);
	read_values(model, values);
	add_limits(model, values);
	for (enum metric i = 0; i < METRICS; i++) {
		print_header(&metric_families[i]);
		if (i >= METRIC_CACHE_FIRST)
			print_caches(model, i);
		else
			printf("%s%s %lu\n", sample_name(&metric_families[i]),
			    suffix_of(&metric_families[i]), values[i]);
	}
	puts("# EOF");
	return EXIT_OK;
}
