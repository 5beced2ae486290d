/* dump.h - samples that the library has written to a file; see dump.c */
#ifndef TOOLS_DUMP_H
#define TOOLS_DUMP_H

#include "tools/inspect/sites/sites.h"

struct dump {
	struct sites sites;  /* not finished; the model has no blocks */
	const char *process; /* "process 12 at signal 10"; or NULL */
	const char *rest;    /* "12 more call sites: ..."; or NULL */
	size_t ndumps;       /* in the file; this one is the last */
};

/*
 * Reads a file that the library has written: that of UMEM_OPTIONS=stats, or one
 * of umem_dump().  Returns false if it is no such file, and ends the command if
 * it is damaged.
 */
bool dump_open(const char *path, struct dump *dump);

#endif
