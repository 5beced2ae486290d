/*
 * jit.c - names of code that was generated at run time
 *
 * Programs with a JIT compiler write the file /tmp/perf-PID.map for perf(1),
 * some of them on request: node --perf-basic-prof, python3 -X perf, and Java
 * and .NET by an option.  Each line is "start bytes name", the numbers in
 * hexadecimal.  A program that uses memory again for other code appends a line,
 * so that the last line with an address counts.
 *
 * PID is the number in the process's own namespace, and the path is below the
 * process's root.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/jit.h"

/* The name is at this place in the file. */
struct jit_range {
	uint64_t start;
	uint64_t bytes;
	long name_at;
};

struct jit {
	FILE *file;
	struct jit_range *ranges; /* as in the file */
	size_t n, capacity;
};

/* Returns the number of the process in its own PID namespace. */
static int
own_pid(const struct target *target)
{
	FILE *file = fopen(xprint("/proc/%d/status", target->reader), "r");
	int pid = target->pid;
	char line[256];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "NStgid:", 7) == 0)
			pid = (int)strtol(strrchr(line, '\t'), NULL, 10);
	if (file != NULL)
		fclose(file);
	return pid;
}

/*
 * Opens the list.  Like perf(1), trusts only a file of the process's user or of
 * root.  O_NONBLOCK: it may be a FIFO.
 */
static FILE *
open_list(struct target *target)
{
	const char *path = xprint(
	    "/proc/%d/root/tmp/perf-%d.map", target->reader, own_pid(target));
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat list, process;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &list) == 0 && S_ISREG(list.st_mode) &&
	    stat(xprint("/proc/%d", target->reader), &process) == 0 &&
	    (list.st_uid == process.st_uid || list.st_uid == 0))
		return fdopen(fd, "r");
	close(fd);
	return NULL;
}

struct jit *
jit_open(struct target *target)
{
	FILE *file = target->live ? open_list(target) : NULL;
	struct jit *jit;
	char *line = NULL;
	size_t capacity = 0;
	ssize_t n;
	long at = 0;

	if (file == NULL)
		return NULL;
	jit = xalloc(sizeof(*jit));
	jit->file = file;
	for (; (n = getline(&line, &capacity, file)) > 0; at += n) {
		struct jit_range range;
		int name = 0;

		if (sscanf(line, "%lx %lx %n", &range.start, &range.bytes,
			&name) < 2 ||
		    name == 0)
			continue;
		range.name_at = at + name;
		ARRAY_GROW(jit->ranges, jit->n, jit->capacity);
		jit->ranges[jit->n++] = range;
	}
	free(line);
	return jit;
}

const char *
jit_function(struct jit *jit, uint64_t pc, uint64_t *offset)
{
	char *line = NULL;
	const char *name = NULL;
	size_t capacity = 0, i = jit == NULL ? 0 : jit->n;

	while (i > 0 &&
	       pc - 1 - jit->ranges[i - 1].start >= jit->ranges[i - 1].bytes)
		i--;
	if (i == 0)
		return NULL;
	if (fseek(jit->file, jit->ranges[i - 1].name_at, SEEK_SET) == 0 &&
	    getline(&line, &capacity, jit->file) > 0)
		name = plain_text(line, strcspn(line, "\n"));
	free(line);
	*offset = pc - jit->ranges[i - 1].start;
	return name;
}
