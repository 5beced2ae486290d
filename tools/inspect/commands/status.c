/*
 * status.c - umem status, or umem PID: a summary on one screen
 *
 * The words are those of UMEM_DEBUG and UMEM_OPTIONS.
 */
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/report.h"
#include "tools/inspect/commands/top.h"
#include "tools/inspect/model/options.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/report/messages.h"
#include "tools/inspect/report/not_ours.h"
#include "tools/inspect/symbols/program.h"
#include "umem/umem.h"

/* Lines of the layers, caches and call sites together, and of messages. */
#define MEMORY_ROWS  15
#define MESSAGE_ROWS 3

/* Columns of the name of a setting. */
#define LABEL_WIDTH 16

/* Prints a setting; the rest of a long text goes to further lines. */
static void
print_setting(const char *label, const char *text)
{
	const size_t space = TEXT_WIDTH - LABEL_WIDTH;
	size_t n;

	printf("%-*s", LABEL_WIDTH, label);
	for (; strlen(text) > space; text += n + (text[n] == ' ')) {
		for (n = space; n > 0 && strchr(" ,", text[n - 1]) == NULL;)
			n--;
		for (n = n == 0 ? space : n; is_inside_character(text[n]);)
			n--;
		printf("%.*s\n%*s", (int)(n - (text[n - 1] == ' ')), text,
		    LABEL_WIDTH, "");
	}
	puts(text);
}

static uint64_t
cpu_layer_value(struct model *model, enum layout_entry entry)
{
	const char *at = layout_at(model->layout, model->target, L_CPU_LAYER);

	return at ? layout_get(model->layout, at, entry) : 0;
}

static const char *
mode_of(struct model *model)
{
	uint64_t owner = cpu_layer_value(model, L_LAYER_OWNER);

	if (owner == layout_value(model->layout, L_RSEQ_NONE))
		return "locked";
	return cpu_layer_value(model, L_LAYER_BY_MM_CID) ? "rseq, by mm_cid"
							 : "rseq, by cpu_id";
}

/* The flags of a part of UMEM_DEBUG, and their words. */
static const struct {
	enum layout_entry flag;
	const char *word;
} debug_words[] = {{L_UMF_AUDIT, "audit"}, {L_UMF_CONTENTS, "contents"},
    {L_UMF_DEADBEEF, "guards"}, {L_UMF_CHECKSIGNAL, "nosignal"},
    {L_UMF_FIREWALL, "firewall"}, {L_UMF_RCU_WRITES, "rcu_writes"}};

static void
add_word(char *text, size_t capacity, const char *word)
{
	size_t n = strlen(text);

	assert(n < capacity);
	snprintf(text + n, capacity - n, "%s%s",
	    n == 0 || text[n - 1] == ' ' ? "" : ",", word);
}

/* Adds one part: its words, and the caches to which it applies. */
static void
add_choice(
    const struct layout *l, const char *choice, char *text, size_t capacity)
{
	unsigned flags = (unsigned)layout_get(l, choice, L_CHOICE_FLAGS);
	const char *patterns = choice + layout_value(l, L_CHOICE_PATTERNS);
	size_t n = strlen(text);

	if (n != 0)
		snprintf(text + n, capacity - n, "; ");
	for (size_t i = 0; i < array_size(debug_words); i++)
		if ((flags & layout_value(l, debug_words[i].flag)) != 0)
			add_word(text, capacity,
			    debug_words[i].flag == L_UMF_FIREWALL
				? xprint("firewall=%lu",
				      layout_get(l, choice, L_CHOICE_FIREWALL))
				: debug_words[i].word);
	n = strlen(text);
	if (patterns[0] != '\0')
		snprintf(text + n, capacity - n, ":%s",
		    plain_text(patterns, l->known[L_CHOICE_PATTERNS].bytes));
}

