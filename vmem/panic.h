/* panic.h - messages by write(2), panic() and assertions */
#ifndef VMEM_PANIC_H
#define VMEM_PANIC_H

#include <stdarg.h>

#include "vmem/base.h"

/*
 * A message under construction.  All functions here work without malloc, stdio
 * and locks, so any code of the library may call them, also in a signal
 * handler.  Text that does not fit is dropped.
 */
struct message {
	size_t n; /* bytes of text so far */
	char text[1024];
};

/* Append to a message: text, a hexadecimal or a decimal number. */
void message_text(struct message *m, const char *text);

/*
 * Appends a name that the program chose, for a terminal: control characters as
 * \x and two digits.  %s of the formats below does the same.
 */
void message_plain(struct message *m, const char *text);
void message_hex(struct message *m, uintptr_t value); /* with 0x */
void message_dec(struct message *m, uint64_t value);

/*
 * Append to the file at message_log or, if it has no path or cannot be opened,
 * write by message_write_standard().  The file is opened for each message,
 * because a program may close any descriptor and then open a file of its own
 * by the same number.
 */
void message_write(const char *text, size_t n);

/*
 * Write to descriptor 2 if it is still standard error: the file that it was at
 * message_start(), a character device, or a pipe that is not close-on-exec.
 * Otherwise write nothing, because a program that has closed its standard
 * descriptors may have opened a data file as descriptor 2.
 */
void message_write_standard(const char *text, size_t n);

/* Bytes for the path of a file, with its 0. */
#define MESSAGE_PATH_BYTES 256

/* The path of a file for messages (UMEM_OPTIONS=log), or "". */
extern hidden char message_log[MESSAGE_PATH_BYTES];

/*
 * Open the file at a path to append to it.  %p in the path stands for the
 * number of the process, %% for %.  Negative if it cannot be opened, or if the
 * process is confined, when a filter may end it for the attempt.
 */
int message_open(const char *path);

/*
 * Record the file that descriptor 2 refers to.  The constructor calls it before
 * the program runs; otherwise the first message does.
 */
void message_start(void);

/*
 * message_line() writes "umem: " and the formatted text as one line by
 * message_write(). panic() does the same and aborts.  The conversions are %s,
 * %p, %x, %u, %lx, %lu and %zu.
 */
void message_line(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
#define panic(...) panic_about(NULL, __VA_ARGS__)

/* panic() because of the address p that the program passed; NULL: none. */
_Noreturn void panic_about(const void *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Append formatted text to a message. */
void message_format(struct message *m, const char *format, va_list *args);

struct os_fault;

/* Reports; umem/profile/panic_report.c defines the table. */
extern hidden const struct panic_hooks {
	/* Called with each line of message_line() and panic(), written or not.
	 */
	void (*line)(const char *text, size_t n);
	/*
	 * Called by panic() to write its line m and whatever explains it.  p is
	 * the address of panic_about(), or NULL.  Returns false if the calling
	 * thread is making a report already; then panic() writes the line
	 * itself.
	 */
	bool (*report)(const struct message *m, const void *p);
	/* Called in the handler of os_explain_faults(). */
	void (*explain)(const struct os_fault *fault);
} panic_hooks;

/* Report a failed assertion and abort. */
_Noreturn void assert_failed(const char *what, const char *file, unsigned line);

/* Evaluated in DEBUG=1 builds only; the expression has no side effect. */
#ifdef UMEM_DEBUG
#define umem_assert(x) ((x) ? (void)0 : assert_failed(#x, __FILE__, __LINE__))
#else
#define umem_assert(x) ((void)sizeof(!(x)))
#endif

#endif
