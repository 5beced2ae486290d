/* fields.h - lines of a saved file, with tabs between the fields; fields.c */
#ifndef TOOLS_FIELDS_H
#define TOOLS_FIELDS_H

#include "tools/inspect/common.h"

/*
 * Divides a line at its tabs into at most most fields.  Returns their number,
 * or most + 1 if there are more.
 */
size_t fields_split(char *line, char **fields, size_t most);

/* Parses a number of at least 0; returns false if it is none. */
bool fields_number(const char *text, double *number);

/* Parses a time in seconds, of which the nanoseconds fit in 64 bits. */
bool fields_time(const char *text, double *seconds);

#endif
