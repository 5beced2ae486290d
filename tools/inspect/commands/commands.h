/* commands.h - the subcommands, and their options and arguments */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "tools/inspect/base/text.h"

/*
 * Returns the address in an argument of a command, or ends the command with
 * "COMMAND: TEXT is no address".
 */
uint64_t address_argument(const char *command, const char *text);

/* An option of a command: a letter, or a word; one of the members is set. */
struct option_word {
	const char *name;
	bool *flag;  /* is set, or, ... */
	int *choice; /* ... for one of several words, of which only one may */
	int number;  /* be given, gets this number, which is no word before */
	const char **text;
	uint64_t *address;
	uint64_t *size;   /* parse_size(); ... */
	const char *noun; /* ... the command needs such a number */
	void (*read)(const char *text);
};

/*
 * Reads the options of a command: these n words, and --json, which sets
 * json_wanted, --force, which sets alloc_forced, and --sysroot.  Ends the
 * command if one is wrong, or if there are fewer than least or more than most
 * arguments behind them.  Returns the arguments.
 */
char **options_take(int argc, char **argv, const struct option_word *words,
    size_t n, int least, int most);

/* Returns the only argument of a command without options, a process or core. */
const char *target_argument(int argc, char **argv);

/*
 * Ends the process because of a wrong use of a command, with its usage.  The
 * reason is NULL if it has been printed.
 */
_Noreturn void fail_usage(const char *command, const char *reason);

/*
 * All commands, in the order of umem help.  command_NAME() gets the words from
 * the name on, and returns the exit status.
 */
/* clang-format off */
#define COMMANDS(X) \
	X(status) X(ps) X(top) X(stat) X(metrics) X(doctor) X(leaks) X(users) \
	X(diff) X(verify) X(crash) X(whatis) X(run) X(ctl) X(options) X(log) \
	X(walk) X(grep)
/* clang-format on */
#define COMMAND_DECLARED(name) int command_##name(int argc, char **argv);
COMMANDS(COMMAND_DECLARED)

#endif
