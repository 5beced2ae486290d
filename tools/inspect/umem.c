/*
 * umem.c - the command umem: run a program on this malloc, and inspect a
 * program
 *
 * This file has the table of commands.  Each command has its own file; "run" is
 * in run.c, and all other commands inspect a process or a core file (target.c,
 * layout.c, model.c).  help.txt has a chapter for each command, which begins
 * with a line "= NAME USAGE" and more lines of the usage.  Behind an empty line
 * follow the purpose in one line, more lines, and an example.  A line "== NAME"
 * begins a group of commands.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "umem/umem.h"
#include "umem/word.h"

/* Exit status for wrong use, as in env(1) and similar commands. */
#define EXIT_OURS 125

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

#define COMMAND_ROW(name) {#name, command_##name},
static const struct command commands[] = {COMMANDS(COMMAND_ROW)};

static const char help[] =
#include "tools/inspect/commands/help.txt.h"
    ;

/* Prints the names of groups, and of each command the name and the purpose. */
static void
print_help(void)
{
	const char *behind_blank = NULL;

	puts("usage: umem COMMAND [ARGUMENT ...] | PID | CORE | help COMMAND | "
	     "version");
	for (const char *line = help; *line != '\0';) {
		const char *next = strchr(line, '\n') + 1;

		if (text_begins(line, "== "))
			printf("%.*s:\n", (int)(next - line - 4), line + 3);
		else if (text_begins(line, "= "))
			printf("  %-8.*s ", (int)strcspn(line + 2, " \n"),
			    line + 2);
		else if (line == behind_blank &&
			 !text_begins(line, "Example: "))
			printf("%.*s", (int)(next - line), line);
		if (*line == '\n')
			behind_blank = next;
		line = next;
	}
}

static const struct command *
command_find(const char *name)
{
	for (size_t i = 0; i < array_size(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

/* Returns the chapter of a command, from its usage on. */
static const char *
chapter_of(const char *name)
{
	const char *chapter = strstr(help, xprint("\n= %s ", name));

	return (chapter != NULL ? chapter
				: strstr(help, xprint("\n= %s\n", name))) +
	       strlen("\n= ");
}

/* Ends the process because there is no such command. */
static _Noreturn void
fail_unknown(const char *name)
{
	const char *near = NULL;

	for (size_t i = 0; i < array_size(commands); i++)
		near = word_nearer(name, commands[i].name, near);
	if (near != NULL)
		fail_with(EXIT_OURS,
		    "no command %s; did you mean %s? see umem help", name,
		    near);
	fail_with(EXIT_OURS, "no command %s; see umem help", name);
}

static int
print_help_of(const struct command *command)
{
	const char *chapter = chapter_of(command->name);
	const char *end = strstr(chapter, "\n=");

	if (end == NULL)
		end = strrchr(chapter, '\n');
	printf("usage: umem %.*s\n", (int)(end - chapter), chapter);
	return print_end(EXIT_SUCCESS);
}

/*
 * Is "--help" one of the words of a command?  Words behind "--" belong to a
 * program, as do those behind the name of a program to run.
 */
static bool
wants_help(int argc, char **argv)
{
	bool runs = strcmp(argv[0], "run") == 0;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return true;
		if (runs && argv[i][0] != '-')
			break;
	}
	return false;
}

_Noreturn void
fail_usage(const char *name, const char *reason)
{
	const char *usage = chapter_of(name);

	fflush(stdout);
	if (reason != NULL)
		print_warning("%s: %s", name, reason);
	fprintf(stderr, "usage: umem %.*s\nsee umem help %s\n",
	    (int)(strstr(usage, "\n\n") - usage), usage, name);
	exit(EXIT_ERROR);
}

/* The commands that are no entries of the table. */
static int
run_other(int argc, char **argv)
{
	const char *name = argv[0];
	static const char *const words[] = {
	    "help", "--help", "-h", "version", "--version", "-V"};
	size_t word = 0;
	bool helps;

	while (word < array_size(words) && strcmp(name, words[word]) != 0)
		word++;
	if (word == array_size(words))
		fail_unknown(name);
	helps = word < 3;
	if (helps && argc == 2) {
		const struct command *command = command_find(argv[1]);

		if (command == NULL)
			fail_unknown(argv[1]);
		return print_help_of(command);
	}
	if (argc > 1)
		fail_with(EXIT_OURS,
		    helps ? "%s takes at most one argument"
			  : "%s takes no argument",
		    name);
	if (helps)
		print_help();
	else
		puts("umem " UMEM_VERSION);
	return print_end(EXIT_SUCCESS);
}

/* Is this a process or a file, which may be a core? */
static bool
is_target(const char *name)
{
	return name[strspn(name, "0123456789")] == '\0' ||
	       access(name, F_OK) == 0;
}

/*
 * Opens the standard descriptors that are closed, so that no other file gets
 * their numbers: for the other direction, so that reads and writes still fail,
 * and not for a program that is started.
 */
static void
open_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null",
			    O_CLOEXEC |
				(fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

int
main(int argc, char **argv)
{
	static char status[] = "status";
	const struct command *command;

	open_standard();
	if (argc < 2) {
		print_help();
		return print_end(EXIT_OURS);
	}
	command = command_find(argv[1]);
	if (command == NULL && is_target(argv[1])) {
		argv[0] = status;
		return print_end(command_status(argc, argv));
	}
	if (command == NULL)
		return run_other(argc - 1, argv + 1);
	if (wants_help(argc - 1, argv + 1))
		return print_help_of(command);
	return print_end(command->run(argc - 1, argv + 1));
}