/* Returns the words of UMEM_DEBUG that are in force, or "off". */
static const char *
debug_text(struct model *model)
{
	static char text[4096];
	const struct layout *l = model->layout;
	const char *debug = layout_at(l, model->target, L_DEBUG);
	uint64_t each = layout_value(l, L_CHOICE_BYTES), n;

	text[0] = '\0';
	if (debug == NULL)
		return "unknown";
	n = layout_get(l, debug, L_DEBUG_NCHOICES);
	for (uint64_t i = 0;
	     i < n && (i + 1) * each <= l->known[L_DEBUG_CHOICE].bytes; i++)
		add_choice(l,
		    debug + layout_value(l, L_DEBUG_CHOICE) + i * each, text,
		    sizeof(text));
	if (layout_get(l, debug, L_DEBUG_NOABORT) != 0)
		add_word(text, sizeof(text), "noabort");
	if (layout_get(l, debug, L_DEBUG_CHECKNULL) != 0)
		add_word(text, sizeof(text), "checknull");
	if (layout_get(l, debug, L_DEBUG_MTBF) != 0)
		add_word(text, sizeof(text),
		    xprint("mtbf=%lu", layout_get(l, debug, L_DEBUG_MTBF)));
	return text[0] == '\0' ? "off" : text;
}

/* Prints a line for each flavour that the program freed objects with. */
static void
print_domains(struct model *model)
{
	for (size_t i = 0; i < model->ndomains; i++) {
		const struct domain *d = &model->domains[i];

		print_setting("RCU:",
		    xprint("%s: %s (%s) wait%s, %s, %lu released%s",
			model_flavour(model, d), counted(d->nwaiting, "object"),
			size_text(d->bytes), d->nwaiting == 1 ? "s" : "",
			counted(d->ngraces, "grace period"), d->nreleased,
			d->broken     ? ", no grace period can end"
			: d->in_grace ? ", in a grace period"
				      : ""));
	}
}

/* Returns the number of caches with a limit, and of those at their limit. */
static size_t
count_limits(const struct model *model, size_t *nreached)
{
	size_t n = 0;

	*nreached = 0;
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];

		if (!c->counts || c->limit == UINT64_MAX)
			continue;
		n++;
		*nreached += c->nheld >= c->limit;
	}
	return n;
}

/* Prints a limit of the heap's memory, and how close the heap is to it. */
static void
print_memory_limit(
    const char *what, uint64_t used, uint64_t limit, uint64_t nreached)
{
	if (limit != 0)
		print_setting(what,
		    xprint("%s, %.0f%% used, reached %s", size_text(limit),
			100.0 * (double)used / (double)limit,
			counted(nreached, "time")));
}

static void
json_limits(const struct model *model, const struct usage *u)
{
	size_t nreached, n = count_limits(model, &nreached);

	json_open("limits", '{');
	json_number("caches", n);
	json_number("reached", nreached);
	json_close();
	json_number("limited_bytes", u->s.limited_bytes);
	json_number("soft_limit", u->s.soft_limit_bytes);
	json_number("soft_limit_hits", u->s.nsoft_limit);
	json_number("hard_limit", u->s.hard_limit_bytes);
	json_number("hard_limit_hits", u->s.nhard_limit);
}

static void
json_status(struct model *model, const struct target_options *options,
    const struct usage *usage)
{
	json_open(NULL, '{');
	json_text("status", "ready and active");
	json_text("library", model->layout->object);
	json_text("version", model->layout->version);
	json_text("mode", mode_of(model));
	json_text("debug", debug_text(model));
	json_text("options", options_changed(options));
	json_limits(model, usage);
	json_number("concurrency", cpu_layer_value(model, L_LAYER_NWANTED));
	json_address("heap", model->base);
	json_number("heap_addresses", model->end - model->base);
	usage_json(usage);
	if (usage->has_pages)
		not_ours_text(model->target, usage);
	json_number("threads", model->target->nthreads);
	json_number("sample_bytes", model->sampling_mean);
	json_bool("probes", layout_value(model->layout, L_PROBES_BUILT) != 0);
	json_number("samples", usage->nsamples);
	json_number("wrong_sizes", usage->s.nwrong_sizes);
	stat_json_domains(model, /* groups */ false);
	messages_json(model, "messages");
	json_close();
}

