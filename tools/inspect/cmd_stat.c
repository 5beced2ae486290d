/*
 * cmd_stat.c - umem stat, caches and arenas: use of caches and arenas
 *
 * The columns are those of ::umastat and ::umem_cache.
 */
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/stat.h"
#include "tools/inspect/usage.h"

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

static void
print_larges(const struct model *model, const char *name, bool samples,
    uint64_t bytes, uint64_t nfailed)
{
	printf("Total %-42s %13s %9lu %5lu\n", name, size_text(bytes),
	    count_larges(model, samples), nfailed);
}

static void
json_larges(const struct model *model, const char *key, bool samples,
    uint64_t bytes, uint64_t nfailed)
{
	json_open(key, '{');
	json_number("blocks", count_larges(model, samples));
	json_number("memory", bytes);
	json_number("failed", nfailed);
	json_close();
}

static void
json_layers(struct model *model, size_t domain)
{
	assert(domain < model->ndomains);
	json_open("caches", '[');
	for (size_t i = 0; i < model->nlayers; i++) {
		const struct waiting_layer *layer = &model->layers[i];

		if (layer->domain != domain)
			continue;
		json_open(NULL, '{');
		json_text("name", model_layer_name(model, layer));
		if (layer->cache != 0)
			json_address("address", layer->cache);
		json_number("waiting", layer->nwaiting);
		json_number("memory", layer->bytes);
		json_close();
	}
	json_close();
}

void
stat_json_domains(struct model *model, bool layers)
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
		if (layers)
			json_layers(model, i);
		json_close();
	}
	json_close();
}

/* Maximum number of columns in a readable line. */
#define CPU_COLUMNS 12

#define CACHE_RULE                                                             \
	"------------------------- ------ ------- ------- ------- ------- "    \
	"--------- ----- ---------"
#define LIMIT_RULE                                                             \
	"------------------------- ------- ------- ------- ------- ------- "   \
	"------- ------- -------"
#define ARENA_RULE                                                             \
	"------------------------- --------- ---------- --------- --------- "  \
	"-----"

/* The sums of the caches that take their slabs from one arena. */
struct sum {
	const char *name;
	uint64_t source;
	uint64_t bytes;
	uint64_t nallocs;
	uint64_t nfailed;
	uint64_t ncontended;
};

static void
print_cache(const struct cache *c)
{
	printf("%-25s %6lu %7lu %7lu %7lu %7s %9lu %5lu %9lu\n", c->name,
	    c->bufsize, c->nlive, c->ncached, c->ntotal,
	    size_text(c->nslabs * c->slab_bytes), c->nallocs, c->nfailed,
	    c->ncontended);
}

static const char *
limit_text(const struct cache *c)
{
	return !c->counts || c->limit == UINT64_MAX ? "-"
						    : xprint("%lu", c->limit);
}

/* Has the cache a limit or a reserve? */
static bool
has_limits(const struct cache *c)
{
	return c->counts || c->reserve != 0;
}

/* Prints a table of the caches with a limit or reserve, if there are any. */
static void
print_limits(const struct model *model)
{
	bool any = false;

	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (!has_limits(c))
			continue;
		if (!any)
			printf("\n%-25s %7s %7s %7s %7s %7s %7s %7s %7s\n%s\n",
			    "limits and reserves", "limit", "in use", "waiting",
			    "waits", "fail", "reserve", "ready", "used",
			    LIMIT_RULE);
		any = true;
		printf("%-25s %7s %7lu %7lu %7lu %7lu %7lu %7lu %7lu\n",
		    c->name, limit_text(c), c->nheld, c->nwaiting, c->nwaits,
		    c->nrefused, c->reserve, c->nready, c->nreserved);
	}
	if (any)
		puts(LIMIT_RULE);
}

static void
json_cache(const struct cache *c)
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
}

/* Prints a line for each arena from which caches take slabs. */
static void
print_sums(const struct model *model)
{
	for (size_t i = 0; i < model->ncaches; i++) {
		uint64_t source = model->caches[i].source;
		struct sum sum = {.name = "umem_heap", .source = source};
		bool seen = false;

		for (size_t j = 0; j < i; j++)
			seen |= model->caches[j].source == source;
		if (seen)
			continue;
		for (size_t j = 0; j < model->narenas; j++)
			if (model->arenas[j].at == source)
				sum.name = model->arenas[j].name;
		for (size_t j = i; j < model->ncaches; j++) {
			const struct cache *c = &model->caches[j];

			if (c->source != source)
				continue;
			sum.bytes += c->nslabs * c->slab_bytes;
			sum.nallocs += c->nallocs;
			sum.nfailed += c->nfailed;
			sum.ncontended += c->ncontended;
		}
		printf("Total %-42s %13s %9lu %5lu %9lu\n",
		    xprint("[%s]", sum.name), size_text(sum.bytes), sum.nallocs,
		    sum.nfailed, sum.ncontended);
	}
}

