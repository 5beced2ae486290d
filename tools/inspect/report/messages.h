/* messages.h - the library's last messages; see messages.c */
#ifndef TOOLS_MESSAGES_H
#define TOOLS_MESSAGES_H

#include "tools/inspect/model/model.h"

/*
 * Prints the library's last messages, the oldest first, and at most this many
 * lines of them.  Returns the number of earlier lines that it left out.
 */
size_t messages_print(struct model *model, size_t lines_most);

/* Writes the messages as an array of lines, the oldest first. */
void messages_json(struct model *model, const char *key);

/* Has the library written any message? */
bool messages_exist(struct model *model);

#endif
