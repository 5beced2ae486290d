/*
 * memory.c - limits of the memory that this command may use
 *
 * A command that copies a server's memory may run in the server's own memory
 * cgroup.  If the group is full, the kernel kills its largest process: the
 * server.  Therefore, before a copy, the command compares the memory that it
 * needs with MemAvailable and with the free memory of each group from its own
 * group to the root, in either version of the interface.  Because the estimate
 * may be wrong, the command also makes itself the first process that the kernel
 * kills.
 *
 * The free memory of a group is its limit, less its usage without the file
 * pages that the kernel can drop (inactive_file).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/inspect/base/memory.h"

/* The command leaves 1 / SPARE of the available memory to other processes. */
#define SPARE 16

struct interface {
	const char *root;
	const char *limit, *usage, *inactive;
};

static const struct interface version1 = {"/sys/fs/cgroup/memory",
    "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
static const struct interface version2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

/* Available memory in bytes, and the name of its limit. */
struct budget {
	uint64_t bytes;
	const char *limit;
	uint64_t all; /* the least limit, in bytes */
};

static struct budget ours = {.bytes = UINT64_MAX};
static uint64_t spent; /* atomic */

static void
look_at_group(
    struct budget *budget, const struct interface *f, const char *group)
{
	char *folder = xprint("%s%s", f->root, group);
	char *limit_at = xprint("%s/%s", folder, f->limit);
	char *usage_at = xprint("%s/%s", folder, f->usage);
	char *stat_at = xprint("%s/memory.stat", folder);
	uint64_t limit = UINT64_MAX, usage, inactive = 0;

	/* "max" is not a number and means no limit. */
	if (file_number(limit_at, "", &limit) && limit < budget->all)
		budget->all = limit;
	if (limit != UINT64_MAX && file_number(usage_at, "", &usage)) {
		file_number(stat_at, f->inactive, &inactive);
		usage = inactive < usage ? usage - inactive : 0;
		usage = limit > usage ? limit - usage : 0;
		if (usage < budget->bytes) {
			budget->bytes = usage;
			budget->limit = xprint("the limit of memory cgroup %s",
			    plain_text(folder, SIZE_MAX));
		}
	}
	free(stat_at);
	free(usage_at);
	free(limit_at);
	free(folder);
}

/*
 * Examines this group and all groups up to the root.  In a container the
 * folders of the groups may be missing, and the root may be the container's own
 * group.
 */
static void
look_at_groups(struct budget *budget, const struct interface *f, char *group)
{
	for (;;) {
		char *slash = strrchr(group, '/');

		assert(*group == '/');
		look_at_group(budget, f, strcmp(group, "/") == 0 ? "" : group);
		if (slash == NULL || group[1] == '\0')
			return;
		slash[slash == group] = '\0';
	}
}

/* Examines a line of /proc/PID/cgroup: number:controllers:group */
static void
look_at_line(char *line, void *budget)
{
	char *controllers = strchr(line, ':');
	char *group = controllers ? strchr(controllers + 1, ':') : NULL;

	if (group == NULL || group[1] != '/')
		return;
	*group++ = '\0';
	controllers++;
	if (*controllers == '\0') {
		look_at_groups(budget, &version2, group);
		return;
	}
	for (char *word = strtok(controllers, ","); word != NULL;
	     word = strtok(NULL, ","))
		if (strcmp(word, "memory") == 0)
			look_at_groups(budget, &version1, group);
}

/* Returns the memory that a process may still take, and the limit. */
static struct budget
look_around(int pid)
{
	struct budget budget = {.bytes = UINT64_MAX, .all = UINT64_MAX};
	uint64_t kib;

	if (file_number("/proc/meminfo", "MemAvailable", &kib)) {
		budget.bytes = kib * KIB;
		budget.limit = "MemAvailable";
	}
	if (file_number("/proc/meminfo", "MemTotal", &kib))
		budget.all = kib * KIB;
	text_each_line(proc_path(pid, "cgroup"), look_at_line, &budget);
	return budget;
}

void
memory_kill_first(int pid)
{
	const char *path = proc_path(pid, "oom_score_adj");
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) != 4)
		print_warning("warning: %s cannot be written to", path);
	close(fd);
}

void
memory_expect(const char *name, uint64_t bytes)
{
	memory_kill_first(0);
	if (alloc_forced)
		return;
	ours = look_around(0);
	ours.bytes -= ours.bytes / SPARE;
	if (bytes > ours.bytes)
		fail_with(EXIT_ERROR,
		    "%s: this needs about %zu MiB of memory, and %zu MiB may "
		    "be used (%s); --force to try all the same",
		    name, (size_t)(bytes / MIB), (size_t)(ours.bytes / MIB),
		    ours.limit);
}

uint64_t
memory_limit_of(int pid)
{
	return look_around(pid).all;
}

bool
memory_is_left_to(int pid, uint64_t bytes, const char **limit)
{
	struct budget budget;

	if (alloc_forced)
		return true;
	budget = look_around(pid);
	*limit = budget.limit;
	return bytes <= budget.bytes;
}

bool
memory_suffices(uint64_t bytes)
{
	return alloc_forced || bytes <= ours.bytes;
}

bool
memory_spend(uint64_t bytes)
{
	return __atomic_add_fetch(&spent, bytes, __ATOMIC_RELAXED) <=
	       ours.bytes;
}

_Noreturn void
memory_fail(const char *name)
{
	fail_with(EXIT_ERROR,
	    "%s: this needs more than the %zu MiB of memory that may be used "
	    "(%s); --force to try all the same",
	    name, (size_t)(ours.bytes / MIB), ours.limit);
}
