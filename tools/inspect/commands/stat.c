/* stat.c - umem stat: use of caches and arenas */

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/report.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/model/usage.h"

/* Returns the number of large blocks, or of samples. */
static uint64_t
count_larges(const struct model *model, bool samples)
{
	uint64_t n = 0;

	for (size_t i = 0; i < model->nlarges; i++)
		n += (model->larges[i].sample != NULL) == samples &&
		     !model->larges[i].waits;
	return n;
}

/* Prints a row for large blocks or samples. */
static void
say_larges(const struct model *model, const char *key, const char *name,
    bool samples, uint64_t bytes, uint64_t nfailed)
{
	uint64_t n = count_larges(model, samples);

	json_open(key, '{');
	json_number("blocks", n);
	json_number("memory", bytes);
	json_number("failed", nfailed);
	json_close();
	plain_print("%-20s %6s %7lu %7s %7s %7s %7s %5lu\n", name, "-", n, "-",
	    "-", size_text(bytes), "-", nfailed);
}

static void
json_groups(struct model *model, size_t domain)
{
	assert(domain < model->ndomains);
	json_open("caches", '[');
	for (size_t i = 0; i < model->ngroups; i++) {
		const struct waiting_group *group = &model->groups[i];

		if (group->domain != domain)
			continue;
		json_open(NULL, '{');
		json_text("name", model_group_name(model, group));
		if (group->cache != 0)
			json_address("address", group->cache);
		json_number("waiting", group->nwaiting);
		json_number("memory", group->bytes);
		json_close();
	}
	json_close();
}

void
stat_json_domains(struct model *model, bool groups)
{
	json_open("rcu", '[');
	for (size_t i = 0; i < model->ndomains; i++) {
		const struct domain *d = &model->domains[i];

		json_open(NULL, '{');
		json_text("flavour", model_flavour(model, d));
		json_number("waiting", d->nwaiting);
		json_number("memory", d->bytes);
		json_number("grace_periods", d->ngraces);
		json_number("released", d->nreleased);
		json_bool("in_grace_period", d->in_grace);
		json_bool("broken", d->broken);
		if (groups)
			json_groups(model, i);
		json_close();
	}
	json_close();
}

/* Returns the memory that would become free if the buffers were compacted. */
static uint64_t
spare_bytes(const struct cache *c)
{
	uint64_t need = (c->nlive + c->nchunks - 1) / c->nchunks;

	assert(c->import != 0 || need <= c->nslabs);
	return c->import != 0 ? 0 : (c->nslabs - need) * c->slab_bytes;
}

/* Does the cache have a limit or a reserve? */
static bool
has_limits(const struct cache *c)
{
	return c->counts || c->reserve != 0;
}

/* Prints a table of the caches with a limit or reserve, if there are any. */
static void
print_cache_limits(const struct model *model)
{
	bool any = false;

	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (!has_limits(c))
			continue;
		if (!any)
			printf("\n%-20s %8s %7s %7s %6s %6s %7s %6s %5s\n",
			    "CACHE WITH LIMIT", "LIMIT", "IN USE", "WAITING",
			    "WAITS", "FAILED", "RESERVE", "READY", "USED");
		any = true;
		printf("%-20s %8s %7lu %7lu %6lu %6lu %7lu %6lu %5lu\n",
		    print_name(c->name, 20),
		    !c->counts || c->limit == UINT64_MAX
			? "-"
			: xprint("%lu", c->limit),
		    c->nheld, c->nwaiting, c->nwaits, c->nrefused, c->reserve,
		    c->nready, c->nreserved);
	}
}

static void
say_cache(const struct cache *c)
{
	json_open(NULL, '{');
	json_text("name", c->name);
	json_address("address", c->at);
	json_number("buffer_size", c->bufsize);
	json_number("chunk_size", c->import != 0 ? 0 : c->chunk);
	json_number("in_use", c->nlive);
	json_number("in_magazines", c->ncached);
	json_number("deferred", c->ndeferred);
	json_number("total", c->ntotal);
	json_number("slabs", c->nslabs);
	json_number("memory", c->nslabs * c->slab_bytes);
	json_number("spare", spare_bytes(c));
	json_number("loads", c->nallocs);
	json_number("failed", c->nfailed);
	json_number("contended", c->ncontended);
	if (has_limits(c)) {
		json_open("limits", '{');
		json_number("limit", c->limit == UINT64_MAX ? 0 : c->limit);
		json_number("in_use", c->nheld);
		json_number("waiting", c->nwaiting);
		json_number("waits", c->nwaits);
		json_number("failures", c->nrefused);
		json_number("reserve", c->reserve);
		json_number("ready", c->nready);
		json_number("used", c->nreserved);
		json_close();
	}
	json_close();
	if (c->ntotal != 0 || c->nfailed != 0 || c->class == 0)
		plain_print("%-20s %6lu %7lu %7lu %7lu %7s %7s %5lu %5lu\n",
		    print_name(c->name, 20), c->bufsize, c->nlive, c->ncached,
		    c->ntotal, size_text(c->nslabs * c->slab_bytes),
		    size_text(spare_bytes(c)), c->nfailed, c->ncontended);
}

