/* whatis.h - explain an address; see whatis.c */
#ifndef TOOLS_WHATIS_H
#define TOOLS_WHATIS_H

#include "tools/inspect/model/model.h"

/*
 * Prints the sample at or near this address, with its stacks on request; false:
 * there is none.
 */
bool whatis_say_sample(struct model *model, uint64_t at, bool stack);

/*
 * Is the address in a buffer, or in a freed buffer with unmapped memory?  Sets
 * *start to the start of the buffer, and *is_freed.
 */
bool whatis_is_block(
    struct model *model, uint64_t at, uint64_t *start, bool *is_freed);

/* Prints an explanation with stacks. */
void whatis_say_stacks(struct model *model, uint64_t at);

/* Prints one line, or one JSON object. */
void whatis_say(struct model *model, uint64_t at);

#endif
