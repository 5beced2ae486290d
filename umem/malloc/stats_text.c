/*
 * stats_text.c - the figures of stats.h as a table, in XML and as metrics
 *
 * The figures are read before the text gets its memory, and the caches are read
 * in one pass, with the list of caches locked.  Since the metrics of one family
 * must follow each other, each family has a text of its own during that pass.
 *
 * The label "cache" of two caches of the program may be equal, so these have
 * their address as a second label.
 */

#include "umem/malloc/stats.h"
#include "umem/malloc/stats_text.h"
#include "umem/malloc/metrics.h"
#include "umem/umem.h"
#include "vmem/account.h"
#include "vmem/heap.h"
#include "vmem/os.h"
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
		out[n] = string_find("<>&\"\\", name[n], 5) != NULL ||
				 name[n] < ' ' || name[n] > '~'
			     ? '_'
			     : name[n];
	out[n] = '\0';
}

static void
stats_count_cache(const struct stats_cache *cache, void *arg)
{
	size_t *n = arg;

	umem_assert(cache->nlive <= cache->nchunks);
	++*n;
}

/* Memory for the text of all caches, with a margin for new ones. */
static size_t
stats_text_bytes(void)
{
	size_t n = 0;

	stats_each_cache(stats_count_cache, &n);
	return TEXT_BYTES_FIXED + (n + n / 8) * TEXT_BYTES_CACHE;
}

/* Appends the row of a cache; for stats_each_cache(). */
static void
stats_table_row(const struct stats_cache *cache, void *arg)
{
	struct message line = {.n = 0};
	char name[UMEM_CACHE_NAMELEN + 1];

	if (cache->nslabs == 0)
		return;
	stats_copy_name(name, cache->name);
	text_pad(&line, name, 25);
	text_pad_number(&line, cache->chunk, 9);
	text_pad_number(&line, cache->nlive, 10);
	text_pad_number(&line, cache->ncpu + cache->ndepot, 10);
	text_pad_number(&line, cache->nchunks, 10);
	text_pad_number(&line, cache->nslabs, 8);
	text_pad_number(&line, cache->rounds, 7);
	text_pad_number(&line, cache->nmoved, 10);
	text_pad_number(&line, cache->nfailed, 7);
	message_text(&line, "\n");
	text_add(arg, &line);
}

/* Appends "title  number rest" and ends the line. */
static void
stats_table_sum(
    struct text *text, const char *title, size_t bytes, const char *rest)
{
	struct message line = {.n = 0};

	text_pad(&line, title, 10);
	text_pad_number(&line, bytes, 12);
	message_text(&line, rest);
	text_add(text, &line);
}

/*
 * The lines up to "library" add up: the first is the sum of the heap and
 * "library", and the heap is the sum of the lines between them.  The last two
 * lines have the wording of glibc's.
 */
static bool
stats_table(struct text *text, const struct stats *stats)
{
	text_line(text, "umem %s: bytes\n", UMEM_VERSION);
	stats_table_sum(text, "mapped", stats->mapped, "\n");
	stats_table_sum(text, "heap", stats->heap, "\n");
	stats_table_sum(text, "in use", stats->live, ", of which ");
	text_line(text, "%zu in large blocks", stats->large);
	text_line(text, ", %zu in arenas of the program\n", stats->arenas);
	stats_table_sum(text, "cached", stats_cached(stats), ", of which ");
	text_line(text, "%zu in CPUs, %zu in depots, %zu in slabs\n",
	    stats->cpus, stats->depots, stats->slabs);
	stats_table_sum(text, "waiting", stats->waiting, "\n");
	stats_table_sum(text, "free dirty", stats->dirty, "\n");
	stats_table_sum(text, "samples", stats->samples + stats->warm, "\n");
	stats_table_sum(text, "library", stats->own, "\n");
	text_line(text, "frees with a wrong size: %zu\n",
	    account_get(&account.nwrong_sizes));
	text_line(text, "cache                         size      live    "
			"cached     total   slabs rounds     moved failed\n");
	stats_each_cache(stats_table_row, text);
	text_begin_end(text);
	if (text->ncut != 0)
		text_line(text, "%zu more caches\n", text->ncut);
	stats_table_sum(text, "max mmap regions = ", stats->nlarge_most, "\n");
	stats_table_sum(text, "max mmap bytes   = ", stats->large_most, "\n");
	return true;
}

static void
stats_xml_row(const struct stats_cache *cache, void *arg)
{
	char name[UMEM_CACHE_NAMELEN + 1];

	if (cache->nslabs == 0)
		return;
	stats_copy_name(name, cache->name);
	text_line(arg,
	    "<cache name=\"%s\" size=\"%zu\" live=\"%zu\" cached=\"%zu\" "
	    "total=\"%zu\" slabs=\"%zu\" rounds=\"%u\" moved=\"%u\" "
	    "failed=\"%lu\"/>\n",
	    name, cache->chunk, cache->nlive, cache->ncpu + cache->ndepot,
	    cache->nchunks, cache->nslabs, cache->rounds, cache->nmoved,
	    (unsigned long)cache->nfailed);
}

