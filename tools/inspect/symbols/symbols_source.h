/*
 * symbols_source.h - functions and lines by the files of the target's modules
 *
 * Implemented with elfutils (symbols_dw.c) and without (symbols_none.c).
 */
#ifndef TOOLS_SYMBOLS_SOURCE_H
#define TOOLS_SYMBOLS_SOURCE_H

#include "tools/inspect/symbols/symbols.h"

struct source;

struct source *source_open(struct target *target);
void source_close(struct source *source);

/* Implements symbol_unwind(); 0: this source cannot. */
size_t source_unwind(struct source *source, struct target *target,
    const struct thread *thread, uint64_t *pcs, size_t n);

/*
 * Returns the function of a return address, or NULL, and sets *offset to the
 * distance from its start and *is_rust if its symbol is one of rustc.
 */
const char *source_function(
    struct source *source, uint64_t pc, uint64_t *offset, bool *is_rust);

/* Returns the file that has a return address, or NULL, and its address there.
 */
const char *source_object(
    struct source *source, uint64_t pc, uint64_t *address);

/*
 * Finds the inlined functions and the lines of a return address; returns their
 * number, at most SOURCE_FRAMES_MAX.  The last frame, which is always there,
 * is the function of source_function(), and only has its line.
 */
#define SOURCE_FRAMES_MAX 32
size_t source_frames(
    struct source *source, uint64_t pc, struct symbol_frame *frames);

#endif
