/* report.h - allocated memory and leaks by call site; see report.c */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "tools/inspect/report/look.h"

struct report_options {
	bool of_leaks;      /* else of all allocated blocks */
	bool details;       /* stacks below the tables */
	bool every;         /* row */
	bool cost;          /* of the search */
	int form;           /* OPTION_FOLDED, ...; 0: tables, or JSON */
	const char *caller; /* selects stacks with this in a name; or NULL */
	const char *save;   /* a file for the look; or NULL */
	char **caches;      /* names; blocks of others are left out */
	int ncaches;        /* 0: blocks of all */
};

/* Prints the report on standard output; returns EXIT_OK or EXIT_FOUND. */
int report_print(struct model *model, const struct report_options *options);

/* Returns the rows of a process or core: direct leaks, or all blocks. */
struct look report_look(const char *target, bool of_leaks);

#endif