static void
print_sampling(struct model *model, const struct usage *usage)
{
	uint64_t mean = model->sampling_mean;

	print_setting("Sampling:",
	    xprint("%s%s%s",
		mean == 0 ? "off" : xprint("one in %s bytes", size_text(mean)),
		mean == 0 && usage->nsamples == 0
		    ? ""
		    : xprint("; %s %s in use",
			  counted(usage->nsamples, "sample"),
			  usage->nsamples == 1 ? "is" : "are"),
		model->nhalved == 0
		    ? ""
		    : xprint("; doubled %s", counted(model->nhalved, "time"))));
}

static void
print_process(struct model *model)
{
	struct target *target = model->target;
	const char *name = target->live ? program_name(target) : NULL;

	print_setting(target->live ? "Process:" : "Core:",
	    xprint("%s%s%s%s, %s", name != NULL ? name : "",
		name != NULL ? " (" : "", target->name, name != NULL ? ")" : "",
		counted(target->nthreads, "thread")));
	print_setting(
	    "Library:", xprint("%s %s, %s", base_name(model->layout->object),
			    model->layout->version, mode_of(model)));
}

/* Prints how the library runs; limits only if there are any. */
static void
print_settings(struct model *model, const struct target_options *options,
    const struct usage *usage)
{
	size_t nreached, nlimits = count_limits(model, &nreached);

	print_process(model);
	print_setting("Debugging:", debug_text(model));
	print_setting("Options:", options_changed(options));
	print_sampling(model, usage);
	print_memory_limit("Soft limit:", usage->s.heap_bytes,
	    usage->s.soft_limit_bytes, usage->s.nsoft_limit);
	print_memory_limit("Hard limit:", usage->s.limited_bytes,
	    usage->s.hard_limit_bytes, usage->s.nhard_limit);
	if (nlimits != 0)
		print_setting("Cache limits:",
		    xprint("%s, %zu at the limit; see umem stat",
			counted(nlimits, "cache"), nreached));
	if (usage->s.nwrong_sizes != 0)
		print_setting("Wrong sizes:",
		    xprint("%s; UMEM_DEBUG reports them",
			counted(usage->s.nwrong_sizes, "sized free")));
	print_domains(model);
	if (usage->has_pages)
		print_setting("Not ours:", not_ours_text(model->target, usage));
}

/* Prints the layers, and the largest caches and call sites, as umem top. */
static void
print_memory(struct model *model, const struct usage *usage)
{
	struct top top = {.watch = {.target = model->target,
			      .layout = model->layout,
			      .model = *model,
			      .mean = model->sampling_mean},
	    .now = *usage};
	char **lines;
	size_t n;

	top_sites_count(&top.watch.sites, &top.watch.model);
	lines = top_lines(&top, MEMORY_ROWS, TEXT_WIDTH, &n);
	for (size_t i = 0; i < n; i++)
		puts(lines[i]);
}

/* Prints the command that tells more about this process or core. */
static void
print_next(struct model *model)
{
	const char *name = model->target->name, *command, *reason;
	bool live = model->target->live;

	if (strcmp(debug_text(model), "off") != 0 || !model_can_sample(model)) {
		command = xprint("umem verify %s", name);
		reason = "corrupt buffers";
	} else if (model->sampling_mean != 0 || model->nsamples != 0) {
		command = xprint("umem leaks %s", name);
		reason = "blocks that the program has lost, by call site";
	} else if (live) {
		command = xprint("umem ctl %s sample=default", name);
		reason = "record callers from now on";
	} else {
		command = xprint("umem crash %s", name);
		reason = "why the program ended";
	}
	printf("\nNext: %s  (%s)\n", command, reason);
}

int
command_status(int argc, char **argv)
{
	struct model *model = snapshot_open(target_argument(argc, argv), 0);
	struct target_options options =
	    options_read(model->target, model->layout);
	struct usage usage;

	usage_read(model, &usage);
	if (json_wanted) {
		json_status(model, &options, &usage);
		return EXIT_OK;
	}
	print_settings(model, &options, &usage);
	putchar('\n');
	print_memory(model, &usage);
	messages_print(model, MESSAGE_ROWS);
	print_next(model);
	return EXIT_OK;
}
