/* text.h - texts of users, of files and of the target; see text.c */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdio.h>
#include <string.h>

#include "tools/inspect/base/alloc.h"

static inline bool
text_begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/*
 * Reads the decimal number after the word key and a ':' or ' ' at the start of
 * a line of a file.  "": the number at the start of the first line.  Returns
 * false if there is none.
 */
bool file_number(const char *path, const char *key, uint64_t *value);

/* Parses a hexadecimal address, with or without 0x; false: invalid. */
bool parse_address(const char *text, uint64_t *address);
/* Parses a number that may end in k, m, g or t. */
bool parse_size(const char *text, uint64_t *bytes);

/*
 * Returns at most most bytes of a text of the target, for a terminal and for
 * JSON: replaces control characters, format characters such as those that
 * reverse the direction of a text, and bytes that are not UTF-8 by \x and two
 * digits.
 */
const char *plain_text(const char *text, size_t most);

#endif
