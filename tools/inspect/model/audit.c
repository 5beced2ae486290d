/*
 * audit.c - audit records: the last transaction of each buffer
 *
 * A debugged cache has a record for each of its buffers, in an array to which
 * the slab points.  A large block has a record to which the tag at the end of
 * the block points.  A record of a hardened cache has the size and the state
 * only; others have the address and, with audit, the thread and the stack of
 * the last transaction.  Records of freed buffers with unmapped memory are in
 * two rings (umem/debug/freed.c).  Logs are sequences of such records,
 * in chunks, as in libumem/log.c: a chunk that is not full ends with zeros.
 */
#include <assert.h>
#include <string.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/symbols/symbols.h"

/* Above the size of any log. */
#define LOG_MAX ((uint64_t)1 << 31)

/* Above the number of records in a ring of freed buffers. */
#define FREED_MAX ((uint64_t)1 << 20)

static unsigned
nframes(struct model *model)
{
	const char *debug = layout_at(model->layout, model->target, L_DEBUG);

	return debug ? (unsigned)model_get(model, debug, L_DEBUG_NFRAMES) : 0;
}

static void
read_stack(struct model *model, const char *record, struct audit *audit)
{
	const struct layout *l = model->layout;
	uint64_t stack_at = audit->at + layout_value(l, L_AUDIT_STACK);

	audit->timestamp = model_get(model, record, L_AUDIT_TIMESTAMP);
	audit->thread = model_get(model, record, L_AUDIT_THREAD);
	audit->stack = target_array(model->target, stack_at, audit->depth);
	if (audit->stack == NULL)
		audit->depth = 0;
}

/* Reads the allocation that the record of a freed buffer has, too. */
static void
read_allocation(struct model *model, const char *record, struct audit *audit)
{
	uint64_t depth = model_get(model, record, L_AUDIT_ALLOCATED_DEPTH);
	unsigned n = nframes(model);

	if (model_get(model, record, L_AUDIT_ALLOCATED_TIME) == 0 || depth > n)
		return;
	audit->allocated_stack = target_array(model->target,
	    audit->at + layout_value(model->layout, L_AUDIT_STACK) +
		n * sizeof(uint64_t),
	    depth);
	if (audit->allocated_stack == NULL)
		return;
	audit->allocated_depth = (unsigned)depth;
	audit->allocated_time =
	    model_get(model, record, L_AUDIT_ALLOCATED_TIME);
	audit->allocated_thread =
	    model_get(model, record, L_AUDIT_ALLOCATED_THREAD);
}

static bool
audit_read(struct model *model, uint64_t at, bool is_whole, struct audit *audit)
{
	const struct layout *l = model->layout;
	const char *r = target_at(model->target, at,
	    layout_value(l, is_whole ? L_AUDIT_BYTES : L_BUFCTL_BYTES));

	memset(audit, 0, sizeof(*audit));
	if (r == NULL)
		return false;
	audit->at = at;
	audit->size = model_get(model, r, L_BUFCTL_SIZE);
	audit->state = (unsigned)model_get(model, r, L_BUFCTL_STATE);
	audit->kind = (unsigned)model_get(model, r, L_BUFCTL_API);
	if (!is_whole)
		return true;
	audit->addr = model_get(model, r, L_AUDIT_ADDR);
	audit->slab = model_get(model, r, L_AUDIT_SLAB);
	audit->cache = model_get(model, r, L_AUDIT_CACHE);
	audit->size = model_get(model, r, L_AUDIT_SIZE);
	audit->depth = (unsigned)model_get(model, r, L_AUDIT_DEPTH);
	if (audit->depth > nframes(model))
		return false;
	if (audit->depth != 0)
		read_stack(model, r, audit);
	return true;
}

/*
 * Reads the record of a buffer.  A record in a log is shorter: it has no
 * allocation.
 */
static bool
read_bufctl(
    struct model *model, uint64_t at, bool is_whole, struct audit *audit)
{
	const struct layout *l = model->layout;

	if (!audit_read(model, at, is_whole, audit))
		return false;
	if (audit->depth != 0)
		read_allocation(model,
		    target_at(
			model->target, at, layout_value(l, L_AUDIT_BYTES)),
		    audit);
	return true;
}

