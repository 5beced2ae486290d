/*
 * cmd_metrics.c - umem metrics: the use of memory as OpenMetrics text
 *
 * The families, their names and their values are those of umem_metrics()
 * (umem/malloc/metrics.h).  The process is not stopped.
 */
#include <string.h>

#include "tools/inspect/print.h"
#include "tools/inspect/usage.h"
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
labels_of(const struct usage_cache *c)
{
	char *name = xprint("%s", c->name);

	for (char *at = name; *at != '\0'; at++)
		if (strchr("<>&\"\\", *at) != NULL || *at < ' ' || *at > '~')
			*at = '_';
	return c->is_class
		   ? xprint("{cache=\"%s\"}", name)
		   : xprint("{cache=\"%s\",address=\"0x%lx\"}", name, c->at);
}

static uint64_t
cache_value(const struct usage_cache *c, enum metric metric)
{
	switch (metric) {
	case METRIC_CACHE_CHUNK:
		return c->chunk;
	case METRIC_CACHE_SLABS:
		return c->nchunks * c->chunk;
	case METRIC_CACHE_LIVE:
		return c->nlive;
	case METRIC_CACHE_CACHED:
		return c->ncpu + c->ndepot;
	default:
		return c->nfailed;
	}
}

static void
print_caches(const struct usage *usage, enum metric metric)
{
	const struct metric_family *family = &metric_families[metric];

	for (size_t i = 0; i < usage->ncaches; i++) {
		const struct usage_cache *c = &usage->caches[i];

		if (c->nslabs != 0 && !c->is_ended)
			printf("%s%s%s %lu\n", sample_name(family),
			    suffix_of(family), labels_of(c),
			    cache_value(c, metric));
	}
}

static void
values_of(const struct usage *u, uint64_t values[METRICS])
{
	values[METRIC_MAPPED] = u->heap + u->own;
	values[METRIC_HEAP] = u->heap;
	values[METRIC_LIVE] = u->in_use;
	values[METRIC_CACHED] = usage_cached(u);
	values[METRIC_CPUS] = u->cpus;
	values[METRIC_DEPOTS] = u->depots;
	values[METRIC_SLABS] = u->slabs;
	values[METRIC_WAITING] = u->waiting;
	values[METRIC_DIRTY] = u->dirty;
	values[METRIC_SAMPLES] = u->samples;
	values[METRIC_OWN] = u->own;
	values[METRIC_LARGE] = u->large;
	values[METRIC_ARENAS] = u->arenas;
	values[METRIC_SOFT_LIMIT] = u->soft.limit;
	values[METRIC_SOFT_HITS] = u->soft.nreached;
	values[METRIC_LIMITED] = u->held;
	values[METRIC_HARD_LIMIT] = u->hard.limit;
	values[METRIC_HARD_HITS] = u->hard.nreached;
	values[METRIC_WRONG_SIZES] = u->nwrong_sizes;
	values[METRIC_FAILURES] = u->nlarge_failed;
	for (size_t i = 0; i < u->ncaches; i++)
		if (!u->caches[i].is_ended)
			values[METRIC_FAILURES] += u->caches[i].nfailed;
}

int
command_metrics(int argc, char **argv)
{
	struct model model = {0};
	struct usage usage;
	uint64_t values[METRICS] = {0};
	const char *name = target_argument(argc, argv);

	if (json_wanted)
		fail_usage(argv[0], "--json has no effect here");
	model.target = target_open(name);
	model.layout = layout_find_ready(model.target);
	usage_read(&model, &usage);
	values_of(&usage, values);
	for (enum metric i = 0; i < METRICS; i++) {
		print_header(&metric_families[i]);
		if (i >= METRIC_CACHE_FIRST)
			print_caches(&usage, i);
		else
			printf("%s%s %lu\n", sample_name(&metric_families[i]),
			    suffix_of(&metric_families[i]), values[i]);
	}
	puts("# EOF");
	return EXIT_OK;
}
