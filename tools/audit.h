/* audit.h - who had a buffer last; see audit.c */
#ifndef TOOLS_AUDIT_H
#define TOOLS_AUDIT_H

#include "tools/model.h"

/* libumem's flags of a debugged cache. */
#define UMF_AUDIT 0x0001u
#define UMF_LITE  0x0100u

/* Of caches with guards; and whose waiting objects readers may write to. */
#define UMF_DEADBEEF   0x0002u
#define UMF_RCU_WRITES 0x4000u

/* A record, of a buffer or in a log. */
struct audit {
	uint64_t at;
	uint64_t addr; /* of the buffer */
	uint64_t slab;
	uint64_t cache;
	uint64_t size; /* as asked for */
	unsigned state;
	unsigned kind;
	unsigned depth; /* of the stack; 0: not audited */
	uint64_t timestamp;
	uint64_t thread;
	uint64_t lastlog;
	uint64_t contents;
	const uint64_t *stack; /* in our copy */
};

/* The record at an address; false: there is none. */
bool audit_read(struct model *model, uint64_t at, struct audit *audit);

/* Of a chunk, or of a large block; false: it is not debugged. */
bool audit_of_chunk(struct model *model, const struct slab *slab, unsigned i,
    struct audit *audit);
bool audit_of_large(
    struct model *model, const struct large *large, struct audit *audit);

/*
 * Of the buffer with this address that was freed last, if its memory went with
 * the free; false: none is remembered.  A buffer that lives there is newer.
 */
bool audit_of_freed(struct model *model, uint64_t at, struct audit *audit);

/* Has the target records with stacks at all? */
bool audit_is_on(struct model *model);

/* What called the library: the first frame, or "?". */
const char *audit_caller(struct model *model, const struct audit *audit);

/* A line for each frame, behind that many blanks. */
void audit_print_stack(
    struct model *model, const struct audit *audit, int indent);
void audit_json(struct model *model, const struct audit *audit);

/*
 * The moment that ages count from, in ns: of a live target the time of the
 * copy, of a core that of the newest record.
 */
uint64_t audit_now(struct model *model);

/* "freed by thread 1, 0.100 s ago:", for what the verb, and the stack. */
void audit_print_transaction(struct model *model, const char *verb,
    const struct audit *audit, uint64_t now);

/* As ::bufctl -v. */
void audit_print(struct model *model, const struct audit *audit);
void audit_print_head(void);

const char *audit_cache_name(struct model *model, const struct audit *audit);

bool audit_same_stack(const struct audit *a, const struct audit *b);

/*
 * Calls f for every record of a buffer: allocated and free ones, then those of
 * freed buffers whose memory is gone.
 */
void audit_each(struct model *model,
    void (*f)(struct model *, const struct audit *, void *arg), void *arg);

/* The same for a log: L_LOG_TRANSACTION and so on. */
void audit_each_logged(struct model *model, enum layout_entry log,
    void (*f)(struct model *, const struct audit *, void *arg), void *arg);

/* The CPU whose chunk a logged record is in; -1: that chunk is full. */
int audit_log_cpu(
    struct model *model, enum layout_entry log, const struct audit *audit);

#endif
