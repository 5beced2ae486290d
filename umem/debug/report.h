/* report.h - reports of errors, one at a time; see report.c */
#ifndef UMEM_REPORT_H
#define UMEM_REPORT_H

#include "vmem/panic.h"

/* The last messages, as a ring; the next byte is stored at umem_error_begin. */
#define ERROR_BUFFER_BYTES 8192
#define ERROR_MESSAGE_MAX  4096
extern hidden char umem_error_buffer[ERROR_BUFFER_BYTES];
extern hidden uint64_t umem_error_begin;

/* Begin of the last report, in ns, CLOCK_MONOTONIC; 0: there was none. */
extern hidden uint64_t umem_error_time;

/*
 * Begin a report, of which each line starts with prefix.  Waits while another
 * thread makes one.  Returns false if the calling thread itself is making a
 * report, which has then caused a further error.  report_end() writes the rest
 * of the report and ends it.  The functions below are called in between.
 */
bool report_begin(const char *prefix);
void report_end(void);

/*
 * Write the lines so far.  A report does so before it reads memory that may be
 * damaged, because a fault there ends the process.
 */
void report_send(void);

/* Add a line.  The conversions are those of message_line(). */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Add text as it is. */
void report_add(const struct message *m);

/* Add the program, its process, and the calling thread with its name. */
void report_where(void);

/* Add a line for each frame. */
void report_frames(const uintptr_t *pcs, unsigned n);

/* Add the stack of the calling thread, from pc on; 0: from its call on. */
void report_stack(uintptr_t pc);

/*
 * Add who allocated or freed a block ("allocated", "freed"): the thread, the
 * time ago in ns, and the stack.
 */
void report_caller(const char *what, uint64_t thread, uint64_t ago,
    const uintptr_t *stack, unsigned depth);

/* Add that nothing recorded who allocated and freed the block. */
void report_no_record(void);

/*
 * Add the command that prints stacks with lines of the source: all stacks of
 * the report, from the core that is about to be written, or those of the
 * allocation and free of the buffer at p, from the process that goes on.
 */
void report_crash_command(void);
void report_whatis_command(const void *p);

/* Receives a message that panic.c has written. */
void report_sink(const char *bytes, size_t n);

void report_after_fork(void);

#endif
