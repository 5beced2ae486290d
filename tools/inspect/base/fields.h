/* fields.h - lines of a text file, with tabs between the fields; fields.c */
#ifndef TOOLS_FIELDS_H
#define TOOLS_FIELDS_H

#include "tools/inspect/base/text.h"

/*
 * Returns the next line of the file, which the next call overwrites, or NULL at
 * the end.  Fails with that status if the file cannot be read or is no text:
 * one that a wrong path names may have no end.
 */
char *fields_line(FILE *file, const char *path, int failure);

/*
 * Divides a line at its tabs into at most most fields.  Returns their number,
 * or most + 1 if there are more.
 */
size_t fields_split(char *line, char **fields, size_t most);

/* Parses a number of at least 0; returns false if it is none. */
bool fields_number(const char *text, double *number);

#endif
