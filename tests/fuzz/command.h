/*
 * command.h - runs the command umem inside a fuzzer, again and again
 *
 * The command ends by exit(), frees little, and keeps its state in variables.
 * The Makefile links its objects into one, in which the names of command.syms
 * are replaced, and its data is in two sections of their own.  So command_try()
 * can bring the state back after each run: exit() jumps here, the variables get
 * their first values, and memory and files are freed.
 *
 * A run fails by a sanitizer, an assertion, a status that the command does not
 * have, a status of 2 without a message, a message or a figure with control
 * characters, or text that is no JSON where it should be.
 */
#ifndef TESTS_FUZZ_COMMAND_H
#define TESTS_FUZZ_COMMAND_H

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sanitizer/allocator_interface.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/json.h"

int umem_main(int argc, char **argv);

/* The variables of the command. */
extern uint64_t __start_fuzz_data[], __stop_fuzz_data[];
extern uint64_t __start_fuzz_bss[], __stop_fuzz_bss[];

/* A file that the command opens: its path, or a part of it, and its text. */
struct command_file {
	const char *path;
	const uint8_t *text;
	size_t n;
};

static struct {
	jmp_buf end;
	int status;
	int output;     /* standard output of the command */
	int first_fd;   /* the run's own files have numbers from here on */
	uint64_t *data; /* the first values of the variables */
	Dwfl *dwfl;     /* of libdw, in use by the run; or NULL */
	void **blocks;  /* allocated by the run, some more than once */
	size_t nblocks, capacity;
	FILE *files[256];
	size_t nfiles;
	char messages[1 << 16];
	const struct command_file *served;
	size_t nserved;
	/* The file that mmap() maps, so that no page of it is copied. */
	void *mapped;
	size_t mapped_bytes;
} command;

FILE *fuzz_stderr;

_Noreturn void fuzz_exit(int status);
void *fuzz_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int fuzz_munmap(void *at, size_t n);
FILE *fuzz_fopen(const char *path, const char *mode);
FILE *fuzz_fdopen(int fd, const char *mode);
FILE *fuzz_open_memstream(char **text, size_t *n);
int fuzz_fclose(FILE *file);
int fuzz_setrlimit(int resource, const struct rlimit *limit);
int fuzz_fork(void);
void *fuzz_malloc(size_t n);
void *fuzz_calloc(size_t n, size_t bytes);
void *fuzz_realloc(void *old, size_t n);
char *fuzz_strdup(const char *text);
int fuzz_strncmp(const char *a, const char *b, size_t n);
int fuzz_vasprintf(char **text, const char *format, va_list arguments);
ssize_t fuzz_getdelim(char **line, size_t *capacity, int end, FILE *file);
Dwfl *fuzz_dwfl_begin(const Dwfl_Callbacks *callbacks);
unsigned fuzz_sleep(unsigned seconds);

_Noreturn void
fuzz_exit(int status)
{
	command.status = status;
	longjmp(command.end, 1);
}

/* A copy has the length of the file, so that the sanitizer knows its end. */
void *
fuzz_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	char *copy;

	if (fd < 0)
		return mmap(at, n, prot, flags, fd, offset);
	if (command.mapped != NULL && n == command.mapped_bytes)
		return command.mapped;
	copy = malloc(n);
	if (pread(fd, copy, n, offset) != (ssize_t)n)
		return MAP_FAILED;
	return copy;
}

int
fuzz_munmap(void *at, size_t n)
{
	(void)at;
	(void)n;
	return 0;
}

static FILE *
keep_file(FILE *file)
{
	if (file != NULL && command.nfiles < 256)
		command.files[command.nfiles++] = file;
	return file;
}

/* A path that the target names ends in a name of the table of files. */
FILE *
fuzz_fopen(const char *path, const char *mode)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < command.nserved; i++) {
		const struct command_file *f = &command.served[i];
		size_t end = strlen(f->path);

		if (n < end || strcmp(path + n - end, f->path) != 0)
			continue;
		if (f->n == 0)
			return keep_file(fopen("/dev/null", mode));
		return keep_file(
		    fmemopen((void *)(uintptr_t)f->text, f->n, "r"));
	}
	return keep_file(fopen(path, mode));
}

FILE *
fuzz_fdopen(int fd, const char *mode)
{
	return keep_file(fdopen(fd, mode));
}

FILE *
fuzz_open_memstream(char **text, size_t *n)
{
	return keep_file(open_memstream(text, n));
}

int
fuzz_fclose(FILE *file)
{
	for (size_t i = 0; i < command.nfiles; i++)
		if (command.files[i] == file)
			command.files[i] = command.files[--command.nfiles];
	return fclose(file);
}

/* The sanitizer needs much address space. */
int
fuzz_setrlimit(int resource, const struct rlimit *limit)
{
	(void)resource;
	(void)limit;
	return 0;
}

int
fuzz_fork(void)
{
	errno = EAGAIN;
	return -1;
}

unsigned
fuzz_sleep(unsigned seconds)
{
	(void)seconds;
	return 0;
}

static void *
note_block(void *block)
{
	if (command.nblocks == command.capacity) {
		command.capacity = 2 * command.capacity + 1024;
		command.blocks =
		    realloc(command.blocks, command.capacity * sizeof(void *));
	}
	command.blocks[command.nblocks++] = block;
	return block;
}

