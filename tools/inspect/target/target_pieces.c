/*
 * target_pieces.c - copies or packs memory of a live process, in pieces, which
 * several threads share if there are many
 *
 * The process is stopped while its heap is copied, because otherwise a pointer
 * could move from memory that is not yet read to memory that was already read.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/inspect/base/memory.h"
#include "tools/inspect/base/progress.h"
#include "tools/inspect/target/target.h"

/* Memory is copied in pieces of this size, by several threads if many. */
#define PIECE_BYTES (2 * MIB)
#define PIECES_EACH 4
#define COPIERS_MAX 8

/* Memory that is packed is read in parts of this size. */
#define BUFFER_BYTES (256 * KIB)

/* One page in LOOK_EVERY is enough to estimate the packed size. */
#define LOOK_EVERY 64

/* Memory to be copied or packed; error is the kernel's, if that failed. */
struct piece {
	uint64_t at;
	uint64_t bytes;
	char *to;     /* NULL: to be packed */
	char **pages; /* receives the addresses of packed pages */
	int error;
	bool any; /* some of it could be read */
};

/* All pieces of one copy; several threads take them in turn. */
static struct {
	struct piece *piece;
	size_t n, capacity;
	size_t next; /* atomic */
	const struct pack_filter *filter;
	struct target *target;
} pieces;

static void
piece_pack(struct piece *p, struct pack_store *store, char *buffer)
{
	assert(p->to == NULL && p->pages != NULL && p->bytes % 8 == 0);
	for (uint64_t done = 0; done < p->bytes && p->error == 0;) {
		uint64_t left = p->bytes - done;
		uint64_t n = left < BUFFER_BYTES ? left : BUFFER_BYTES;

		p->error = live_read_present(
		    pieces.target, p->at + done, n, buffer, &p->any);
		for (uint64_t i = 0; i < n && p->error == 0; i += PACK_BYTES) {
			size_t part = n - i < PACK_BYTES ? n - i : PACK_BYTES;

			if (!pack_page(store, pieces.filter,
				(const void *)(buffer + i), part / 8,
				&p->pages[(done + i) / PACK_BYTES]))
				p->error = ENOMEM;
		}
		done += n;
	}
}

static void
piece_add(uint64_t at, uint64_t bytes, char *to, char **pages)
{
	static_assert(PIECE_BYTES % PACK_BYTES == 0, "whole pages");
	assert((to != NULL) != (pages != NULL));
	while (bytes > 0) {
		uint64_t n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;

		ARRAY_ADD(pieces.piece, pieces.n, pieces.capacity,
		    (struct piece){
			.at = at, .bytes = n, .to = to, .pages = pages});
		at += n;
		if (to != NULL)
			to += n;
		else
			pages += n / PACK_BYTES;
		bytes -= n;
	}
}

/* For packing; each is small enough for the CPU's cache. */
static uint64_t buffers[COPIERS_MAX][BUFFER_BYTES / 8];

/*
 * The thread with the first buffer shows progress if it reads a copy of the
 * target.  Output to a terminal may wait, and a stopped target would wait too.
 */
static void *
pieces_work(void *buffer)
{
	struct pack_store store = {0};
	size_t i;

	while ((i = __atomic_fetch_add(&pieces.next, 1, __ATOMIC_RELAXED)) <
	       pieces.n) {
		struct piece *p = &pieces.piece[i];

		if (buffer == buffers[0] && pieces.target->reads_made) {
			target_check_copy(pieces.target);
			progress_show("reading memory", i, pieces.n);
		}
		if (p->to != NULL)
			p->error = live_read_present(
			    pieces.target, p->at, p->bytes, p->to, &p->any);
		else
			piece_pack(p, &store, buffer);
	}
	return buffer;
}

