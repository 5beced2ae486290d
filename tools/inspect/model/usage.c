/*
 * usage.c - where the memory of the target is
 *
 * This is the only reader of the identity of usage.h, for all commands.  The
 * layers are those of umem_stats(): umem/stats/stats.c explains them.  They
 * come from counters of the library, the headers of CPUs and the lists of
 * depots, which together are a few KiB for each CPU; single slabs are not read.
 * The target may run meanwhile; then the figures are of slightly different
 * moments, a difference below 0 counts as 0, and the figures are read again if
 * they do not add up.
 *
 * The kernel gives the resident set and the pages in memory.  All pages that
 * are neither in the heap nor in the library's structures are not ours: the
 * program's and the libraries' files, stacks, other mappings.  Memory that the
 * program has allocated and never touched is counted in its layer, although it
 * has no pages; the member untouched is the difference.  Huge pages can add
 * pages that are in no layer, the member surplus.
 */
#include <stdlib.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/model/usage_inner.h"

#define PAGE_PRESENT ((uint64_t)1 << 63)

/* Readings while the process changes much. */
#define USAGE_TRIES 4

/* Returns a member of the library's struct account. */
static uint64_t
account_of(const struct reading *r, enum layout_entry member)
{
	return member_of(r, L_ACCOUNT, member);
}

/* Returns the bytes of so many units of the heap, a variable. */
static uint64_t
units_of(const struct reading *r, enum layout_entry variable)
{
	return model_variable(r->model, variable) *
	       layout_value(r->model->layout, L_HEAP_UNIT);
}

static void
ranges_read(struct reading *r)
{
	struct ranges *ranges = &r->usage->ranges;

	library_add_heap(
	    r->model, model_variable(r->model, L_COMMITTED_END), ranges);
	library_add_meta(r->model, ranges);
	library_add_cpus(r->model, ranges);
	library_add_logs(r->model, ranges);
}

/* Sums the caches, and counts live samples. */
static void
caches_sum(struct reading *r)
{
	struct usage *u = r->usage;

	for (size_t i = 0; i < u->ncaches; i++) {
		const struct usage_cache *c = &u->caches[i];

		u->s.live_bytes += c->nlive * c->in_heap;
		u->s.cpu_bytes += c->ncpu * c->in_heap;
		u->s.depot_bytes += c->ndepot * c->in_heap;
		u->s.waiting_bytes += c->nwaiting * c->in_heap;
		u->s.nfailures += c->nfailed;
	}
	u->s.slab_bytes = usage_less(r->slab_bytes,
	    account_of(r, L_ACCOUNT_PURGED) + u->s.live_bytes + u->s.cpu_bytes +
		u->s.depot_bytes + u->s.waiting_bytes);
	for (size_t i = 0; i < r->model->nsamples; i++)
		u->nsamples += r->model->samples[i].record != 0 &&
			       r->model->samples[i].live;
}

/* Adds large blocks, samples, and arenas of the program. */
static void
blocks_sum(struct reading *r)
{
	uint64_t parts = layout_value(r->model->layout, L_SAMPLE_BLOCK_PARTS);
	struct usage *u = r->usage;

	u->s.large_bytes = usage_less(account_of(r, L_ACCOUNT_LARGE),
	    account_of(r, L_ACCOUNT_SAMPLE_SPANS));
	u->nlarge_failed = account_of(r, L_ACCOUNT_NLARGE_FAILED);
	u->s.nfailures += u->nlarge_failed;
	u->s.nwrong_sizes = account_of(r, L_ACCOUNT_NWRONG_SIZES);
	u->s.allocated_bytes = account_of(r, L_ACCOUNT_ALLOCATED);
	u->s.freed_bytes = account_of(r, L_ACCOUNT_FREED);
	u->s.nallocated = account_of(r, L_ACCOUNT_NALLOCATED) / parts;
	u->s.nfreed = account_of(r, L_ACCOUNT_NFREED) / parts;
	u->s.arena_bytes = account_of(r, L_ACCOUNT_PROGRAM);
	u->s.live_bytes += u->s.large_bytes + u->s.arena_bytes;
	u->s.sampled_bytes = account_of(r, L_ACCOUNT_SAMPLE_PAGES) +
			     account_of(r, L_ACCOUNT_SAMPLE_GUARDED) +
			     account_of(r, L_ACCOUNT_SAMPLE_WARM);
	u->s.dirty_bytes = units_of(r, L_NDIRTY);
	u->s.own_bytes = model_variable(r->model, L_MAPPED_BYTES) +
			 account_of(r, L_ACCOUNT_DONATED) +
			 account_of(r, L_ACCOUNT_TABLES);
}

/* As account_samples_absent() of the library. */
static uint64_t
samples_absent(const struct reading *r)
{
	uint64_t units = usage_less(account_of(r, L_ACCOUNT_SAMPLE_UNITS),
	    account_of(r, L_ACCOUNT_SAMPLE_UNIT_SPANS) +
		account_of(r, L_ACCOUNT_SAMPLE_GUARDED) +
		account_of(r, L_ACCOUNT_SAMPLE_WARM));
	uint64_t spans = usage_less(account_of(r, L_ACCOUNT_SAMPLE_SPANS),
	    account_of(r, L_ACCOUNT_SAMPLE_PAGES));

	return units + spans;
}

