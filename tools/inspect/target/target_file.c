/*
 * target_file.c - opens files at paths that the target chose
 *
 * A path in /proc/PID/maps, the name of a separate debug file and the list of a
 * JIT compiler are chosen by the program that is inspected, and this command
 * often runs as root.  Therefore all of them are opened here, so that the
 * command can read no more than the program itself can, and never waits:
 *	The path is resolved below the root of the process (openat2()), so that
 *	a symbolic link leads to the file that the process would find, and no
 *	link of /proc leads elsewhere.
 *	The file is found by O_PATH, which opens no device and no FIFO, and is
 *	opened only if it is a regular file.
 *	Meanwhile this thread has the user, the groups and at most the
 *	capabilities of the target.  For a core, it has those of the user who
 *	owns the core file.
 *
 * libdw opens files by itself, for which it offers no function to replace: the
 * alternate file of dwz, split units (.dwo, .dwp) and the libraries in the link
 * map of a core.  Because its calls of open() are bound to the first symbol of
 * this name, which is the executable's, this file defines open() and open64().
 * While target_file_guard() is in effect, both open ELF files only.
 */
#include <asm/fcntl.h>
#include <elf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/inspect/target/target_file.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
/* <linux/openat2.h> is missing in older headers. */
#define IN_ROOT       0x10
#define NO_MAGICLINKS 0x02

/* How often to repeat a resolution while somebody renames directories. */
#define RESOLVE_TRIES 10

/*
 * Debugging information takes at most this many times the bytes that it has on
 * disk.  zlib and zstd compress it to a third.
 */
#define UNPACKED_TIMES 16

#define HERE (-100) /* AT_FDCWD; <fcntl.h> declares open() otherwise */

static struct target *guarded;