static bool
cache_is_audited(const struct model *model, const struct cache *c)
{
	return (c->debug & layout_value(model->layout, L_UMF_AUDIT)) != 0;
}

bool
audit_of_chunk(struct model *model, const struct slab *slab, unsigned i,
    struct audit *audit)
{
	const struct cache *c = &model->caches[slab->cache];

	assert(i < slab->nchunks && slab->cache < model->ncaches);
	if (slab->records == 0 || c->record_bytes == 0 ||
	    !read_bufctl(model, slab->records + i * c->record_bytes,
		c->record_bytes >= layout_value(model->layout, L_AUDIT_BYTES),
		audit))
		return false;
	audit->cache = c->at;
	audit->slab = slab->at;
	audit->addr = slab_chunk_at(model, slab, i);
	return true;
}

struct audit
audit_of_sample(const struct sample *s)
{
	struct audit audit = {.at = s->record,
	    .addr = s->at,
	    .cache = s->cache,
	    .size = s->size,
	    .depth = s->depth,
	    .timestamp = s->time,
	    .thread = s->thread,
	    .stack = s->stack};

	if (s->live)
		return audit;
	audit.allocated_time = s->time;
	audit.allocated_thread = s->thread;
	audit.allocated_depth = s->depth;
	audit.allocated_stack = s->stack;
	audit.timestamp = s->freed_time;
	audit.thread = s->freed_thread;
	audit.depth = s->freed_depth;
	audit.stack = s->freed_stack;
	return audit;
}

/* Returns the allocation of a freed buffer in the form of a record. */
static struct audit
audit_of_allocation(const struct audit *freed)
{
	struct audit allocated = *freed;

	assert(freed->allocated_time != 0);
	allocated.timestamp = freed->allocated_time;
	allocated.thread = freed->allocated_thread;
	allocated.depth = freed->allocated_depth;
	allocated.stack = freed->allocated_stack;
	return allocated;
}

/*
 * Reads the record of the block at at through a tag that ends at end, if there
 * is such a tag.  A process that runs may have freed the block meanwhile, and
 * have another one there: the tag then leads to none of the records that were
 * copied, or to that of an old block elsewhere.
 */
static bool
audit_by_tag(
    struct model *model, uint64_t at, uint64_t end, struct audit *audit)
{
	const struct layout *l = model->layout;
	uint64_t tag = end - layout_value(l, L_TAG_BYTES), bufctl, state;

	return layout_peek(l, model->target, tag, L_TAG_BUFCTL, &bufctl) &&
	       layout_peek(l, model->target, tag, L_TAG_BXSTAT, &state) &&
	       state == (bufctl ^ layout_value(l, L_BUFTAG_ALLOCATED)) &&
	       read_bufctl(model, bufctl, true, audit) &&
	       audit->addr - at < end - at;
}

bool
audit_of_large(
    struct model *model, const struct large *large, struct audit *audit)
{
	const struct layout *l = model->layout;
	const char *cache = layout_at(l, model->target, L_DEBUG_LARGE_CACHE);
	uint64_t end = large->at + large->bytes;

	if (large->sample != NULL) {
		*audit = audit_of_sample(large->sample);
		return true;
	}
	if (cache == NULL || model_get(model, cache, L_CACHE_DEBUG) == 0)
		return false;
	/* The block may be followed by a guard page. */
	return audit_by_tag(model, large->at, end, audit) ||
	       audit_by_tag(
		   model, large->at, end - model->target->page_bytes, audit);
}

/*
 * Calls f for the records of a ring, the newest first, until f returns true.
 * Returns whether f returned true.
 */
static bool
each_freed(
    struct model *model, enum layout_entry which, audit_func *f, void *arg)
{
	const struct layout *l = model->layout;
	const char *ring = target_at(model->target, layout_value(l, which),
	    layout_value(l, L_FREED_RING_BYTES));
	uint64_t size, nput;
	const uint64_t *record;
	struct audit audit;

	if (ring == NULL)
		return false;
	size = model_get(model, ring, L_FREED_RING_SIZE);
	nput = model_get(model, ring, L_FREED_RING_NPUT);
	if (size == 0 || size > FREED_MAX)
		return false;
	record = target_array(
	    model->target, model_get(model, ring, L_FREED_RING_BUFCTL), size);
	for (uint64_t i = 1; record != NULL && i <= size && i <= nput; i++)
		if (read_bufctl(
			model, record[(nput - i) % size], true, &audit) &&
		    audit.addr != 0 && f(model, &audit, arg))
			return true;
	return false;
}

