/*
 * run.c - umem run: run a program on this malloc; umem options
 *
 * The command only sets LD_PRELOAD and other variables and executes the
 * program.  With --leaks or --stat it is the parent of the program (trace.c).
 * It is not linked with the library, so that it works with any broken library.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/trace.h"
#include "tools/inspect/sites/suppress.h"
#include "tools/inspect/target/target_file.h"

#define SHIM "libumem_malloc.so.1"

/*
 * The folder, in that of the libraries, of a library for musl beside one for
 * glibc.  A command that was built for musl has its library beside itself.
 */
#ifdef __GLIBC__
#define MUSL_FOLDER "musl/"
#else
#define MUSL_FOLDER ""
#endif

/* The folder of the installed library; the Makefile defines it. */
#ifndef UMEM_LIBDIR
#define UMEM_LIBDIR "/usr/local/lib"
#endif

/* Exit statuses, as in env(1), nice(1) and similar commands. */
enum {
	EXIT_OURS = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127
};

/* Returns the folder of this command, or NULL if /proc does not show it. */
static const char *
own_folder(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (n <= 0)
		return NULL;
	assert((size_t)n < sizeof(path));
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (slash == NULL)
		return NULL;
	*slash = '\0';
	return path;
}

/* Opens the file that execvp() executes, or returns -1. */
static int
open_program(const char *name)
{
	const char *folders = getenv("PATH"), *end;

	if (strchr(name, '/') != NULL || folders == NULL)
		return open(name, O_RDONLY | O_CLOEXEC);
	for (;; folders = end + 1) {
		const char *path;

		end = strchrnul(folders, ':');
		path = xprint("%.*s/%s", (int)(end - folders), folders, name);
		if (access(path, X_OK) == 0)
			return open(path, O_RDONLY | O_CLOEXEC);
		if (*end == '\0')
			return -1;
	}
}

/*
 * Is it a program of musl?  Its file names the loader that loads the library,
 * and musl's cannot load one of glibc.
 */
static bool
is_of_musl(const char *name)
{
	char loader[64] = "";
	int fd = open_program(name);
	Elf64_Ehdr file;

	if (fd < 0)
		return false;
	if (file_is_elf(fd) &&
	    pread(fd, &file, sizeof(file), 0) == sizeof(file) &&
	    file.e_ident[EI_CLASS] == ELFCLASS64) {
		Elf64_Phdr segment = {0};
		off_t at = (off_t)file.e_phoff;

		for (int i = 0; i < file.e_phnum; i++, at += sizeof(segment))
			if (pread(fd, &segment, sizeof(segment), at) > 0 &&
			    segment.p_type == PT_INTERP &&
			    pread(fd, loader, sizeof(loader) - 1,
				(off_t)segment.p_offset) > 0)
				break;
	}
	close(fd);
	return strstr(loader, "/ld-musl-") != NULL;
}

/*
 * Finds the library beside the command (a build folder), in lib beside the
 * command's folder (an installed tree, moved or not), or in the folder that was
 * configured for the build; one for musl in the folder musl there.
 */
static const char *
find_shim(const char *program)
{
	bool musl = is_of_musl(program);
	const char *own = own_folder(), *shim = musl ? MUSL_FOLDER SHIM : SHIM;
	const char *candidates[] = {
	    own ? xprint("%s/%s", own, shim) : NULL,
	    own ? xprint("%s/../lib/%s", own, shim) : NULL,
	    xprint("%s/%s", UMEM_LIBDIR, shim),
	};

	for (size_t i = 0; i < sizeof(candidates) / sizeof(*candidates); i++) {
		char *path;

		if (candidates[i] == NULL || access(candidates[i], R_OK) != 0)
			continue;
		path = realpath(candidates[i], NULL);
		if (path == NULL)
			continue;
		if (strpbrk(path, ": \t") != NULL)
			fail_with(EXIT_OURS,
			    "LD_PRELOAD cannot name %s: blank or colon", path);
		return path;
	}
	fail_with(EXIT_OURS, "%sno %s beside umem, in ../lib or in %s",
	    musl ? xprint("%s is of musl, and there is ", program) : "", shim,
	    UMEM_LIBDIR);
}

/* Sets a variable for the program that this process executes. */
static void
set_variable(const char *name, const char *text)
{
	if (setenv(name, text, /* overwrite */ true) != 0)
		fail_with(
		    EXIT_OURS, "cannot set %s: %s", name, strerror(errno));
}

