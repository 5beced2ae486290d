/*
 * cmd_audit.c - umem log, users, bufctl, allocdby, freedby: audit records
 *
 * For targets that run with UMEM_DEBUG=audit; log also needs
 * UMEM_LOGGING=transaction (or fail, slab).  Columns are those of ::umalog,
 * ::umem_log, ::umausers, ::bufctl, ::allocdby and ::freedby.
 */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "tools/inspect/snapshot.h"
#include "tools/inspect/symbols.h"

/* Records that were collected for sorting. */
struct records {
	struct audit *audit;
	size_t n, capacity;
};

static void
collect_record(struct model *model, const struct audit *audit, void *arg)
{
	struct records *all = arg;

	(void)model;
	ARRAY_GROW(all->audit, all->n, all->capacity);
	all->audit[all->n++] = *audit;
}

static int
newest_first(const void *a, const void *b)
{
	const struct audit *x = a, *y = b;

	if (x->timestamp != y->timestamp)
		return x->timestamp > y->timestamp ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void
sort_records(struct records *all, int (*order)(const void *, const void *))
{
	if (all->n != 0)
		qsort(all->audit, all->n, sizeof(*all->audit), order);
}

static bool
is_allocated(const struct model *model, const struct audit *audit)
{
	return audit->state == layout_value(model->layout, L_BUFCTL_ALLOCATED);
}

static _Noreturn void
fail_no_audit(void)
{
	fail_with(EXIT_ERROR, "UMF_AUDIT is not enabled for any caches "
			      "(UMEM_DEBUG=audit when the program starts)");
}

static void
print_event(struct model *model, const struct audit *audit, uint64_t newest)
{
	uint64_t age = newest - audit->timestamp;

	assert(newest >= audit->timestamp);
	if (json_wanted) {
		json_open(NULL, '{');
		audit_json(model, audit);
		json_close();
		return;
	}
	printf("\nT-%lu.%09lu  addr=%lx  %s\n", age / 1000000000,
	    age % 1000000000, audit->addr, audit_cache_name(model, audit));
	audit_print_stack(model, audit, 9);
}

/* Only records in the newest chunk of a CPU have a known CPU, as in mdb. */
static void
print_raw(struct model *model, enum layout_entry log, const struct audit *audit)
{
	int cpu = audit_log_cpu(model, log, audit);

	printf("%3s %016lx %016lx %16lx %016lx\n",
	    cpu < 0 ? "" : xprint("%d", cpu), audit->at, audit->addr,
	    audit->timestamp, audit->thread);
}

int
command_log(int argc, char **argv)
{
	enum layout_entry which = L_LOG_TRANSACTION;
	struct records all = {0};
	struct model *model;
	bool raw = false;
	int letter;

	while ((letter = next_option(argc, argv, "l:r")) != -1)
		if (letter == 'r')
			raw = true;
		else if (strcmp(optarg, "fail") == 0)
			which = L_LOG_FAIL;
		else if (strcmp(optarg, "slab") == 0)
			which = L_LOG_SLAB;
		else if (strcmp(optarg, "transaction") != 0)
			fail_usage(
			    argv[0], "-l takes transaction, fail or slab");
	model = snapshot_open(only_argument(argc, argv), MODEL_LOGS);
	audit_each_logged(model, which, collect_record, &all);
	sort_records(&all, newest_first);
	if (json_wanted)
		json_open(NULL, '[');
	else if (raw)
		printf("%3s %-16s %-16s %16s %-16s\n", "CPU", "ADDR", "BUFADDR",
		    "TIMESTAMP", "THREAD");
	else if (all.n == 0)
		printf("nothing is logged (UMEM_LOGGING=%s when the "
		       "program starts)\n",
		    which == L_LOG_FAIL   ? "fail"
		    : which == L_LOG_SLAB ? "slab"
					  : "transaction");
	for (size_t i = 0; i < all.n; i++)
		if (raw && !json_wanted)
			print_raw(model, which, &all.audit[i]);
		else
			print_event(
			    model, &all.audit[i], all.audit[0].timestamp);
	if (json_wanted)
		json_close();
	return EXIT_OK;
}

/* The selection of bufctl; 0 and NULL: any. */
struct wanted {
	uint64_t addr;
	uint64_t thread;
	uint64_t earliest, latest;
	const char *caller;
	bool verbose;
	bool history;
};

static bool
has_frame(struct model *model, const struct audit *audit, const char *name)
{
	for (unsigned i = 0; i < audit->depth; i++)
		if (symbol_matches(model->target, audit->stack[i], name))
			return true;
	return false;
}

static bool
is_wanted(struct model *model, const struct audit *a, const struct wanted *w)
{
	return (w->addr == 0 || a->addr == w->addr) &&
	       (w->thread == 0 || a->thread == w->thread) &&
	       a->timestamp >= w->earliest && a->timestamp <= w->latest &&
	       (w->caller == NULL || has_frame(model, a, w->caller));
}

static void
print_bufctl(
    struct model *model, const struct audit *audit, const struct wanted *w)
{
	if (!is_wanted(model, audit, w))
		return;
	if (json_wanted) {
		json_open(NULL, '{');
		audit_json(model, audit);
		json_text(
		    "state", is_allocated(model, audit) ? "allocated" : "free");
		json_close();
	} else if (w->verbose) {
		audit_print(model, audit);
	} else {
		printf("%016lx %016lx %-12lx %5lu %s\n", audit->at, audit->addr,
		    audit->timestamp, audit->thread,
		    audit_caller(model, audit));
	}
}

/* Prints the buffer's earlier transactions, newest first. */
static void
print_history(struct model *model, const struct audit *of,
    const struct records *log, const struct wanted *w)
{
	for (size_t i = 0; i < log->n; i++)
		if (log->audit[i].addr == of->addr &&
		    log->audit[i].cache == of->cache &&
		    log->audit[i].timestamp < of->timestamp)
			print_bufctl(model, &log->audit[i], w);
}

/* Reads a bufctl, given by its address or by the address of its buffer. */
static bool
bufctl_of(struct model *model, const char *text, struct audit *audit)
{
	struct place place;
	uint64_t at;

	at = address_argument(text, "bufctl: ", "address");
	if (model_find(model, at, &place) && !place.between)
		return place.slab != NULL
			   ? audit_of_chunk(
				 model, place.slab, place.chunk, audit)
			   : audit_of_large(model, place.large, audit);
	return audit_of_freed(model, at, audit) || audit_read(model, at, audit);
}

static uint64_t
time_option(const char *text)
{
	return address_argument(text, "", "time in hexadecimal");
}

static uint64_t
thread_option(const char *text)
{
	return size_argument(text, "", "number of a thread");
}

static void
wanted_options(int argc, char **argv, struct wanted *w)
{
	int letter;

	while ((letter = next_option(argc, argv, "a:c:e:hl:t:v")) != -1)
		switch (letter) {
		case 'a':
			w->addr = time_option(optarg);
			break;
		case 'c':
			w->caller = optarg;
			break;
		case 'e':
			w->earliest = time_option(optarg);
			break;
		case 'h':
			w->history = true;
			break;
		case 'l':
			w->latest = time_option(optarg);
			break;
		case 't':
			w->thread = thread_option(optarg);
			break;
		case 'v':
			w->verbose = true;
			break;
		}
}

int
command_bufctl(int argc, char **argv)
{
	struct wanted w = {.latest = UINT64_MAX};
	struct records all = {0}, log = {0};
	struct model *model;

	wanted_options(argc, argv, &w);
	expect_arguments(argc, argv, 1, INT_MAX);
	model = snapshot_open(argv[optind], w.history ? MODEL_LOGS : 0);
	if (!audit_is_on(model))
		fail_no_audit();
	for (int i = optind + 1; i < argc; i++) {
		struct audit audit;

		if (!bufctl_of(model, argv[i], &audit))
			fail_with(
			    EXIT_ERROR, "bufctl: %s has no bufctl", argv[i]);
		collect_record(model, &audit, &all);
	}
	if (argc == optind + 1)
		audit_each(model, collect_record, &all);
	if (w.history)
		audit_each_logged(
		    model, L_LOG_TRANSACTION, collect_record, &log);
	sort_records(&log, newest_first);
	if (json_wanted)
		json_open(NULL, '[');
	else if (w.verbose)
		audit_print_head();
	else
		printf("%-16s %-16s %-12s %5s %s\n", "ADDR", "BUFADDR",
		    "TIMESTAMP", "THRD", "CALLER");
	for (size_t i = 0; i < all.n; i++) {
		print_bufctl(model, &all.audit[i], &w);
		if (w.history)
			print_history(model, &all.audit[i], &log, &w);
	}
	if (json_wanted)
		json_close();
	return EXIT_OK;
}

static int
by_thread(int argc, char **argv, bool allocated)
{
	struct records all = {0};
	struct model *model;
	uint64_t thread;

	no_option(argc, argv);
	expect_arguments(argc, argv, 2, 2);
	thread = thread_option(argv[optind + 1]);
	model = snapshot_open(argv[optind], 0);
	if (!audit_is_on(model))
		fail_no_audit();
	audit_each(model, collect_record, &all);
	sort_records(&all, newest_first);
	if (json_wanted)
		json_open(NULL, '[');
	else
		printf("%-16s %12s %s\n", "BUFCTL", "TIMESTAMP", "CALLER");
	for (size_t i = 0; i < all.n; i++) {
		const struct audit *a = &all.audit[i];

		if (a->thread != thread || a->depth == 0 ||
		    is_allocated(model, a) != allocated)
			continue;
		if (json_wanted) {
			json_open(NULL, '{');
			audit_json(model, a);
			json_close();
		} else {
			printf("%016lx %12lx %s\n", a->at, a->timestamp,
			    audit_caller(model, a));
		}
	}
	if (json_wanted)
		json_close();
	return EXIT_OK;
}

int
command_allocdby(int argc, char **argv)
{
	return by_thread(argc, argv, true);
}

int
command_freedby(int argc, char **argv)
{
	return by_thread(argc, argv, false);
}
