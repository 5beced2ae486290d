/* options.h - what the environment asks for; see options.c */
#ifndef UMEM_OPTIONS_H
#define UMEM_OPTIONS_H

#include "magazine/rseq.h"

struct options {
	enum rseq_owner mode; /* RSEQ_LIBC: choose freely */
	unsigned concurrency; /* CPUs to cache for; 0: all */
	int policy;           /* VM_*FIT of the heap; 0: instant fit */
	bool verbose;
	bool confined;
	bool secure; /* nothing was read: set-user-ID program */
};

/*
 * Read the environment, or ask the program's _umem_options_init(),
 * _umem_debug_init() and _umem_logging_init(), and set the rooms that keep
 * their own options.  Called once, by the starter.
 */
void options_read(struct options *options);

/* Is there anything to read?  Called when the C library has started. */
bool options_are_given(void);

/* What one text asks for: of UMEM_OPTIONS, UMEM_DEBUG and UMEM_LOGGING. */
void options_parse(struct options *options, const char *text);
void options_parse_debug(const char *text);
void options_parse_logging(const char *text);

#endif
