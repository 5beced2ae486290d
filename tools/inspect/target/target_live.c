/*
 * target_live.c - a live process: which program it runs, and its mappings
 *
 * target_stop.c stops it and lets it go, target_read.c and target_pieces.c read
 * its memory.  If the heap is large, the library makes a copy of the process,
 * if it can (target_copy.c).
 *
 * At each stop, the command checks that the process still runs the program that
 * it ran when the command began (struct identity).
 */
#include <assert.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tools/inspect/target/target.h"

long
live_status(int pid, const char *key)
{
	uint64_t value;

	return file_number(proc_path(pid, "status"), key, &value) ? (long)value
								  : -1;
}

_Noreturn void
live_fail_permission(struct target *target)
{
	long tracer = live_status(target->pid, "TracerPid");
	long owner = live_status(target->pid, "Uid");
	uint64_t scope = 0;

	file_number("/proc/sys/kernel/yama/ptrace_scope", "", &scope);
	if (tracer > 0)
		fail_with(EXIT_ERROR,
		    "%s: process %ld is debugging it; one at a time",
		    target->name, tracer);
	if (owner >= 0 && geteuid() != 0 && owner != (long)geteuid())
		fail_with(EXIT_ERROR,
		    "%s: no permission: it belongs to user %ld; be that user "
		    "or root",
		    target->name, owner);
	if (scope != 0)
		fail_with(EXIT_ERROR,
		    "%s: no permission: kernel.yama.ptrace_scope is %lu; be "
		    "root, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)",
		    target->name, scope);
	fail_with(EXIT_ERROR,
	    "%s: no permission to look at it (ptrace: %s); it may be "
	    "set-user-ID, not dumpable, or in another container",
	    target->name, strerror(EPERM));
}

_Noreturn void
live_fail_gone(struct target *target)
{
	if (target->reads_made)
		fail_with(EXIT_ERROR,
		    "%s: the kernel has ended the copy of the process, "
		    "probably because memory is short",
		    target->name);
	fail_with(EXIT_ERROR, "%s: the process has ended", target->name);
}

int
live_reader(const struct target *target)
{
	assert(target->live && (target->nthreads != 0 || target->reader > 0));
	if (target->reads_made)
		return target->made->pid;
	return target->nthreads ? target->threads[0].tid : target->reader;
}

/* Finds another thread if the first has ended without the process. */
static void
find_reader(struct target *target)
{
	DIR *dir = opendir(proc_path(target->pid, "task"));
	struct dirent *entry;

	assert(target->nthreads == 0 && target->nmaps == 0);
	while (dir != NULL && target->nmaps == 0 &&
	       (entry = readdir(dir)) != NULL) {
		target->reader = (int)strtol(entry->d_name, NULL, 10);
		if (target->reader > 0 && target->reader != target->pid)
			live_read_maps(target);
	}
	if (dir != NULL)
		closedir(dir);
	if (target->nmaps == 0)
		fail_with(EXIT_ERROR, "%s: it has ended, or is of the kernel",
		    target->name);
}

/* Reads field n of /proc/PID/stat, which counts from 1; n > 2. */
static uint64_t
stat_field(int pid, int n)
{
	char text[1024];
	const char *field;

	assert(n > 2);
	proc_read(pid, "stat", text, sizeof(text));
	/* The name before the third field may have any characters. */
	field = strrchr(text, ')');
	for (; field != NULL && n > 2; n--)
		field = strchr(field + 1, ' ');
	return field == NULL ? 0 : strtoull(field, NULL, 10);
}

/*
 * Reads the 16 random bytes of AT_RANDOM.  The kernel chooses them anew for
 * each program, and stores their address in the auxiliary vector.
 */
static void
read_random(int tid, uint64_t *random)
{
	uint64_t entries[128];
	struct iovec local = {random, 2 * sizeof(*random)}, remote = local;
	size_t n = proc_read(tid, "auxv", (char *)entries, sizeof(entries));

	for (size_t i = 0; i + 1 < n / 8; i += 2) {
		if (entries[i] != AT_RANDOM)
			continue;
		remote.iov_base = (void *)entries[i + 1];
		process_vm_readv(tid, &local, 1, &remote, 1, 0);
	}
}

static struct identity
identity_of(struct target *target)
{
	struct identity identity = {.start = stat_field(target->pid, 22)};
	int tid = live_reader(target);
	struct stat exe;

	if (stat(proc_path(tid, "exe"), &exe) == 0) {
		identity.device = exe.st_dev;
		identity.inode = exe.st_ino;
	}
	read_random(tid, identity.random);
	return identity;
}

bool
live_is_same_program(struct target *target)
{
	struct identity now = identity_of(target);

	return memcmp(&now, &target->identity, sizeof(now)) == 0;
}

static void
identity_note(struct target *target)
{
	target->identity = identity_of(target);
	target->memory = -1;
}

void
live_open_memory(struct target *target)
{
	if (target->memory < 0)
		target->memory = open(
		    proc_path(live_reader(target), "mem"), O_RDWR | O_CLOEXEC);
}

void
live_open(struct target *target)
{
	target->pid = target->reader = (int)strtol(target->name, NULL, 10);
	if (strcmp(target->name, xprint("%d", target->pid)) != 0 ||
	    access(proc_path(target->pid, ""), F_OK) != 0)
		fail_with(EXIT_ERROR, "%s: no such process", target->name);
	if (target->pid == getpid())
		fail_with(EXIT_ERROR, "%s: that is this command", target->name);
	identity_note(target);
	live_read_maps(target);
	if (target->nmaps == 0) {
		find_reader(target);
		identity_note(target);
	}
	alloc_bound_by(target_resident(target));
}

bool
live_parse_mapping(const char *line, struct mapping *m)
{
	char bits[5];
	int name = 0;
	unsigned long inode;

	*m = (struct mapping){0};
	if (sscanf(line, "%lx-%lx %4s %lx %*x:%*x %lu %n", &m->start, &m->end,
		bits, &m->offset, &inode, &name) < 5)
		return false;
	m->read = bits[0] == 'r';
	m->write = bits[1] == 'w';
	m->execute = bits[2] == 'x';
	m->shared = bits[3] == 's';
	m->inode = inode;
	m->file = inode != 0;
	m->path = m->file && name ? xprint("%s", line + name) : NULL;
	m->name = name ? plain_text(line + name, SIZE_MAX) : "";
	return true;
}

static void
add_mapping(char *line, void *arg)
{
	struct target *target = arg;
	struct mapping m;

	if (!live_parse_mapping(line, &m))
		return;
	ARRAY_ADD(target->maps, target->nmaps, target->maps_capacity, m);
}

void
live_read_maps(struct target *target)
{
	char name[64];

	snprintf(name, sizeof(name), "task/%d/maps", live_reader(target));
	target->nmaps = 0;
	target_scan_anew(target);
	if (text_each_line(proc_path(target->pid, name), add_mapping, target))
		return;
	if (errno == ENOENT || errno == ESRCH)
		live_fail_gone(target);
	live_fail_permission(target);
}