/* Returns the bytes that count as held and that are in no layer. */
static uint64_t
absent_bytes(const struct reading *r)
{
	return account_of(r, L_ACCOUNT_PURGED) +
	       account_of(r, L_ACCOUNT_DONATED) + r->absent +
	       usage_less(account_of(r, L_ACCOUNT_FIREWALL), r->opened);
}

/*
 * Reads the resident set.  The figures of /proc/PID/statm are late by some
 * pages for each CPU; the sum over the mappings is exact, and the kernel lets
 * the process change its mappings between two of them.
 */
static uint64_t
rss_read(const struct target *target)
{
	uint64_t kib = 0;

	file_number(proc_path(target->reader, "smaps_rollup"), "Rss", &kib);
	return kib * KIB;
}

/*
 * The kernel holds the lock of the mappings for 2 MiB of addresses at a time,
 * or for those of the words while it looks for its page of zeros, so the
 * process keeps running.
 */
bool
usage_pages(struct target *target, struct range range, uint64_t *bytes)
{
	static uint64_t words[8192];
	uint64_t each = target->page_bytes, page = range.start / each, n;
	uint64_t end = (range.end + each - 1) / each, present = 0, zeros = 0;

	target_scan(target, range.end - range.start);
	for (; page < end; page += n) {
		n = end - page < array_size(words) ? end - page
						   : array_size(words);
		if (!live_pagemap(target, page, words, n))
			return false;
		for (uint64_t i = 0; i < n; i++)
			present += (words[i] & PAGE_PRESENT) != 0 ? each : 0;
		/* They are not in the resident set. */
		if (present != 0)
			zeros += live_zero_pages(target, page * each, n * each);
	}
	*bytes += usage_less(present, zeros);
	return true;
}

/* Reads the kernel's figures, which make the identity complete. */
static void
pages_add(struct reading *r)
{
	struct usage *u = r->usage;
	struct target *target = r->model->target;
	uint64_t ours = 0;

	if (!target->live)
		return;
	u->rss = rss_read(target);
	for (size_t i = 0; i < u->ranges.n; i++)
		if (!usage_pages(target, u->ranges.range[i], &ours) && i == 0)
			return;
	u->has_pages = true;
	if (ours > u->rss)
		ours = u->rss;
	u->others = u->rss - ours;
	u->untouched = usage_less(usage_sum(u), ours);
	u->surplus = usage_less(ours, usage_sum(u));
}

/* Returns the free bytes in the arenas of nodes, as heap_used() does. */
static uint64_t
nodes_free(const struct reading *r)
{
	uint64_t at = layout_value(r->model->layout, L_NODE_ARENA), sum = 0;
	uint64_t end = at + r->model->layout->known[L_NODE_ARENA].bytes, node;

	for (; at < end && (node = model_peek_word(r->model, at)) != 0; at += 8)
		sum += usage_less(model_member(r->model, node, L_ARENA_TOTAL),
		    model_member(r->model, node, L_ARENA_INUSE));
	return sum;
}

/* Reads the limits, and the memory that counts as heap_held() does. */
static void
limits_read(struct reading *r)
{
	uint64_t arena = model_variable(r->model, L_HEAP_ARENA);
	struct usage *u = r->usage;

	u->s.soft_limit_bytes = member_of(r, L_HEAP_LIMITS, L_LIMITS_SOFT);
	u->s.nsoft_limit = member_of(r, L_HEAP_LIMITS, L_LIMITS_NSOFT);
	u->s.hard_limit_bytes = member_of(r, L_HEAP_LIMITS, L_LIMITS_HARD);
	u->s.nhard_limit = member_of(r, L_HEAP_LIMITS, L_LIMITS_NHARD);
	u->s.limited_bytes =
	    usage_less(model_member(r->model, arena, L_ARENA_INUSE),
		units_of(r, L_NFOREIGN) + samples_absent(r) + nodes_free(r) +
		    account_of(r, L_ACCOUNT_QUARANTINED)) +
	    u->s.dirty_bytes;
}

static void
usage_read_once(struct reading *r)
{
	struct usage *u = r->usage;

	*u = (struct usage){.time = seconds_now()};
	ranges_read(r);
	usage_caches_read(r);
	caches_sum(r);
	blocks_sum(r);
	limits_read(r);
	u->s.heap_bytes = usage_less(u->s.limited_bytes, absent_bytes(r));
	u->s.mapped_bytes = u->s.heap_bytes + u->s.own_bytes;
	u->s.cached_bytes = usage_cached(u);
}

/* Is the sum of the layers within 1 % of the heap and the structures? */
static bool
usage_adds_up(const struct usage *u)
{
	uint64_t sum = usage_sum(u), all = u->s.mapped_bytes;

	return usage_less(sum, all) + usage_less(all, sum) <= all / 100;
}

void
usage_read(struct model *model, struct usage *usage)
{
	struct reading r = {.model = model, .usage = usage};
	unsigned ntries = 0;

	if (model->target->live)
		target_scan_anew(model->target);
	model->runs = model->target->live && model->unit == NULL;
	do {
		if (ntries++ != 0)
			usage_free(usage);
		r = (struct reading){.model = model, .usage = usage};
		usage_read_once(&r);
		if (model->runs)
			target_forget(model->target);
	} while (ntries < USAGE_TRIES && !usage_adds_up(usage) && model->runs);
	pages_add(&r);
}

void
usage_free(struct usage *usage)
{
	free(usage->caches);
	free(usage->ranges.range);
	*usage = (struct usage){0};
}
