/* messages.h - the library's last messages; see messages.c */
#ifndef TOOLS_MESSAGES_H
#define TOOLS_MESSAGES_H

#include "tools/inspect/model/model.h"

/*
 * Prints the library's last messages, if it has written any, under a heading:
 * the oldest first, and at most this many lines.
 */
void messages_print(struct model *model, size_t lines_max);

/* Writes the messages as an array of lines, the oldest first. */
void messages_json(struct model *model, const char *key);

#endif
