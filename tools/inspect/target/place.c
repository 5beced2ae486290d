/*
 * place.c - where a process runs: its unit of systemd and its container
 *
 * Both have control groups of their own.  systemd names a group by the unit.
 * Docker, Podman, containerd and CRI-O name it by the container's ID, which has
 * 64 hexadecimal digits, with other characters around it; their commands print
 * the first 12.  A process in another PID namespace without such a name is in a
 * container of another kind, and the namespace identifies it.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/inspect/target/place.h"

#define ID_DIGITS 64

/* Returns the ID of a container in the name of a group, or "". */
static const char *
container_in(const char *group)
{
	while (*group != '\0') {
		size_t n = strspn(group, "0123456789abcdef");

		if (n == ID_DIGITS)
			return xprint("%.12s", group);
		group += n == 0 ? 1 : n;
	}
	return "";
}

static bool
is_unit(const char *part)
{
	const char *dot = strrchr(part, '.');

	return dot != NULL &&
	       (strcmp(dot, ".service") == 0 || strcmp(dot, ".scope") == 0) &&
	       *container_in(part) == '\0';
}

/* Takes the place from a line of /proc/PID/cgroup: number:names:group. */
static void
take_line(char *line, void *arg)
{
	struct place *place = arg;
	bool units =
	    text_begins(line, "0::") || strstr(line, ":name=systemd:") != NULL;

	if (*place->container == '\0')
		place->container = container_in(line);
	/* The innermost unit counts. */
	for (char *part = strtok(line, "/"); part != NULL && units;
	     part = strtok(NULL, "/"))
		if (is_unit(part))
			place->unit = plain_text(part, strlen(part));
}

/* Returns the PID namespace of a process if it is not ours, or "". */
static const char *
other_namespace(int pid)
{
	char mine[64] = "", its[64] = "";

	if (readlink("/proc/self/ns/pid", mine, sizeof(mine) - 1) <= 0 ||
	    readlink(proc_path(pid, "ns/pid"), its, sizeof(its) - 1) <= 0 ||
	    strcmp(mine, its) == 0)
		return "";
	return xprint("%s", its);
}

/* The kernel counts the start in ticks since the machine started. */
static uint64_t
age_of(const struct target *target)
{
	uint64_t tick = 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK), at, now;
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	now = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
	at = target->identity.start * tick;
	return now > at ? now - at : 0;
}

struct place
place_read(const struct target *target)
{
	struct place place = {"", "", 0};

	if (!target->live)
		return place;
	text_each_line(proc_path(target->pid, "cgroup"), take_line, &place);
	if (*place.container == '\0')
		place.container = other_namespace(target->pid);
	place.age = age_of(target);
	return place;
}
