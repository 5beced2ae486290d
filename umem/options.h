/* options.h - the options that the environment sets; see options.c */
#ifndef UMEM_OPTIONS_H
#define UMEM_OPTIONS_H

#include "magazine/rseq.h"
#include "vmem/panic.h"

/*
 * Options that belong to no other module.  The starting thread sets them; later
 * they do not change.
 */
struct options {
	enum rseq_owner mode; /* RSEQ_LIBC: the library chooses */
	unsigned concurrency; /* number of CPUs to have magazines for; 0: all */
	int policy;           /* VM_*FIT policy of the heap; 0: instant fit */
	bool verbose;
	bool help;
	bool confined;
	bool secure; /* set-user-ID program: the variables were ignored */
};

extern hidden struct options options;

/* The path of a file for statistics at exit, as for message_open(), or "". */
extern hidden char stats_path[MESSAGE_PATH_BYTES];

/*
 * Reads the environment, or asks the program's _umem_options_init(),
 * _umem_debug_init() and _umem_logging_init(), and sets the modules that keep
 * their own options.  The starting thread calls it once.
 */
void options_read(void);

/*
 * Has the user or the program set any option?  Called after libc has started.
 */
bool options_are_given(void);

/*
 * Parse the text of UMEM_OPTIONS, of UMEM_DEBUG and of UMEM_LOGGING, and apply
 * its items.
 */
void options_parse(const char *text);
void options_parse_debug(const char *text);
void options_parse_logging(const char *text);

/*
 * Write a message for each option that differs from its default, and for each
 * part of UMEM_DEBUG.  Called after the start.
 */
void option_report_changes(void);

/*
 * Registers the writing of the statistics at exit, if UMEM_OPTIONS=stats asks
 * for it.  Called after the start, because it may allocate.
 */
void dump_start(void);

/* Writes the list of option_report_all() to standard error. */
void dump_help(void);

/* Appends a list of all options, with their defaults and explanations. */
struct text;
void option_report_all(struct text *text);

/* The most bytes of that list, which has 4 KiB; the rest would be cut. */
#define OPTION_REPORT_BYTES (16 * KIB)

#endif
