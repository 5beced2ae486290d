/* jit.h - names of code that was generated at run time; see jit.c */
#ifndef TOOLS_JIT_H
#define TOOLS_JIT_H

#include "tools/inspect/target.h"

struct jit;

/* Reads the list of a process; returns NULL if there is none. */
struct jit *jit_open(struct target *target);

/*
 * Returns the function of a return address, or NULL, and sets *offset to the
 * distance from its start.
 */
const char *jit_function(struct jit *jit, uint64_t pc, uint64_t *offset);

#endif
