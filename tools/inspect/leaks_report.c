/*
 * leaks_report.c - umem leaks: a row for each call site, the largest first
 *
 * The first table has the direct leaks: the call sites to look at.  The second
 * has the indirect leaks (leaks_direct.c), whose bytes the first table also
 * shows, in the rows of the blocks that point to them.  The rows are those of
 * sites.c.
 */
#include <getopt.h>
#include <string.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/leaks.h"
#include "tools/inspect/print.h"
#include "tools/inspect/sites.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/symbols.h"

/* Rows of each table without -e. */
#define ROWS_MOST 20

static struct sites direct, indirect;
static const char *only_caller; /* see struct leaks_options */

/* Has a frame of the stack the text in its name? */
static bool
is_from(struct model *model, const struct site_block *b, const char *text)
{
	for (unsigned i = 0; i < b->depth; i++)
		if (strstr(symbol_name(model->target, b->stack[i]), text) !=
		    NULL)
			return true;
	return false;
}

/* Finds the block's record, if it has one, and its requested bytes. */
static bool
has_record(struct model *model, const struct slab *slab,
    const struct large *large, unsigned i, struct audit *audit)
{
	return (slab != NULL ? audit_of_chunk(model, slab, i, audit)
			     : audit_of_large(model, large, audit)) &&
	       audit->depth != 0;
}

uint64_t
leaks_bytes(struct model *model, const struct slab *slab,
    const struct large *large, unsigned i)
{
	struct audit audit;

	if (has_record(model, slab, large, i, &audit))
		return audit.size;
	return slab != NULL ? model->caches[slab->cache].bufsize : large->size;
}

static void
count_leak(
    struct model *model, struct slab *slab, struct large *large, unsigned i)
{
	struct audit audit;
	struct site_block b = {.weight = 1};
	bool is_indirect = leaks_is_indirect(model, slab, large, i, &b.held);

	b.cache = slab != NULL ? &model->caches[slab->cache] : NULL;
	b.at = slab != NULL ? slab_chunk_at(model, slab, i) : large->at;
	b.bytes = leaks_bytes(model, slab, large, i);
	if (has_record(model, slab, large, i, &audit)) {
		b.depth = audit.depth;
		b.stack = audit.stack;
		b.time = audit.timestamp;
		b.sampled = large != NULL && large->sample != NULL;
		if (b.sampled)
			b.weight = sample_weight(large->sample);
	}
	if (only_caller == NULL || is_from(model, &b, only_caller))
		sites_add(is_indirect ? &indirect : &direct, &b);
}

static void
print_head(void)
{
	printf("%9s %5s %9s %8s %7s %8s  %s\n", "BYTES", "SHARE", "BLOCKS",
	    "INDIRECT", "OLDEST", "PER MIN", "CALL SITE");
}

static void
print_row(struct sites *sites, const struct site *row, double all)
{
	double total = site_total(row);

	printf("%9s %4.0f%% %9s %8s %7s %8s  %s%s\n",
	    site_bytes_text(total, row->estimated), 100 * total / all,
	    site_blocks_text(row->blocks, row->estimated),
	    row->held >= 0.5 ? site_bytes_text(row->held, row->estimated) : "-",
	    site_age_text(row->oldest),
	    row->rate < 0 ? "-" : site_bytes_text(row->rate, row->estimated),
	    row->name, site_callers(sites, row));
}

static void
print_rows(struct sites *sites, double all, bool every)
{
	double rest = 0;
	size_t n = sites->nrows;

	if (!every && n > ROWS_MOST + 1)
		n = ROWS_MOST;
	print_head();
	for (size_t i = 0; i < n; i++)
		print_row(sites, &sites->rows[i], all);
	for (size_t i = n; i < sites->nrows; i++)
		rest += site_total(&sites->rows[i]);
	if (n < sites->nrows)
		printf("%9s %4.0f%% in %zu more rows; -e prints all\n",
		    site_bytes_text(rest, false), 100 * rest / all,
		    sites->nrows - n);
}

static void
print_details(struct sites *sites, bool every)
{
	for (size_t i = 0; i < sites->nrows; i++) {
		if (!every && i == ROWS_MOST)
			return;
		printf("\n%s%s\n", sites->rows[i].name,
		    sites == &indirect ? ", indirect" : "");
		site_print_stacks(sites, &sites->rows[i]);
	}
}

static bool
any_row(bool (*is)(const struct site *row))
{
	for (size_t i = 0; i < direct.nrows; i++)
		if (is(&direct.rows[i]))
			return true;
	for (size_t i = 0; i < indirect.nrows; i++)
		if (is(&indirect.rows[i]))
			return true;
	return false;
}

