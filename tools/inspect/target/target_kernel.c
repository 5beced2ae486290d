/*
 * target_kernel.c - references to user data that the kernel holds for a process
 *
 * epoll_ctl() and timer_create() take a word from the program, and the kernel
 * returns it with each event.  This word is often the only copy of a pointer.
 * The kernel shows these words in /proc: in the fdinfo of an epoll descriptor
 * as "data:", in timers as "signal: number/value".  It does not show data in a
 * pipe or in a ring of io_uring, nor the address of a signal stack, so another
 * process cannot find pointers there.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/target/target.h"

static void
keep_word(struct target *target, uint64_t word, const char *what)
{
	ARRAY_ADD(target->kernel_references, target->nkernel_references,
	    target->kernel_references_capacity,
	    (struct kernel_reference){.word = word, .what = what});
}

/* Reads the hexadecimal words after key in the lines of a file. */
static void
read_lines(struct target *target, const char *path, const char *line_start,
    const char *key, const char *what)
{
	FILE *file = fopen(path, "r");
	size_t capacity = 0, n = strlen(line_start);
	char *line = NULL;

	while (file != NULL && getline(&line, &capacity, file) > 0) {
		char *at = strncmp(line, line_start, n) == 0
			       ? strstr(line + n, key)
			       : NULL;

		if (at != NULL)
			keep_word(
			    target, strtoull(at + strlen(key), NULL, 16), what);
	}
	free(line);
	if (file != NULL)
		fclose(file);
}

static void
read_descriptor(struct target *target, int dir, const char *fd)
{
	char name[32];
	/* dir is open.  NOLINTNEXTLINE(*StdCLibraryFunctions) */
	ssize_t n = readlinkat(dir, fd, name, sizeof(name) - 1);

	if (n <= 0)
		return;
	name[n] = '\0';
	if (strcmp(name, "anon_inode:[eventpoll]") != 0)
		return;
	read_lines(target, xprint("/proc/%d/fdinfo/%s", target->reader, fd),
	    "tfd:", "data:", xprint("the kernel, for epoll descriptor %s", fd));
}

void
target_read_kernel_references(struct target *target)
{
	struct dirent *entry;
	DIR *dir;

	if (!target->live)
		return;
	assert(target->held);
	target->nkernel_references = 0;
	dir = opendir(proc_path(target->reader, "fd"));
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			read_descriptor(target, dirfd(dir), entry->d_name);
	if (dir != NULL)
		closedir(dir);
	read_lines(target, proc_path(target->pid, "timers"), "signal:", "/",
	    "the kernel, for a timer's signal");
}
