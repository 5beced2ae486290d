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

#include "tools/inspect/common.h"
#include "tools/inspect/cut.h"
#include "tools/inspect/print.h"
#include "umem/umem.h"
#include "umem/word.h"

/* Exit status for wrong use, as in env(1) and similar commands. */
#define EXIT_OURS 125

static const struct command commands[] = {
    {"run", command_run,
	"[-v] [--debug[=tokens]] [--leaks] [--suppressions=FILE] [--stat]\n"
	"                [--] program [argument ...]",
	"run the program with libumem_malloc as its malloc; -v makes the\n"
	"library say at the start how it runs, --debug debugs (UMEM_DEBUG),\n"
	"--leaks and --stat report on standard error when the program ends",
	"run a program in debug mode, and report its leaks when it ends",
	"umem run --debug --leaks -- ./program"},
    {"options", command_options, "",
	"the options of the library, with their defaults and values",
	"what an option does, and its default",
	"umem options | grep -A 2 depot_bytes"},
    {"leaks", command_leaks,
	"[-dev] [-c caller] [--save=FILE] [--since=FILE]\n"
	"                  [--suppressions=FILE] [--force]\n"
	"                  [--sysroot=dir] [--json] PID|CORE",
	"allocated blocks to which nothing in the program points any more,\n"
	"by call site; status 1 if there are any; -d with stacks, -e every\n"
	"row, -v the cost of the search, -c only from functions with this in\n"
	"their name, --suppressions not those that match a pattern in a file,\n"
	"--save saves this look in a file, --since shows the growth since a\n"
	"saved look",
	"the leaks of process 1234, with their stacks", "umem leaks -d 1234"},
    {"status", command_status, "[--json] PID|CORE", "how the library runs",
	"the mode of the library in process 1234, its checks and messages",
	"umem status 1234"},
    {"stat", command_stat, "[--json] PID|CORE",
	"what each cache and each arena holds",
	"the caches of process 1234, and their memory", "umem stat 1234"},
    {"caches", command_caches, "[--json] PID|CORE", "the caches",
	"the caches of process 1234, one a line", "umem caches 1234"},
    {"arenas", command_arenas, "[--json] PID|CORE", "the arenas",
	"the arenas of process 1234, one a line", "umem arenas 1234"},
    {"whatis", command_whatis,
	"[-a] [--sysroot=dir] [--json] PID|CORE ADDRESS ...",
	"what an address is; -a everything that it is",
	"the block or object that an address belongs to",
	"umem whatis 1234 55d2c8a4f040"},
    {"crash", command_crash, "[--sysroot=dir] [--json] CORE",
	"why the program of a core ended: the signal, what the address of the\n"
	"fault is, who allocated and freed it, the stack, and the last\n"
	"messages of the library",
	"the reason of a crash", "umem crash core.1234"},
    {"segments", command_segments,
	"[-s] [-m min] [-M max] [-T type] [--json] PID|CORE ARENA",
	"the segments of an arena; -s sizes instead of ends",
	"the free ranges of the heap of at least 64 KiB",
	"umem segments -T FREE -m 64k 1234 umem_heap"},
    {"sizes", command_sizes, "[-dgi] [-b bins] [-B bytes] [--json] PID|CORE",
	"how large what malloc() gave is; -g bins that double, -d every\n"
	"size, -i by cache, with the overhead",
	"the blocks of process 1234, by size in powers of two",
	"umem sizes -g 1234"},
    {"frag", command_frag, "[--sysroot=dir] [--json] PID|CORE",
	"which caches and callers keep slabs that are hardly used",
	"the caches of process 1234 that would gain from compaction",
	"umem frag 1234"},
    {"verify", command_verify, "[--force] [--json] PID|CORE [CACHE ...]",
	"are buffers of debugged caches whole? status 1 if not",
	"corrupt buffers of a process with UMEM_DEBUG=guards",
	"umem verify 1234"},
    {"users", command_users,
	"[-de] [--save=FILE] [--since=FILE] [--sysroot=dir]\n"
	"                  [--json] PID|CORE [CACHE ...]",
	"allocated memory by call site, the largest first; -d with stacks,\n"
	"-e every row, --save saves this look in a file, --since shows the\n"
	"growth since a saved look",
	"all call sites that hold memory, of a process with UMEM_DEBUG=audit",
	"umem users -e 1234"},
    {"diff", command_diff, "[-eu] [-t seconds] [--force] [--json] BEFORE AFTER",
	"growth between two looks, each a file that leaks or users saved, or\n"
	"a PID or CORE, which is looked at now; status 1 if leaks grew; -t\n"
	"waits so long before the second look, -u looks at users if neither\n"
	"look is a file, -e every row",
	"the leaks of process 1234 that grow within a second",
	"umem diff -t 1 1234 1234"},
    {"samples", command_samples,
	"[-v] [--folded|--html|--pprof] [--sysroot=dir] [--json]\n"
	"                PID|CORE|FILE",
	"live samples by caller, with what they stand for, also from a FILE\n"
	"that UMEM_OPTIONS=stats or umem_dump() has written; -v with stacks,\n"
	"--html as a page with a flame graph, --folded for flame graph\n"
	"scripts, --pprof for Go's pprof",
	"a flame graph of the memory in use, of a process that samples",
	"umem samples --html 1234 >memory.html"},
    {"sample", command_sample, "PID BYTES|default|off",
	"have one allocation in about so many bytes sampled, from now on",
	"let process 1234 sample one allocation in about 512 KiB",
	"umem sample 1234 512k"},
    {"ctl", command_ctl, "[--json] PID [OPTION[=VALUE] ...]",
	"the options that can change while the program runs, with their\n"
	"values and defaults; or read and change some",
	"let process 1234 keep at most 4 MiB of each size in the depot",
	"umem ctl 1234 depot_bytes=4m"},
    {"top", command_top, "[-bc] [-i seconds] [-n count] [-s order] PID",
	"a live view of the memory, without a stop of the process: the\n"
	"layers, the caches and the call sites of samples; -b as text, -n so\n"
	"many screens, -i with so many seconds between, -c the CPUs, -s by\n"
	"memory, use, cached, growth, loads or locks",
	"two screens of process 1234 as text, one a second",
	"umem top -b -n 2 1234"},
    {"ps", command_ps, "[--json]",
	"every process that runs on umem, with its memory, the largest first",
	"the processes of this machine that run on umem", "umem ps"},
    {"metrics", command_metrics,
	"[--format=prometheus] [-o file] --all|PID|CORE ...",
	"the use of memory as OpenMetrics text, or as text for a Prometheus\n"
	"without OpenMetrics; --all for every process that runs on umem, -o\n"
	"replaces a file at once",
	"the metrics of all processes, for the textfile collector",
	"umem metrics --all --format=prometheus -o umem.prom"},
    {"log", command_log,
	"[-r] [-l transaction|fail|slab] [--sysroot=dir] [--json]\n"
	"                PID|CORE",
	"the transaction log, newest first; -r without stacks",
	"the transactions of a process with UMEM_LOGGING=transaction",
	"umem log -r 1234"},
    {"bufctl", command_bufctl,
	"[-hv] [-a buffer] [-c caller] [-e time] [-l time] [-t thread]\n"
	"                   [--sysroot=dir] [--json] PID|CORE [BUFFER|BUFCTL "
	"...]",
	"who had a buffer last; -v with stacks, -h its history",
	"earlier owners of a buffer, of a process with UMEM_DEBUG=audit",
	"umem bufctl -h 1234 55d2c8a4f040"},
    {"allocdby", command_allocdby, "[--sysroot=dir] [--json] PID|CORE THREAD",
	"buffers that a thread allocated",
	"the buffers that thread 1235 of process 1234 allocated",
	"umem allocdby 1234 1235"},
    {"freedby", command_freedby, "[--sysroot=dir] [--json] PID|CORE THREAD",
	"buffers that a thread freed",
	"the buffers that thread 1235 of process 1234 freed",
	"umem freedby 1234 1235"},
    {"walk", command_walk, "[--force] [--json] PID|CORE WHAT [CACHE]",
	"addresses, one a line: umem, freemem, bufctl, freectl, leak,\n"
	"umem_cache, umem_slab, umem_slab_partial, umem_log, vmem, vmem_seg,\n"
	"vmem_alloc, vmem_free, vmem_span, or the name of a cache",
	"the addresses of the allocated blocks of one size class",
	"umem walk 1234 umem_alloc_64"},
    {"grep", command_grep,
	"[-q] [-a step] [-d distance] [-m mask] [-M mask] [--force]\n"
	"                 [--json] PID|CORE ADDRESS",
	"where an address is kept; -q only the addresses of these places",
	"the words of process 1234 that hold an address",
	"umem grep 1234 55d2c8a4f040"},
};

