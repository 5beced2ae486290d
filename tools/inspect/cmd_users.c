/*
 * cmd_users.c - umem users: allocated memory by call site, the largest first
 *
 * The rows are those of sites.c.  They need records (UMEM_DEBUG=audit) or
 * samples.  Blocks without a record are counted cache by cache.
 */
#include <getopt.h>
#include <limits.h>
#include <string.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/users.h"
#include "umem/umem.h"

/* Names for sampled and large blocks, which belong to no cache. */
#define SAMPLES "umem_sample"
#define LARGE   "umem_oversize"

struct users_options {
	const char *save;         /* a file for the look; or NULL */
	const struct look *since; /* print only changes since then; or NULL */
	bool details;
	bool every;   /* row */
	char **names; /* of caches */
	int nnames;   /* 0: all */
};

static bool
is_named(const struct users_options *options, const char *name)
{
	for (int i = 0; i < options->nnames; i++)
		if (strcmp(options->names[i], name) == 0)
			return true;
	return options->nnames == 0;
}

static void
count_slab(struct sites *sites, const struct slab *s)
{
	struct site_block rest = {.weight = 1,
	    .cache = &sites->model->caches[s->cache],
	    .bytes = sites->model->caches[s->cache].bufsize};

	if (s->records == 0)
		rest.n = bits_count(s->live, s->nchunks);
	for (unsigned i = 0; i < s->nchunks; i++) {
		if (!bit_get(s->live, i))
			continue;
		if (s->records != 0) {
			sites_add_buffer(sites, s, NULL, i, 0);
			continue;
		}
		rest.at = slab_chunk_at(sites->model, s, i);
		sites_add(sites, &rest);
		return;
	}
}

static void
count_users(struct sites *sites, const struct users_options *options)
{
	const struct model *model = sites->model;

	for (size_t i = 0; i < model->nslabs; i++) {
		const struct cache *c = &model->caches[model->slabs[i].cache];

		/* Quantum caches have parts of arenas. */
		if ((c->flags & UMC_QCACHE) == 0 && is_named(options, c->name))
			count_slab(sites, &model->slabs[i]);
	}
	for (size_t i = 0; i < model->nlarges; i++) {
		const struct large *large = &model->larges[i];
		const char *name = large->cache != NULL    ? large->cache->name
				   : large->sample != NULL ? SAMPLES
							   : LARGE;

		if (!large->waits && is_named(options, name))
			sites_add_buffer(sites, NULL, large, 0, 0);
	}
}

static void
print_json(struct sites *sites)
{
	json_open(NULL, '{');
	json_open("users", '[');
	for (size_t i = 0; i < sites->nrows; i++) {
		json_open(NULL, '{');
		site_json(sites, &sites->rows[i]);
		json_close();
	}
	json_close();
	json_number("blocks", (uint64_t)(sites->blocks + 0.5));
	json_number("bytes", (uint64_t)(sites->bytes + 0.5));
	json_close();
}

static void
print_users(struct sites *sites, const struct users_options *options)
{
	bool estimated = sites_are_estimated(sites);

	if (sites->nrows == 0) {
		puts("no allocated blocks");
		return;
	}
	printf("%s\n\n", sites_sum_text(sites->bytes, sites->blocks, estimated,
			     " allocated"));
	sites_print(sites, sites->bytes, options->every);
	if (options->details)
		sites_print_details(sites, "", options->every);
	sites_print_notes(sites->model, estimated, sites_have_unknown(sites));
}

static bool
is_cache(const struct model *model, const char *name)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (strcmp(model->caches[i].name, name) == 0)
			return true;
	return strcmp(name, SAMPLES) == 0 || strcmp(name, LARGE) == 0;
}

static bool
has_samples(const struct model *model)
{
	for (size_t i = 0; i < model->nsamples; i++)
		if (sample_is_live(&model->samples[i]))
			return true;
	return false;
}

static struct sites
find_users(struct model *model, const struct users_options *options)
{
	struct sites sites = {.model = model};

	if (!audit_is_on(model) && !has_samples(model))
		fail_with(EXIT_ERROR,
		    "users: no callers are recorded; \"umem sample %s "
		    "default\" records those of later blocks",
		    model->target->live ? xprint("%d", model->target->pid)
					: "PID");
	for (int i = 0; i < options->nnames; i++)
		if (!is_cache(model, options->names[i]))
			fail_with(EXIT_ERROR, "users: no cache %s",
			    options->names[i]);
	sites.now = audit_now(model);
	count_users(&sites, options);
	sites_finish(&sites);
	return sites;
}

struct look
users_look(struct model *model)
{
	struct users_options options = {0};
	struct sites sites = find_users(model, &options);

	return look_of_sites(&sites);
}

static int
report_users(struct model *model, const struct users_options *options)
{
	struct sites sites = find_users(model, options);
	struct look look = look_of_sites(&sites);

	if (options->save != NULL)
		look_save(&look, options->save);
	if (options->since != NULL)
		return look_print_growth(options->since, &look, options->every);
	if (json_wanted)
		print_json(&sites);
	else
		print_users(&sites, options);
	return EXIT_OK;
}

int
command_users(int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"save", required_argument, NULL, OPTION_SAVE},
	    {"since", required_argument, NULL, OPTION_SINCE},
	    {NULL, 0, NULL, 0}};
	struct users_options options = {0};
	struct look since;
	struct model *model;
	int letter;

	while ((letter = next_long_option(argc, argv, "de", longs)) != -1)
		switch (letter) {
		case 'd':
			options.details = true;
			break;
		case 'e':
			options.every = true;
			break;
		case OPTION_SAVE:
			options.save = optarg;
			break;
		case OPTION_SINCE:
			since = look_open(optarg);
			options.since = &since;
			break;
		}
	expect_arguments(argc, argv, 1, INT_MAX);
	options.names = argv + optind + 1;
	options.nnames = argc - optind - 1;
	model = snapshot_open(argv[optind], 0);
	return report_users(model, &options);
}
