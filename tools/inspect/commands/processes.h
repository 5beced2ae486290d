/* processes.h - several processes that run on umem; see processes.c */
#ifndef TOOLS_PROCESSES_H
#define TOOLS_PROCESSES_H

#include "tools/inspect/model/usage.h"
#include "tools/inspect/sites/top_sites.h"
#include "tools/inspect/target/place.h"

/* A process, or the process of a core, and its memory. */
struct process {
	const char *name;    /* its number, or the path of its core */
	const char *program; /* not NULL */
	const char *options; /* those that differ from their defaults */
	struct place place;
	struct target *target;
	const struct layout *layout;
	struct usage usage;
	double
	    rate; /* bytes allocated in a second, an estimate; -1: not known */
	struct top_sites sites; /* on request */
};

struct processes {
	struct process *list;
	size_t n, capacity;
	bool of_sites; /* the request */
};

/* Reads the process or core of this name, or ends the command. */
void processes_add(struct processes *all, const char *name);

/* Reads every process of this machine that runs on umem, the largest first. */
void processes_find(struct processes *all);

/* Prints a table of at most so many processes, and the sums of all. */
void processes_print(struct processes *all, size_t rows);

#endif