static void
print_help(void)
{
	for (size_t i = 0; i < array_size(commands); i++)
		printf("%s umem %s%s%s\n", i == 0 ? "usage:" : "      ",
		    commands[i].name, *commands[i].usage ? " " : "",
		    commands[i].usage);
	puts("       umem version\n"
	     "       umem help [command]\n");
	for (size_t i = 0; i < array_size(commands); i++) {
		const char *line = commands[i].text;
		const char *name = commands[i].name;

		while (line != NULL) {
			const char *end = strchr(line, '\n');
			size_t n = end ? (size_t)(end - line) : strlen(line);

			printf("%-9s %.*s\n", name, (int)n, line);
			line = end ? end + 1 : NULL;
			name = "";
		}
	}
	puts("version   print the version\n"
	     "help      print this, or the help of a command with an example");
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
	printf("usage: umem %s%s%s\n\n%s\n\nExample: %s\n    $ %s\n",
	    command->name, *command->usage ? " " : "", command->usage,
	    command->text, command->example, command->example_line);
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

int
main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_help();
		return EXIT_OURS;
	}
	command = command_find(argv[1]);
	if (command == NULL)
		return run_other(argc - 1, argv + 1);
	if (wants_help(argc - 1, argv + 1))
		return print_help_of(command);
	cut_watch();
	return print_end(command->run(argc - 1, argv + 1));
}
