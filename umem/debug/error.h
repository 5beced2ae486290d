/* error.h - error reports of debugged caches; see error.c */
#ifndef UMEM_ERROR_H
#define UMEM_ERROR_H

#include "umem/debug/debug.h"

/* Codes and their order are libumem's. */
enum error_code {
	UMERR_MODIFIED,  /* written to after free */
	UMERR_REDZONE,   /* written past the end */
	UMERR_DUPFREE,   /* freed twice */
	UMERR_BADADDR,   /* not a buffer of any cache */
	UMERR_BADBUFTAG, /* the tag has a wrong value */
	UMERR_BADBUFCTL, /* the tag points to no bufctl of the buffer */
	UMERR_BADCACHE,  /* freed to another cache */
	UMERR_BADSIZE,   /* freed with a wrong size */
	UMERR_BADBASE,   /* freed by an address inside the buffer */
	UMERR_BADAPI,    /* freed by a function of another API */
	UMERR_SIGNAL,    /* allocated in a signal handler */
	UMERR_BEFORE,    /* written before the start; not in libumem */
	UMERR_EARLY,     /* written to before allocation; not in libumem */
	UMERR_DUPWAIT,   /* freed while waiting for a grace period; likewise */
	UMERR_WAITMOD    /* written to while waiting for one; likewise */
};

/* Facts of an error; debuggers read the last one as umem_abort_info. */
struct error_info {
	uint64_t code;                 /* enum error_code */
	uint64_t time;                 /* ns, CLOCK_MONOTONIC */
	uint64_t thread;               /* the kernel's number */
	const void *address;           /* passed by the program */
	const void *buffer;            /* start of that buffer; may be NULL */
	struct umem_cache *cache;      /* to which it was freed; may be NULL */
	struct umem_cache *real_cache; /* from which it came; may be NULL */
	struct slab *slab;
	struct bufctl *bufctl;
	const struct bufctl_audit *audit; /* the same, if it has a stack */
	uint64_t size;                    /* bytes requested */
	uint64_t offset;   /* MODIFIED, REDZONE: of the first wrong byte */
	uint64_t expected; /* MODIFIED, BADBUFTAG, BADSIZE, BADKIND; WAITMOD:
			      bytes that were compared */
	uint64_t found;    /* as expected */
	uint64_t deferred; /* 1: freed by a function of umem_rcu.h */
	/* REDZONE: the next buffer, in which the write was detected, or NULL */
	const void *behind;
	/* BEFORE: bufctl of the preceding buffer; else NULL */
	const struct bufctl_audit *before;
	/* 1: found at exit in a buffer that was not freed; see exit_check.c */
	uint64_t at_exit;
};

extern hidden struct error_info umem_abort_info;

/*
 * Writes the report; aborts unless debug.noabort is set.  The check at exit
 * aborts after the last report.
 */
void error_report(const struct error_info *info);

#endif
