/* whatis.h - explain an address; see cmd_whatis.c */
#ifndef TOOLS_WHATIS_H
#define TOOLS_WHATIS_H

#include "tools/inspect/model.h"

/* Prints the sample at or near this address, and its stacks; false: none. */
bool whatis_say_sample(struct model *model, uint64_t at);

/* Prints one line, or one JSON object. */
void whatis_say(struct model *model, uint64_t at);

#endif
