/* watch.h - looks at a process that runs, again and again; see watch.c */
#ifndef TOOLS_WATCH_H
#define TOOLS_WATCH_H

#include "tools/inspect/model/usage.h"
#include "tools/inspect/sites/top_sites.h"

/* The limits of the time between two looks, in seconds. */
#define WATCH_INTERVAL_MIN 0.1
#define WATCH_INTERVAL_MAX 3600

struct watch {
	struct target *target;
	const struct layout *layout;
	struct model model; /* of the samples, at the last look */
	struct top_sites sites;
	uint64_t mean;       /* sampling interval; 0: off */
	size_t nthreads;     /* of the process */
	const char *program; /* its name */
	double took;         /* the last look, in seconds */
};

/* Opens a process, or ends the command. */
void watch_open(struct watch *watch, const char *name);

/* Looks at the process, or ends by fail_with(). */
void watch_look(struct watch *watch, struct usage *usage);

/* Looks; returns NULL, or why that is no longer possible. */
const char *watch_again(struct watch *watch, struct usage *usage);

/* Returns the time from the start of one look to the next, in seconds. */
double watch_pause(const struct watch *watch, double interval);

/* Parses the option -i of a command, or ends it. */
double watch_parse_interval(const char *command, const char *text);

#endif