void *
fuzz_malloc(size_t n)
{
	return note_block(malloc(n));
}

void *
fuzz_calloc(size_t n, size_t bytes)
{
	return note_block(calloc(n, bytes));
}

void *
fuzz_realloc(void *old, size_t n)
{
	return note_block(realloc(old, n));
}

char *
fuzz_strdup(const char *text)
{
	return note_block(strdup(text));
}

/* libFuzzer would look at each of thousands of comparisons. */
int
fuzz_strncmp(const char *a, const char *b, size_t n)
{
	for (; n > 0; n--, a++, b++)
		if (*a != *b || *a == '\0')
			return (unsigned char)*a - (unsigned char)*b;
	return 0;
}

int
fuzz_vasprintf(char **text, const char *format, va_list arguments)
{
	int n = vasprintf(text, format, arguments);

	note_block(*text);
	return n;
}

ssize_t
fuzz_getdelim(char **line, size_t *capacity, int end, FILE *file)
{
	ssize_t n = getdelim(line, capacity, end, file);

	note_block(*line);
	return n;
}

Dwfl *
fuzz_dwfl_begin(const Dwfl_Callbacks *callbacks)
{
	return command.dwfl = dwfl_begin(callbacks);
}

/* Between variables, the sanitizer allows no access. */
#define ALL_MEMORY __attribute__((no_sanitize("address", "coverage")))

/* Few words differ, so that their pages stay as they are in the cache. */
ALL_MEMORY static void
copy_words(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (to[i] != from[i])
			to[i] = from[i];
}

ALL_MEMORY static void
clear_words(uint64_t *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (to[i] != 0)
			to[i] = 0;
}

#define DATA_WORDS (size_t)(__stop_fuzz_data - __start_fuzz_data)
#define BSS_WORDS  (size_t)(__stop_fuzz_bss - __start_fuzz_bss)

static void
command_init(void)
{
	static char buffer[1 << 16];

	command.output = memfd_create("output", MFD_CLOEXEC);
	fuzz_check(command.output >= 0);
	fflush(stdout);
	fuzz_check(dup2(command.output, STDOUT_FILENO) == STDOUT_FILENO);
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	fuzz_stderr =
	    fmemopen(command.messages, sizeof(command.messages) - 1, "w");
	setvbuf(fuzz_stderr, NULL, _IONBF, 0);
	opterr = 0;
	command.data = calloc(DATA_WORDS, sizeof(*command.data));
	copy_words(command.data, __start_fuzz_data, DATA_WORDS);
}

/* Brings the state back. */
static void
command_reset(void)
{
	dwfl_end(command.dwfl);
	while (command.nfiles > 0)
		fclose(command.files[--command.nfiles]);
	for (size_t i = 0; i < command.nblocks; i++)
		if (__sanitizer_get_ownership(command.blocks[i]))
			free(command.blocks[i]);
	command.nblocks = 0;
	copy_words(__start_fuzz_data, command.data, DATA_WORDS);
	clear_words(__start_fuzz_bss, BSS_WORDS);
	close_range((unsigned)command.first_fd, ~0u, 0);
	optind = 0;
}

/* Text of the target may not move the cursor, nor break a line. */
static void
check_plain(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		fuzz_check((c >= 0x20 || c == '\n' || c == '\t') && c != 0x7f);
	}
}

/* Returns the standard output of the run; the caller frees it. */
static char *
take_output(size_t *n)
{
	char *text;

	fflush(stdout);
	*n = (size_t)lseek(command.output, 0, SEEK_END);
	text = malloc(*n + 1);
	fuzz_check(pread(command.output, text, *n, 0) == (ssize_t)*n);
	text[*n] = '\0';
	fuzz_check(ftruncate(command.output, 0) == 0);
	lseek(command.output, 0, SEEK_SET);
	return text;
}

/* The form that standard output must have. */
enum output {
	OUTPUT_TEXT,
	OUTPUT_JSON,
	OUTPUT_BYTES
};

/* Begins a run: call(arg) may end by fuzz_exit().  Returns the status. */
static int
command_call(int (*call)(void *arg), void *arg)
{
	rewind(fuzz_stderr);
	memset(command.messages, 0, 4096);
	command.first_fd = dup(STDOUT_FILENO);
	command.dwfl = NULL;
	if (setjmp(command.end) == 0)
		command.status = call(arg);
	else
		command.dwfl = NULL; /* it may be inside */
	return command.status;
}

static int
call_main(void *arg)
{
	char **argv = arg;
	int argc = 0;

	while (argv[argc] != NULL)
		argc++;
	return umem_main(argc, argv);
}

/* Runs the command with these words, and checks how it ends. */
static void
command_try(char **argv, enum output output)
{
	int status = command_call(call_main, argv);
	size_t n;
	char *text = take_output(&n);

	fuzz_check(status >= 0 && status <= 2);
	fuzz_check(status != 2 || command.messages[0] != '\0');
	check_plain(command.messages, strlen(command.messages));
	if (output != OUTPUT_BYTES)
		check_plain(text, n);
	if (output == OUTPUT_JSON && status != 2)
		fuzz_check(json_is_valid(text));
	free(text);
	command_reset();
}

#endif
