/*
 * log.c - umem log: transactions of buffers, the newest first
 *
 * Each debugged buffer has a record of its last transaction (UMEM_DEBUG=audit).
 * The logs of UMEM_LOGGING have earlier ones, failed allocations, and slabs.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/snapshot.h"
#include "tools/inspect/symbols/symbols.h"

/* A source of records. */
static const struct source {
	const char *name; /* for -l; NULL: the records of the buffers */
	enum layout_entry log;
	const char *state; /* of its records; NULL: they have their own */
} sources[] = {{NULL, 0, NULL}, {"transaction", L_LOG_TRANSACTION, NULL},
    {"fail", L_LOG_FAIL, "failed"}, {"slab", L_LOG_SLAB, "slab"}};

/* Records that are wanted, and how they are printed. */
struct selection {
	const struct source *source;
	uint64_t address;   /* of a byte of the buffer; 0: of any */
	uint64_t thread;    /* 0: any */
	const char *caller; /* a part of the name of a function; NULL: any */
	const char *state;  /* NULL: any */
	bool stacks;
	struct audit *audit;
	size_t n, capacity;
};

static const char *
record_state(const struct model *model, const struct selection *s,
    const struct audit *audit)
{
	if (s->source->state != NULL)
		return s->source->state;
	return audit->state == layout_value(model->layout, L_BUFCTL_ALLOCATED)
		   ? "allocated"
		   : "free";
}

static bool
record_is_wanted(
    struct model *model, const struct selection *s, const struct audit *a)
{
	return (s->address == 0 || s->address == a->addr ||
		   s->address - a->addr < a->size) &&
	       (s->thread == 0 || s->thread == a->thread) &&
	       (s->state == NULL ||
		   strcmp(s->state, record_state(model, s, a)) == 0) &&
	       (s->caller == NULL ||
		   symbols_match(model->target, a->depth, a->stack, s->caller));
}

static bool
collect(struct model *model, const struct audit *audit, void *arg)
{
	struct selection *s = arg;

	if (record_is_wanted(model, s, audit)) {
		ARRAY_ADD(s->audit, s->n, s->capacity, *audit);
	}
	return false;
}

static int
newest_first(const void *a, const void *b)
{
	const struct audit *x = a, *y = b;

	if (x->timestamp != y->timestamp)
		return x->timestamp > y->timestamp ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Returns the transaction that led to a state. */
static const char *
verb_of(const char *state)
{
	return strcmp(state, "free") == 0   ? "freed"
	       : strcmp(state, "slab") == 0 ? "slab created"
					    : state;
}

static void
print_record(
    struct model *model, const struct selection *s, const struct audit *a)
{
	uint64_t now = audit_now(model);
	double age =
	    now > a->timestamp ? (double)(now - a->timestamp) / 1e9 : 0;
	const char *state = record_state(model, s, a);
	char *where;

	json_open(NULL, '{');
	audit_json(model, a);
	json_text("state", state);
	json_close();
	if (json_wanted)
		return;
	where =
	    xprint("%s %s", audit_cache_name(model, a), audit_caller(model, a));
	print_call_site((size_t)printf("%11.6f %-9s %12lx %7lu %7lu ", age,
			    state, a->addr, a->size, a->thread),
	    where, "");
	free(where);
	if (s->stacks && s->source->name == NULL)
		audit_say_transactions(model, a);
	else if (s->stacks && a->depth != 0)
		audit_say_transaction(model, verb_of(state), a);
}

static void
print_records(struct model *model, const struct selection *s)
{
	json_open(NULL, '[');
	if (s->n == 0 && s->source->name != NULL)
		plain_print("no such record is logged (UMEM_LOGGING=%s when "
			    "the program starts)\n",
		    s->source->name);
	else if (s->n == 0)
		plain_print("no such record\n");
	else
		plain_print("%11s %-9s %12s %7s %7s %s\n", "SECONDS AGO",
		    "STATE", "BUFFER", "SIZE", "THREAD", "CACHE AND CALLER");
	for (size_t i = 0; i < s->n; i++)
		print_record(model, s, &s->audit[i]);
	json_close();
}

static const struct source *
source_named(const char *command, const char *name)
{
	for (size_t i = 1; name != NULL && i < array_size(sources); i++)
		if (strcmp(sources[i].name, name) == 0)
			return &sources[i];
	if (name != NULL)
		fail_usage(command, "-l takes transaction, fail or slab");
	return &sources[0];
}

int
command_log(int argc, char **argv)
{
	struct selection s = {0};
	const char *source = NULL;
	const struct option_word words[] = {{"a", .address = &s.address},
	    {"c", .text = &s.caller}, {"l", .text = &source},
	    {"s", .text = &s.state},
	    {"t", .size = &s.thread, .noun = "number of a thread"},
	    {"v", .flag = &s.stacks}};
	char **arguments =
	    options_take(argc, argv, words, array_size(words), 1, 1);
	struct model *model;

	s.source = source_named(argv[0], source);
	if (s.state != NULL && strcmp(s.state, "allocated") != 0 &&
	    strcmp(s.state, "free") != 0)
		fail_usage(argv[0], "-s takes allocated or free");
	model = snapshot_open(
	    arguments[0], s.source->name != NULL ? MODEL_LOGS : 0);
	if (s.source->name != NULL)
		audit_each_logged(model, s.source->log, collect, &s);
	else if (audit_is_on(model))
		audit_each(model, collect, &s);
	else
		fail_with(EXIT_ERROR,
		    "log: no transaction is recorded (UMEM_DEBUG=audit when "
		    "the program starts)");
	ARRAY_SORT(s.audit, s.n, newest_first);
	print_records(model, &s);
	return EXIT_OK;
}
