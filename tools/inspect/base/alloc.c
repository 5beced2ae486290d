/*
 * alloc.c - memory of the command
 *
 * The structures of a damaged or hostile target may name any amount of memory.
 * Therefore the memory that this command has allocated is bounded by that of
 * the target, and the address space in which libdw unpacks sections by that of
 * the files.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/inspect/base/alloc.h"

/*
 * The command takes at most this much memory, and this many times that of the
 * target.  A search for leaks takes a tenth of the target's memory, a whole
 * copy as much as the target has, and debugging information of large programs
 * some hundred MiB.
 */
#define BOUND_MIN   (1024 * MIB)
#define BOUND_TIMES 4

/* The bound is checked each time that allocations have added up to this. */
#define TAKE_STEP MIB

bool alloc_forced;

static uint64_t bound = UINT64_MAX;

void
alloc_bound_by(uint64_t resident)
{
	if (!alloc_forced && resident < UINT64_MAX / BOUND_TIMES - BOUND_MIN)
		bound = BOUND_MIN + BOUND_TIMES * resident;
}

/* Reads the address space of this process, and its memory without files. */
static void
read_own(uint64_t *all, uint64_t *own)
{
	FILE *file = fopen("/proc/self/statm", "re");
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned long size = 0, resident = 0, shared = 0;

	if (file != NULL &&
	    fscanf(file, "%lu %lu %lu", &size, &resident, &shared) != 3)
		size = resident = shared = 0;
	if (file != NULL)
		fclose(file);
	*all = size * page;
	*own = (resident - shared) * page;
}

/* Ends the command if it cannot take so many bytes more. */
static void
check_bound(uint64_t bytes)
{
	static uint64_t taken; /* since the last comparison */
	uint64_t all, own;

	taken += bytes;
	if (bound == UINT64_MAX || (bytes < TAKE_STEP && taken < TAKE_STEP))
		return;
	taken = 0;
	read_own(&all, &own);
	if (own < bound && bytes < bound - own)
		return;
	fail_with(EXIT_ERROR,
	    "the process has so little memory that this command takes at most "
	    "%zu MiB, and its structures name more: they are damaged; --force "
	    "to try all the same",
	    (size_t)(bound / MIB));
}

void *
xchecked(void *made)
{
	if (made == NULL)
		fail_with(EXIT_ERROR, "out of memory");
	return made;
}

void *
xalloc(size_t bytes)
{
	check_bound(bytes);
	return xchecked(calloc(1, bytes ? bytes : 1));
}

void *
xresize(void *old, size_t bytes)
{
	assert(bytes != 0);
	check_bound(bytes);
	return xchecked(realloc(old, bytes));
}

char *
xprint(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	return xchecked(text);
}

void *
tree_item(void **tree, const void *key, size_t bytes,
    int (*order)(const void *, const void *), bool *is_new)
{
	void **found = tfind(key, tree, order), *made;

	*is_new = found == NULL;
	if (found != NULL)
		return *found;
	made = xalloc(bytes);
	memcpy(made, key, bytes);
	xchecked(tsearch(made, tree, order));
	return made;
}

void
alloc_bound_libraries(uint64_t bytes)
{
	static rlim_t most; /* the limit that the user has set; 0: not read */
	struct rlimit limit;
	uint64_t all, own;

	if (bound == UINT64_MAX || getrlimit(RLIMIT_AS, &limit) != 0)
		return;
	if (most == 0)
		most = limit.rlim_cur;
	read_own(&all, &own);
	all += BOUND_MIN + bytes;
	limit.rlim_cur = all < most ? all : most;
	setrlimit(RLIMIT_AS, &limit);
}
