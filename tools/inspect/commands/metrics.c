/*
 * metrics.c - umem metrics: the use of memory as text for Prometheus
 *
 * The families, their names and their values are those of umem_metrics()
 * (umem/stats/metrics.h).  The processes are not stopped.  Of several, each
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

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/processes.h"
#include "umem/stats/metrics.h"

struct metrics_options {
	bool all;
	bool is_plain;    /* text format 0.0.4 */
	const char *path; /* of the file to replace; NULL: standard output */
};

static const char *
suffix_of(const struct metric_family *family)
{
	return metric_is_counter(family) ? "_total" : "";
}

static void
print_header(const struct metric_family *family, bool is_plain)
{
	const char *suffix = is_plain ? suffix_of(family) : "";

	printf("# TYPE %s%s %s\n", family->name, suffix, family->type);
	if (*family->unit != '\0' && !is_plain)
		printf("# UNIT %s %s\n", family->name, family->unit);
	printf("# HELP %s%s %s\n", family->name, suffix, family->help);
}

/* figures is the structure of the family; see metrics.h. */
static void
print_sample(
    const struct metric_family *family, const char *labels, const void *figures)
{
	printf("%s%s%s%s%s %lu\n", family->name, suffix_of(family),
	    *labels ? "{" : "", labels, *labels ? "}" : "",
	    metric_value(family, figures));
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

static void
print_caches(const struct usage *usage, const struct metric_family *family,
    const char *labels)
{
	for (size_t i = 0; i < usage->ncaches; i++) {
		const struct usage_cache *c = &usage->caches[i];
		const struct metric_cache figures = {.object_bytes = c->chunk,
		    .slab_bytes = c->nchunks * c->chunk,
		    .nlive = c->nlive,
		    .ncached = c->ncpu + c->ndepot,
		    .nfailures = c->nfailed};

		if (c->nslabs != 0 && !c->is_ended)
			print_sample(family, cache_labels(labels, c), &figures);
	}
}

static void
print_value(const struct usage *u, const struct metric_family *family,
    const char *labels)
{
	struct umem_stats figures = {.mapped_bytes = u->heap + u->own,
	    .heap_bytes = u->heap,
	    .live_bytes = u->in_use,
	    .cached_bytes = usage_cached(u),
	    .cpu_bytes = u->cpus,
	    .depot_bytes = u->depots,
	    .slab_bytes = u->slabs,
	    .waiting_bytes = u->waiting,
	    .dirty_bytes = u->dirty,
	    .sampled_bytes = u->samples,
	    .own_bytes = u->own,
	    .large_bytes = u->large,
	    .arena_bytes = u->arenas,
	    .soft_limit_bytes = u->soft.limit,
	    .nsoft_limit = u->soft.nreached,
	    .limited_bytes = u->held,
	    .hard_limit_bytes = u->hard.limit,
	    .nhard_limit = u->hard.nreached,
	    .nwrong_sizes = u->nwrong_sizes,
	    .nfailures = u->nlarge_failed};

	for (size_t i = 0; i < u->ncaches; i++)
		figures.nfailures += u->caches[i].nfailed;
	print_sample(family, labels, &figures);
}

/* A label without a value is as good as none, and has no text. */
static const char *
label_if(const char *name, const char *value)
{
	return *value == '\0' ? ""
			      : xprint(",%s=\"%s\"", name, label_text(value));
}

static const char *
process_labels(const struct process *p)
{
	return xprint("pid=\"%s\",program=\"%s\"%s%s", label_text(p->name),
	    label_text(p->program), label_if("unit", p->place.unit),
	    label_if("container", p->place.container));
}

static void
print_family(const struct processes *all, const struct metric_family *family,
    bool is_of_cache, bool has_labels)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct process *p = &all->list[i];
		const char *labels = "";

		if (has_labels)
			labels = process_labels(p);
		if (is_of_cache)
			print_caches(&p->usage, family, labels);
		else
			print_value(&p->usage, family, labels);
	}
}

static void
print_metrics(const struct processes *all, bool has_labels, bool is_plain)
{
	size_t nprocess = array_size(metrics_of_process);

	for (size_t i = 0; i < nprocess + array_size(metrics_of_cache); i++) {
		bool is_of_cache = i >= nprocess;
		const struct metric_family *family =
		    is_of_cache ? &metrics_of_cache[i - nprocess]
				: &metrics_of_process[i];

		print_header(family, is_plain);
		print_family(all, family, is_of_cache, has_labels);
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
parse_metrics_options(int argc, char **argv, struct metrics_options *options)
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

	parse_metrics_options(argc, argv, &options);
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
