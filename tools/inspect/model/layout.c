/*
 * layout.c - offsets and variables of the target's library
 *
 * The library describes itself (umem/describe.c): a header with a magic number
 * and its own address is in the written data of a mapped file.  This file
 * searches for it in each mapped file, beginning with those called libumem.
 * The command knows only names, no offsets of the library.  If a version of the
 * library lacks a required name, the command reports the name and ends.
 */
#include <assert.h>
#include <string.h>

#include "tools/inspect/model/layout.h"
#include "tools/inspect/symbols/modules.h"
#include "umem/umem.h"

#define ENTRIES_MAX  4096
#define RECORD_MAX   (64 * KIB)
#define VARIABLE_MAX (64 * MIB)

static const char *const names[] = {
#define NAME_MEMBER(id, label, type, member) #label "." #member,
#define NAME_VARIABLE(id, variable)          "&" #variable,
#define NAME_CONSTANT(constant)              "=" #constant,
#define NAME_BYTES(id, label, type)          "=" #label,
    DESCRIBED_ALL(NAME_MEMBER, NAME_VARIABLE, NAME_CONSTANT, NAME_BYTES)};

static_assert(array_size(names) == L_ENTRIES, "one list");

uint64_t
layout_number(const void *at, uint64_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, at, bytes < 8 ? bytes : 8);
	return value;
}

static const struct describe_entry *
entry_find(const struct layout *layout, const char *name)
{
	for (size_t i = 0; i < layout->nentries; i++)
		if (strncmp(layout->entries[i].name, name,
			sizeof(layout->entries[i].name)) == 0)
			return &layout->entries[i];
	return NULL;
}

uint64_t
layout_variable(
    const struct layout *layout, struct target *target, enum layout_entry entry)
{
	const struct describe_entry *d = &layout->known[entry];
	uint64_t value = 0;

	assert(names[entry][0] == '&');
	target_peek(target, d->value, &value, d->bytes < 8 ? d->bytes : 8);
	return value;
}

bool
layout_peek(const struct layout *layout, struct target *target, uint64_t at,
    enum layout_entry entry, uint64_t *value)
{
	const struct describe_entry *d = &layout->known[entry];

	assert(names[entry][0] != '&' && names[entry][0] != '=');
	*value = 0;
	return target_peek(
	    target, at + d->value, value, d->bytes < 8 ? d->bytes : 8);
}

const char *
layout_at(
    const struct layout *layout, struct target *target, enum layout_entry entry)
{
	const struct describe_entry *d = &layout->known[entry];

	assert(names[entry][0] == '&');
	return target_at(target, d->value, d->bytes);
}

void
layout_copy_variables(const struct layout *layout, struct target *target)
{
	const uint64_t bootstrap = layout_value(layout, L_BOOTSTRAP);

	for (size_t i = 0; i < layout->nentries; i++)
		if (layout->entries[i].name[0] == '&' &&
		    layout->entries[i].value != bootstrap)
			target_copy(target, layout->entries[i].value,
			    layout->entries[i].bytes, false);
}

/* Returns the bytes of the record with this prefix of its members. */
static uint64_t
record_bytes(const struct layout *layout, const char *prefix, size_t n)
{
	for (size_t i = 0; i < L_ENTRIES; i++) {
		const struct describe_entry *d = &layout->known[i];

		if (strlen(names[i]) == n + 1 &&
		    memcmp(names[i] + 1, prefix, n) == 0)
			return names[i][0] == '=' ? d->value : d->bytes;
	}
	return 0;
}

/* Is the member inside its record?  An array may begin at the end. */
static bool
member_fits(const struct layout *layout, size_t i)
{
	const struct describe_entry *d = &layout->known[i];
	size_t n = strcspn(names[i], ".");
	uint64_t most = record_bytes(layout, names[i], n);
	uint64_t bytes = strchr(names[i], '[') != NULL ? 0 : d->bytes;

	assert(names[i][n] == '.');
	return most <= RECORD_MAX && d->value <= most &&
	       bytes <= most - d->value;
}

static bool
is_between(const struct layout *layout, enum layout_entry entry, uint64_t least,
    uint64_t most)
{
	uint64_t value = layout_value(layout, entry);

	return value >= least && value <= most;
}

