/*
 * cgroup.c - the memory limit of the cgroup of the process
 *
 * /proc/self/cgroup has a line "number:controllers:group" for each hierarchy;
 * in version 2 of the interface the controllers are empty.  In a container the
 * folders of the groups may be missing, and the root is the container's own
 * group, so each group up to the root is examined.
 *
 * Nothing is allocated, because the start reads the options.
 */
#include <string.h>

#include "umem/cgroup.h"
#include "umem/number.h"
#include "vmem/os.h"

/* The most bytes of /proc/self/cgroup and of the name of a file. */
#define CGROUPS_BYTES 4096
#define PATH_BYTES    1024

struct interface {
	char root[24];
	char file[24];
};

static const struct interface version1 = {
    "/sys/fs/cgroup/memory", "/memory.limit_in_bytes"};
static const struct interface version2 = {"/sys/fs/cgroup", "/memory.max"};

/* Reads a text file, which is cut to fit, and ends it in 0. */
static void
read_text(const char *path, char *text, size_t bytes)
{
	int fd = os_open(path);
	size_t n = 0, got = 1;

	while (fd >= 0 && got > 0 && n < bytes - 1) {
		got = os_read(fd, text + n, bytes - 1 - n);
		n += got;
	}
	text[n] = '\0';
	if (fd >= 0)
		os_close(fd);
}

/* The limit of the group with the first n bytes of this name, or SIZE_MAX. */
static size_t
limit_of(const struct interface *f, const char *group, size_t n)
{
	char path[PATH_BYTES], text[32];
	size_t root = strlen(f->root), file = strlen(f->file) + 1;
	uint64_t limit;

	if (n > sizeof(path) - root - file)
		return SIZE_MAX;
	memcpy(path, f->root, root);
	memcpy(path + root, group, n);
	memcpy(path + root + n, f->file, file);
	read_text(path, text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	/* "max" means no limit. */
	return number_parse(text, false, &limit) == NUMBER_OK ? limit
							      : SIZE_MAX;
}

/* The least limit of a group and of those above it. */
static size_t
limit_up_from(const struct interface *f, const char *group, size_t n)
{
	size_t least = SIZE_MAX;

	for (;;) {
		size_t limit = limit_of(f, group, n);

		if (limit < least)
			least = limit;
		if (n == 0)
			return least;
		while (n > 0 && group[--n] != '/')
			;
	}
}

/* Is "memory" one of the n bytes of words, separated by commas? */
static bool
has_memory(const char *words, size_t n)
{
	static const char word[] = "memory";
	size_t each;

	for (size_t at = 0; at < n; at += each + 1) {
		each = strcspn(words + at, ",:");
		if (each == strlen(word) && memcmp(words + at, word, each) == 0)
			return true;
	}
	return false;
}

/* The least limit by a line of /proc/self/cgroup, which ends in \n or 0. */
static size_t
limit_by_line(const char *line)
{
	size_t number = strcspn(line, ":\n"), words, n;
	const char *group;

	if (line[number] != ':')
		return SIZE_MAX;
	line += number + 1;
	words = strcspn(line, ":\n");
	group = line + words + (line[words] == ':');
	n = strcspn(group, "\n");
	if (n == 0 || group[0] != '/')
		return SIZE_MAX;
	if (n == 1)
		n = 0;
	if (words == 0)
		return limit_up_from(&version2, group, n);
	return has_memory(line, words) ? limit_up_from(&version1, group, n)
				       : SIZE_MAX;
}

size_t
cgroup_memory_limit(void)
{
	char text[CGROUPS_BYTES];
	size_t least = os_ram();

	read_text("/proc/self/cgroup", text, sizeof(text));
	for (const char *line = text; *line != '\0';) {
		size_t limit = limit_by_line(line);

		if (limit < least)
			least = limit;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return least;
}
