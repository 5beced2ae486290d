/* audit.h - audit records: the last transaction of each buffer; see audit.c */
#ifndef TOOLS_AUDIT_H
#define TOOLS_AUDIT_H

#include "tools/inspect/model/model.h"

/* A record, of a buffer or in a log. */
struct audit {
	uint64_t at;
	uint64_t addr; /* of the buffer */
	uint64_t slab;
	uint64_t cache;
	uint64_t size; /* requested bytes */
	unsigned state;
	unsigned kind;
	unsigned depth; /* of the stack; 0: not audited */
	uint64_t timestamp;
	uint64_t thread;
	const uint64_t *stack;   /* in our copy */
	uint64_t allocated_time; /* of a freed buffer, if known; else 0 */
	uint64_t allocated_thread;
	unsigned allocated_depth;
	const uint64_t *allocated_stack; /* in our copy */
};

/* Reads the record of a chunk or large block; false: it is not debugged. */
bool audit_of_chunk(struct model *model, const struct slab *slab, unsigned i,
    struct audit *audit);
bool audit_of_large(
    struct model *model, const struct large *large, struct audit *audit);

/* Returns the free of a freed sample, or its allocation, as a record. */
struct audit audit_of_sample(const struct sample *s);

/*
 * Reads the record of the buffer at this address that was freed last, if the
 * free unmapped its memory.  Returns false if there is no record.  A live
 * buffer at this address is newer.
 */
bool audit_of_freed(struct model *model, uint64_t at, struct audit *audit);

/* Does the target have records with stacks? */
bool audit_is_on(struct model *model);

/* Returns the caller of the library: the first frame, or "?". */
const char *audit_caller(struct model *model, const struct audit *audit);

/* Prints a line for each frame, indented by this number of blanks. */
void audit_print_stack(
    struct model *model, const struct audit *audit, int indent);
/* Puts the functions of a return address into an array of JSON. */
void audit_json_frames(struct model *model, uint64_t pc);
/* Puts a record into an object of JSON. */
void audit_json(struct model *model, const struct audit *audit);

/*
 * Returns the time from which ages count, in ns: the time of the copy for a
 * live target; for a core the time of the library's last report or of the
 * newest record or sample, whichever is later.
 */
uint64_t audit_now(struct model *model);

/*
 * Prints the last transaction of the record and, if that was a free, the
 * allocation before it, with their stacks, if the record has them; as members
 * of an object with --json.
 */
void audit_say_transactions(struct model *model, const struct audit *audit);

/* Prints the transaction of the record alone, as that of this verb. */
void audit_say_transaction(
    struct model *model, const char *verb, const struct audit *audit);

const char *audit_cache_name(struct model *model, const struct audit *audit);

/*
 * Returns the order of two stacks of n and m frames, as a function for qsort()
 * does.
 */
int audit_order_stacks(
    unsigned n, const uint64_t *stack, unsigned m, const uint64_t *other);

/* Is called for a record; returns true if it was the last one wanted. */
typedef bool audit_func(
    struct model *model, const struct audit *audit, void *arg);

/*
 * Calls f for every record: first of allocated and free buffers, then of freed
 * buffers with unmapped memory.
 */
void audit_each(struct model *model, audit_func *f, void *arg);

/* Calls f for every record of a log: L_LOG_TRANSACTION and so on. */
void audit_each_logged(
    struct model *model, enum layout_entry log, audit_func *f, void *arg);

#endif
