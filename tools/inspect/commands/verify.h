/* verify.h - are the buffers of debugged caches intact?  See verify.c */
#ifndef TOOLS_VERIFY_H
#define TOOLS_VERIFY_H

#include <stdbool.h>

#include "tools/inspect/model/model.h"

/*
 * Prints the caches that have corrupt buffers, with their buffers and stacks;
 * tell_clean: also the number of the others.  Returns the number of buffers.
 * The model must have MODEL_MEMORY.
 */
uint64_t verify_report(struct model *model, bool tell_clean);

#endif
