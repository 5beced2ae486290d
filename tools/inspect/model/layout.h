/* layout.h - offsets and variables of the target's library; see layout.c */
#ifndef TOOLS_LAYOUT_H
#define TOOLS_LAYOUT_H

#include "tools/inspect/target/target.h"
#include "umem/described.h"
#include "vmem/description.h"

enum layout_entry {
#define LAYOUT_MEMBER(id, label, type, member) L_##id,
#define LAYOUT_VARIABLE(id, variable)          L_##id,
#define LAYOUT_CONSTANT(constant)              L_##constant,
#define LAYOUT_BYTES(id, label, type)          L_##id,
	DESCRIBED_ALL(
	    LAYOUT_MEMBER, LAYOUT_VARIABLE, LAYOUT_CONSTANT, LAYOUT_BYTES)
	L_ENTRIES
};

struct layout {
	uint64_t at; /* of the description */
	const char *version;
	const char *object; /* file that the library is in */
	bool in_program;    /* the file is the program, not libumem*.so */
	unsigned ncopies;   /* of the library with a non-empty heap */
	bool is_ready;
	uint64_t in_use; /* bytes, of the heap */
	struct describe_entry *entries;
	size_t nentries;
	struct describe_entry known[L_ENTRIES];
};

/* Finds the library in the target, or ends the command with a message. */
struct layout *layout_find(struct target *target);

/* Finds it and ends the command if the program does not use it yet, too. */
struct layout *layout_find_ready(struct target *target);

static inline uint64_t
layout_value(const struct layout *layout, enum layout_entry entry)
{
	assert(entry < L_ENTRIES);
	return layout->known[entry].value;
}

/* Reads a number of 1, 2, 4 or 8 bytes. */
uint64_t layout_number(const void *at, uint64_t bytes);

/* Reads a member of a record that was copied. */
static inline uint64_t
layout_get(
    const struct layout *layout, const void *record, enum layout_entry entry)
{
	const struct describe_entry *d = &layout->known[entry];

	assert(record != NULL && entry < L_ENTRIES);
	return layout_number((const char *)record + d->value, d->bytes);
}

/* Reads a variable of the target; 0 if it cannot be read. */
uint64_t layout_variable(const struct layout *layout, struct target *target,
    enum layout_entry entry);

/*
 * Reads a member of the record at at, which was not copied; returns false if it
 * cannot be read.
 */
bool layout_peek(const struct layout *layout, struct target *target,
    uint64_t at, enum layout_entry entry, uint64_t *value);

/* Returns the copy of a whole variable of the target, or NULL. */
const char *layout_at(const struct layout *layout, struct target *target,
    enum layout_entry entry);

/* Makes target_at() work for every variable except the large ones. */
void layout_copy_variables(const struct layout *layout, struct target *target);

#endif
