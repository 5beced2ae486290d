/*
 * verify.c - umem verify: are the buffers of debugged caches intact?
 *
 * The command finds the errors that a free of each allocated buffer, and the
 * next allocation of each free buffer, would find now (see
 * umem/debug/debug_buffer.c).  The library stores in each cache which parts of
 * a buffer it checks (umem/debug/debug_plan.c), and the command reads these
 * answers, so it does not repeat the rules.  If the slab and the record of a
 * buffer disagree, a thread is working on the buffer at this moment, and the
 * command skips it.  A buffer that waits for a grace period is checked as the
 * library checks it at the end of the wait, and an object of a reserve as when
 * the library hands it out.
 */
#include <assert.h>
#include <limits.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/report.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/snapshot.h"
#include "umem/debug/wait_sum.h"

/* Corrupt buffers of a cache that are printed beside those of others. */
#define TOLD_MAX 10

/* The parts of a cache's chunks that the library checks. */
struct checks {
	uint64_t tag_offset; /* of the tag; also the end of the slack */
	uint64_t tag_bytes;  /* 0: no tag */
	uint64_t padding;    /* offset of the bytes behind the tag */
	bool checks_slack;   /* behind the requested size */
	uint64_t pattern_bytes;
	uint64_t free_pattern;
	unsigned char end_byte; /* of slack and padding */
};

/* A chunk that is checked. */
struct subject {
	struct model *model;
	const struct cache *cache;
	const struct checks *checks;
	const char *buffer; /* our copy of the chunk, by target_view() */
	struct audit audit;
};

static uint64_t
constant_of(const struct model *model, enum layout_entry entry)
{
	return layout_value(model->layout, entry);
}

static struct checks
checks_of(const struct model *model, const struct cache *c)
{
	const struct layout *l = model->layout;
	struct checks checks = {
	    .tag_offset = layout_get(l, c->record, L_CACHE_TAG_OFFSET),
	    .tag_bytes = layout_get(l, c->record, L_CACHE_TAG_BYTES),
	    .padding = c->chunk,
	    .checks_slack = layout_get(l, c->record, L_CACHE_CHECKS_SLACK) != 0,
	    .pattern_bytes = layout_get(l, c->record, L_CACHE_PATTERN_BYTES),
	    .free_pattern = layout_get(l, c->record, L_CACHE_FREE_PATTERN),
	    .end_byte = (unsigned char)constant_of(model, L_PATTERN_END)};

	if (checks.tag_bytes != 0)
		checks.padding = checks.tag_offset + checks.tag_bytes;
	return checks;
}

/* Does the library check anything outside a buffer of this cache? */
static bool
is_checked(const struct checks *checks)
{
	return checks->tag_bytes != 0 || checks->checks_slack;
}

/* Do the checked parts lie inside the chunk? */
static bool
checks_fit(const struct checks *checks, const struct cache *c)
{
	return checks->tag_bytes % sizeof(uint64_t) == 0 &&
	       checks->tag_bytes <= c->chunk &&
	       checks->tag_offset <= c->chunk - checks->tag_bytes;
}

/* Returns the fault if a byte of [from, to) has changed; *where: the byte. */
static const char *
change_fault(const struct subject *subject, uint64_t from, uint64_t to,
    uint64_t *where, const char *fault)
{
	assert(to <= subject->cache->chunk);
	while (from < to && (unsigned char)subject->buffer[from] ==
				subject->checks->end_byte)
		from++;
	if (from >= to)
		return NULL;
	*where = from;
	return fault;
}

/* Returns NULL if the tag has this state of this record, or its fault. */
static const char *
tag_fault(const struct subject *subject, enum layout_entry state)
{
	const struct layout *l = subject->model->layout;
	const char *tag = subject->buffer + subject->checks->tag_offset;
	uint64_t bufctl = subject->audit.at;

	/* The tag of a hardened buffer has no bufctl. */
	return subject->checks->tag_bytes < layout_value(l, L_TAG_BYTES) ||
		       (layout_get(l, tag, L_TAG_BUFCTL) == bufctl &&
			   layout_get(l, tag, L_TAG_BXSTAT) ==
			       (bufctl ^ layout_value(l, state)))
		   ? NULL
		   : "has a corrupt buftag";
}

static uint64_t
redzone_of(const struct subject *subject)
{
	const char *tag = subject->buffer + subject->checks->tag_offset;

	return layout_get(subject->model->layout, tag, L_TAG_REDZONE);
}

/* Returns the fault of the redzone of an allocated buffer, or NULL. */
static const char *
redzone_fault(const struct subject *subject)
{
	const struct model *model = subject->model;
	uint64_t redzone = redzone_of(subject);
	uint64_t expected = constant_of(model, L_PATTERN_REDZONE);
	uint32_t size = (uint32_t)(constant_of(model, L_REDZONE_FACTOR) *
				       subject->audit.size +
				   constant_of(model, L_REDZONE_ADDEND));

	if ((uint32_t)redzone != (uint32_t)expected ||
	    (subject->cache->class == 0 && redzone != expected))
		return "has a corrupt redzone signature";
	if (subject->cache->class != 0 && (uint32_t)(redzone >> 32) != size)
		return "has a corrupt redzone size encoding";
	return NULL;
}