static uint64_t
arena_get(struct model *model, const struct arena *a, enum layout_entry entry)
{
	return layout_get(model->layout, a->record, entry);
}

static void
print_arena(struct model *model, const struct arena *a)
{
	int indent = (int)(4 * a->depth);

	printf("%*s%-*s %9s %10s %9s %9lu %5lu\n", indent, "",
	    indent < 25 ? 25 - indent : 0, a->name,
	    size_text(arena_get(model, a, L_ARENA_INUSE)),
	    size_text(arena_get(model, a, L_ARENA_TOTAL)),
	    size_text(arena_get(model, a, L_ARENA_IMPORTED)),
	    arena_get(model, a, L_ARENA_NALLOCS),
	    arena_get(model, a, L_ARENA_NFAILS));
}

static void
json_arena(struct model *model, const struct arena *a)
{
	json_open(NULL, '{');
	json_text("name", a->name);
	json_address("address", a->at);
	json_address("source", a->source);
	json_number("in_use", arena_get(model, a, L_ARENA_INUSE));
	json_number("total", arena_get(model, a, L_ARENA_TOTAL));
	json_number("import", arena_get(model, a, L_ARENA_IMPORTED));
	json_number("succeeded", arena_get(model, a, L_ARENA_NALLOCS));
	json_number("failed", arena_get(model, a, L_ARENA_NFAILS));
	json_close();
}

/* Returns the bytes in a CPU's magazines: of all caches, or of one. */
static uint64_t
cpu_bytes(const struct model *model, uint64_t cpu, const struct cache *only)
{
	uint64_t bytes = 0;

	assert(cpu < model->ncpus);
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (c->by_cpu != NULL && (only == NULL || only == c))
			bytes += c->by_cpu[cpu] * c->chunk;
	}
	return bytes;
}

/* Has a CPU at least share percent of its cached bytes in this cache? */
static bool
has_share(const struct model *model, const struct cache *c, unsigned share)
{
	for (uint64_t cpu = 0; cpu < model->ncpus; cpu++) {
		uint64_t bytes = cpu_bytes(model, cpu, c);

		if (bytes != 0 &&
		    bytes * 100 >= share * cpu_bytes(model, cpu, NULL))
			return true;
	}
	return false;
}

/* Selects the caches of malloc with the most bytes that fit, by size. */
static size_t
cpu_columns(const struct model *model, const struct cache **columns)
{
	size_t n = CPU_COLUMNS + 1;

	for (unsigned share = 0; n > CPU_COLUMNS; share++) {
		n = 0;
		for (size_t i = 0; i < model->ncaches; i++) {
			const struct cache *c = &model->caches[i];

			if (c->class == 0 || !has_share(model, c, share))
				continue;
			if (n < CPU_COLUMNS)
				columns[n] = c;
			n++;
		}
	}
	return n;
}

/* The table that ::umastat has for threads; caches are per CPU here. */
static void
print_cpus(const struct model *model)
{
	const struct cache *columns[CPU_COLUMNS];
	size_t n = cpu_columns(model, columns);

	assert(n <= CPU_COLUMNS);
	printf("      memory");
	for (size_t i = 0; i < n; i++)
		printf("%7s", "%");
	printf("\ncpu   cached");
	for (size_t i = 0; i < n; i++)
		printf("%7lu", columns[i]->bufsize);
	printf("\n--- --------");
	for (size_t i = 0; i < n; i++)
		printf(" ------");
	putchar('\n');
	for (uint64_t cpu = 0; cpu < model->ncpus; cpu++) {
		uint64_t all = cpu_bytes(model, cpu, NULL);

		if (all == 0)
			continue;
		printf("%3lu %8s", cpu, size_text(all));
		for (size_t i = 0; i < n; i++)
			printf("%7lu",
			    cpu_bytes(model, cpu, columns[i]) * 100 / all);
		putchar('\n');
	}
	putchar('\n');
}

static void
json_cpus(const struct model *model)
{
	json_open("cpus", '[');
	for (uint64_t cpu = 0; cpu < model->ncpus; cpu++) {
		json_open(NULL, '{');
		json_number("cpu", cpu);
		json_number("cached", cpu_bytes(model, cpu, NULL));
		json_open("caches", '{');
		for (size_t i = 0; i < model->ncaches; i++)
			if (model->caches[i].by_cpu != NULL &&
			    model->caches[i].by_cpu[cpu] != 0)
				json_number(model->caches[i].name,
				    model->caches[i].by_cpu[cpu]);
		json_close();
		json_close();
	}
	json_close();
}

#define LAYER_RULE                                                             \
	"------------------------- --------- --------- --------- ---------"

