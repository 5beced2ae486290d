/*
 * A process of a few MiB that changes the library's structures as an attacker
 * would.  It finds them as the command umem does, by the library's description
 * of itself.  The argument is the kind of change; see change().
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/inspect/model/layout.h"

#define TIB ((size_t)1 << 40)
#define GIB ((size_t)1 << 30)

static const struct description *header;

/* Finds the description in the library's data. */
static void
find_header(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	static char line[4096];

	while (header == NULL && fgets(line, sizeof(line), maps) != NULL) {
		if (strstr(line, "libumem_malloc") == NULL ||
		    sscanf(line, "%lx-%lx rw", &start, &end) != 2 ||
		    strstr(line, " rw-p ") == NULL)
			continue;
		for (; start < end; start += DESCRIPTION_ALIGN) {
			const struct description *d = (const void *)start;

			if (memcmp(d->magic, DESCRIPTION_MAGIC,
				sizeof(d->magic)) == 0 &&
			    d->self == d)
				header = d;
		}
	}
	fclose(maps);
}

static const struct describe_entry *
entry(const char *name)
{
	for (const struct describe_entry *e = header->entries;
	     e < header->entries_end; e++)
		if (strcmp(e->name, name) == 0)
			return e;
	fprintf(stderr, "no %s\n", name);
	exit(9);
}

static char *
variable(const char *name)
{
	const struct describe_entry *e = entry(name);

	return (char *)(uintptr_t)e + e->value;
}

static void
set(char *at, const char *member, uint64_t value)
{
	const struct describe_entry *e = entry(member);

	memcpy(at + e->value, &value, e->bytes < 8 ? e->bytes : 8);
}

static char *
get(const char *at)
{
	char *value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static char *
map(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED) {
		puts("skipped");
		exit(0);
	}
	return at;
}

/* Adds memory to a list of the library's mappings. */
static void
add_range(const char *list, char *at, size_t bytes)
{
	static char ranges[64 * 1024];
	static size_t used;
	char *range = ranges + used, *head = variable(list);

	used += 64;
	set(range, "meta_range.next", (uintptr_t)get(head));
	set(range, "meta_range.at", (uintptr_t)at);
	set(range, "meta_range.bytes", bytes);
	memcpy(head, &range, sizeof(range));
}

/*
 * Makes magazines of the greatest size that begin every 32 bytes, each in the
 * list after the one before, and puts them into the depot of a cache.
 */
static void
overlap_magazines(size_t bytes)
{
	size_t capacity = (32768 - entry("=magazine")->value) / 8;
	char *at = map(bytes), *link = variable("&cache_list"), *cache;
	size_t last = bytes - 65536;

	for (size_t i = 0; i < last; i += 32) {
		set(at + i, "magazine.next",
		    i + 32 < last ? (uintptr_t)at + i + 32 : 0);
		set(at + i, "magazine.size", capacity);
		set(at + i, "magazine.nrounds", capacity);
	}
	add_range("&pools", at, bytes);
	do {
		link = get(link + entry("list.next")->value);
		cache = link - entry("cache.link")->value;
	} while (!cache[entry("cache.has_magazines")->value]);
	set(cache, "cache.mag.depot.full.head", (uintptr_t)at);
}

static void
change(const char *kind)
{
	uint64_t much = UINT64_MAX / 4;

	if (strcmp(kind, "pools") == 0)
		add_range("&pools", map(64 * GIB), 64 * GIB);
	else if (strcmp(kind, "dedicated") == 0)
		for (int i = 0; i < 16; i++)
			add_range("&dedicated", map(16 * GIB), 16 * GIB);
	else if (strcmp(kind, "same") == 0) {
		char *at = map(64 * GIB);

		for (int i = 0; i < 1000; i++)
			add_range("&pools", at + i * MIB, 32 * GIB);
	} else if (strcmp(kind, "addresses") == 0)
		for (int i = 0; i < 40; i++)
			add_range("&pools", map(TIB), TIB);
	else if (strcmp(kind, "mapped") == 0)
		memcpy(variable("&mapped_bytes"), &much, sizeof(much));
	else if (strcmp(kind, "magazines") == 0)
		overlap_magazines(16 * MIB);
	else if (strcmp(kind, "heap") == 0) {
		char *at = map(TIB), *end = at + TIB;

		set(variable("&heap_window"), "heap_window.base",
		    (uintptr_t)at);
		memcpy(variable("&committed_end"), &end, sizeof(end));
	} else if (strcmp(kind, "segments") == 0)
		set(get(variable("&heap_arena")) + entry("arena.head")->value,
		    "segment.anext", sizeof(void *));
	else
		exit(9);
}

int
main(int argc, char **argv)
{
	char c;

	for (int i = 0; i < 100; i++)
		free(malloc(100));
	find_header();
	if (header == NULL || argc != 2)
		return 9;
	change(argv[1]);
	write(1, "ready\n", 6);
	read(0, &c, 1);
	/* The library would use these structures at exit. */
	_exit(0);
}
