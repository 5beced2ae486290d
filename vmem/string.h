/*
 * string.h - functions on strings that the library does not take from libc
 *
 * A sanitizer of the program replaces those of libc, and some of its versions
 * do not work before it has started, when the library is called already.  Those
 * that the compiler itself calls (memcpy(), memmove(), memset(), strlen()) are
 * libc's.
 */
#ifndef VMEM_STRING_H
#define VMEM_STRING_H

#include <string.h>

#include "vmem/base.h"

/* Returns the bytes of text before the first of the stops, or its length. */
static inline size_t
string_span(const char *text, const char *stops)
{
	size_t n = 0;

	for (; text[n] != '\0'; n++)
		for (const char *stop = stops; *stop != '\0'; stop++)
			if (text[n] == *stop)
				return n;
	return n;
}

static inline bool
string_is_equal(const char *a, const char *b)
{
	for (; *a == *b; a++, b++)
		if (*a == '\0')
			return true;
	return false;
}

static inline bool
string_begins_with(const char *text, const char *prefix)
{
	for (; *prefix != '\0'; text++, prefix++)
		if (*text != *prefix)
			return false;
	return true;
}

/* Copies up to n bytes of a string, and adds a 0. */
static inline void
string_copy(char *to, const char *from, size_t n)
{
	size_t i = 0;

	for (; i < n && from[i] != '\0'; i++)
		to[i] = from[i];
	to[i] = '\0';
}

/* Returns the first byte c among n bytes, or NULL. */
static inline const char *
string_find(const char *text, char c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text[i] == c)
			return &text[i];
	return NULL;
}

/* Returns the part of a path behind the last slash, or the path. */
static inline const char *
string_path_base(const char *path)
{
	const char *base = path;

	for (; *path != '\0'; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

#endif
