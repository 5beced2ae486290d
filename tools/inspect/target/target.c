/*
 * target.c - the inspected process or core file
 *
 * All code above this file works on copies: regions of the target's memory that
 * are in the memory of this command and are found by addresses of the target.
 * The regions of a live process are copied while its threads are stopped
 * (target_stop.c), and the process continues before the analysis begins.  If
 * only pointers are needed, a region is packed (pack.c) instead of copied.  The
 * regions of a core are the mapped file (target_core.c).
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/inspect/base/clock.h"
#include "tools/inspect/target/target.h"

/*
 * The command looks for pages in at most so many bytes of addresses, which
 * takes some seconds, and this many times the memory of the target.  A process
 * may map more than it could ever use.
 */
#define SCAN_MIN   ((uint64_t)1 << 40)
#define SCAN_TIMES 16

/* Larger copies have mappings of their own. */
#define SMALL_MAX (128 * KIB)

/* An untouched part of this size is not in a copy. */
#define GAP_MIN (64 * MIB)

const char *target_sysroot = "";

static struct target *
target_new(const char *name, bool live)
{
	struct target *target = xalloc(sizeof(*target));

	target->name = name;
	target->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	target->live = live;
	return target;
}

struct target *
target_open_process(const char *name)
{
	struct target *target = target_new(name, /* live */ true);

	if (*target_sysroot != '\0')
		fail_with(EXIT_ERROR,
		    "%s: --sysroot is for a core file; the files of a "
		    "process are found without it",
		    name);
	live_open(target);
	return target;
}

struct target *
target_open(const char *name)
{
	size_t ndigits = strspn(name, "0123456789");
	struct target *target;

	if (ndigits != 0 && name[ndigits] == '\0' && access(name, F_OK) != 0)
		return target_open_process(name);
	target = target_new(name, /* live */ false);
	core_open(target);
	alloc_bound_by(target_resident(target));
	return target;
}

struct target *
target_of_child(int pid)
{
	struct target *target = target_new(xprint("%d", pid), /* live */ true);

	assert(pid > 0);
	target->pid = target->reader = pid;
	target->held = target->borrowed = true;
	target->stopped_at = seconds_now();
	return target;
}

void
target_scan_anew(struct target *target)
{
	target->scan_left = SCAN_MIN + SCAN_TIMES * target_resident(target);
}

void
target_scan(struct target *target, uint64_t bytes)
{
	if (bytes > target->scan_left)
		fail_with(EXIT_ERROR,
		    "%s: its mappings, or structures that are damaged, cover "
		    "too many addresses for %zu MiB of memory",
		    target->name, (size_t)(target_resident(target) / MIB));
	target->scan_left -= bytes;
}

uint64_t
target_resident(const struct target *target)
{
	long kib, swapped;

	if (!target->live)
		return target->file_bytes;
	kib = live_status(target->reader, "VmRSS");
	swapped = live_status(target->reader, "VmSwap");
	return ((uint64_t)(kib < 0 ? 0 : kib) +
		   (uint64_t)(swapped < 0 ? 0 : swapped)) *
	       KIB;
}

void
target_hold(struct target *target, enum hold what)
{
	if (!target->live || target->held)
		return;
	assert(!target->borrowed);
	live_hold(target, what);
	target->held = true;
}

void
target_release(struct target *target)
{
	if (!target->held || target->borrowed)
		return;
	assert(target->live);
	live_release(target);
	target->held = false;
	target->pause = fmax(target->pause, seconds_now() - target->stopped_at);
}

void
target_read_thread(struct target *target, int tid)
{
	struct thread thread = {.tid = tid};

	assert(target->borrowed && tid > 0);
	live_read_thread(&thread, /* all */ true);
	ARRAY_ADD(target->threads, target->nthreads, target->threads_capacity,
	    thread);
}

int
target_stack_of(const struct target *target, const struct mapping *m)
{
	for (size_t i = 0; i < target->nthreads; i++)
		if (target->threads[i].sp - m->start < m->end - m->start)
			return target->threads[i].tid;
	return 0;
}

/* Returns the index of the first region that ends above at. */
static size_t
region_search(const struct target *target, uint64_t at)
{
	size_t low = 0, high = target->nregions;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct region *r = &target->regions[middle];

		if (r->at + r->bytes <= at)
			low = middle + 1;
		else
			high = middle;
	}
	assert(low == target->nregions ||
	       target->regions[low].at + target->regions[low].bytes > at);
	return low;
}