static bool
row_is_estimated(const struct site *row)
{
	return row->estimated;
}

static bool
row_is_unknown(const struct site *row)
{
	return row->tallies[0]->depth == 0;
}

static void
print_notes(struct model *model)
{
	if (any_row(row_is_estimated))
		puts("\n~ is an estimate from samples.");
	if (!any_row(row_is_unknown))
		return;
	if (model_sampling_interval(model) != 0)
		puts("\nunknown: allocated before sampling began, or too few "
		     "for a sample.");
	else
		printf("\nunknown: nothing recorded the caller. \"umem sample "
		       "%s default\" records it for\nlater leaks, "
		       "\"umem run --debug\" for all blocks.\n",
		    model->target->live ? xprint("%d", model->target->pid)
					: "PID");
}

static void
print_total(void)
{
	bool estimated = any_row(row_is_estimated);
	double blocks = direct.blocks + indirect.blocks;

	printf("%s leaked in %.0f block%s",
	    site_bytes_text(direct.bytes + indirect.bytes, estimated), blocks,
	    blocks < 1.5 ? "" : "s");
	if (indirect.nrows != 0)
		printf(", %s of it in %.0f block%s to which only leaked blocks "
		       "point",
		    site_bytes_text(indirect.bytes, estimated), indirect.blocks,
		    indirect.blocks < 1.5 ? "" : "s");
	puts("\n");
}

static void
print_tables(struct model *model, const struct leaks_options *options)
{
	double all = direct.bytes + indirect.bytes;

	if (direct.nrows + indirect.nrows == 0) {
		if (options->caller == NULL)
			puts("no leaks found");
		else
			printf("no leaks from %s found\n", options->caller);
		return;
	}
	print_total();
	if (direct.nrows != 0)
		print_rows(&direct, all, options->every);
	if (indirect.nrows != 0) {
		puts("\nINDIRECT, by the call sites that allocated it; only "
		     "leaked "
		     "blocks point to it:");
		print_rows(&indirect, all, options->every);
	}
	if (options->details) {
		print_details(&direct, options->every);
		print_details(&indirect, options->every);
	}
	print_notes(model);
}

static void
json_rows(struct sites *sites, const char *kind)
{
	for (size_t i = 0; i < sites->nrows; i++) {
		json_open(NULL, '{');
		json_text("kind", kind);
		site_json(sites, &sites->rows[i]);
		json_number(
		    "indirect_bytes", (uint64_t)(sites->rows[i].held + 0.5));
		json_close();
	}
}

static void
print_json(void)
{
	json_open(NULL, '{');
	json_open("leaks", '[');
	json_rows(&direct, "direct");
	json_rows(&indirect, "indirect");
	json_close();
	json_number(
	    "blocks", (uint64_t)(direct.blocks + indirect.blocks + 0.5));
	json_number("bytes", (uint64_t)(direct.bytes + indirect.bytes + 0.5));
	json_close();
}

int
leaks_report(struct model *model, const struct leaks_options *options)
{
	double start = seconds_now();
	struct leaks_figures figures;

	leaks_mark(model, &figures);
	leaks_divide(model);
	direct = (struct sites){.model = model, .now = sites_now(model)};
	indirect = direct;
	only_caller = options->caller;
	leaks_each(model, count_leak);
	sites_finish(&direct);
	sites_finish(&indirect);
	if (json_wanted) {
		print_json();
	} else {
		if (options->figures)
			leaks_print_figures(
			    model, &figures, seconds_now() - start);
		print_tables(model, options);
	}
	return direct.nrows + indirect.nrows == 0 ? EXIT_OK : EXIT_FOUND;
}

int
command_leaks(int argc, char **argv)
{
	static const struct option longs[] = {COMMON_OPTIONS,
	    {"mdb", no_argument, NULL, OPTION_MDB}, {NULL, 0, NULL, 0}};
	struct leaks_options options = {0};
	struct model *model;
	bool mdb = false;
	int letter;

	while ((letter = next_long_option(argc, argv, "c:defv", longs)) != -1)
		switch (letter) {
		case 'c':
			options.caller = optarg;
			break;
		case 'd':
			options.details = true;
			break;
		case 'e':
			options.every = true;
			break;
		case 'v':
			options.figures = true;
			break;
		case OPTION_MDB:
			mdb = true;
			break;
		default: /* -f: results are never cached */
			break;
		}
	model = snapshot_open(only_argument(argc, argv), MODEL_POINTERS);
	return mdb ? leaks_report_mdb(model, &options)
		   : leaks_report(model, &options);
}
