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
 *
 * Some programs append to the file as long as they run, and another user may
 * have written it.  Therefore only its last LIST_MAX bytes and their last
 * RANGES_MAX lines count.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/symbols/jit.h"
#include "tools/inspect/symbols/program.h"
#include "tools/inspect/target/target_file.h"

#define LIST_MAX       (64l << 20)
#define RANGES_MAX     1000000
/* Bytes; the end of a longer line is ignored. */
#define LINE_BYTES_MAX 1024

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

/* Takes the number of a process in its own PID namespace, the last one. */
static void
take_own_pid(char *line, void *pid)
{
	if (text_begins(line, "NStgid:"))
		*(int *)pid = (int)strtol(strrchr(line, '\t'), NULL, 10);
}

/* Like perf(1), trusts only a list of the process's user or of root. */
static FILE *
open_list(struct target *target)
{
	struct stat list, process;
	int pid = target->pid, fd;

	text_each_line(proc_path(target->reader, "status"), take_own_pid, &pid);
	fd = target_file_open(target, xprint("/tmp/perf-%d.map", pid));
	if (fd < 0)
		return NULL;
	if (fstat(fd, &list) == 0 &&
	    stat(proc_path(target->reader, ""), &process) == 0 &&
	    (list.st_uid == process.st_uid || list.st_uid == 0))
		return fdopen(fd, "r");
	close(fd);
	return NULL;
}

static void
add_range(struct jit *jit, struct jit_range range)
{
	if (jit->n == RANGES_MAX) {
		jit->n /= 2;
		memmove(jit->ranges, jit->ranges + jit->n,
		    jit->n * sizeof(*jit->ranges));
	}
	ARRAY_ADD(jit->ranges, jit->n, jit->capacity, range);
}

/* Reads the list; bytes that are appended meanwhile do not count. */
static void
read_list(struct jit *jit)
{
	char line[LINE_BYTES_MAX];
	struct stat info = {0};
	bool is_start = true; /* of a line, or else the rest of a longer one */
	long at = 0, end;

	fstat(fileno(jit->file), &info);
	end = info.st_size;
	if (end > LIST_MAX) {
		at = end - LIST_MAX;
		fseek(jit->file, at, SEEK_SET);
		is_start = false;
	}
	for (; at < end && fgets(line, sizeof(line), jit->file) != NULL;
	     at = ftell(jit->file)) {
		struct jit_range range;
		bool was_start = is_start;
		int name = 0;

		is_start = strchr(line, '\n') != NULL;
		if (!was_start ||
		    sscanf(line, "%lx %lx %n", &range.start, &range.bytes,
			&name) < 2 ||
		    name == 0 || line[name] == '\0')
			continue;
		range.name_at = at + name;
		add_range(jit, range);
	}
}

struct jit *
jit_open(struct target *target)
{
	FILE *file = target->live ? open_list(target) : NULL;
	struct jit *jit;

	if (file == NULL)
		return NULL;
	jit = xalloc(sizeof(*jit));
	jit->file = file;
	read_list(jit);
	return jit;
}

void
jit_close(struct jit *jit)
{
	if (jit == NULL)
		return;
	fclose(jit->file);
	free(jit->ranges);
	free(jit);
}

const char *
jit_function(struct jit *jit, uint64_t pc, uint64_t *offset)
{
	char line[LINE_BYTES_MAX];
	size_t i = jit == NULL ? 0 : jit->n;

	while (i > 0 &&
	       pc - 1 - jit->ranges[i - 1].start >= jit->ranges[i - 1].bytes)
		i--;
	if (i == 0 ||
	    fseek(jit->file, jit->ranges[i - 1].name_at, SEEK_SET) != 0 ||
	    fgets(line, sizeof(line), jit->file) == NULL)
		return NULL;
	*offset = pc - jit->ranges[i - 1].start;
	return plain_text(line, strcspn(line, "\n"));
}

/*
 * Python's interpreter writes a list from 3.12 on.  PHP generates code only on
 * request, so its advice is for code without names; it is the last row.
 */
static const struct {
	const char *file; /* a pattern of its name */
	const char *advice;
} runtimes[] = {{"node", "start node --perf-basic-prof "
			 "--interpreted-frames-native-stack"},
    {"libjvm.so*",
	"jcmd %d Compiler.perfmap, again after more code was compiled"},
    {"*python3.1[2-9]*", "start python3 -X perf"},
    {"opcache.so", "start php -d opcache.jit_debug=0x10"}};

const char *
jit_advice(struct target *target, bool has_nameless)
{
	for (size_t i = 0; target->live && i < target->nmaps; i++)
		for (size_t j = 0; j < array_size(runtimes) - !has_nameless;
		     j++)
			if (fnmatch(runtimes[j].file,
				program_object(target, &target->maps[i]),
				0) == 0)
				return xprint(runtimes[j].advice, target->pid);
	return NULL;
}

/* V8 marks a function by its compiler: "JS:*name". */
const char *
jit_plain(const char *function)
{
	static const char *const marks[] = {"JS:", "py::", "JIT$"};

	for (size_t i = 0; i < array_size(marks); i++)
		if (text_begins(function, marks[i]))
			function += strlen(marks[i]);
	if (*function != '\0' && strchr("~^*+", *function) != NULL)
		function++;
	/* A function without a name has its file only. */
	return function + strspn(function, " ");
}
