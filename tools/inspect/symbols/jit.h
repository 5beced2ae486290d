/* jit.h - names of code that was generated at run time; see jit.c */
#ifndef TOOLS_JIT_H
#define TOOLS_JIT_H

#include "tools/inspect/target/target.h"

struct jit;

/* Reads the list of a process; returns NULL if there is none. */
struct jit *jit_open(struct target *target);
void jit_close(struct jit *jit); /* which may be NULL */

/*
 * Returns the function of a return address, or NULL, and sets *offset to the
 * distance from its start.
 */
const char *jit_function(struct jit *jit, uint64_t pc, uint64_t *offset);

/*
 * Returns how to get the list of a process for the runtime in it, of which a
 * function has no name, or NULL if no runtime is known.
 */
const char *jit_advice(struct target *target, bool has_nameless);

/* Returns the name without the marks of a compiler, or the name itself. */
const char *jit_plain(const char *function);

#endif
