/* log.h - rings of events; see log.c */
#ifndef UMEM_LOG_H
#define UMEM_LOG_H

#include "umem/debug/debug.h"
#include "vmem/lock.h"

#define LOG_BYTES_DEFAULT (64 * KIB)
#define LOG_BYTES_MAX     (1 * GIB)

/* A CPU's position in a log.  Keys: [l] lock, [n] the log's next, too */
struct log_cpu {
	struct lock lock;  /* rank LOCK_LOG */
	uint32_t subbuf;   /* [n] the sub-buffer being filled */
	uint32_t nsubbufs; /* [n] begun by this CPU; wraps */
	char *at;          /* [l] next byte in it */
	uint64_t avail;    /* [l] bytes left in it */
	uint64_t nhits;    /* [l] entries, cumulative */
} __attribute__((aligned(CACHE_LINE)));

/*
 * A log.  Each CPU appends entries to a sub-buffer of its own.  Sub-buffers
 * are used in turn; the oldest is overwritten.
 */
struct log {
	char *base;            /* [I] NULL: the log is off */
	uint64_t bytes;        /* [I] */
	uint64_t subbuf_bytes; /* [I] */
	uint64_t nsubbufs;     /* [I] */
	uint64_t nused; /* [n] sub-buffers ever begun; % nsubbufs is next */
	uint64_t ncpus; /* [I] */
	struct log_cpu *cpu; /* [I] */
	struct lock next;    /* [n] rank LOCK_LOG_NEXT */
};

enum log_kind {
	LOG_TRANSACTION,
	LOG_CONTENTS,
	LOG_FAIL,
	LOG_SLAB,
	LOG_KINDS
};

extern hidden struct log logs[LOG_KINDS];

/* Bytes that UMEM_LOGGING asks for; 0: off.  Set before log_start(). */
extern hidden size_t log_bytes_wanted[LOG_KINDS];

/* Allocates the logs.  A log for which there is no memory is off. */
void log_start(void);

/* True while a report is made: no entries are stored. */
extern hidden bool log_frozen; /* [a] */

static inline bool
log_is_on(enum log_kind kind)
{
	return logs[kind].base != NULL && !load_relaxed(&log_frozen);
}

/* Copies n bytes into the log.  Returns the copy, or NULL. */
void *log_put(enum log_kind kind, const void *entry, size_t n);

void log_lock_for_fork(void);
void log_unlock_for_fork(void);

#endif