/* A search for the buffer at this address; its record is stored in found. */
struct freed_search {
	uint64_t at;
	struct audit *found;
};

static bool
is_sought(struct model *model, const struct audit *audit, void *arg)
{
	struct freed_search *search = arg;
	const struct cache *c = model_cache_at(model, audit->cache);
	uint64_t bytes = audit->size;

	/* The program may use a block up to the end of its size class. */
	if (c != NULL && c->bufsize > bytes)
		bytes = c->bufsize;
	if (search->at != audit->addr && search->at - audit->addr >= bytes)
		return false;
	*search->found = *audit;
	return true;
}

bool
audit_of_freed(struct model *model, uint64_t at, struct audit *audit)
{
	struct freed_search search = {at, audit};

	return each_freed(model, L_FREED_FIREWALL, is_sought, &search) ||
	       each_freed(model, L_FREED_LARGE, is_sought, &search);
}

bool
audit_is_on(struct model *model)
{
	for (size_t i = 0; i < model->ncaches; i++)
		if (cache_is_audited(model, &model->caches[i]))
			return true;
	return false;
}

const char *
audit_caller(struct model *model, const struct audit *audit)
{
	assert(audit->depth == 0 || audit->stack != NULL);
	for (unsigned i = 0; i < audit->depth; i++) {
		const char *name = symbol_name(model->target, audit->stack[i]);
		const char *function = strchr(name, '`');

		if (function == NULL || strncmp(function + 1, "umem_", 5) != 0)
			return name;
	}
	return "?";
}

void
audit_print_stack(struct model *model, const struct audit *audit, int indent)
{
	assert(audit->depth == 0 || audit->stack != NULL);
	for (unsigned i = 0; i < audit->depth; i++)
		symbol_print(model->target, audit->stack[i], indent);
}

const char *
audit_cache_name(struct model *model, const struct audit *audit)
{
	const struct cache *c = model_cache_at(model, audit->cache);

	if (c != NULL)
		return c->name;
	if (audit->cache == layout_value(model->layout, L_DEBUG_LARGE_CACHE))
		return "umem_oversize";
	if (audit->cache != 0)
		return "?";
	if (audit->slab != 0)
		return "a cache that is destroyed";
	/* Without a cache: a sample, or an allocation that failed. */
	return audit->addr != 0 ? "umem_sample" : "umem_oversize";
}

/* Returns the time of the library's last report; 0: there was none. */
static uint64_t
report_time(struct model *model)
{
	return layout_variable(model->layout, model->target, L_ERROR_TIME);
}

void
audit_json_frames(struct model *model, uint64_t pc)
{
	size_t n;
	const struct symbol_frame *frames =
	    symbol_frames(model->target, pc, &n);

	for (size_t i = 0; i < n; i++)
		json_text(NULL, frames[i].name);
}

static void
audit_json_stack(struct model *model, const struct audit *audit)
{
	json_open("stack", '[');
	for (unsigned i = 0; i < audit->depth; i++)
		audit_json_frames(model, audit->stack[i]);
	json_close();
}

void
audit_json(struct model *model, const struct audit *audit)
{
	if (!json_wanted)
		return;
	json_address("bufctl", audit->at);
	json_address("buffer", audit->addr);
	json_number("size", audit->size);
	json_text("cache", audit_cache_name(model, audit));
	if (audit->depth == 0)
		return;
	json_number("timestamp", audit->timestamp);
	json_number("thread", audit->thread);
	audit_json_stack(model, audit);
}

void
audit_say_transaction(
    struct model *model, const char *verb, const struct audit *audit)
{
	uint64_t time = audit->timestamp, now = audit_now(model);
	bool is_exact = model->target->live || now == report_time(model);

	json_open(verb, '{');
	audit_json(model, audit);
	json_close();
	if (json_wanted)
		return;
	printf("    %s by thread %lu, %.3f s %s:\n", verb, audit->thread,
	    now > time ? (double)(now - time) / 1e9 : 0,
	    is_exact ? "ago" : "before the newest record");
	audit_print_stack(model, audit, 9);
}