static int
raw_open(int dir, const char *path, int flags, unsigned mode)
{
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

/* The rights by which the kernel decides what a thread may open. */
struct rights {
	unsigned user, group;
	unsigned *groups;
	size_t ngroups, capacity;
	uint64_t capabilities; /* in effect */
};

/* Reads the numbers of a line of /proc/PID/status. */
static void
take_line(char *line, void *arg)
{
	struct rights *rights = arg;
	char *end;
	unsigned id[4];

	if (sscanf(line, "Uid: %u %u %u %u", id, id + 1, id + 2, id + 3) == 4)
		rights->user = id[3];
	if (sscanf(line, "Gid: %u %u %u %u", id, id + 1, id + 2, id + 3) == 4)
		rights->group = id[3];
	if (strncmp(line, "CapEff:", 7) == 0)
		rights->capabilities = strtoull(line + 7, NULL, 16);
	if (strncmp(line, "Groups:", 7) != 0)
		return;
	for (line += 7;; line = end) {
		unsigned long group = strtoul(line, &end, 10);

		if (end == line)
			return;
		ARRAY_ADD(rights->groups, rights->ngroups, rights->capacity,
		    (unsigned)group);
	}
}

static bool
rights_of_process(int pid, struct rights *rights)
{
	*rights = (struct rights){.user = UINT32_MAX};
	text_each_line(proc_path(pid, "status"), take_line, rights);
	return rights->user != UINT32_MAX;
}

static bool
rights_of(const struct target *target, struct rights *rights)
{
	struct stat core;

	if (target->live)
		return rights_of_process(target->reader, rights);
	*rights = (struct rights){0};
	if (stat(target->name, &core) != 0)
		return false;
	rights->user = core.st_uid;
	rights->group = core.st_gid;
	if (core.st_uid == 0)
		rights->capabilities = UINT64_MAX;
	return true;
}

/* Limits the capabilities in effect of this thread to these, or sets them. */
static bool
set_capabilities(uint64_t capabilities)
{
	struct __user_cap_header_struct header = {
	    .version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		return false;
	data[0].effective = data[0].permitted & (uint32_t)capabilities;
	data[1].effective = data[1].permitted & (uint32_t)(capabilities >> 32);
	return syscall(SYS_capset, &header, data) == 0;
}

static bool
groups_are_same(const struct rights *a, const struct rights *b)
{
	return a->ngroups == b->ngroups &&
	       (a->ngroups == 0 || memcmp(a->groups, b->groups,
				       a->ngroups * sizeof(*a->groups)) == 0);
}

/*
 * Changes the rights of this thread.  The functions of libc would change those
 * of all threads.  A user who is not root has no right to change to another
 * one, and keeps his own, less the capabilities.
 */
static bool
rights_change(const struct rights *from, const struct rights *to)
{
	if (geteuid() != 0)
		return set_capabilities(to->capabilities);
	/* To become root again takes the capabilities of root. */
	if (!set_capabilities(UINT64_MAX) ||
	    (!groups_are_same(from, to) &&
		syscall(SYS_setgroups, to->ngroups, to->groups) != 0))
		return false;
	syscall(SYS_setfsgid, to->group);
	syscall(SYS_setfsuid, to->user);
	/* Of an unknown user, these return the present one. */
	return (unsigned)syscall(SYS_setfsgid, -1) == to->group &&
	       (unsigned)syscall(SYS_setfsuid, -1) == to->user &&
	       set_capabilities(to->capabilities);
}

/* Finds the file of a path below a root; opens nothing. */
static int
resolve(int root, const char *path)
{
	uint64_t how[3] = {O_PATH | O_CLOEXEC, 0, IN_ROOT | NO_MAGICLINKS};
	int fd = -1;

	for (int i = 0; i < RESOLVE_TRIES; i++) {
		fd = (int)syscall(SYS_openat2, root, path, how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd;
}

/* Opens the file of an O_PATH descriptor, if it is a regular file. */
static int
open_regular(int found)
{
	struct stat info;
	char path[64];

	if (fstat(found, &info) != 0)
		return -1;
	if (!S_ISREG(info.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", found);
	return raw_open(
	    HERE, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
}

/* Opens a file below root, or the file of root if path is NULL. */
static int
open_below(int root, const char *path)
{
	int found = path == NULL ? dup(root) : resolve(root, path);
	int fd = -1, error;

	if (found < 0)
		return -1;
	fd = open_regular(found);
	error = errno;
	close(found);
	errno = error;
	return fd;
}

/* As open_below(), with the rights of the target; closes root. */
static int
open_as_target(struct target *target, int root, const char *path)
{
	struct rights theirs = {0}, ours = {0};
	int fd = -1, error = errno;

	if (root < 0)
		return -1;
	if (rights_of_process((int)syscall(SYS_gettid), &ours) &&
	    rights_of(target, &theirs)) {
		bool is_theirs = rights_change(&ours, &theirs);

		errno = EPERM;
		if (is_theirs)
			fd = open_below(root, path);
		error = errno;
		if (!rights_change(&theirs, &ours))
			fail_with(EXIT_ERROR, "cannot be root again: %s",
			    strerror(errno));
	}
	free(theirs.groups);
	free(ours.groups);
	close(root);
	errno = error;
	return fd;
}

static int
open_root(const struct target *target)
{
	const char *root = *target_sysroot != '\0' ? target_sysroot : "/";

	if (target->live)
		root = proc_path(target->reader, "root");
	return raw_open(HERE, root, O_PATH | O_CLOEXEC | O_DIRECTORY, 0);
}

int
target_file_open(struct target *target, const char *path)
{
	return open_as_target(target, open_root(target), path);
}

int
target_file_link(struct target *target, const char *link)
{
	const char *path = proc_path(target->reader, link);

	return open_as_target(
	    target, raw_open(HERE, path, O_PATH | O_CLOEXEC, 0), NULL);
}

bool
file_is_elf(int fd)
{
	static uint64_t on_disk;
	char start[SELFMAG];
	struct stat info;

	if (pread(fd, start, sizeof(start), 0) != sizeof(start) ||
	    memcmp(start, ELFMAG, SELFMAG) != 0 || fstat(fd, &info) != 0)
		return false;
	/* A file may have compressed sections, or holes instead of data. */
	on_disk += (uint64_t)info.st_blocks * 512;
	alloc_bound_libraries(UNPACKED_TIMES * on_disk);
	return true;
}

void
target_file_guard(struct target *target)
{
	guarded = target;
}

static int
guarded_open(const char *path, int flags, unsigned mode)
{
	int fd;

	assert(path != NULL);
	if (guarded == NULL)
		return raw_open(HERE, path, flags, mode);
	fd = target_file_open(guarded, path);
	if (fd >= 0 && file_is_elf(fd))
		return fd;
	if (fd >= 0)
		close(fd);
	/* libdw then looks for the file in another place. */
	errno = ENOENT;
	return -1;
}

#define SEEN_BY_LIBRARIES __attribute__((visibility("default")))

SEEN_BY_LIBRARIES int open(const char *path, int flags, ...);

int
open(const char *path, int flags, ...)
{
	va_list arguments;
	unsigned mode;

	va_start(arguments, flags);
	mode = (flags & (O_CREAT | O_TMPFILE)) != 0
		   ? va_arg(arguments, unsigned)
		   : 0;
	va_end(arguments);
	return guarded_open(path, flags, mode);
}

/* On 64-bit systems, file offsets have one size. */
SEEN_BY_LIBRARIES int open64(const char *path, int flags, ...)
    __attribute__((alias("open")));
