/* common.h - what the files of the command share: ends, memory, options */
#ifndef TOOLS_COMMON_H
#define TOOLS_COMMON_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* How a command that looks at a process ends. */
enum {
	EXIT_FINE = 0,
	EXIT_FOUND = 1, /* leaks, corrupt buffers, an address that is known */
	EXIT_BLIND = 2  /* could not look */
};

/* "umem: " and the message as one line, then the end. */
_Noreturn void fail(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Where fail() goes with its status instead, if this is not NULL. */
extern jmp_buf *fail_instead;
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Memory or the end. */
void *xalloc(size_t bytes); /* zeros */
void *xresize(void *old, size_t bytes);
char *xprint(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Room for one more in an array that doubles. */
#define ARRAY_ROOM(array, n, room)                                             \
	((n) < (room)                                                          \
		? (void)0                                                      \
		: (void)((room) = (room) ? 2 * (room) : 16,                    \
		      (array) = xresize(array, (room) * sizeof(*(array)))))

/* A hexadecimal address, with or without 0x; false: it is none. */
bool parse_address(const char *text, uint64_t *address);
/* A number with k, m, g or t behind it. */
bool parse_size(const char *text, uint64_t *bytes);

/*
 * Text of the target, at most so many bytes of it, for a terminal and for JSON:
 * control characters and bytes that are not UTF-8 become \x and two digits.
 */
const char *plain_text(const char *text, size_t most);

double seconds_now(void);

/*
 * A walk along links that somebody may have made a ring of: true while there
 * is a next that is new.  A ring is gone round three times at most (Brent).
 */
struct trail {
	uint64_t seen;
	size_t n;
};

static inline bool
trail_goes_on(struct trail *trail, uint64_t at)
{
	if (at == 0 || at == trail->seen)
		return false;
	trail->n++;
	if ((trail->n & (trail->n - 1)) == 0)
		trail->seen = at;
	return true;
}

/* One command: its words behind the name, returns the exit status. */
struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage; /* the words behind the name */
	const char *text;  /* lines of help */
};

/*
 * Options of a command, read by getopt_long(): letters as getopt has them,
 * --json, and --force, which sets memory_forced.  Returns a letter, 'J' for
 * --json, or -1.
 */
int next_option(int argc, char **argv, const char *letters);
_Noreturn void fail_usage(const char *command);

int command_allocdby(int argc, char **argv);
int command_arenas(int argc, char **argv);
int command_bufctl(int argc, char **argv);
int command_caches(int argc, char **argv);
int command_frag(int argc, char **argv);
int command_freedby(int argc, char **argv);
int command_grep(int argc, char **argv);
int command_leaks(int argc, char **argv);
int command_log(int argc, char **argv);
int command_run(int argc, char **argv);
int command_sample(int argc, char **argv);
int command_samples(int argc, char **argv);
int command_segments(int argc, char **argv);
int command_sizes(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_status(int argc, char **argv);
int command_users(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_walk(int argc, char **argv);
int command_whatis(int argc, char **argv);

#endif
