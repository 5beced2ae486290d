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
	return member_at(r, value_of(r, L_ACCOUNT), member);
}

void
usage_range_add(struct reading *r, uint64_t at, uint64_t bytes)
{
	struct usage *u = r->usage;

	if (at == 0 || bytes == 0)
		return;
	ARRAY_GROW(u->ranges, u->nranges, u->ranges_capacity);
	u->ranges[u->nranges++] = (struct usage_range){at, bytes};
}

/* Finds the heap, the metadata and the tables by units of the heap. */
static void
ranges_read(struct reading *r)
{
	static const enum layout_entry lists[] = {L_META_POOLS, L_DEDICATED};
	uint64_t base = member_at(r, value_of(r, L_HEAP_WINDOW), L_WINDOW_BASE);
	uint64_t bytes = usage_less(variable_of(r, L_COMMITTED_END), base);
	uint64_t nunits = bytes / value_of(r, L_HEAP_UNIT);

	usage_range_add(r, base, bytes);
	usage_range_add(r, model_map_table(r->model, L_MAP_OWNER), nunits * 8);
	usage_range_add(r, model_map_table(r->model, L_MAP_ENTRY), nunits * 8);
	usage_range_add(r, variable_of(r, L_STATES), nunits);
	for (size_t i = 0; i < array_size(lists); i++) {
		uint64_t at = variable_of(r, lists[i]);
		struct cycle_detector cycles = {0};

		for (; cycle_continues(&cycles, at);
		     at = member_at(r, at, L_RANGE_NEXT))
			usage_range_add(r, member_at(r, at, L_RANGE_AT),
			    member_at(r, at, L_RANGE_BYTES));
	}
}

/* Adds the logs of UMEM_LOGGING. */
static void
logs_read(struct reading *r)
{
	uint64_t at = value_of(r, L_LOGS);
	uint64_t end = at + r->model->layout->known[L_LOGS].bytes;

	for (; at < end; at += value_of(r, L_LOG_BYTES))
		usage_range_add(r, member_at(r, at, L_LOG_BASE),
		    member_at(r, at, L_LOG_SIZE));
}

/* Sums the caches, and counts live samples. */
static void
caches_sum(struct reading *r)
{
	struct usage *u = r->usage;

	for (size_t i = 0; i < u->ncaches; i++) {
		const struct usage_cache *c = &u->caches[i];

		u->in_use += c->nlive * c->in_heap;
		u->cpus += c->ncpu * c->in_heap;
		u->depots += c->ndepot * c->in_heap;
		u->waiting += c->nwaiting * c->in_heap;
	}
	u->slabs = usage_less(r->slab_bytes, account_of(r, L_ACCOUNT_PURGED) +
						 u->in_use + u->cpus +
						 u->depots + u->waiting);
	for (size_t i = 0; i < r->model->nsamples; i++)
		u->nsamples += r->model->samples[i].record != 0 &&
			       r->model->samples[i].live;
}

/* Adds large blocks, samples, and arenas of the program. */
static void
blocks_sum(struct reading *r)
{
	struct usage *u = r->usage;

	u->large = usage_less(account_of(r, L_ACCOUNT_LARGE),
	    account_of(r, L_ACCOUNT_SAMPLE_SPANS));
	u->nlarge_failed = account_of(r, L_ACCOUNT_NLARGE_FAILED);
	u->nwrong_sizes = account_of(r, L_ACCOUNT_NWRONG_SIZES);
	u->arenas = account_of(r, L_ACCOUNT_PROGRAM);
	u->in_use += u->large + u->arenas;
	u->samples = account_of(r, L_ACCOUNT_SAMPLE_PAGES) +
		     account_of(r, L_ACCOUNT_SAMPLE_GUARDED) +
		     account_of(r, L_ACCOUNT_SAMPLE_WARM);
	u->dirty = variable_of(r, L_NDIRTY) * value_of(r, L_HEAP_UNIT);
	u->own = variable_of(r, L_MAPPED_BYTES) +
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
	       account_of(r, L_ACCOUNT_DONATED) +
	       account_of(r, L_ACCOUNT_QUARANTINED) + r->absent +
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
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", target->reader);
	file_number(path, "Rss", &kib);
	return kib * KIB;
}

/*
 * Adds the bytes of the pages of a range that are in memory.  The kernel holds
 * the lock of the mappings for 2 MiB of addresses at a time, so the process
 * keeps running.  Returns false if the kernel does not show the pages.
 */
static bool
pages_count(struct target *target, struct usage_range range, uint64_t *bytes)
{
	static uint64_t words[8192];
	uint64_t each = target->page_bytes, page = range.at / each, n;
	uint64_t end = (range.at + range.bytes + each - 1) / each;

	target_scan(target, range.bytes);
	for (; page < end; page += n) {
		n = end - page < array_size(words) ? end - page
						   : array_size(words);
		if (!live_pagemap(target, page, words, n))
			return false;
		for (uint64_t i = 0; i < n; i++)
			*bytes += (words[i] & PAGE_PRESENT) != 0 ? each : 0;
	}
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
	for (size_t i = 0; i < u->nranges; i++)
		if (!pages_count(target, u->ranges[i], &ours) && i == 0)
			return;
	u->has_pages = true;
	if (ours > u->rss)
		ours = u->rss;
	u->others = u->rss - ours;
	u->untouched = usage_less(usage_sum(u), ours);
	u->surplus = usage_less(ours, usage_sum(u));
}

/* Reads the limits, and the memory that counts as heap_held() does. */
static void
limits_read(struct reading *r)
{
	uint64_t at = value_of(r, L_HEAP_LIMITS);
	uint64_t arena = variable_of(r, L_HEAP_ARENA);
	struct usage *u = r->usage;

	u->soft.limit = member_at(r, at, L_LIMITS_SOFT);
	u->soft.nreached = member_at(r, at, L_LIMITS_NSOFT);
	u->hard.limit = member_at(r, at, L_LIMITS_HARD);
	u->hard.nreached = member_at(r, at, L_LIMITS_NHARD);
	u->held = usage_less(member_at(r, arena, L_ARENA_INUSE),
		      variable_of(r, L_NFOREIGN) * value_of(r, L_HEAP_UNIT) +
			  samples_absent(r)) +
		  u->dirty;
}

static void
usage_read_once(struct reading *r)
{
	struct usage *u = r->usage;

	*u = (struct usage){.time = seconds_now()};
	ranges_read(r);
	logs_read(r);
	usage_caches_read(r);
	caches_sum(r);
	blocks_sum(r);
	limits_read(r);
	u->heap = usage_less(u->held, absent_bytes(r));
}

/* Is the sum of the layers within 1 % of the heap and the structures? */
static bool
usage_adds_up(const struct usage *u)
{
	uint64_t sum = usage_sum(u), all = u->heap + u->own;

	return usage_less(sum, all) + usage_less(all, sum) <= all / 100;
}

void
usage_read(struct model *model, struct usage *usage)
{
	if (model->target->live)
		target_scan_anew(model->target);
	for (unsigned i = 0; i < USAGE_TRIES; i++) {
		struct reading r = {.model = model, .usage = usage};

		if (i != 0)
			usage_free(usage);
		usage_read_once(&r);
		if (i + 1 == USAGE_TRIES || usage_adds_up(usage) ||
		    target_is_still(model->target)) {
			pages_add(&r);
			break;
		}
	}
}

void
usage_free(struct usage *usage)
{
	free(usage->caches);
	free(usage->ranges);
	*usage = (struct usage){0};
}
