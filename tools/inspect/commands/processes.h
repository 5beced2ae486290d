/* processes.h - several processes that run on umem; see processes.c */
#ifndef TOOLS_PROCESSES_H
#define TOOLS_PROCESSES_H

#include "tools/inspect/model/usage.h"
#include "tools/inspect/target/place.h"

/* A process, or the process of a core, and its memory. */
struct process {
	const char *name;    /* its number, or the path of its core */
	const char *program; /* not NULL */
	const char *options; /* those that differ from their defaults */
	struct place place;
	struct usage usage;
};

struct processes {
	struct process *list;
	size_t n, capacity;
};

/* Reads the process or core of this name, or ends the command. */
void processes_add(struct processes *all, const char *name);

/* Reads every process of this machine that runs on umem, the largest first. */
void processes_find(struct processes *all);

#endif