static bool
stats_xml(struct text *text, const struct stats *stats)
{
	text_line(text,
	    "<malloc version=\"umem-%s\">\n"
	    "<memory mapped=\"%zu\" heap=\"%zu\" own=\"%zu\"/>\n"
	    "<heap live=\"%zu\" cpus=\"%zu\" depots=\"%zu\" slabs=\"%zu\" "
	    "waiting=\"%zu\" dirty=\"%zu\" samples=\"%zu\" "
	    "committed=\"%zu\"/>\n"
	    "<large count=\"%zu\" size=\"%zu\"/>\n",
	    UMEM_VERSION, stats->mapped, stats->heap, stats->own, stats->live,
	    stats->cpus, stats->depots, stats->slabs, stats->waiting,
	    stats->dirty, stats->samples + stats->warm, stats->committed,
	    stats->nlarge, stats->large);
	stats_each_cache(stats_xml_row, text);
	text_begin_end(text);
	text_line(text, "</malloc>\n");
	return true;
}

/* The lines that are made of the caches. */
struct stats_families {
	struct text *text[METRICS]; /* NULL below METRIC_CACHE_FIRST */
	uint64_t nfailed;           /* of large blocks and all caches */
};

/* Appends the name of the samples of a family. */
static void
metric_name(struct message *line, const struct metric_family *family)
{
	message_text(line, family->name);
	if (family->unit[0] != '\0') {
		message_text(line, "_");
		message_text(line, family->unit);
	}
}

static void
metric_sample(
    struct text *text, enum metric metric, const char *labels, uint64_t value)
{
	const struct metric_family *family = &metric_families[metric];
	struct message line = {.n = 0};

	metric_name(&line, family);
	if (string_is_equal(family->type, "counter"))
		message_text(&line, "_total");
	message_text(&line, labels);
	message_text(&line, " ");
	message_dec(&line, value);
	message_text(&line, "\n");
	text_add(text, &line);
}

static void
metric_header(struct text *text, const struct metric_family *family)
{
	const char *const keys[] = {"TYPE", "UNIT", "HELP"};
	const char *const values[] = {family->type, family->unit, family->help};

	for (unsigned i = 0; i < array_size(keys); i++) {
		struct message line = {.n = 0};

		if (values[i][0] == '\0')
			continue;
		message_text(&line, "# ");
		message_text(&line, keys[i]);
		message_text(&line, " ");
		metric_name(&line, family);
		message_text(&line, " ");
		message_text(&line, values[i]);
		message_text(&line, "\n");
		text_add(text, &line);
	}
}

/* Appends the samples of a cache to the families; for stats_each_cache(). */
static void
metrics_add_cache(const struct stats_cache *cache, void *arg)
{
	const uint64_t values[METRICS] = {[METRIC_CACHE_CHUNK] = cache->chunk,
	    [METRIC_CACHE_SLABS] = cache->nchunks * cache->chunk,
	    [METRIC_CACHE_LIVE] = cache->nlive,
	    [METRIC_CACHE_CACHED] = cache->ncpu + cache->ndepot,
	    [METRIC_CACHE_FAILURES] = cache->nfailed};
	struct stats_families *families = arg;
	struct message labels = {.n = 0};
	char name[UMEM_CACHE_NAMELEN + 1];

	families->nfailed += cache->nfailed;
	if (cache->nslabs == 0)
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
	for (unsigned i = METRIC_CACHE_FIRST; i < METRICS; i++)
		metric_sample(families->text[i], i, labels.text, values[i]);
}

static bool
stats_metrics(struct text *text, const struct stats *stats)
{
	struct stats_families families = {
	    .nfailed = account_get(&account.nlarge_failed)};
	uint64_t values[METRICS] = {[METRIC_MAPPED] = stats->mapped,
	    [METRIC_HEAP] = stats->heap,
	    [METRIC_LIVE] = stats->live,
	    [METRIC_CACHED] = stats_cached(stats),
	    [METRIC_CPUS] = stats->cpus,
	    [METRIC_DEPOTS] = stats->depots,
	    [METRIC_SLABS] = stats->slabs,
	    [METRIC_WAITING] = stats->waiting,
	    [METRIC_DIRTY] = stats->dirty,
	    [METRIC_SAMPLES] = stats->samples + stats->warm,
	    [METRIC_OWN] = stats->own,
	    [METRIC_LARGE] = stats->large,
	    [METRIC_ARENAS] = stats->arenas,
	    [METRIC_SOFT_LIMIT] = heap_limits.soft,
	    [METRIC_SOFT_HITS] = heap_limits.nsoft,
	    [METRIC_LIMITED] = stats->limited,
	    [METRIC_HARD_LIMIT] = heap_limits.hard,
	    [METRIC_HARD_HITS] = heap_limits.nhard,
	    [METRIC_WRONG_SIZES] = account_get(&account.nwrong_sizes)};
	bool complete = true;

	for (unsigned i = METRIC_CACHE_FIRST; i < METRICS; i++) {
		families.text[i] = text_create(text->most / 4);
		complete &= families.text[i] != NULL;
	}
	if (complete)
		stats_each_cache(metrics_add_cache, &families);
	values[METRIC_FAILURES] = families.nfailed;
	for (unsigned i = 0; i < METRICS; i++) {
		metric_header(text, &metric_families[i]);
		if (i < METRIC_CACHE_FIRST)
			metric_sample(text, i, "", values[i]);
		else if (complete)
			text_append(text, families.text[i]);
		text_delete(families.text[i]);
	}
	text_begin_end(text);
	text_line(text, "# EOF\n");
	return complete;
}

struct text *
stats_text_create(enum stats_form form)
{
	struct stats stats;
	struct text *text;
	bool done;

	stats_read(&stats);
	text = text_create(stats_text_bytes());
	if (text == NULL)
		return NULL;
	done = form == STATS_TABLE ? stats_table(text, &stats)
	       : form == STATS_XML ? stats_xml(text, &stats)
				   : stats_metrics(text, &stats);
	if (done)
		return text;
	text_delete(text);
	return NULL;
}
