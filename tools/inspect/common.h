/* common.h - exits, memory and options, for all files of the command */
#ifndef TOOLS_COMMON_H
#define TOOLS_COMMON_H

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Exit statuses of a command that inspects a process. */
enum {
	EXIT_OK = 0,
	EXIT_FOUND = 1, /* leaks, corrupt buffers, an address that is known */
	EXIT_ERROR = 2  /* could not inspect the target */
};

/* Writes "umem: " and the message as one line, and ends the process. */
_Noreturn void fail_with(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* If not NULL, fail_with() jumps here with its status instead. */
extern jmp_buf *fail_target;
/*
 * While this is set, messages are not written; the text of the last one, of
 * fail_with() or print_warning(), is in fail_kept.
 */
extern bool fail_is_kept;
extern const char *fail_kept;
void print_warning(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/*
 * Reads the decimal number after the word key and a ':' or ' ' at the start of
 * a line of a file.  "": the number at the start of the first line.  Returns
 * false if there is none.
 */
bool file_number(const char *path, const char *key, uint64_t *value);

/* Return memory, or end the process. */
void *xalloc(size_t bytes); /* zeros */
void *xresize(void *old, size_t bytes);
char *xprint(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xprint_list(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

/* Makes space for one more element; the array doubles. */
#define ARRAY_GROW(array, n, capacity)                                         \
	(assert((n) <= (capacity)),                                            \
	    (n) < (capacity)                                                   \
		? (void)0                                                      \
		: (void)((capacity) = (capacity) ? 2 * (capacity) : 16,        \
		      (array) =                                                \
			  xresize(array, (capacity) * sizeof(*(array)))))

/* Parses a hexadecimal address, with or without 0x; false: invalid. */
bool parse_address(const char *text, uint64_t *address);
/* Parses a number that may end in k, m, g or t. */
bool parse_size(const char *text, uint64_t *bytes);

/*
 * Parse an argument of a command by the function above.  If it is invalid, end
 * the command with "PREFIX" "TEXT is no NOUN".
 */
uint64_t address_argument(
    const char *text, const char *prefix, const char *noun);
uint64_t size_argument(const char *text, const char *prefix, const char *noun);

/*
 * Returns at most most bytes of a text of the target, for a terminal and for
 * JSON: replaces control characters, format characters such as those that
 * reverse the direction of a text, and bytes that are not UTF-8 by \x and two
 * digits.
 */
const char *plain_text(const char *text, size_t most);

double seconds_now(void);

/* Returns the order of two numbers, as a function for qsort() does. */
static inline int
order_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/*
 * Detects cycles in a walk along links that may be corrupt: returns true while
 * the next item is new.  The walk follows a cycle at most three times (Brent).
 */
struct cycle_detector {
	uint64_t seen;
	size_t n;
};

static inline bool
cycle_continues(struct cycle_detector *cycles, uint64_t at)
{
	if (at == 0 || at == cycles->seen)
		return false;
	cycles->n++;
	if ((cycles->n & (cycles->n - 1)) == 0)
		cycles->seen = at;
	return true;
}

/*
 * Reads the next option of a command by getopt_long(): letters in the format of
 * getopt(), --json, which sets json_wanted, and --force, which sets
 * memory_forced.  Returns a letter, or -1 at the end.
 */
int next_option(int argc, char **argv, const char *letters);

/*
 * Reads the next option of a command that has other words, too.  longs begins
 * with COMMON_OPTIONS.  Words that have no letter return one of the numbers.
 */
#define COMMON_OPTIONS                                                         \
	{"force", no_argument, NULL, 'F'},                                     \
	    {"sysroot", required_argument, NULL, 'R'},                         \
	{                                                                      \
		"json", no_argument, NULL, 'J'                                 \
	}
enum {
	OPTION_ALL = 256,
	OPTION_FORMAT,
	OPTION_FOLDED,
	OPTION_HTML,
	OPTION_PPROF,
	OPTION_SAVE,
	OPTION_SUPPRESSIONS
};
struct option;
int next_long_option(
    int argc, char **argv, const char *letters, const struct option *longs);

/* Reads the options of a command that has no letters. */
void no_option(int argc, char **argv);

/* Returns the only argument after the options, a process or a core. */
const char *only_argument(int argc, char **argv);

/* The same for a command that has no letters: reads its options first. */
const char *target_argument(int argc, char **argv);

/* Ends the process if a command has fewer or more arguments after its options.
 */
void expect_arguments(int argc, char **argv, int least, int most);

/*
 * Ends the process because of a wrong use of a command, with its usage.  The
 * reason is NULL if it has been printed.
 */
_Noreturn void fail_usage(const char *command, const char *reason);

int command_crash(int argc, char **argv);
int command_ctl(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_grep(int argc, char **argv);
int command_leaks(int argc, char **argv);
int command_log(int argc, char **argv);
int command_metrics(int argc, char **argv);
int command_options(int argc, char **argv);
int command_ps(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_status(int argc, char **argv);
int command_top(int argc, char **argv);
int command_users(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_walk(int argc, char **argv);
int command_whatis(int argc, char **argv);

#endif