/* Prints objects that wait for a grace period, by flavour and cache. */
static void
print_waiting(struct model *model)
{
	if (model->ndomains == 0)
		return;
	puts("\nrcu flavour, and             objects    memory     grace   "
	     "objects");
	puts("caches that wait for it      waiting   waiting   periods  "
	     "released");
	puts(LAYER_RULE);
	for (size_t i = 0; i < model->ndomains; i++) {
		const struct domain *d = &model->domains[i];

		printf("%-25s %9lu %9s %9lu %9lu\n", model_flavour(model, d),
		    d->nwaiting, size_text(d->bytes), d->ngraces, d->nreleased);
		for (size_t j = 0; j < model->nlayers; j++) {
			const struct waiting_layer *layer = &model->layers[j];

			if (layer->domain == i)
				printf("  %-23s %9lu %9s\n",
				    model_layer_name(model, layer),
				    layer->nwaiting, size_text(layer->bytes));
		}
	}
	puts(LAYER_RULE);
}

static void
print_stat(struct model *model, const struct usage *usage)
{
	printf("%s\n\n", usage_text(usage, TEXT_WIDTH));
	print_cpus(model);
	puts("cache                        buf     buf     buf     buf  memory"
	     "     alloc alloc      lock");
	puts("name                        size  in use  in mag   total  in use"
	     "     loads  fail contended");
	puts(CACHE_RULE);
	for (size_t i = 0; i < model->ncaches; i++)
		if (model->caches[i].ntotal != 0 || model->caches[i].class == 0)
			print_cache(&model->caches[i]);
	puts(CACHE_RULE);
	print_sums(model);
	print_larges(model, "[large blocks]", /* samples */ false, usage->large,
	    usage->nlarge_failed);
	print_larges(model, "[samples]", /* samples */ true, usage->samples, 0);
	puts(CACHE_RULE);
	print_limits(model);
	print_waiting(model);
	puts("\nvmem                      addresses  addresses addresses     "
	     "alloc alloc");
	puts("name                         in use      total  imported   "
	     "succeed  fail");
	puts(ARENA_RULE);
	for (size_t i = 0; i < model->narenas; i++)
		print_arena(model, &model->arenas[i]);
	puts(ARENA_RULE);
}

static void
json_stat(struct model *model, const struct usage *usage)
{
	json_open(NULL, '{');
	usage_json(usage);
	json_cpus(model);
	json_open("caches", '[');
	for (size_t i = 0; i < model->ncaches; i++)
		json_cache(&model->caches[i]);
	json_close();
	json_larges(model, "large", /* samples */ false, usage->large,
	    usage->nlarge_failed);
	json_larges(model, "samples", /* samples */ true, usage->samples, 0);
	stat_json_domains(model, /* layers */ true);
	json_open("arenas", '[');
	for (size_t i = 0; i < model->narenas; i++)
		json_arena(model, &model->arenas[i]);
	json_close();
	json_close();
}

void
stat_report(struct model *model)
{
	struct usage usage;

	usage_read(model, &usage);
	if (json_wanted)
		json_stat(model, &usage);
	else
		print_stat(model, &usage);
	usage_free(&usage);
}

int
command_stat(int argc, char **argv)
{
	stat_report(snapshot_open(target_argument(argc, argv), 0));
	return EXIT_OK;
}

/*
 * Flags that libumem's ::umem_cache shows for the layout of a cache.  The
 * library has no such flags; only this report does.
 */
#define UMF_NOMAGAZINE 0x0020u
#define UMF_HASH       0x0200u

static unsigned
flags_of(const struct cache *c)
{
	return UMF_HASH | (c->has_magazines ? 0 : UMF_NOMAGAZINE) | c->debug;
}

int
command_caches(int argc, char **argv)
{
	struct model *model = snapshot_open(target_argument(argc, argv), 0);

	if (json_wanted) {
		json_open(NULL, '[');
		for (size_t i = 0; i < model->ncaches; i++)
			json_cache(&model->caches[i]);
		json_close();
		return EXIT_OK;
	}
	printf("%-16s %-25s %4s %8s %8s %8s\n", "ADDR", "NAME", "FLAG", "CFLAG",
	    "BUFSIZE", "BUFTOTL");
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		printf("%016lx %-25s %04x %08x %8lu %8lu\n", c->at, c->name,
		    flags_of(c), c->flags, c->bufsize, c->ntotal);
	}
	return EXIT_OK;
}

int
command_arenas(int argc, char **argv)
{
	struct model *model = snapshot_open(target_argument(argc, argv), 0);

	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%-16s %-22s %10s %12s %9s %5s\n", "ADDR", "NAME",
		    "INUSE", "TOTAL", "SUCCEED", "FAIL");
	for (size_t i = 0; i < model->narenas; i++) {
		const struct arena *a = &model->arenas[i];
		int indent = (int)(2 * a->depth);

		if (json_wanted)
			json_arena(model, a);
		else
			printf("%016lx %*s%-*s %10lu %12lu %9lu %5lu\n", a->at,
			    indent, "", indent < 22 ? 22 - indent : 0, a->name,
			    arena_get(model, a, L_ARENA_INUSE),
			    arena_get(model, a, L_ARENA_TOTAL),
			    arena_get(model, a, L_ARENA_NALLOCS),
			    arena_get(model, a, L_ARENA_NFAILS));
	}
	if (json_wanted)
		json_close();
	return EXIT_OK;
}
