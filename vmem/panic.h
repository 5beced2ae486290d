/* panic.h - messages by write(2), and the end of the program */
#ifndef VMEM_PANIC_H
#define VMEM_PANIC_H

#include <stdarg.h>

#include "vmem/base.h"

/*
 * A line under construction.  Everything here works without malloc, stdio or
 * a lock, so it may be used from any place of the library, signal handlers
 * included.  What does not fit is cut.
 */
struct message {
	size_t n;
	char text[1024];
};

void message_text(struct message *m, const char *text);
void message_hex(struct message *m, uintptr_t value); /* with 0x */
void message_dec(struct message *m, uint64_t value);
void message_send(const struct message *m); /* adds no newline */

/*
 * Writes to descriptor 2 if that is still standard error: the same file as when
 * message_start() was called, a character device, or a pipe that is not
 * close-on-exec.  Otherwise it writes nothing, because a program that has closed
 * its standard descriptors may have opened its data there.
 */
void message_write(const char *text, size_t n);

/* By the constructor, before the program runs; else by the first message. */
void message_start(void);

/* Write to descriptor 2 whatever it is (UMEM_OPTIONS=messages=any). */
extern bool message_anywhere;

/*
 * say() writes "umem: " and the format as one line by message_write(); panic()
 * does so and aborts.  Formats know %s, %p, %x, %u, %d, and %lx, %lu, %zu.
 */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void panic(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Adds what a format and its arguments say. */
void message_format(struct message *m, const char *format, va_list *args);

/* Called with each message, written or not; NULL: nobody wants them. */
extern void (*message_sink)(const char *text, size_t n);

_Noreturn void assert_failed(const char *what, const char *file, int line);

/* Checked in DEBUG=1 builds only; the expression must have no side effect. */
#ifdef UMEM_DEBUG
#define umem_assert(x) ((x) ? (void)0 : assert_failed(#x, __FILE__, __LINE__))
#else
#define umem_assert(x) ((void)sizeof(!(x)))
#endif

#endif
