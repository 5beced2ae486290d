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
#include "tools/inspect/print.h"
#include "umem/umem.h"

/* Exit status for wrong use, as in env(1) and similar commands. */
#define EXIT_OURS 125

static const struct command commands[] = {
    {"run", command_run,
	"[-v] [--debug[=tokens]] [--leaks] [--stat] [--]\n"
	"                program [argument ...]",
	"run the program with libumem_malloc as its malloc; -v makes the\n"
	"library say at the start how it runs, --debug debugs (UMEM_DEBUG),\n"
	"--leaks and --stat report on standard error when the program ends"},
    {"options", command_options, "",
	"the options of the library, with their defaults and values"},
    {"leaks", command_leaks,
	"[-defv] [-c caller] [--mdb] [--force] [--json] PID|CORE",
	"allocated blocks to which nothing in the program points any more,\n"
	"by call site; status 1 if there are any; -d with stacks, -e every\n"
	"row, -v figures of the search, -c only from functions with this in\n"
	"their name, --mdb the tables of ::findleaks"},
    {"status", command_status, "[--json] PID|CORE", "how the library runs"},
    {"stat", command_stat, "[--json] PID|CORE",
	"what each cache and each arena holds"},
    {"caches", command_caches, "[--json] PID|CORE", "the caches"},
    {"arenas", command_arenas, "[--json] PID|CORE", "the arenas"},
    {"whatis", command_whatis, "[-a] [--json] PID|CORE ADDRESS ...",
	"what an address is; -a everything that it is"},
    {"segments", command_segments,
	"[-s] [-m min] [-M max] [-T type] [--json] PID|CORE ARENA",
	"the segments of an arena; -s sizes instead of ends"},
    {"sizes", command_sizes, "[-dgi] [-b bins] [-B bytes] [--json] PID|CORE",
	"how large what malloc() gave is; -g bins that double, -d every\n"
	"size, -i by cache, with the overhead"},
    {"frag", command_frag, "[--json] PID|CORE",
	"which caches and callers keep slabs that are hardly used"},
    {"verify", command_verify, "[--force] [--json] PID|CORE [CACHE ...]",
	"are buffers of debugged caches whole? status 1 if not"},
    {"users", command_users, "[-def] [--mdb] [--json] PID|CORE [CACHE ...]",
	"allocated memory by call site, the largest first; -d with stacks,\n"
	"-e every row, --mdb the table of ::umausers, with -f each buffer"},
    {"samples", command_samples, "[-v] [--folded] [--json] PID|CORE",
	"live samples by caller, with what they stand for; -v with stacks,\n"
	"--folded for flame graphs"},
    {"sample", command_sample, "PID BYTES|default|off",
	"have one allocation in about so many bytes sampled, from now on"},
    {"log", command_log, "[-r] [-l transaction|fail|slab] [--json] PID|CORE",
	"the transaction log, newest first; -r without stacks"},
    {"bufctl", command_bufctl,
	"[-hv] [-a buffer] [-c caller] [-e time] [-l time] [-t thread]\n"
	"                   [--json] PID|CORE [BUFFER|BUFCTL ...]",
	"who had a buffer last; -v with stacks, -h its history"},
    {"allocdby", command_allocdby, "[--json] PID|CORE THREAD",
	"buffers that a thread allocated"},
    {"freedby", command_freedby, "[--json] PID|CORE THREAD",
	"buffers that a thread freed"},
    {"walk", command_walk, "[--force] [--json] PID|CORE WHAT [CACHE]",
	"addresses, one a line: umem, freemem, bufctl, freectl, leak,\n"
	"umem_cache, umem_slab, umem_slab_partial, umem_log, vmem, vmem_seg,\n"
	"vmem_alloc, vmem_free, vmem_span, or the name of a cache"},
    {"grep", command_grep,
	"[-q] [-a step] [-d distance] [-m mask] [-M mask] [--force]\n"
	"                 [--json] PID|CORE ADDRESS",
	"where an address is kept; -q only the addresses of these places"},
};

static void
print_help(void)
{
	for (size_t i = 0; i < array_size(commands); i++)
		printf("%s umem %s%s%s\n", i == 0 ? "usage:" : "      ",
		    commands[i].name, *commands[i].usage ? " " : "",
		    commands[i].usage);
	puts("       umem version\n"
	     "       umem help\n");
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
	     "help      print this");
}

_Noreturn void
fail_usage(const char *name)
{
	fflush(stdout);
	for (size_t i = 0; i < array_size(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			fprintf(stderr, "usage: umem %s %s\n", name,
			    commands[i].usage);
	exit(EXIT_ERROR);
}

int
main(int argc, char **argv)
{
	if (argc < 2) {
		print_help();
		return EXIT_OURS;
	}
	for (size_t i = 0; i < array_size(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return print_end(commands[i].run(argc - 1, argv + 1));
	if (strcmp(argv[1], "version") != 0 && strcmp(argv[1], "help") != 0 &&
	    strcmp(argv[1], "--version") != 0 && strcmp(argv[1], "--help") != 0)
		fail_with(EXIT_OURS, "no command %s; see umem help", argv[1]);
	if (argc > 2)
		fail_with(EXIT_OURS, "%s takes no argument", argv[1]);
	if (strcmp(argv[1], "version") == 0 ||
	    strcmp(argv[1], "--version") == 0)
		puts("umem " UMEM_VERSION);
	else
		print_help();
	return print_end(EXIT_SUCCESS);
}
