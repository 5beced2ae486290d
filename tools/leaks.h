/* leaks.h - leaks of a model that has everything; see leaks.c */
#ifndef TOOLS_LEAKS_H
#define TOOLS_LEAKS_H

#include "tools/model.h"

struct leaks_options {
	bool details;
	bool figures;
};

/* Prints the report on standard output; EXIT_FINE or EXIT_FOUND. */
int leaks_report(struct model *model, const struct leaks_options *options);

#endif
