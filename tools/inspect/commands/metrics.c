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
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/processes.h"
#include "umem/stats/metrics.h"

static FILE *out;

static const char *
suffix_of(const struct metric_family *family)
{
	return metric_is_counter(family) ? "_total" : "";
}

static void
print_header(const struct metric_family *family, bool is_plain)
{
	const char *suffix = is_plain ? suffix_of(family) : "";

	fprintf(out, "# TYPE %s%s %s\n", family->name, suffix, family->type);
	if (*family->unit != '\0' && !is_plain)
		fprintf(out, "# UNIT %s %s\n", family->name, family->unit);
	fprintf(out, "# HELP %s%s %s\n", family->name, suffix, family->help);
}

/* figures is the structure of the family; see metrics.h. */
static void
print_sample(
    const struct metric_family *family, const char *labels, const void *figures)
{
	fprintf(out, "%s%s%s%s%s %lu\n", family->name, suffix_of(family),
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
print_process(const struct process *p, const struct metric_family *family,
    const char *labels)
{
	print_sample(family, labels, &p->usage.s);
}

static void
print_caches(const struct process *p, const struct metric_family *family,
    const char *labels)
{
	for (size_t i = 0; i < p->usage.ncaches; i++) {
		const struct usage_cache *c = &p->usage.caches[i];
		const struct metric_cache figures = {.object_bytes = c->chunk,
		    .slab_bytes = c->nchunks * c->chunk,
		    .nlive = c->nlive,
		    .ncached = c->ncpu + c->ndepot,
		    .nfailures = c->nfailed};

		if ((c->nslabs != 0 || c->nfailed != 0) && !c->is_ended)
			print_sample(family, cache_labels(labels, c), &figures);
	}
}

/* The figures of a call site. */
struct metric_site {
	uint64_t bytes, blocks;
	const char *label;
};
static const struct metric_family metrics_of_site[] = {
    {"umem_site_live_bytes", "gauge", "bytes",
	offsetof(struct metric_site, bytes),
	"Memory in use by call site, estimated from samples."},
    {"umem_site_live_blocks", "gauge", "blocks",
	offsetof(struct metric_site, blocks),
	"Blocks and objects in use by call site, likewise."}};

static uint64_t nsites; /* with a label of their own */

/* Returns the place for the figures of the next call site: one, or the last. */
static struct metric_site *
site_place(struct metric_site *sites, size_t *n, const char *name)
{
	const char *label = label_text(name);

	/* Two names may differ in characters that no label has. */
	for (size_t i = 0; i < *n; i++)
		if (strcmp(sites[i].label, label) == 0)
			return &sites[i];
	/* A function may have the name of the last place. */
	if (*n >= nsites && strcmp(label, "other") != 0)
		return site_place(sites, n, "other");
	sites[*n].label = label;
	return &sites[(*n)++];
}

static void
print_sites(const struct process *p, const struct metric_family *family,
    const char *labels)
{
	struct metric_site *sites = xalloc((p->sites.n + 1) * sizeof(*sites));
	size_t n = 0;

	for (size_t i = 0; i < p->sites.n; i++) {
		const struct top_site *s = p->sites.site[i];
		struct metric_site *site = site_place(sites, &n, s->name);

		site->bytes += rounded(s->bytes);
		site->blocks += rounded(s->blocks);
	}
	for (size_t i = 0; i < n; i++)
		print_sample(family,
		    xprint("%s%ssite=\"%s\"", labels, *labels ? "," : "",
			sites[i].label),
		    &sites[i]);
	free(sites);
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

/* The families, and the function that prints the samples of a process. */
static const struct table {
	const struct metric_family *family;
	size_t n;
	void (*print)(const struct process *p,
	    const struct metric_family *family, const char *labels);
} tables[] = {
    {metrics_of_process, array_size(metrics_of_process), print_process},
    {metrics_of_cache, array_size(metrics_of_cache), print_caches},
    {metrics_of_site, array_size(metrics_of_site), print_sites}};

static void
print_metrics(const struct processes *all, bool has_labels, bool is_plain)
{
	size_t n = array_size(tables) - !all->of_sites;

	for (const struct table *t = tables; t < tables + n; t++)
		for (size_t i = 0; i < t->n; i++) {
			print_header(&t->family[i], is_plain);
			for (size_t j = 0; j < all->n; j++)
				t->print(&all->list[j], &t->family[i],
				    has_labels ? process_labels(&all->list[j])
					       : "");
		}
	if (!is_plain)
		fputs("# EOF\n", out);
}

/* A file is replaced only after all processes have been read. */
int
command_metrics(int argc, char **argv)
{
	bool every = false, is_plain;
	const char *path = NULL; /* of the file to replace */
	const char *format = "openmetrics";
	const struct option_word words[] = {{"all", .flag = &every},
	    {"format", .text = &format}, {"o", .text = &path},
	    {"sites", .size = &nsites, .noun = "number of call sites"}};
	char **names =
	    options_take(argc, argv, words, array_size(words), 0, INT_MAX);
	struct processes all = {0};
	struct stat status;
	char *text;
	size_t n;

	is_plain = strcmp(format, "prometheus") == 0;
	if (!is_plain && strcmp(format, "openmetrics") != 0)
		fail_usage(argv[0], xprint("no format %s", format));
	if (json_wanted)
		fail_usage(argv[0], "--json has no effect here");
	if (every != (*names == NULL))
		fail_usage(
		    argv[0], every ? xprint("one argument too many: %s", *names)
				   : "no argument is given");
	if (path != NULL && lstat(path, &status) == 0 &&
	    !S_ISREG(status.st_mode))
		fail_with(
		    EXIT_ERROR, "%s: is no file that can be replaced", path);
	all.of_sites = nsites != 0;
	if (every)
		processes_find(&all);
	while (*names != NULL)
		processes_add(&all, *names++);
	out = path == NULL ? stdout : xchecked(open_memstream(&text, &n));
	print_metrics(&all, every || all.n > 1, is_plain);
	if (path != NULL)
		file_write(path, /* replaces */ true, out, &text, &n);
	return EXIT_OK;
}
