/*
 * debug.c - programs and debugging information, by the names of a core
 *
 * The core is of small.c (make_core.py), and finds its program below a folder
 * of this fuzzer.  The input damages the program: each piece of damage has a
 * place in the file (2 bytes), a length up to 8 (1 byte) and new bytes.  The
 * first byte of the input selects the command.
 *
 * libdw reads most of the file, and has no instrumentation: of its faults the
 * fuzzer finds those that end the process.
 *
 * test link: command
 */
#include <sys/stat.h>

#include "tests/fuzz/cores.h"

static char root[64], file[4200];
static char *program;
static size_t program_bytes;

/* Makes the folders of a path. */
static void
make_folders(char *path)
{
	for (char *slash = path; (slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	char beside[4096], *absolute;
	FILE *from;

	(void)argc;
	read_cores((*argv)[0]);
	snprintf(beside, sizeof(beside), "%s", (*argv)[0]);
	snprintf(file, sizeof(file), "%s/small", dirname(beside));
	absolute = realpath(file, NULL);
	fuzz_check(absolute != NULL);
	from = fopen(absolute, "r");
	program = malloc(1 << 16);
	program_bytes = fread(program, 1, 1 << 16, from);
	fclose(from);
	fuzz_check(program_bytes > 1000 && program_bytes < 1 << 16);
	snprintf(root, sizeof(root), "/dev/shm/umem-fuzz-%d", getpid());
	snprintf(file, sizeof(file), "%s%s", root, absolute);
	make_folders(file);
	free(absolute);
	command_init();
	return 0;
}

static void
write_damaged(struct input *input)
{
	char *copy = malloc(program_bytes);
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memcpy(copy, program, program_bytes);
	while (!is_over(input)) {
		size_t at = take(input, 2) % (program_bytes - 8);
		unsigned n = (unsigned)take(input, 1) % 8 + 1;
		uint64_t word = take(input, n);

		memcpy(copy + at, &word, n);
	}
	fuzz_check(write(fd, copy, program_bytes) == (ssize_t)program_bytes);
	close(fd);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char umem[] = "umem", leaks[] = "leaks", crash[] = "crash", d[] = "-d",
	     sysroot[80], name[CORE_NAME_BYTES], json[] = "--json";
	char *argv[6] = {umem, leaks, d, sysroot, name};
	struct input input = {data, data + n};
	unsigned kind = (unsigned)take(&input, 1) % 3;

	if (kind == 1)
		argv[2] = json;
	if (kind == 2) {
		argv[1] = crash;
		argv[2] = json;
	}
	snprintf(sysroot, sizeof(sysroot), "--sysroot=%s", root);
	core_name(&cores[1], name);
	core_map(&cores[1]);
	write_damaged(&input);
	command_try(argv, kind == 0 ? OUTPUT_TEXT : OUTPUT_JSON);
	return 0;
}
