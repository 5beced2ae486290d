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

/* Returns the last part of a path. */
static inline const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

/*
 * Calls f for each line of a file, without the end of the line.  Returns false
 * and sets errno if the file cannot be opened.
 */
bool text_each_line(
    const char *path, void (*f)(char *line, void *arg), void *arg);

/*
 * Reads the decimal number after the word key and a ':' or ' ' at the start of
 * a line of a file.  "": the number at the start of the first line.  Returns
 * false if there is none.
 */
bool file_number(const char *path, const char *key, uint64_t *value);

/*
 * Returns the path of a file about a process, "/proc/1234/maps"; 0: this
 * process.  The text is in several buffers that are used in turn.
 */
const char *proc_path(int pid, const char *file);

/*
 * Reads the start of such a file as a text of at most n bytes with its end.
 * Returns the bytes before the end.
 */
size_t proc_read(int pid, const char *file, char *text, size_t n);

/*
 * Closes a stream of open_memstream(), which has set *text and *n, and writes
 * the text to a new file that replaces the one at path, or ends the command and
 * leaves the old file as it is.  Without replaces, this is so for a file of the
 * caller with one name; anything else at path, as a link or a file of another
 * user, is opened and gets the text itself.
 */
void file_write(
    const char *path, bool replaces, FILE *stream, char **text, size_t *n);

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