/* Checks the bytes between a tag and the next buffer. */
static const char *
padding_fault(const struct subject *subject, uint64_t *where)
{
	return change_fault(subject, subject->checks->padding,
	    subject->cache->chunk, where, "has corrupt bytes behind it");
}

/* Returns the fault of a free buffer, or NULL; *where: the byte, if known. */
static const char *
free_fault(const struct subject *subject, uint64_t *where)
{
	const struct checks *checks = subject->checks;
	uint64_t n = checks->pattern_bytes;
	const char *fault;

	assert(checks_fit(checks, subject->cache));
	for (uint64_t i = 0; i + 8 <= n && i + 8 <= subject->cache->chunk;
	     i += 8)
		if (layout_number(subject->buffer + i, 8) !=
		    checks->free_pattern) {
			*where = i;
			return "seems corrupted";
		}
	if (checks->tag_bytes == 0)
		return NULL;
	if (redzone_of(subject) !=
	    constant_of(subject->model, L_PATTERN_REDZONE))
		return "seems to have a corrupt redzone pattern";
	fault = tag_fault(subject, L_BUFTAG_FREE);
	return fault != NULL ? fault : padding_fault(subject, where);
}

/* Checks the bytes from the requested size up to the tag. */
static const char *
slack_fault(const struct subject *subject, uint64_t *where)
{
	uint64_t size = subject->audit.size;
	uint64_t end = subject->checks->tag_offset;

	if (size >= end || !subject->checks->checks_slack)
		return NULL;
	return change_fault(subject, size, end, where, "has a corrupt redzone");
}

static const char *
allocated_fault(const struct subject *subject, uint64_t *where)
{
	const char *fault = NULL;

	assert(checks_fit(subject->checks, subject->cache));
	if (subject->checks->tag_bytes != 0) {
		fault = redzone_fault(subject);
		if (fault == NULL)
			fault = tag_fault(subject, L_BUFTAG_ALLOCATED);
	}
	if (fault == NULL)
		fault = slack_fault(subject, where);
	if (fault == NULL && subject->checks->tag_bytes != 0)
		fault = padding_fault(subject, where);
	return fault;
}

/* Has a buffer changed since it began to wait for a grace period? */
static bool
waiting_is_changed(const struct subject *subject)
{
	struct model *model = subject->model;
	const struct layout *l = model->layout;
	const char *debug = layout_at(l, model->target, L_DEBUG);
	const char *record = target_at(
	    model->target, subject->audit.at, layout_value(l, L_AUDIT_BYTES));
	unsigned guards = (unsigned)layout_value(l, L_UMF_DEADBEEF);
	unsigned writes = (unsigned)layout_value(l, L_UMF_RCU_WRITES);
	uint64_t n = subject->audit.size;

	if ((subject->cache->debug & (guards | writes)) != guards ||
	    debug == NULL || record == NULL)
		return false;
	if (n > WAIT_SUM_BYTES)
		n = WAIT_SUM_BYTES;
	if (n > layout_get(l, debug, L_DEBUG_VERIFY_MAX))
		n = layout_get(l, debug, L_DEBUG_VERIFY_MAX);
	return n != 0 && n <= subject->cache->chunk &&
	       wait_sum(subject->buffer, n) !=
		   layout_get(l, record, L_AUDIT_SUM);
}

/* A text for a fault in a buffer of this state. */
static const char *
fault_text(const char *state, const char *fault)
{
	return fault == NULL ? NULL : xprint("(%s) %s", state, fault);
}

/* Checks a waiting buffer, which has the tag of an allocated buffer. */
static const char *
waiting_fault(const struct subject *subject, uint64_t *where)
{
	const char *fault = allocated_fault(subject, where);

	if (fault != NULL)
		return fault_text("allocated", fault);
	return waiting_is_changed(subject)
		   ? "(waits for a grace period) was changed since it was freed"
		   : NULL;
}

/*
 * Returns the text for the fault of a chunk, or NULL.  *where: the offset of
 * the byte, if known; *record: the record of the chunk.
 */
static const char *
chunk_fault(struct model *model, const struct slab *s,
    const struct checks *checks, unsigned i, uint64_t *where,
    struct audit *record)
{
	const struct cache *c = &model->caches[s->cache];
	const struct layout *l = model->layout;
	bool is_free = !bit_get(s->live, i);
	struct subject subject = {.model = model,
	    .cache = c,
	    .checks = checks,
	    .buffer = target_view(
		model->target, slab_chunk_at(model, s, i), c->chunk)};
	const struct audit *audit = &subject.audit;