/* Appends a word to UMEM_OPTIONS. */
static void
append_option(const char *word)
{
	const char *old = getenv("UMEM_OPTIONS");

	set_variable(
	    "UMEM_OPTIONS", old && *old ? xprint("%s,%s", old, word) : word);
}

static _Noreturn void
exec_program(char **arguments)
{
	int error;

	assert(arguments[0] != NULL);
	execvp(arguments[0], arguments);
	error = errno;
	fail_with(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE,
	    "run: %s: %s", arguments[0], strerror(error));
}

struct run_options {
	bool verbose;
	const char *debug; /* for UMEM_DEBUG, or NULL */
	struct trace_options trace;
};

static struct run_options the_options;

static bool
take_option(struct run_options *options, const char *word)
{
	if (strcmp(word, "-v") == 0)
		options->verbose = true;
	else if (strcmp(word, "--leaks") == 0)
		options->trace.leaks = true;
	else if (strncmp(word, "--suppressions=", 15) == 0)
		suppress_read(word + 15, EXIT_OURS);
	else if (strcmp(word, "--stat") == 0)
		options->trace.stat = true;
	else if (strcmp(word, "--debug") == 0)
		options->debug = "default";
	else if (strncmp(word, "--debug=", 8) == 0)
		options->debug = word + 8;
	else
		return false;
	return true;
}

static void
set_environment(const struct run_options *options, const char *program)
{
	const char *old = getenv("LD_PRELOAD"), *shim = find_shim(program);

	set_variable(
	    "LD_PRELOAD", old && *old ? xprint("%s:%s", shim, old) : shim);
	if (options->verbose)
		append_option("verbose");
	if (options->debug != NULL)
		set_variable("UMEM_DEBUG", options->debug);
}

/* Only the child gets the variables: this command must not use the library. */
static _Noreturn void
exec_traced(char **arguments)
{
	set_environment(&the_options, arguments[0]);
	exec_program(arguments);
}

int
command_run(int argc, char **argv)
{
	char **arguments = argv + 1;
	const char *debug = getenv("UMEM_DEBUG");

	(void)argc;
	for (; *arguments && **arguments == '-'; arguments++) {
		if (strcmp(*arguments, "--") == 0) {
			arguments++;
			break;
		}
		if (!take_option(&the_options, *arguments))
			fail_with(EXIT_OURS, "run: no option %s; see umem help",
			    *arguments);
	}
	if (*arguments == NULL)
		fail_with(EXIT_OURS, "run: no program given; see umem help");
	find_shim(arguments[0]);
	if (the_options.debug != NULL)
		debug = the_options.debug;
	the_options.trace.verify =
	    the_options.trace.leaks && debug != NULL && *debug != '\0';
	if (the_options.trace.leaks || the_options.trace.stat)
		return trace_run(&the_options.trace, exec_traced, arguments);
	exec_traced(arguments);
}

/*
 * Lists the options of the library.  The library has the list: it writes it to
 * standard error at the start of a process, here of this command itself, which
 * then has nothing else to do.  The child writes to a pipe, because the library
 * does not tell whether its list was lost.
 */
int
command_options(int argc, char **argv)
{
	static char *arguments[] = {"/proc/self/exe", "version", NULL};
	int ends[2], status;
	FILE *list = NULL;
	pid_t child = -1;

	(void)argv;
	if (argc > 1)
		fail_with(EXIT_OURS, "options takes no argument");
	set_environment(&the_options, arguments[0]);
	append_option("help");
	signal(SIGCHLD, SIG_DFL);
	if (pipe2(ends, O_CLOEXEC) != 0 ||
	    (list = fdopen(ends[0], "r")) == NULL || (child = fork()) < 0)
		fail_with(EXIT_OURS, "options: %s", strerror(errno));
	if (child == 0) {
		if (dup2(ends[1], STDERR_FILENO) >= 0 &&
		    freopen("/dev/null", "w", stdout) != NULL)
			exec_program(arguments);
		_exit(EXIT_OURS);
	}
	close(ends[1]);
	for (int c; (c = getc(list)) != EOF;)
		putchar(c);
	fclose(list);
	return waitpid(child, &status, 0) == child && WIFEXITED(status)
		   ? WEXITSTATUS(status)
		   : EXIT_OURS;
}