void
audit_say_transactions(struct model *model, const struct audit *audit)
{
	struct audit allocated;

	/*
	 * Is the last transaction of the record a free?  The state does not
	 * tell: a free changes it, checks the buffer, and only then stores its
	 * transaction.
	 */
	if (audit->allocated_time == 0) {
		if (audit->depth != 0)
			audit_say_transaction(model, "allocated", audit);
		return;
	}
	allocated = audit_of_allocation(audit);
	audit_say_transaction(model, "freed", audit);
	audit_say_transaction(model, "allocated", &allocated);
}

int
audit_order_stacks(
    unsigned n, const uint64_t *stack, unsigned m, const uint64_t *other)
{
	assert((n == 0 || stack != NULL) && (m == 0 || other != NULL));
	if (n != m)
		return order_numbers(n, m);
	return n == 0 ? 0 : memcmp(stack, other, n * sizeof(*stack));
}

void
audit_each(struct model *model, audit_func *f, void *arg)
{
	const unsigned never =
	    (unsigned)layout_value(model->layout, L_BUFCTL_NEVER);
	struct audit audit;

	for (size_t i = 0; i < model->nslabs; i++)
		for (unsigned j = 0; j < model->slabs[i].nchunks &&
				     model->slabs[i].records != 0;
		     j++)
			if (audit_of_chunk(
				model, &model->slabs[i], j, &audit) &&
			    audit.state != never)
				f(model, &audit, arg);
	for (size_t i = 0; i < model->nlarges; i++)
		if (audit_of_large(model, &model->larges[i], &audit))
			f(model, &audit, arg);
	each_freed(model, L_FREED_FIREWALL, f, arg);
	each_freed(model, L_FREED_LARGE, f, arg);
}

static bool
take_newest(struct model *model, const struct audit *audit, void *arg)
{
	uint64_t *newest = arg;

	(void)model;
	if (audit->timestamp > *newest)
		*newest = audit->timestamp;
	return false;
}

uint64_t
audit_now(struct model *model)
{
	uint64_t newest;

	if (model->target->live)
		return (uint64_t)(model->target->stopped_at * 1e9);
	if (model->newest != 0)
		return model->newest;
	newest = report_time(model);
	audit_each(model, take_newest, &newest);
	for (size_t i = 0; i < model->nsamples; i++)
		if (model->samples[i].record != 0) {
			struct audit audit =
			    audit_of_sample(&model->samples[i]);

			take_newest(model, &audit, &newest);
		}
	model->newest = newest;
	return newest;
}

static const char *
log_record(struct model *model, enum layout_entry which)
{
	const struct layout *l = model->layout;

	return target_at(model->target,
	    layout_value(l, L_LOGS) +
		layout_value(l, which) * layout_value(l, L_LOG_BYTES),
	    layout_value(l, L_LOG_BYTES));
}

/*
 * An entry has a number in front.  One whose number is not among the latest is
 * empty or not whole; see umem/debug/log.h.
 */
void
audit_each_logged(
    struct model *model, enum layout_entry which, audit_func *f, void *arg)
{
	const struct layout *l = model->layout;
	const char *log = log_record(model, which);
	uint64_t at, bytes, n, nput;

	if (log == NULL || model_get(model, log, L_LOG_BASE) == 0)
		return;
	at = model_get(model, log, L_LOG_BASE);
	bytes = model_get(model, log, L_LOG_ENTRY_BYTES);
	n = model_get(model, log, L_LOG_NENTRIES);
	nput = model_get(model, log, L_LOG_NPUT);
	if (n == 0 || bytes > LOG_MAX / n ||
	    bytes < layout_value(l, L_LOG_HEAD_BYTES) ||
	    !target_copy(model->target, at, bytes * n, false))
		return;
	for (uint64_t i = 0; i < n; i++, at += bytes) {
		const char *entry = target_at(
		    model->target, at, layout_value(l, L_LOG_HEAD_BYTES));
		uint64_t number =
		    entry == NULL ? 0 : model_get(model, entry, L_LOG_NUMBER);
		struct audit audit;

		if (number != 0 && number <= nput && nput - number < n &&
		    audit_read(model, at + layout_value(l, L_LOG_HEAD_BYTES),
			true, &audit))
			f(model, &audit, arg);
	}
}
