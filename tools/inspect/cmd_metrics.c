/*
 * cmd_metrics.c - umem metrics: the use of memory as text for Prometheus
 *
 * The families, their names and their values are those of umem_metrics()
 * (umem/malloc/metrics.h).  The processes are not stopped.  Of several, each
 * sample has labels with its process.
 *
 * Source: the OpenMetrics specification, version 1.0; for other readers,
 * Prometheus' text format 0.0.4, in which the type of a counter stands with the
 * name of its samples, and is unknown otherwise.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/print.h"
#include "tools/inspect/processes.h"
#include "umem/malloc/metrics.h"

struct metrics_options {
	bool all;
	bool is_plain;    /* text format 0.0.4 */
	const char *path; /* of the file to replace; NULL: standard output */
};

static const char *
suffix_of(const struct metric_family *family)
{
	return strcmp(family->type, "counter") == 0 ? "_total" : "";
}

static const char *
family_name(const struct metric_family *family)
{
	return xprint(
	    "%s%s%s", family->name, *family->unit ? "_" : "", family->unit);
}

static void
print_header(const struct metric_family *family, bool is_plain)
{
	const char *name = family_name(family);
	const char *suffix = is_plain ? suffix_of(family) : "";

	printf("# TYPE %s%s %s\n", name, suffix, family->type);
	if (*family->unit != '\0' && !is_plain)
		printf("# UNIT %s %s\n", name, family->unit);
	printf("# HELP %s%s %s\n", name, suffix, family->help);
}

static void
print_sample(
    const struct metric_family *family, const char *labels, uint64_t value)
{
	printf("%s%s%s%s%s %lu\n", family_name(family), suffix_of(family),
	    *labels ? "{" : "", labels, *labels ? "}" : "", value);
}

/* Returns a name without markup. */
static const char *
label_text(const char *name)
{
	char *text = xprint("%s", name);

	for (char *at = text; *at != '\0'; at++)
		if (strchr("<>&\"\\", *at) != NULL || *at < ' ' || *at > '~')
			*at = '_';
	return text;
}

static const char *
cache_labels(const char *labels, const struct usage_cache *c)
{
	const char *mine = xprint("%s%scache=\"%s\"", labels,
	    *labels ? "," : "", label_text(c->name));

	return c->is_class ? mine : xprint("%s,address=\"0x%lx\"", mine, c->at);
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
print_caches(const struct usage *usage, enum metric metric, const char *labels)
{
	for (size_t i = 0; i < usage->ncaches; i++) {
		const struct usage_cache *c = &usage->caches[i];

		if (c->nslabs != 0 && !c->is_ended)
			print_sample(&metric_families[metric],
			    cache_labels(labels, c), cache_value(c, metric));
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

static void
print_metrics(const struct processes *all, bool has_labels, bool is_plain)
{
	for (enum metric i = 0; i < METRICS; i++) {
		print_header(&metric_families[i], is_plain);
		for (size_t j = 0; j < all->n; j++) {
			const struct process *p = &all->list[j];
			uint64_t values[METRICS] = {0};
			const char *labels =
			    has_labels ? xprint("pid=\"%s\",program=\"%s\"",
					     label_text(p->name),
					     label_text(p->program))
				       : "";

			values_of(&p->usage, values);
			if (i >= METRIC_CACHE_FIRST)
				print_caches(&p->usage, i, labels);
			else
				print_sample(
				    &metric_families[i], labels, values[i]);
		}
	}
	if (!is_plain)
		puts("# EOF");
}

/* Makes standard output a new file beside the one at path; returns its path. */
static char *
begin_file(const char *path)
{
	char *new = xprint("%s.XXXXXX", path);
	struct stat status;
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
		fail_with(
		    EXIT_ERROR, "%s: is no file that can be replaced", path);
	fd = mkstemp(new);
	if (fd < 0 || fchmod(fd, 0666 & ~mask) != 0 ||
	    dup2(fd, STDOUT_FILENO) < 0)
		fail_with(EXIT_ERROR, "%s: %s", path, strerror(errno));
	close(fd);
	return new;
}

static void
end_file(const char *path, char *new)
{
	if (fflush(stdout) == 0 && fsync(STDOUT_FILENO) == 0 &&
	    rename(new, path) == 0)
		return;
	print_warning("%s: %s", path, strerror(errno));
	unlink(new);
	exit(EXIT_ERROR);
}

static void
parse_options(int argc, char **argv, struct metrics_options *options)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"all", no_argument, NULL, OPTION_ALL},
	    {"format", required_argument, NULL, OPTION_FORMAT},
	    {NULL, 0, NULL, 0}};
	int letter;

	while ((letter = next_long_option(argc, argv, "o:", longs)) != -1) {
		options->all |= letter == OPTION_ALL;
		if (letter == 'o')
			options->path = optarg;
		if (letter != OPTION_FORMAT)
			continue;
		options->is_plain = strcmp(optarg, "prometheus") == 0;
		if (!options->is_plain && strcmp(optarg, "openmetrics") != 0)
			fail_usage(argv[0], xprint("no format %s", optarg));
	}
	if (json_wanted)
		fail_usage(argv[0], "--json has no effect here");
	expect_arguments(
	    argc, argv, options->all ? 0 : 1, options->all ? 0 : INT_MAX);
}

/* A file is replaced only after all processes have been read. */
int
command_metrics(int argc, char **argv)
{
	struct metrics_options options = {0};
	struct processes all = {0};
	char *new = NULL;

	parse_options(argc, argv, &options);
	if (options.all)
		processes_find(&all);
	for (int i = optind; i < argc; i++)
		processes_add(&all, argv[i]);
	if (options.path != NULL)
		new = begin_file(options.path);
	print_metrics(&all, options.all || all.n > 1, options.is_plain);
	if (options.path != NULL)
		end_file(options.path, new);
	return EXIT_OK;
}
