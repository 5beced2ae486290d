/*
 * umem.c - the command umem: run a program on this malloc, and inspect a
 * program
 *
 * This file has the table of commands.  Each command has its own file; "run" is
 * in run.c, and all other commands inspect a process or a core file (target.c,
 * layout.c, model.c).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "umem/umem.h"
#include "umem/word.h"

/* Exit status for wrong use, as in env(1) and similar commands. */
#define EXIT_OURS 125

/* A command.  run() gets the words after the name, returns the exit status. */
struct command {
	const char *group; /* its heading, if it is the first of a group */
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage;        /* the words after the name */
	const char *brief;        /* one line */
	const char *text;         /* more lines, for the help of this command */
	const char *example;      /* the purpose of the next member */
	const char *example_line; /* a command for a shell */
};

static const struct command commands[] = {
    {"look", "status", command_status, "[--json] PID|CORE",
	"summary of a process or core, with the next command to try",
	"umem PID and umem CORE do the same",
	"how process 1234 uses its memory", "umem status 1234"},
    {NULL, "ps", command_ps, "[--json]",
	"all processes that run on umem, with their memory", "",
	"the processes of this machine that run on umem", "umem ps"},
    {NULL, "top", command_top, "[-i seconds] [-n count] [-s order] PID",
	"live view of the memory of a process",
	"The process is not stopped.  -n COUNT screens, every -i SECONDS; -s\n"
	"sorts the caches by memory, use, cached, growth, loads or locks",
	"two screens of process 1234, one a second", "umem top -n 2 1234"},
    {NULL, "stat", command_stat, "[--json] PID|CORE",
	"caches and arenas of a process or core",
	"SPARE is the memory that would become free if the buffers of a cache\n"
	"were compacted",
	"the caches of process 1234, and their memory", "umem stat 1234"},
    {NULL, "metrics", command_metrics,
	"[--format=prometheus] [-o file] --all|PID|CORE ...",
	"figures of processes as OpenMetrics text",
	"--format=prometheus prints text for a Prometheus without\n"
	"OpenMetrics, --all every process that runs on umem, -o replaces a\n"
	"file at once",
	"the metrics of all processes, for the textfile collector",
	"umem metrics --all --format=prometheus -o umem.prom"},
    {"leaks and growth", "leaks", command_leaks,
	"[-dev] [-c caller] [--save=FILE]\n"
	"                  [--suppressions=FILE] [--folded|--html|--pprof]\n"
	"                  [--force] [--sysroot=dir] [--json] PID|CORE",
	"allocated blocks that no pointer reaches, by call site",
	"Exits 1 if there are any.  -d adds stacks, -e prints every row, -v\n"
	"the cost of the search; -c selects functions by a part of the name;\n"
	"--suppressions leaves out leaks that match a pattern in a file;\n"
	"--save also writes the rows to a file for umem diff.  --html writes "
	"a\n"
	"page with a flame graph, --folded text for flame graph scripts,\n"
	"--pprof a profile for Go's pprof",
	"the leaks of process 1234, with their stacks", "umem leaks -d 1234"},
    {NULL, "users", command_users,
	"[-dev] [-c caller] [--save=FILE]\n"
	"                  [--suppressions=FILE] [--folded|--html|--pprof]\n"
	"                  [--sysroot=dir] [--json] PID|CORE [CACHE ...]",
	"allocated memory by call site",
	"The options are those of umem leaks.  A CACHE selects its blocks",
	"a flame graph of the memory in use, of a process that samples",
	"umem users --html 1234 >memory.html"},
    {NULL, "diff", command_diff,
	"[-eu] [-t seconds] [--force] [--json] BEFORE [AFTER]",
	"growth between two looks at leaks or users",
	"Each look is a file that leaks or users saved, or a PID or CORE,\n"
	"which is looked at now.  Exits 1 if leaks grew.  -t waits before the\n"
	"second look, which is at the same process if AFTER is missing; -u\n"
	"looks at users if neither look is a file, -e prints every row",
	"the leaks of process 1234 that grow within a second",
	"umem diff -t 1 1234"},
    {"corruption", "verify", command_verify,
	"[--force] [--json] PID|CORE [CACHE ...]",
	"check the buffers of debugged caches; exits 1 if any is corrupt", "",
	"corrupt buffers of a process with UMEM_DEBUG=guards",
	"umem verify 1234"},
    {NULL, "crash", command_crash, "[--sysroot=dir] [--json] CORE",
	"why the program of a core ended",
	"The signal, the block at the address of the fault and who allocated\n"
	"and freed it, the stack, and the last messages of the library",
	"the reason of a crash", "umem crash core.1234"},
    {NULL, "whatis", command_whatis,
	"[-a] [--sysroot=dir] [--json] PID|CORE ADDRESS ...",
	"the block or object that an address belongs to",
	"-a prints everything that the address is", "the owner of an address",
	"umem whatis 1234 55d2c8a4f040"},
    {"control", "run", command_run,
	"[-v] [--debug[=tokens]] [--leaks] [--suppressions=FILE] [--stat]\n"
	"                [--] program [argument ...]",
	"run a program with umem as its malloc",
	"-v makes the library print at the start how it runs; --debug sets\n"
	"UMEM_DEBUG; --leaks and --stat report on standard error when the\n"
	"program ends",
	"run a program in debug mode, and report its leaks when it ends",
	"umem run --debug --leaks -- ./program"},
    {NULL, "ctl", command_ctl, "[--json] PID [OPTION[=VALUE] ...]",
	"read or change options of a running process",
	"Without an OPTION, the options that can change, with their values\n"
	"and defaults",
	"sample one allocation of process 1234 per 512 KiB from now on",
	"umem ctl 1234 sample=512k"},
    {NULL, "options", command_options, "",
	"options of the library, with their defaults and values", "",
	"what an option does, and its default",
	"umem options | grep -A 2 depot_bytes"},
    {"for experts", "log", command_log,
	"[-v] [-l transaction|fail|slab] [-a address] [-c caller]\n"
	"                [-s allocated|free] [-t thread] [--sysroot=dir] "
	"[--json]\n"
	"                PID|CORE",
	"transactions of debugged buffers, the newest first",
	"Without -l, the last transaction of each buffer; with it, a log of\n"
	"UMEM_LOGGING.  -a selects a buffer, -c functions by a part of the\n"
	"name, -s the state, -t a thread; -v adds stacks",
	"the history of a buffer, with UMEM_LOGGING=transaction",
	"umem log -v -l transaction -a 55d2c8a4f040 1234"},
    {NULL, "walk", command_walk, "[--force] [--json] PID|CORE WHAT [CACHE]",
	"addresses of blocks, one a line",
	"WHAT is allocated, free, leak, or the name of a cache; the CACHE\n"
	"selects its blocks",
	"the addresses of the allocated blocks of one size class",
	"umem walk 1234 umem_alloc_64"},
    {NULL, "grep", command_grep,
	"[-q] [-d distance] [--force] [--json] PID|CORE ADDRESS",
	"find words that contain an address",
	"-q prints only the addresses of these words, -d finds words that\n"
	"differ from the address by at most so many bytes",
	"the words of process 1234 that hold an address",
	"umem grep 1234 55d2c8a4f040"},
};

static void
print_help(void)
{
	puts("usage: umem COMMAND [ARGUMENT ...] | PID | CORE | help COMMAND | "
	     "version");
	for (size_t i = 0; i < array_size(commands); i++) {
		if (commands[i].group != NULL)
			printf("%s:\n", commands[i].group);
		printf("  %-8s %s\n", commands[i].name, commands[i].brief);
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
	printf("usage: umem %s%s%s\n\n%s\n%s%s\nExample: %s\n    $ %s\n",
	    command->name, *command->usage ? " " : "", command->usage,
	    command->brief, command->text, *command->text ? "\n" : "",
	    command->example, command->example_line);
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
	const struct command *command = command_find(name);

	fflush(stdout);
	assert(command != NULL);
	if (reason != NULL)
		print_warning("%s: %s", name, reason);
	fprintf(stderr, "usage: umem %s%s%s\nsee umem help %s\n", name,
	    *command->usage ? " " : "", command->usage, name);
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

int
main(int argc, char **argv)
{
	static char status[] = "status";
	const struct command *command;

	if (argc < 2) {
		print_help();
		return EXIT_OURS;
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