static uint64_t
arena_get(struct model *model, const struct arena *a, enum layout_entry entry)
{
	return layout_get(model->layout, a->record, entry);
}

static void
say_arena(struct model *model, const struct arena *a)
{
	int indent = 4 * (a->depth < 5 ? (int)a->depth : 5);
	uint64_t in_use = arena_get(model, a, L_ARENA_INUSE);
	uint64_t total = arena_get(model, a, L_ARENA_TOTAL);
	uint64_t imported = arena_get(model, a, L_ARENA_IMPORTED);
	uint64_t nallocs = arena_get(model, a, L_ARENA_NALLOCS);
	uint64_t nfails = arena_get(model, a, L_ARENA_NFAILS);

	json_open(NULL, '{');
	json_text("name", a->name);
	json_address("address", a->at);
	json_address("source", a->source);
	json_number("in_use", in_use);
	json_number("total", total);
	json_number("import", imported);
	json_number("succeeded", nallocs);
	json_number("failed", nfails);
	json_close();
	plain_print("%*s%-*s %9s %10s %9s %9lu %6lu\n", indent, "", 32 - indent,
	    print_name(a->name, (size_t)(32 - indent)), size_text(in_use),
	    size_text(total), size_text(imported), nallocs, nfails);
}

/* Prints objects that wait for a grace period, by flavour and cache. */
static void
print_waiting(struct model *model)
{
	if (model->ndomains == 0)
		return;
	printf("\n%-25s %9s %9s %9s %9s\n", "RCU FLAVOUR AND CACHE", "WAITING",
	    "MEMORY", "PERIODS", "RELEASED");
	for (size_t i = 0; i < model->ndomains; i++) {
		const struct domain *d = &model->domains[i];

		printf("%-25s %9lu %9s %9lu %9lu\n", model_flavour(model, d),
		    d->nwaiting, size_text(d->bytes), d->ngraces, d->nreleased);
		for (size_t j = 0; j < model->ngroups; j++) {
			const struct waiting_group *group = &model->groups[j];

			if (group->domain == i)
				printf("  %-23s %9lu %9s\n",
				    model_group_name(model, group),
				    group->nwaiting, size_text(group->bytes));
		}
	}
}

void
stat_report(struct model *model)
{
	struct usage usage;

	usage_read(model, &usage);
	json_open(NULL, '{');
	usage_json(&usage);
	plain_print("%-20s %6s %7s %7s %7s %7s %7s %5s %5s\n", "CACHE", "SIZE",
	    "IN USE", "CACHED", "TOTAL", "MEMORY", "SPARE", "FAIL", "LOCKS");
	json_open("caches", '[');
	for (size_t i = 0; i < model->ncaches; i++)
		say_cache(&model->caches[i]);
	json_close();
	say_larges(model, "large", "[large blocks]", /* samples */ false,
	    usage.s.large_bytes, usage.nlarge_failed);
	say_larges(model, "samples", "[samples]", /* samples */ true,
	    usage.s.sampled_bytes, 0);
	if (!json_wanted) {
		print_cache_limits(model);
		print_waiting(model);
	}
	stat_json_domains(model, /* groups */ true);
	plain_print("\n%-32s %9s %10s %9s %9s %6s\n", "ARENA", "IN USE",
	    "TOTAL", "IMPORTED", "ALLOCS", "FAILED");
	json_open("arenas", '[');
	for (size_t i = 0; i < model->narenas; i++)
		say_arena(model, &model->arenas[i]);
	json_close();
	json_close();
	usage_free(&usage);
}

int
command_stat(int argc, char **argv)
{
	stat_report(snapshot_open(target_argument(argc, argv), 0));
	return EXIT_OK;
}