/* Checks the assumptions of all users of these entries. */
static bool
entries_make_sense(const struct layout *l)
{
	uint64_t unit = layout_value(l, L_HEAP_UNIT);

	for (size_t i = 0; i < L_ENTRIES; i++)
		if (names[i][0] == '&'
			? l->known[i].bytes > VARIABLE_MAX
			: names[i][0] != '=' && !member_fits(l, i))
			return false;
	return is_between(l, L_HEAP_UNIT, 4096, 1 << 30) &&
	       (unit & (unit - 1)) == 0 &&
	       is_between(l, L_CPU_BLOCK, 64, 1 << 30) &&
	       is_between(l, L_SLAB_BINS, 1, 4096) &&
	       is_between(l, L_LIST_BYTES, 8, RECORD_MAX) &&
	       is_between(l, L_TAG_BYTES, 8, RECORD_MAX) &&
	       layout_value(l, L_TAG_REDZONE) == 0 &&
	       is_between(l, L_META_RANGE_BYTES, 8, RECORD_MAX) &&
	       is_between(l, L_REGION_BYTES, 8, RECORD_MAX) &&
	       is_between(l, L_LOG_BYTES, 8, RECORD_MAX) &&
	       is_between(l, L_LOG_HEAD_BYTES, 8, RECORD_MAX) &&
	       is_between(l, L_AUDIT_BYTES, layout_value(l, L_BUFCTL_BYTES),
		   RECORD_MAX) &&
	       is_between(l, L_CACHE_BYTES, 8, RECORD_MAX) &&
	       l->known[L_DEBUG_LARGE_CACHE].bytes >=
		   layout_value(l, L_CACHE_BYTES) &&
	       l->known[L_CACHE_NAME].bytes >= 32 &&
	       l->known[L_ARENA_NAME].bytes >= 32;
}

static _Noreturn void
fail_damaged(const struct target *target)
{
	fail_with(EXIT_ERROR, "%s: the library's description is damaged",
	    target->name);
}

/* Reads the entries of the target. */
static void
read_section(struct layout *layout, struct target *target,
    const struct describe_entry *from, const struct describe_entry *to)
{
	uint64_t bytes = (uintptr_t)to - (uintptr_t)from;
	uint64_t n = bytes / sizeof(*from);

	if (n > ENTRIES_MAX)
		fail_damaged(target);
	layout->entries = xalloc((n + 1) * sizeof(*layout->entries));
	if (!target_peek(
		target, (uintptr_t)from, layout->entries, n * sizeof(*from)))
		fail_with(EXIT_ERROR,
		    "%s: the library's description is not there", target->name);
	/* The entry of a variable has its distance. */
	for (uint64_t i = 0; i < n; i++)
		if (layout->entries[i].name[0] == '&')
			layout->entries[i].value += (uintptr_t)&from[i];
	layout->nentries = n;
}

static void
read_entries(struct layout *layout, struct target *target,
    const struct description *header)
{
	assert(layout->entries == NULL);
	if (header->entry_bytes != sizeof(struct describe_entry))
		fail_damaged(target);
	read_section(layout, target, header->entries, header->entries_end);
	for (unsigned i = 0; i < L_ENTRIES; i++) {
		const struct describe_entry *d = entry_find(layout, names[i]);

		if (d == NULL)
			fail_with(EXIT_ERROR,
			    "%s: libumem %s there has no %s; this command is "
			    "of another version (" UMEM_VERSION ")",
			    target->name, layout->version, names[i]);
		layout->known[i] = *d;
	}
	if (!entries_make_sense(layout))
		fail_damaged(target);
}

static bool
is_ours(const char *name)
{
	return text_begins(base_name(name), "libumem");
}

static struct layout *
layout_read(struct target *target, const struct description *header,
    const struct mapping *where)
{
	struct layout *layout = xalloc(sizeof(*layout));

	layout->at = (uintptr_t)header->self;
	layout->object = where->name;
	layout->in_program = !is_ours(where->name);
	layout->version = plain_text(header->library, sizeof(header->library));
	if (header->version != DESCRIPTION_VERSION)
		fail_with(EXIT_ERROR,
		    "%s: libumem %s there describes itself in version %u, and "
		    "this command (" UMEM_VERSION ") knows version %u",
		    target->name, layout->version, header->version,
		    DESCRIPTION_VERSION);
	read_entries(layout, target, header);
	return layout;
}

