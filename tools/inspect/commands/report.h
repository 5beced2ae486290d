/* report.h - reports that several commands print: report.c, stat.c, verify.c */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "tools/inspect/report/look.h"

enum report_form {
	FORM_TABLES, /* or JSON */
	FORM_FOLDED,
	FORM_HTML,
	FORM_PPROF
};

struct report_options {
	bool of_leaks;              /* else of all allocated blocks */
	bool reachable;             /* of all, those that leaks_mark() found */
	bool details;               /* stacks below the tables */
	bool every;                 /* row */
	bool cost;                  /* of the search */
	const struct sum_kind *sum; /* NULL: allocated blocks */
	int form;                   /* enum report_form */
	const char *caller; /* selects stacks with this in a name; or NULL */
	const char *save;   /* a file for the look; or NULL */
	char **caches;      /* names; blocks of others are left out */
	int ncaches;        /* 0: blocks of all */
};

/* Prints the report on standard output; returns EXIT_OK or EXIT_FOUND. */
int report_print(struct model *model, const struct report_options *options);

/*
 * Takes looks at a process or a core: one at users, or one at leaks and one at
 * reachable blocks; on request with stacks.  Returns their number.
 */
size_t report_looks(
    const char *target, bool of_users, bool stacks, struct look *looks);

/* Returns the title of a page: "Memory of redis-server (1234)". */
const char *page_title(const char *subject, struct target *target);

/* Ends the command if a page or profile would go to a terminal. */
void page_check(const char *command, const char *form);

/* Prints the tables of umem stat. */
void stat_report(struct model *model);

/* Prints a JSON array of the RCU flavours. */
void stat_json_domains(struct model *model, bool groups);

/*
 * Prints the caches that have corrupt buffers, with their buffers and stacks;
 * tell_clean: also the number of the others.  Returns the number of buffers.
 * The model must have MODEL_MEMORY.
 */
uint64_t verify_report(struct model *model, bool tell_clean);

#endif
