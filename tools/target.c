/*
 * target.c - the process or core file that is looked at
 *
 * Everything above this file works on copies: regions of the target's memory
 * that lie in ours, found by the target's addresses.  Of a live process they
 * are copied while its threads stand still (target_live.c), and the process
 * goes on before we begin to think.  Of a core they are the file, mapped
 * (target_core.c).
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/target.h"

static bool
is_number(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

struct target *
target_open(const char *name)
{
	struct target *target = xalloc(sizeof(*target));

	target->name = name;
	if (is_number(name) && access(name, F_OK) != 0) {
		target->live = true;
		live_open(target);
	} else {
		core_open(target);
	}
	return target;
}

struct target *
target_of_child(int pid)
{
	struct target *target = xalloc(sizeof(*target));

	target->name = xprint("%d", pid);
	target->pid = target->reader = pid;
	target->live = true;
	target->held = target->borrowed = true;
	target->stopped_at = seconds_now();
	return target;
}

void
target_hold(struct target *target)
{
	if (!target->live || target->held)
		return;
	live_hold(target);
	target->held = true;
}

void
target_release(struct target *target)
{
	if (!target->held || target->borrowed)
		return;
	live_release(target);
	target->held = false;
	target->pause = seconds_now() - target->stopped_at;
}

void
target_read_maps(struct target *target)
{
	if (target->live)
		live_read_maps(target);
}

void
target_read_kept(struct target *target)
{
	if (target->live)
		live_read_kept(target);
}

void
target_read_thread(struct target *target, int tid)
{
	struct thread *thread;

	ARRAY_ROOM(target->threads, target->nthreads, target->threads_room);
	thread = &target->threads[target->nthreads++];
	memset(thread, 0, sizeof(*thread));
	thread->tid = tid;
	live_read_thread(target, thread);
}

/* First region that ends behind at. */
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
	return low;
}

void
target_add_region(struct target *target, struct region region)
{
	size_t i = region_search(target, region.at);

	ARRAY_ROOM(target->regions, target->nregions, target->regions_room);
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

	if (r == NULL || bytes > r->bytes - (at - r->at))
		return NULL;
	return r->local + (at - r->at);
}

uint64_t
target_run(struct target *target, uint64_t at)
{
	const struct region *r = region_find(target, at);

	return r == NULL ? 0 : r->bytes - (at - r->at);
}

void
target_copy_end(struct target *target)
{
	if (target->live)
		live_copy_end(target);
}

uint64_t
target_next(struct target *target, uint64_t at)
{
	size_t i = region_search(target, at);

	if (i == target->nregions)
		return UINT64_MAX;
	return target->regions[i].at > at ? target->regions[i].at : at;
}

static char *
map_copy(uint64_t bytes)
{
	char *to = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (to == MAP_FAILED)
		fail(EXIT_BLIND, "out of memory for a copy of %zu MiB",
		    (size_t)(bytes / MIB));
	return to;
}

void
target_prepare(
    struct target *target, uint64_t at, uint64_t bytes, uint64_t more)
{
	struct region *ready;

	if (!target->live || bytes == 0)
		return;
	ARRAY_ROOM(target->ready, target->nready, target->ready_room);
	ready = &target->ready[target->nready++];
	*ready = (struct region){.at = at, .bytes = bytes + more};
	ready->local = map_copy(ready->bytes);
	live_touch(target, at, bytes, (char *)(uintptr_t)ready->local);
}

/* What was prepared for this place; it may be used more than once. */
static char *
find_prepared(const struct target *target, uint64_t at, uint64_t bytes)
{
	for (size_t i = 0; i < target->nready; i++) {
		const struct region *r = &target->ready[i];

		if (at >= r->at && at - r->at < r->bytes &&
		    bytes <= r->bytes - (at - r->at))
			return (char *)(uintptr_t)r->local + (at - r->at);
	}
	return NULL;
}

/* A piece that no region has any part of. */
static bool
copy_gap(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	struct region region = {.at = at, .bytes = bytes};
	char *to = find_prepared(target, at, bytes);

	region.ours = to == NULL;
	if (region.ours)
		to = map_copy(bytes);
	if (!live_copy(target, at, bytes, to, sparse)) {
		if (region.ours)
			munmap(to, bytes);
		return false;
	}
	region.local = to;
	target_add_region(target, region);
	return true;
}

bool
target_copy(struct target *target, uint64_t at, uint64_t bytes, bool sparse)
{
	uint64_t end = at + bytes;

	if (!target->live)
		return target_run(target, at) >= bytes;
	/* What is damaged there may say anything. */
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
		if (!copy_gap(target, at, gap_end - at, sparse))
			return false;
		at = gap_end;
	}
	return true;
}

void
target_forget(struct target *target)
{
	if (!target->live)
		return;
	for (size_t i = 0; i < target->nregions; i++)
		if (target->regions[i].ours)
			munmap((void *)target->regions[i].local,
			    target->regions[i].bytes);
	target->nregions = 0;
	target->last = 0;
	target->copied = 0;
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

const struct mapping *
target_mapping(struct target *target, uint64_t at)
{
	size_t low = 0, high = target->nmaps;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct mapping *m = &target->maps[middle];

		if (at < m->start)
			high = middle;
		else if (at >= m->end)
			low = middle + 1;
		else
			return m;
	}
	return NULL;
}
