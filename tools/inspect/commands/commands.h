/* commands.h - the subcommands, and their options and arguments */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "tools/inspect/base/text.h"

/*
 * Parse an argument of a command by parse_address() and parse_size().  If it is
 * invalid, they end the command with "PREFIX" "TEXT is no NOUN".
 */
uint64_t address_argument(
    const char *text, const char *prefix, const char *noun);
uint64_t size_argument(const char *text, const char *prefix, const char *noun);

/*
 * Reads the next option of a command by getopt_long(): letters in the format of
 * getopt(), --json, which sets json_wanted, and --force, which sets
 * alloc_forced.  Returns a letter, or -1 at the end.
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

/* Like only_argument(), after the options of a command without letters. */
const char *target_argument(int argc, char **argv);

/* Ends the process if there are fewer or more arguments after the options. */
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
