/*
 * cmd_metrics.c - umem metrics: the use of memory as OpenMetrics text
 *
 * The families and their names are those of umem_metrics()
 * (umem/malloc/metrics.h). The two that describe pages of the heap are left
 * out, because only the library itself counts them.  Samples count with their
 * pages.
 */
#include <string.h>

#include "tools/inspect/model.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/stat.h"
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
sum_caches(const struct model *model, uint64_t values[METRICS])
{
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		values[METRIC_LIVE] += c->nlive * c->chunk;
		values[METRIC_CACHED] += (c->ntotal - c->nlive) * c->chunk;
		values[METRIC_FAILURES] += c->nfailed;
	}
}

int
command_metrics(int argc, char **argv)
{
	struct model *model;
	uint64_t values[METRICS] = {0}, n;
	const char *target = target_argument(argc, argv);

	if (json_wanted)
		fail_usage(argv[0]);
	model = snapshot_open(target, 0);
	sum_caches(model, values);
	values[METRIC_LARGE] = stat_large_bytes(model, /* samples */ false, &n);
	values[METRIC_LARGE] += stat_large_bytes(model, /* samples */ true, &n);
	values[METRIC_LIVE] += values[METRIC_LARGE];
	values[METRIC_OWN] =
	    layout_variable(model->layout, model->target, L_MAPPED_BYTES);
	for (enum metric i = 0; i < METRICS; i++) {
		if (i == METRIC_HEAP || i == METRIC_DIRTY)
			continue;
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