/* Returns the bytes that the heap has allocated to caches and large blocks. */
static uint64_t
heap_in_use(const struct layout *layout, struct target *target)
{
	uint64_t in_use;

	layout_peek(layout, target,
	    layout_variable(layout, target, L_HEAP_ARENA), L_ARENA_INUSE,
	    &in_use);
	return in_use;
}

static bool
is_better(const struct layout *a, const struct layout *b)
{
	return a->is_ready != b->is_ready ? a->is_ready : a->in_use > b->in_use;
}

/*
 * Searches one mapping for headers, and keeps the best so far in *best.  A
 * program that is linked with the library, and runs with the library to
 * preload, has two initialised headers.  Only the heap of the latter is in use.
 */
static void
search_mapping(
    struct target *target, const struct mapping *m, struct layout **best)
{
	static char piece[MIB];
	uint64_t at = m->start;

	static_assert(sizeof(struct description) <= DESCRIPTION_ALIGN &&
			  sizeof(piece) % DESCRIPTION_ALIGN == 0,
	    "no header crosses the border of two pieces");
	for (; at < m->end; at += sizeof(piece)) {
		size_t n =
		    m->end - at < sizeof(piece) ? m->end - at : sizeof(piece);

		if (!target_peek(target, at, piece, n))
			return;
		for (size_t i = 0; i + sizeof(struct description) <= n;
		     i += DESCRIPTION_ALIGN) {
			struct description header;
			struct layout *found;

			if (memcmp(piece + i, DESCRIPTION_MAGIC,
				sizeof(header.magic)) != 0)
				continue;
			memcpy(&header, piece + i, sizeof(header));
			if ((uintptr_t)header.self != at + i)
				continue;
			found = layout_read(target, &header, m);
			found->is_ready =
			    layout_variable(found, target, L_UMEM_STATE) ==
			    layout_value(found, L_UMEM_READY);
			if (found->is_ready)
				found->in_use = heap_in_use(found, target);
			found->ncopies = found->in_use != 0;
			if (*best != NULL)
				found->ncopies += (*best)->ncopies;
			if (*best == NULL || is_better(found, *best))
				*best = found;
			else
				(*best)->ncopies = found->ncopies;
		}
	}
}

/*
 * Is the program statically linked?  A process that has just started may have
 * mapped no library yet, but its program names a dynamic loader.
 */
static bool
is_static(struct target *target)
{
	size_t n;
	const struct module *modules = modules_read(target, &n);

	for (size_t i = 0; i < n; i++)
		if (modules[i].has_loader)
			return false;
	return n != 0;
}

static _Noreturn void
fail_not_ours(struct target *target)
{
	if (target->truncated)
		fail_with(EXIT_ERROR,
		    "%s: the part of the core that is there has no memory of "
		    "umem",
		    target->name);
	if (!target->live)
		fail_with(EXIT_ERROR, "%s: the program did not run on umem",
		    target->name);
	if (!fail_is_kept && is_static(target))
		fail_with(EXIT_ERROR,
		    "%s: does not run on umem: it is statically linked, and "
		    "\"umem run\" has no effect on such programs",
		    target->name);
	fail_with(EXIT_ERROR,
	    "%s: does not run on umem; \"umem run\" starts a program on it",
	    target->name);
}

struct layout *
layout_find(struct target *target)
{
	struct layout *best = NULL;

	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < target->nmaps; i++) {
			const struct mapping *m = &target->maps[i];

			if (m->file && m->write && !m->shared &&
			    is_ours(m->name) == (pass == 0))
				search_mapping(target, m, &best);
		}
	if (best == NULL)
		fail_not_ours(target);
	if (best->ncopies > 1)
		print_warning(
		    "%s: %u copies of libumem run there; this is that of %s",
		    target->name, best->ncopies, best->object);
	return best;
}

struct layout *
layout_find_ready(struct target *target)
{
	struct layout *layout = layout_find(target);

	if (layout_variable(layout, target, L_UMEM_STATE) !=
	    layout_value(layout, L_UMEM_READY))
		fail_with(EXIT_ERROR,
		    "%s: libumem is loaded there and not in use yet",
		    target->name);
	return layout;
}