	*where = UINT64_MAX;
	if (subject.buffer == NULL || !checks_fit(checks, c) ||
	    !audit_of_chunk(model, s, i, &subject.audit))
		return NULL;
	*record = *audit;
	if (audit->state == layout_value(l, L_BUFCTL_RETIRED))
		return "was found corrupt before, and is out of use";
	if (is_free && audit->state == layout_value(l, L_BUFCTL_FREE))
		return fault_text("free", free_fault(&subject, where));
	if (audit->state == layout_value(l, L_BUFCTL_ALLOCATED) &&
	    (!is_free || audit->kind == layout_value(l, L_API_RESERVED)))
		return fault_text(
		    "allocated", allocated_fault(&subject, where));
	if (is_free && audit->state == layout_value(l, L_BUFCTL_WAITING) &&
	    model_waits_for(model, audit->addr) != NULL)
		return waiting_fault(&subject, where);
	return NULL;
}

static void
say_fault(struct model *model, const char *fault, uint64_t at, uint64_t where,
    const char *cache, const struct audit *audit)
{
	assert(fault != NULL);
	plain_print("  buffer %lx %s", at, fault);
	json_open(NULL, '{');
	json_text("cache", cache);
	json_address("buffer", at);
	json_text("fault", fault);
	if (where != UINT64_MAX) {
		json_address("at", at + where);
		plain_print(", at %lx", at + where);
	}
	plain_print("\n");
	audit_say_transactions(model, audit);
	json_close();
}

/* Returns the number of corrupt buffers of a cache; prints at most most. */
static uint64_t
verify_cache(struct model *model, const struct cache *c, uint64_t most)
{
	struct checks checks = checks_of(model, c);
	struct audit audit;
	uint64_t n = 0, where;

	for (size_t i = 0; i < model->nslabs; i++) {
		struct slab *s = &model->slabs[i];

		if (&model->caches[s->cache] != c || s->records == 0)
			continue;
		for (unsigned j = 0; j < s->nchunks; j++) {
			const char *fault =
			    chunk_fault(model, s, &checks, j, &where, &audit);

			if (fault != NULL && n++ < most)
				say_fault(model, fault,
				    slab_chunk_at(model, s, j), where, c->name,
				    &audit);
		}
	}
	return n;
}

static uint64_t
verify_one(struct model *model, const char *name)
{
	const struct cache *c = model_cache(model, name);
	struct checks checks;
	uint64_t n;

	if (c == NULL)
		fail_with(EXIT_ERROR, "verify: no cache %s", name);
	plain_print("Summary for cache '%s'\n", c->name);
	checks = checks_of(model, c);
	if (!is_checked(&checks)) {
		print_warning(
		    "warning: cache %lx (%s) does not have redzone checking "
		    "enabled",
		    c->at, c->name);
		return 0;
	}
	n = verify_cache(model, c, UINT64_MAX);
	if (n == 0)
		plain_print("  clean\n");
	return n;
}

/* Prints the row of a cache with n corrupt buffers, and some of them. */
static void
say_cache(struct model *model, const struct cache *c, uint64_t n)
{
	printf(
	    "%-25s %-16lx %s\n", c->name, c->at, counted(n, "corrupt buffer"));
	verify_cache(model, c, TOLD_MAX);
	if (n > TOLD_MAX)
		printf("  %lu more; \"umem verify %s %s\" prints all\n",
		    n - TOLD_MAX, model->target->name, c->name);
}

uint64_t
verify_report(struct model *model, bool tell_clean)
{
	uint64_t all = 0, nclean = 0;

	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];
		struct checks checks = checks_of(model, c);
		uint64_t n;

		if (!is_checked(&checks))
			continue;
		n = verify_cache(model, c, json_wanted ? UINT64_MAX : 0);
		nclean += n == 0;
		if (n != 0 && all == 0)
			plain_print("%-25s %-16s %s\n", "Cache Name", "Addr",
			    "Cache Integrity");
		all += n;
		if (n != 0 && !json_wanted)
			say_cache(model, c, n);
	}
	if (json_wanted || !tell_clean)
		return all;
	if (all == 0 && nclean == 0)
		puts("nothing can be verified: no cache has redzones, as "
		     "\"umem run --debug\" adds them");
	else
		printf("%s %s clean\n",
		    counted(nclean, all != 0 ? "other cache" : "cache"),
		    nclean == 1 ? "is" : "are");
	return all;
}

int
command_verify(int argc, char **argv)
{
	char **arguments = options_take(argc, argv, NULL, 0, 1, INT_MAX);
	struct model *model = snapshot_open(*arguments++, MODEL_MEMORY);
	uint64_t n = 0;

	json_open(NULL, '[');
	if (*arguments == NULL)
		n = verify_report(model, /* tell_clean */ true);
	while (*arguments != NULL)
		n += verify_one(model, *arguments++);
	target_end_copy(model->target);
	json_close();
	return n ? EXIT_FOUND : EXIT_OK;
}