void
target_add_region(struct target *target, struct region region)
{
	size_t i = region_search(target, region.at);

	assert(
	    (region.local != NULL) + (region.pages != NULL) + region.in_lines ==
		1 ||
	    region.bytes == 0);
	assert((uintptr_t)region.local % 8 == region.at % 8 ||
	       region.local == NULL);
	/* Only regions of a damaged core may overlap. */
	assert(!target->live || i == target->nregions ||
	       region.at + region.bytes <= target->regions[i].at);
	ARRAY_GROW(target->regions, target->nregions, target->regions_capacity);
	memmove(target->regions + i + 1, target->regions + i,
	    (target->nregions - i) * sizeof(region));
	target->regions[i] = region;
	target->nregions++;
	target->last = i;
}

static const struct region *
region_find(struct target *target, uint64_t at)
{
	const struct region *r = target->regions + target->last;

	if (target->nregions == 0)
		return NULL;
	assert(target->last < target->nregions);
	if (at - r->at < r->bytes)
		return r;
	size_t i = region_search(target, at);
	r = target->regions + i;
	/* Regions of a damaged core may overlap. */
	if (i == target->nregions || at < r->at || at - r->at >= r->bytes)
		return NULL;
	target->last = i;
	return r;
}

const void *
target_at(struct target *target, uint64_t at, uint64_t bytes)
{
	const struct region *r = region_find(target, at);

	if (r == NULL || r->local == NULL || bytes > r->bytes - (at - r->at))
		return NULL;
	return r->local + (at - r->at);
}

/* Stores the first bytes of [at, at + bytes), and returns their number. */
static uint64_t
view_part(struct target *target, uint64_t at, uint64_t bytes, char *to)
{
	const struct region *r = region_find(target, at);
	const char *from = NULL;
	uint64_t n = bytes;
	size_t i;

	if (r != NULL && r->in_lines)
		from = target_line(target, at, &n);
	else if (r != NULL && r->local != NULL)
		from = r->local + (at - r->at);
	if (r != NULL && n > r->bytes - (at - r->at))
		n = r->bytes - (at - r->at);
	if (r == NULL && (i = region_search(target, at)) < target->nregions)
		n = target->regions[i].at - at;
	if (n > bytes)
		n = bytes;
	if (from != NULL)
		memcpy(to, from, n);
	else
		memset(to, 0, n);
	return n;
}

const void *
target_view(struct target *target, uint64_t at, uint64_t bytes)
{
	static size_t capacity;
	static char *buffer;

	if (!target->reads_lines)
		return target_at(target, at, bytes);
	/* A damaged target may give any size. */
	if ((capacity < bytes && bytes > target_resident(target)) ||
	    target_mapped(target, at, bytes) < bytes)
		return NULL;
	if (capacity < bytes) {
		capacity = bytes;
		buffer = xresize(buffer, capacity);
	}
	for (uint64_t done = 0; done < bytes;)
		done +=
		    view_part(target, at + done, bytes - done, buffer + done);
	return buffer;
}

const uint64_t *
target_array(struct target *target, uint64_t at, uint64_t n)
{
	if (at % 8 != 0 || n > UINT64_MAX / 8)
		return NULL;
	return target_at(target, at, 8 * n);
}

uint64_t
target_run(struct target *target, uint64_t at)
{
	const struct region *r = region_find(target, at);

	if (r == NULL || r->local == NULL)
		return 0;
	return r->bytes - (at - r->at);
}

/* Returns the first part of [at, end) of a packed region that is not zeros. */
static const uint64_t *
packed_words(struct target *target, const struct region *r, uint64_t *at,
    uint64_t end, size_t *n)
{
	static uint64_t words[PACK_WORDS];
	uint64_t from = *at - r->at;

	assert(r->local == NULL && from < r->bytes && end > *at);
	end -= r->at;
	while (from < end && r->pages[from / PACK_BYTES] == NULL)
		from = (from / PACK_BYTES + 1) * PACK_BYTES;
	if (from >= end)
		return NULL;
	if (end > (from / PACK_BYTES + 1) * PACK_BYTES)
		end = (from / PACK_BYTES + 1) * PACK_BYTES;
	*n = (end - from) / 8;
	assert(*n > 0 && *n <= PACK_WORDS);
	pack_read(r->pages[from / PACK_BYTES], &target->filter,
	    (unsigned)(from % PACK_BYTES / 8), (unsigned)*n, words);
	*at = r->at + from;
	return words;
}

