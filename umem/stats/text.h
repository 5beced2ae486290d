/* text.h - a long text under construction; see text.c */
#ifndef UMEM_TEXT_H
#define UMEM_TEXT_H

#include "vmem/panic.h"

/* One owner uses a text at a time; it has no lock. */
struct text {
	size_t n;      /* bytes so far */
	size_t most;   /* bytes that it can hold now */
	size_t mapped; /* bytes of memory */
	char bytes[];
};

/* Returns an empty text for at least that many bytes, or NULL. */
struct text *text_create(size_t bytes);
void text_delete(struct text *text);

/*
 * Makes space for the last lines, at most TEXT_END_BYTES, which are never cut.
 */
#define TEXT_END_BYTES 512
void text_begin_end(struct text *text);

/* Appends a line if it fits. */
void text_add(struct text *text, const struct message *line);

/* Appends a line in the format of message_line(), which must end it. */
void text_line(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends another text. */
void text_append(struct text *text, const struct text *other);

#endif
