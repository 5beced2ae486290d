/*
 * stats_text.c - the figures of stats.h as OpenMetrics text
 *
 * The figures are read before the text gets its memory.  Since the metrics of
 * one family must follow each other, the caches are read anew for each family,
 * with the list of caches locked.
 *
 * The label "cache" of two caches of the program may be equal, so these have
 * their address as a second label.
 */
#include "umem/stats/metrics.h"
#include "umem/stats/stats.h"
#include "umem/stats/stats_text.h"
#include "vmem/string.h"

/* Bytes of the text apart from the caches, and of the lines of one cache. */
#define TEXT_BYTES_FIXED 8192
#define TEXT_BYTES_CACHE 640

/* Copies a name that the program has chosen, without markup. */
static void
stats_copy_name(char out[UMEM_CACHE_NAMELEN + 1], const char *name)
{
	size_t n;

	for (n = 0; n < UMEM_CACHE_NAMELEN && name[n] != '\0'; n++)
		out[n] = (char)(string_find("<>&\"\\", name[n], 5) != NULL ||
					name[n] < ' ' || name[n] > '~'
				    ? '_'
				    : name[n]);
	out[n] = '\0';
}

static void
metric_header(struct text *text, const struct metric_family *family)
{
	text_line(text, "# TYPE %s %s\n", family->name, family->type);
	if (family->unit[0] != '\0')
		text_line(text, "# UNIT %s %s\n", family->name, family->unit);
	text_line(text, "# HELP %s %s\n", family->name, family->help);
}

static void
metric_sample(struct text *text, const struct metric_family *family,
    const char *labels, const void *figures)
{
	text_line(text, "%s%s%s %lu\n", family->name,
	    metric_is_counter(family) ? "_total" : "", labels,
	    metric_value(family, figures));
}

/* A family while the samples of the caches are appended. */
struct metric_walk {
	struct text *text;
	const struct metric_family *family;
};

/* Appends the sample of a cache; for stats_each_cache(). */
static void
metric_add_cache(const struct stats_cache *cache, void *arg)
{
	const struct metric_cache figures = {.object_bytes = cache->chunk,
	    .slab_bytes = cache->nchunks * cache->chunk,
	    .nlive = cache->nlive,
	    .ncached = cache->ncpu + cache->ndepot,
	    .nfailures = cache->nfailed};
	const struct metric_walk *walk = arg;
	struct message labels = {.n = 0};
	char name[UMEM_CACHE_NAMELEN + 1];

	if (cache->nslabs == 0 && cache->nfailed == 0)
		return;
	stats_copy_name(name, cache->name);
	message_text(&labels, "{cache=\"");
	message_text(&labels, name);
	if (cache->address != 0) {
		message_text(&labels, "\",address=\"");
		message_hex(&labels, cache->address);
	}
	message_text(&labels, "\"}");
	labels.text[labels.n] = '\0';
	metric_sample(walk->text, walk->family, labels.text, &figures);
}

struct text *
stats_text_create(void)
{
	struct umem_stats stats;
	struct text *text;

	stats_read(&stats);
	/* With a margin for new caches. */
	text =
	    text_create(TEXT_BYTES_FIXED +
			(stats.ncaches + stats.ncaches / 8) * TEXT_BYTES_CACHE);
	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < array_size(metrics_of_process); i++) {
		metric_header(text, &metrics_of_process[i]);
		metric_sample(text, &metrics_of_process[i], "", &stats);
	}
	for (size_t i = 0; i < array_size(metrics_of_cache); i++) {
		struct metric_walk walk = {text, &metrics_of_cache[i]};

		metric_header(text, walk.family);
		stats_each_cache(metric_add_cache, &walk);
	}
	text_begin_end(text);
	text_line(text, "# EOF\n");
	return text;
}