/* The number of threads: at most the number of CPUs that we may use. */
static size_t
copiers(void)
{
	size_t n = pieces.n / PIECES_EACH;
	cpu_set_t cpus;

	if (n <= 1 || sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
		return 1;
	if (n > (size_t)CPU_COUNT(&cpus))
		n = (size_t)CPU_COUNT(&cpus);
	return n < COPIERS_MAX ? n : COPIERS_MAX;
}

/* Copies by several threads, this one included; fewer are enough, too. */
static void
pieces_share(void)
{
	pthread_t thread[COPIERS_MAX];
	size_t n = copiers(), started = 0;

	assert(n > 0 && n <= COPIERS_MAX);
	while (started + 1 < n && pthread_create(&thread[started], NULL,
				      pieces_work, buffers[started + 1]) == 0)
		started++;
	pieces_work(buffers[0]);
	while (started > 0)
		pthread_join(thread[--started], NULL);
	progress_end();
}

/* Copies all added pieces.  Returns true if some memory was readable. */
static bool
pieces_copy(struct target *target)
{
	bool any = false;

	pieces.next = 0;
	pieces.filter = &target->filter;
	pieces.target = target;
	pieces_share();
	assert(pieces.next >= pieces.n);
	for (size_t i = 0; i < pieces.n; i++) {
		const struct piece *p = &pieces.piece[i];

		if (p->error == ESRCH)
			live_fail_gone(target);
		if (p->error == EPERM)
			live_fail_permission(target);
		if (p->error == ENOMEM)
			memory_fail(target->name);
		any |= p->any;
	}
	pieces.n = 0;
	return any;
}

/* A function for runs of present pages, and the destination of copies. */
struct runs {
	void (*f)(const struct runs *, uint64_t at, uint64_t bytes);
	uint64_t start; /* to and pages are for this address */
	char *to;
	char **pages;
	struct target *target;
	struct target_size *size;
};

/*
 * Calls runs->f for each run of present pages of [at, at + bytes).  Returns
 * false if the kernel does not show which pages are present.
 */
static bool
each_run(
    struct target *target, uint64_t at, uint64_t bytes, const struct runs *runs)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = at;
	static uint64_t entries[8192];
	bool told = true;

	target_scan(target, bytes);
	if (at % page != 0 || bytes % page != 0)
		return false;
	while (bytes > 0 && told) {
		uint64_t n = bytes / page, i = 0;

		if (n > array_size(entries))
			n = array_size(entries);
		told = live_pagemap(target, at / page, entries, n);
		while (told && i < n) {
			uint64_t first = i;
			bool there = pagemap_is_there(entries[i]);

			while (i < n && pagemap_is_there(entries[i]) == there)
				i++;
			assert(i > first);
			if (there)
				runs->f(runs, at + first * page,
				    (i - first) * page);
		}
		at += n * page;
		bytes -= n * page;
	}
	if (!told && at != start)
		live_fail_gone(target);
	return told;
}

static void
add_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	char *to = runs->to + (at - runs->start);

	assert(runs->to != NULL && at >= runs->start);
	/* Huge pages: fewer page faults while the target is stopped. */
	if (bytes >= 4 * MIB)
		madvise(to, bytes, MADV_HUGEPAGE);
	piece_add(at, bytes, to, NULL);
}

static void
pack_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	assert(runs->pages != NULL && (at - runs->start) % PACK_BYTES == 0);
	piece_add(
	    at, bytes, NULL, runs->pages + (at - runs->start) / PACK_BYTES);
}

static void
add_lines_of_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	struct target *target = runs->target;
	struct region *last = target->regions + target->last;

	/* each_run() may divide a run. */
	if (target->nregions != 0 && last->in_lines &&
	    last->at + last->bytes == at)
		last->bytes += bytes;
	else
		target_add_region(
		    target, (struct region){
				.at = at, .bytes = bytes, .in_lines = true});
}

static void
measure_one_run(const struct runs *runs, uint64_t at, uint64_t bytes)
{
	struct target_size *size = runs->size;
	uint64_t words[PACK_WORDS];

	assert(bytes % PACK_BYTES == 0);
	for (uint64_t i = 0; i < bytes; i += PACK_BYTES) {
		struct iovec local = {words, sizeof(words)};
		struct iovec remote = {(void *)(at + i), sizeof(words)};

		size->present += PACK_BYTES;
		if (size->present / PACK_BYTES % LOOK_EVERY != 1 ||
		    process_vm_readv(live_reader(runs->target), &local, 1,
			&remote, 1, 0) != sizeof(words))
			continue;
		size->looked_at += sizeof(words);
		size->packed +=
		    pack_cost(&runs->target->filter, words, PACK_WORDS);
	}
}

/*
 * Copies a range at once.  The parts that the target has not touched stay as
 * they are in a new copy: zeros.  Returns true if some of it was readable.
 */
static bool
copy_touched(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	bool any = false, is_touched;
	uint64_t done, n;

	for (done = 0; done < bytes; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		any |= !is_touched;
		if (is_touched)
			piece_add(at + done, n, to + done, NULL);
	}
	return pieces_copy(target) || any;
}

bool
live_copy(
    struct target *target, uint64_t at, uint64_t bytes, char *to, bool sparse)
{
	struct runs runs = {.f = add_one_run, .start = at, .to = to};
	size_t before = pieces.n;

	if (sparse && each_run(target, at, bytes, &runs))
		return true;
	pieces.n = before;
	return copy_touched(target, at, bytes, to);
}

void
live_pack(struct target *target, uint64_t at, uint64_t bytes, char **pages)
{
	struct runs runs = {.f = pack_one_run, .start = at, .pages = pages};
	size_t before = pieces.n;

	if (each_run(target, at, bytes, &runs))
		return;
	pieces.n = before;
	piece_add(at, bytes, NULL, pages);
}

/* A page that the target has not touched reads as zeros: it gets no region. */
void
live_add_lines(struct target *target, uint64_t at, uint64_t bytes)
{
	struct runs runs = {.f = add_lines_of_run, .target = target};

	if (!each_run(target, at, bytes, &runs))
		add_lines_of_run(&runs, at, bytes);
}

void
target_copy_end(struct target *target)
{
	pieces_copy(target);
}

void
live_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size)
{
	struct runs runs = {
	    .f = measure_one_run, .target = target, .size = size};

	if (!each_run(target, at, bytes, &runs))
		size->present += bytes;
}