/* Returns the first part of [at, end) of a region that is read by lines. */
static const uint64_t *
line_words(struct target *target, uint64_t at, uint64_t end, size_t *n)
{
	const char *words;
	uint64_t bytes;

	if (!target->reads_lines)
		return NULL;
	words = target_line(target, at, &bytes);
	if (words == NULL)
		return NULL;
	*n = (end - at < bytes ? end - at : bytes) / 8;
	assert(*n > 0 && at % 8 == 0);
	return (const void *)words;
}

static uint64_t
word_border(uint64_t at)
{
	return at > UINT64_MAX - 7 ? UINT64_MAX & ~(uint64_t)7
				   : (at + 7) & ~(uint64_t)7;
}

const uint64_t *
target_words(struct target *target, uint64_t *at, uint64_t end, size_t *n)
{
	uint64_t from = word_border(*at);
	const struct region *r = region_find(target, from);
	size_t i = r != NULL ? (size_t)(r - target->regions)
			     : region_search(target, from);

	for (; i < target->nregions; i++) {
		uint64_t stop;

		r = &target->regions[i];
		if (r->at > from)
			from = word_border(r->at);
		if (from >= end)
			return NULL;
		stop = r->at + r->bytes;
		stop = (stop < end ? stop : end) & ~(uint64_t)7;
		/* Regions of a damaged core may overlap. */
		if (from < r->at || from >= stop)
			continue;
		*at = from;
		if (r->local == NULL) {
			const uint64_t *words =
			    r->in_lines ? line_words(target, from, stop, n)
					: packed_words(target, r, at, stop, n);

			if (words != NULL)
				return words;
			continue;
		}
		*n = (stop - from) / 8;
		assert(*n > 0 && from % 8 == 0);
		return (const void *)(r->local + (from - r->at));
	}
	return NULL;
}

static char *
map_copy(uint64_t bytes)
{
	char *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (to == MAP_FAILED)
		fail_with(EXIT_ERROR, "out of memory for a copy of %zu MiB",
		    (size_t)(bytes / MIB));
	return to;
}

/* Returns memory for a copy, which reads as zeros. */
static char *
copy_new(uint64_t bytes)
{
	return bytes > SMALL_MAX ? map_copy(bytes) : xalloc(bytes);
}

static void
copy_free(const void *copy, uint64_t bytes)
{
	void *start = (void *)(uintptr_t)copy;

	if (bytes > SMALL_MAX)
		munmap(start, bytes);
	else
		free(start);
}

/*
 * The bytes before a copy in its mapping.  They give each word of the copy the
 * alignment that it has in the target.
 */
static uint64_t
bytes_before(uint64_t at)
{
	return at % 16;
}

/* Copies a part of a piece that no region overlaps. */
static bool
copy_part(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	struct region region = {.at = at, .bytes = bytes, .ours = true};
	char *to = copy_new(bytes + bytes_before(at)) + bytes_before(at);

	assert(target->live && bytes != 0);
	if (!live_copy(target, at, bytes, to, sparse)) {
		copy_free(to - bytes_before(at), bytes + bytes_before(at));
		return false;
	}
	region.local = to;
	target_add_region(target, region);
	return true;
}

/*
 * Returns the bytes before the first untouched part of a range, and sets
 * *untouched to the bytes of that part.
 */
static uint64_t
part_of(struct target *target, uint64_t at, uint64_t bytes, uint64_t *untouched)
{
	uint64_t done, n, gap = 0;
	bool is_touched;

	*untouched = 0;
	if (bytes < GAP_MIN)
		return bytes;
	for (done = 0; done < bytes; done += n) {
		n = live_touched_run(
		    target, at + done, bytes - done, &is_touched);
		if (is_touched && gap >= GAP_MIN)
			break;
		gap = is_touched ? 0 : gap + n;
	}
	if (gap >= GAP_MIN)
		*untouched = gap;
	return done - *untouched;
}

/* Copies a piece that no region overlaps. */
static bool
copy_gap(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	uint64_t done, part, untouched;

	for (done = 0; done < bytes; done += part + untouched) {
		part = part_of(target, at + done, bytes - done, &untouched);
		if (part != 0 && !copy_part(target, at + done, part, sparse))
			return false;
	}
	return true;
}

static size_t
pages_bytes(uint64_t bytes)
{
	return (bytes + PACK_BYTES - 1) / PACK_BYTES * sizeof(char *);
}

/*
 * Packs a piece that no region overlaps, from the first whole word on, unless
 * it is to be read by lines.
 */
