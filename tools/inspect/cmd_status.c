/*
 * cmd_status.c - umem status: how the library of the target runs
 *
 * The lines are those of ::umem_status, and the words those of UMEM_DEBUG and
 * UMEM_OPTIONS.
 */
#include <string.h>

#include "tools/inspect/account.h"
#include "tools/inspect/messages.h"
#include "tools/inspect/options.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/stat.h"
#include "tools/inspect/usage.h"
#include "umem/umem.h"

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

/* Returns the size of a log as "64k", or "off". */
static const char *
log_size(struct model *model, enum layout_entry which)
{
	const struct layout *l = model->layout;
	const char *log = target_at(model->target,
	    layout_value(l, L_LOGS) +
		layout_value(l, which) * layout_value(l, L_LOG_BYTES),
	    layout_value(l, L_LOG_BYTES));

	if (log == NULL || layout_get(l, log, L_LOG_BASE) == 0)
		return NULL;
	return size_text(layout_get(l, log, L_LOG_SIZE));
}

static void
print_logs(struct model *model)
{
	static const struct {
		const char *name;
		enum layout_entry which;
	} logs[] = {{"transaction", L_LOG_TRANSACTION},
	    {"content", L_LOG_CONTENTS}, {"fail", L_LOG_FAIL},
	    {"slab", L_LOG_SLAB}};
	bool any = false;

	printf("Logs:          ");
	for (size_t i = 0; i < array_size(logs); i++) {
		const char *size = log_size(model, logs[i].which);

		if (size != NULL)
			printf(" %s=%s", logs[i].name, size);
		any |= size != NULL;
	}
	puts(any ? "" : " (inactive)");
}

/* The flags of a part of UMEM_DEBUG, and their words. */
static const struct {
	enum layout_entry flag;
	const char *word;
} debug_words[] = {{L_UMF_AUDIT, "audit"}, {L_UMF_CONTENTS, "contents"},
    {L_UMF_DEADBEEF, "guards"}, {L_UMF_CHECKSIGNAL, "nosignal"},
    {L_UMF_FIREWALL, "firewall"}, {L_UMF_LITE, "lite"},
    {L_UMF_RANDOMIZE, "random"}, {L_UMF_RCU_WRITES, "rcu_writes"}};

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

/* Returns the words of UMEM_OPTIONS that turn on checks, or "none". */
static const char *
checks_text(struct model *model)
{
	const struct layout *l = model->layout;
	const char *debug = layout_at(l, model->target, L_DEBUG);
	bool hardened =
	    debug != NULL && layout_get(l, debug, L_DEBUG_HARDENED) != 0;
	bool checked =
	    (layout_variable(l, model->target, L_CACHE_CHECKED) & 0xff) != 0;

	if (hardened)
		return checked ? "hardened,checked" : "hardened";
	return checked ? "checked" : "none";
}

/* Prints a line for each flavour that the program freed objects with. */
static void
print_domains(struct model *model)
{
	for (size_t i = 0; i < model->ndomains; i++) {
		const struct domain *d = &model->domains[i];

		printf("RCU:            %s: %lu objects (%s) wait, %lu grace "
		       "periods, %lu released%s\n",
		    model_flavour(model, d), d->nwaiting, size_text(d->bytes),
		    d->ngraces, d->nreleased,
		    d->broken     ? ", no grace period can end"
		    : d->in_grace ? ", in a grace period"
				  : "");
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

static void
print_limits(const struct model *model)
{
	size_t nreached, n = count_limits(model, &nreached);

	if (n == 0)
		puts("Limits:         none");
	else
		printf("Limits:         %zu caches, %zu of them at the limit; "
		       "see umem stat\n",
		    n, nreached);
}

/* Prints a limit of the heap's memory, and how often it was reached. */
static void
print_memory_limit(struct model *model, const char *what,
    enum layout_entry limit, enum layout_entry n)
{
	const struct layout *l = model->layout;
	const char *at = layout_at(l, model->target, L_HEAP_LIMITS);
	uint64_t bytes = at == NULL ? 0 : layout_get(l, at, limit);

	if (bytes == 0)
		printf("%-16snone\n", what);
	else
		printf("%-16s%s, reached %lu times\n", what, size_text(bytes),
		    layout_get(l, at, n));
}

static void
json_limits(const struct model *model)
{
	size_t nreached, n = count_limits(model, &nreached);

	json_open("limits", '{');
	json_number("caches", n);
	json_number("reached", nreached);
	json_close();
}

static void
json_memory_limits(struct model *model)
{
	const struct layout *l = model->layout;
	const char *at = layout_at(l, model->target, L_HEAP_LIMITS);

	if (at == NULL)
		return;
	json_number("soft_limit", layout_get(l, at, L_LIMITS_SOFT));
	json_number("soft_limit_hits", layout_get(l, at, L_LIMITS_NSOFT));
	json_number("hard_limit", layout_get(l, at, L_LIMITS_HARD));
	json_number("hard_limit_hits", layout_get(l, at, L_LIMITS_NHARD));
}

int
command_status(int argc, char **argv)
{
	struct model *model = snapshot_open(target_argument(argc, argv), 0);
	const struct layout *l = model->layout;
	struct memory_account account = account_read(model);
	struct target_options options = options_read(model->target, l);
	struct usage usage;
	uint64_t n, bytes;

	usage_read(model, &usage);
	if (json_wanted) {
		json_open(NULL, '{');
		json_text("status", "ready and active");
		json_text("library", l->object);
		json_text("version", l->version);
		json_text("mode", mode_of(model));
		json_text("checks", checks_text(model));
		json_text("debug", debug_text(model));
		json_text("options", options_changed(&options));
		json_limits(model);
		json_memory_limits(model);
		json_number(
		    "concurrency", cpu_layer_value(model, L_LAYER_NWANTED));
		json_number("heap_bytes", model->end - model->base);
		json_address("heap", model->base);
		usage_json(&usage);
		account_json(&account);
		json_number("threads", model->target->nthreads);
		json_number("sample_bytes", model_sampling_interval(model));
		stat_json_larges(model, "samples", /* samples */ true);
		stat_json_domains(model, /* layers */ false);
		json_close();
		return EXIT_OK;
	}
	printf("Status:         ready and active\n");
	printf(
	    "Concurrency:    %lu\n", cpu_layer_value(model, L_LAYER_NWANTED));
	printf("Library:        %s, version %s\n", l->object, l->version);
	printf("Mode:           %s\n", mode_of(model));
	printf("Checks:         %s\n", checks_text(model));
	printf("Debugging:      %s\n", debug_text(model));
	printf("Options:        %s\n", options_changed(&options));
	print_limits(model);
	print_memory_limit(model, "Soft limit:", L_LIMITS_SOFT, L_LIMITS_NSOFT);
	print_memory_limit(model, "Hard limit:", L_LIMITS_HARD, L_LIMITS_NHARD);
	printf("Heap:           %s at %lx\n",
	    size_text(model->end - model->base), model->base);
	printf("Memory:         %s\n", usage_text(&usage, SIZE_MAX));
	account_print(&account);
	printf("Threads:        %zu\n", model->target->nthreads);
	if (model_sampling_interval(model) == 0)
		puts("Sampling:       off");
	else
		printf("Sampling:       one in %s bytes\n",
		    size_text(model_sampling_interval(model)));
	bytes = stat_large_bytes(model, /* samples */ true, &n);
	printf("Samples:        %lu in %s\n", n, size_text(bytes));
	print_domains(model);
	print_logs(model);
	puts("Message buffer:");
	messages_print(model, SIZE_MAX);
	return EXIT_OK;
}
