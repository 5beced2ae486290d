/*
 * cgroup.c - limits of the cgroup of the process
 *
 * /proc/self/cgroup has a line "number:controllers:group" for each hierarchy;
 * in version 2 of the interface the controllers are empty.  In a container the
 * folders of the groups may be missing.  The root is then the container's own
 * group, so each group up to the root is examined.
 *
 * Nothing is allocated, because the start reads the options.
 */

#include "umem/base/cgroup.h"
#include "umem/base/number.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/string.h"

/* The most bytes of /proc/self/cgroup, and of a file's name and text. */
#define CGROUPS_BYTES 4096
#define PATH_BYTES    1024
#define TEXT_BYTES    256

#define ROOT "/sys/fs/cgroup"

/* A group of the process. */
struct group {
	char path[PATH_BYTES]; /* its folder, and then the name of a file */
	size_t n;              /* bytes of the folder's path */
	bool is_version2;
};

/* Examines one group.  Returns whether to go on with the group above it. */
typedef bool (*group_function)(struct group *group, void *arg);

/* Reads a text file, which is cut to fit, and ends it in 0. */
static bool
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
	return n > 0;
}

static bool
group_read(struct group *group, const char *file, char text[TEXT_BYTES])
{
	size_t n = strlen(file) + 1;

	text[0] = '\0';
	if (group->n + n > sizeof(group->path))
		return false;
	memcpy(group->path + group->n, file, n);
	return read_text(group->path, text, TEXT_BYTES);
}

/* Parses the number at *text, and skips it and one byte more. */
static bool
take_number(const char **text, uint64_t *number)
{
	size_t n = 0;
	char digits[24];

	while ((*text)[n] >= '0' && (*text)[n] <= '9')
		n++;
	if (n == 0 || n >= sizeof(digits))
		return false;
	memcpy(digits, *text, n);
	digits[n] = '\0';
	*text += n + ((*text)[n] != '\0');
	return number_parse(digits, false, number) == NUMBER_OK;
}

/* Calls f for the group of this name below root, and for those above it. */
static void
each_group_up(struct group *group, const char *root, const char *name, size_t n,
    group_function f, void *arg)
{
	size_t nroot = strlen(root);

	if (nroot + n >= sizeof(group->path))
		return;
	memcpy(group->path, root, nroot);
	memcpy(group->path + nroot, name, n);
	for (;;) {
		group->n = nroot + n;
		if (!f(group, arg) || n == 0)
			return;
		while (n > 0 && name[--n] != '/')
			;
	}
}

/* Is word one of the n bytes of words, separated by commas? */
static bool
has_word(const char *words, size_t n, const char *word)
{
	size_t each;

	for (size_t at = 0; at < n; at += each + 1) {
		size_t same = 0;

		each = string_span(words + at, ",:");
		while (same < each && words[at + same] == word[same])
			same++;
		if (same == each && word[same] == '\0')
			return true;
	}
	return false;
}

/* Examines a line of /proc/self/cgroup, which ends in \n or 0. */
static void
each_group_of_line(
    const char *line, const char *controller, group_function f, void *arg)
{
	size_t number = string_span(line, ":\n"), words, n;
	struct group group;
	const char *name;
	char root[32] = ROOT;

	if (line[number] != ':')
		return;
	line += number + 1;
	words = string_span(line, ":\n");
	name = line + words + (line[words] == ':');
	n = string_span(name, "\n");
	if (n == 0 || name[0] != '/')
		return;
	if (n == 1)
		n = 0;
	group.is_version2 = words == 0;
	if (words != 0) {
		if (!has_word(line, words, controller))
			return;
		umem_assert(strlen(controller) < sizeof(root) - sizeof(ROOT));
		root[sizeof(ROOT) - 1] = '/';
		memcpy(root + sizeof(ROOT), controller, strlen(controller) + 1);
	}
	each_group_up(&group, root, name, n, f, arg);
}

/*
 * Calls f for the groups of the process that this controller limits, from the
 * process's own to the root, in each hierarchy.
 */
static void
each_group(const char *controller, group_function f, void *arg)
{
	char text[CGROUPS_BYTES];

	read_text("/proc/self/cgroup", text, sizeof(text));
	for (const char *line = text; *line != '\0';) {
		each_group_of_line(line, controller, f, arg);
		line += string_span(line, "\n");
		line += *line == '\n';
	}
}

static bool
take_memory_limit(struct group *group, void *least)
{
	char text[TEXT_BYTES];
	const char *at = text;
	uint64_t limit;

	group_read(group,
	    group->is_version2 ? "/memory.max" : "/memory.limit_in_bytes",
	    text);
	/* "max" means no limit. */
	if (take_number(&at, &limit) && limit < *(size_t *)least)
		*(size_t *)least = limit;
	return true;
}

size_t
cgroup_memory_limit(void)
{
	size_t least = os_ram();

	each_group("memory", take_memory_limit, &least);
	return least;
}

/* Reads the processor time of each period; none if there is no quota. */
static bool
read_quota(struct group *group, uint64_t *quota, uint64_t *period)
{
	char text[TEXT_BYTES];
	const char *at = text;

	if (group->is_version2)
		return group_read(group, "/cpu.max", text) &&
		       take_number(&at, quota) && take_number(&at, period);
	/* -1 means no quota. */
	if (!group_read(group, "/cpu.cfs_quota_us", text) ||
	    !take_number(&at, quota))
		return false;
	at = text;
	return group_read(group, "/cpu.cfs_period_us", text) &&
	       take_number(&at, period);
}

static bool
take_quota(struct group *group, void *least)
{
	uint64_t quota, period, ncpus;

	if (!read_quota(group, &quota, &period) || period == 0)
		return true;
	ncpus = quota / period + (quota % period != 0);
	if (ncpus < *(unsigned *)least)
		*(unsigned *)least = ncpus == 0 ? 1 : (unsigned)ncpus;
	return true;
}

unsigned
cgroup_cpu_quota(unsigned ncpus)
{
	each_group("cpu", take_quota, &ncpus);
	return ncpus;
}