static bool
pack_gap(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	struct region region = {.at = word_border(at), .ours = true};
	uint64_t end = (at + bytes) & ~(uint64_t)7;

	assert(target->live && bytes != 0);
	(void)sparse;
	if (end <= region.at)
		return true;
	region.bytes = end - region.at;
	if (target->reads_lines) {
		live_add_lines(target, region.at, region.bytes);
		return true;
	}
	region.pages = (void *)copy_new(pages_bytes(region.bytes));
	live_pack(target, region.at, region.bytes, region.pages);
	target_add_region(target, region);
	return true;
}

typedef bool gap_func(
    struct target *target, uint64_t at, uint64_t bytes, bool sparse);

/*
 * Calls f for each piece of [at, at + bytes) that no region has yet; a core has
 * all its regions.
 */
static bool
each_gap(struct target *target, uint64_t at, uint64_t bytes, bool sparse,
    gap_func *f)
{
	uint64_t end = at + bytes;

	if (!target->live)
		return target_run(target, at) >= bytes;
	/* A damaged target may give any address and size. */
	if (target_mapped(target, at, bytes) < bytes)
		return false;
	while (at < end) {
		size_t i = region_search(target, at);
		const struct region *r = target->regions + i;
		uint64_t gap_end = end;

		if (i < target->nregions && r->at <= at) {
			at = r->at + r->bytes;
			continue;
		}
		if (i < target->nregions && r->at < end)
			gap_end = r->at;
		assert(gap_end > at && gap_end <= end);
		if (!f(target, at, gap_end - at, sparse))
			return false;
		at = gap_end;
	}
	return true;
}

bool
target_copy(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	return each_gap(target, at, bytes, sparse, copy_gap);
}

bool
target_pack(struct target *target, uint64_t at, uint64_t bytes)
{
	return each_gap(target, at, bytes, /* sparse */ true, pack_gap);
}

const void *
target_fetch(struct target *target, uint64_t at, uint64_t bytes)
{
	const void *copy = target_at(target, at, bytes);

	if (copy == NULL && target->live &&
	    target_copy(target, at, bytes, /* sparse */ false))
		copy = target_at(target, at, bytes);
	return copy;
}

void
target_measure(struct target *target, uint64_t at, uint64_t bytes,
    struct target_size *size)
{
	if (target->live)
		live_measure(target, at, bytes, size);
}

static void
region_unmap(const struct region *r)
{
	if (r->ours && r->pages != NULL)
		copy_free(r->pages, pages_bytes(r->bytes));
	else if (r->ours && r->local != NULL)
		copy_free(r->local - bytes_before(r->at),
		    r->bytes + bytes_before(r->at));
}

void
target_forget(struct target *target)
{
	if (!target->live)
		return;
	assert(!target->held);
	for (size_t i = 0; i < target->nregions; i++)
		region_unmap(&target->regions[i]);
	pack_forget();
	target->nregions = 0;
	target->last = 0;
}

bool
target_peek(struct target *target, uint64_t at, void *to, size_t bytes)
{
	const void *from = target_at(target, at, bytes);

	if (from == NULL)
		return target->live && live_peek(target, at, to, bytes);
	memcpy(to, from, bytes);
	return true;
}

uint64_t
target_mapped(struct target *target, uint64_t at, uint64_t bytes)
{
	const struct mapping *m = target_mapping(target, at);
	const struct mapping *end = target->maps + target->nmaps;

	if (m == NULL)
		return 0;
	while (m->end - at < bytes && m + 1 < end && m[1].start == m->end)
		m++;
	return m->end - at < bytes ? m->end - at : bytes;
}

/* Returns that of n mappings, sorted by address, which has at; or NULL. */
static const struct mapping *
mapping_at(const struct mapping *maps, size_t n, uint64_t at)
{
	return n == 0 ? NULL
		      : bsearch(&at, maps, n, sizeof(*maps), order_range);
}

const struct mapping *
target_mapping(struct target *target, uint64_t at)
{
	return mapping_at(target->maps, target->nmaps, at);
}

const struct mapping *
target_files(const struct target *target, size_t *n)
{
	*n = target->live ? target->nmaps : target->nfiles;
	return target->live ? target->maps : target->files;
}

const struct mapping *
target_file_at(const struct target *target, uint64_t at)
{
	size_t n;
	const struct mapping *files = target_files(target, &n);
	const struct mapping *file = mapping_at(files, n, at);

	return file != NULL && file->file ? file : NULL;
}

/*
 * gcore leaves a mapping that equals its file out of the core, the code of the
 * program and of its libraries in particular.  The list of files has it, but
 * not its permissions.
 */
bool
target_is_code(struct target *target, uint64_t at)
{
	const struct mapping *m = target_mapping(target, at);

	return m != NULL ? m->execute : target_file_at(target, at) != NULL;
}
