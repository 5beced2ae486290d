/* error.h - reports of what a debugged cache has found; see error.c */
#ifndef UMEM_ERROR_H
#define UMEM_ERROR_H

#include "umem/debug.h"

/* Codes and their order are libumem's. */
enum error_code {
	UMERR_MODIFIED,  /* written to after it was freed */
	UMERR_REDZONE,   /* written past its end */
	UMERR_DUPFREE,   /* freed twice */
	UMERR_BADADDR,   /* not a buffer of any cache */
	UMERR_BADBUFTAG, /* the tag is not what it should be */
	UMERR_BADBUFCTL, /* the tag leads to no record of the buffer */
	UMERR_BADCACHE,  /* freed to another cache */
	UMERR_BADSIZE,   /* freed with another size */
	UMERR_BADBASE,   /* freed by an address inside */
	UMERR_BADKIND,   /* freed by a function of another kind of memory */
	UMERR_SIGNAL,    /* allocated in a signal handler */
	UMERR_BEFORE,    /* written before its start; not libumem's */
	UMERR_EARLY,     /* written to before it was handed out; likewise */
	UMERR_DUPWAIT, /* freed while it waited for a grace period; likewise */
	UMERR_WAITMOD  /* written to while it waited for one; likewise */
};

/* What was found; debuggers read the last one as umem_abort_info. */
struct error_info {
	uint64_t code;            /* enum error_code */
	uint64_t time;            /* ns, CLOCK_MONOTONIC */
	uint64_t thread;          /* the kernel's number */
	const void *address;      /* what the program gave */
	const void *buffer;       /* where that buffer starts; may be NULL */
	struct umem_cache *cache; /* where it was freed to; may be NULL */
	struct umem_cache *real_cache; /* where it came from; may be NULL */
	struct slab *slab;
	struct bufctl *bufctl;
	uint64_t offset;   /* MODIFIED, REDZONE: of the first wrong byte */
	uint64_t expected; /* MODIFIED, REDZONE, BADBUFTAG, BADSIZE, BADKIND;
			      WAITMOD: bytes that were compared */
	uint64_t found;    /* the same */
	uint64_t deferred; /* 1: by a function of umem_rcu.h */
};

extern struct error_info umem_abort_info;

/* The last messages, as a ring; the next byte goes to umem_error_begin. */
#define ERROR_BUFFER_BYTES 8192
#define ERROR_MESSAGE_MOST 4096
extern char umem_error_buffer[ERROR_BUFFER_BYTES];
extern uint64_t umem_error_begin;

/* Writes the report, and aborts unless debug.noabort. */
void error_report(const struct error_info *info);

/* Have the messages of panic.c end up in the ring, too. */
void error_start(void);

/* A message for the ring, and with allverbose for standard error. */
void error_note(const char *text, size_t n);

void error_after_fork(void);

#endif
