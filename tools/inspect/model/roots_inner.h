/*
 * roots_inner.h - declarations shared by the files of roots; see roots.c
 *
 * roots_threads.c finds the dead parts of stacks.
 */
#ifndef TOOLS_ROOTS_INNER_H
#define TOOLS_ROOTS_INNER_H

#include "tools/inspect/model/library.h"
#include "tools/inspect/model/model_inner.h"
#include "tools/inspect/model/roots.h"

/* Maximum distance of the library's frames from the stack pointer. */
#define NEAR_FRAMES (16 * KIB)

/* May a program keep pointers in mapping i? */
bool roots_has_mapping(const struct target *target, size_t i);

bool roots_is_outside_heap(const struct model *model, const struct mapping *m);

/*
 * Adds the memory that is read for more than pointers into the heap: stacks
 * near the stack pointer, and memory that may contain a thread descriptor of
 * libc.
 */
void roots_add_thread_memory(struct model *model, struct ranges *out);

/* Adds the dead parts of stacks, and of descriptors of ended threads. */
void roots_add_dead_stacks(struct model *model, struct ranges *out);

#endif
