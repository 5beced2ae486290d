/* log.h - rings of events; see log.c */
#ifndef UMEM_LOG_H
#define UMEM_LOG_H

#include "umem/debug/debug.h"

/* Libumem's default, and a limit for mistyped sizes. */
#define LOG_BYTES_DEFAULT (64 * KIB)
#define LOG_BYTES_MAX     (1 * GIB)

#define LOG_BUSY UINT64_MAX

/* An entry; all of a log have the same size. */
struct log_entry {
	/* [a] From 1 on; 0: no entry yet; LOG_BUSY: a thread writes it. */
	uint64_t number;
	uint64_t words[]; /* [a] */
};

/* A log.  The newest entry replaces the oldest. */
struct log {
	char *base;           /* [I] NULL: the log is off */
	uint64_t bytes;       /* [I] of its mapping */
	uint64_t entry_bytes; /* [I] with the number */
	uint64_t nentries;    /* [I] for which there is memory */
	uint64_t nput;        /* [a] entries, cumulative */
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

/*
 * Allocates the logs, when the options are known.  A log for which there is no
 * memory is off.
 */
void log_start(void);

/* True while a report is made: no entries are stored. */
extern hidden bool log_frozen; /* [a] */

static inline bool
log_is_on(enum log_kind kind)
{
	return logs[kind].base != NULL && !load_relaxed(&log_frozen);
}

/*
 * Copies n bytes into the log, at most debug.contents_bytes or those of a
 * bufctl.  Returns the copy, or NULL.
 */
void *log_put(enum log_kind kind, const void *entry, size_t n);

#endif
