/*
 * module_file.c - opens the files of programs and libraries
 *
 * A process may be in another mount namespace, where its paths name other files
 * than here, and a file may have been deleted or replaced since it was mapped.
 * /proc/PID/map_files leads to the mapped file itself, but only root may open
 * it.  Other users find the file by its path, and by /proc/PID/exe.  The file
 * of a core has its path, below the directory of --sysroot.  target_file.c
 * opens all of them.
 *
 * Except for map_files, a file must have the build ID of the module, or, if the
 * module has none, the inode of the mapping.  In a core without build ID, the
 * start of the file has to do.
 */
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/inspect/symbols/module_file.h"
#include "tools/inspect/target/target_file.h"

/* ELF header, program headers, notes, and the start of the hash table. */
#define START_BYTES 1024

const char *
module_path(const struct module *m)
{
	static const char deleted[] = " (deleted)";
	const char *path = m->file.path;
	size_t n = strlen(path), ndeleted = sizeof(deleted) - 1;

	if (n > ndeleted && strcmp(path + n - ndeleted, deleted) == 0)
		n -= ndeleted;
	return xprint("%.*s", (int)n, path);
}

static bool
has_start(struct target *target, const struct module *m, int fd)
{
	char here[START_BYTES], there[START_BYTES];
	ssize_t n = pread(fd, here, sizeof(here), 0);

	return n > 0 && target_peek(target, m->start, there, (size_t)n) &&
	       memcmp(here, there, (size_t)n) == 0;
}

static bool
has_id(const struct module *m, int fd)
{
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	const void *id = NULL;
	ssize_t n = elf == NULL ? -1 : dwelf_elf_gnu_build_id(elf, &id);
	bool same = id != NULL && n == (ssize_t)m->id_bytes &&
		    memcmp(id, m->id, m->id_bytes) == 0;

	elf_end(elf);
	return same;
}

static bool
is_file_of(struct target *target, const struct module *m, int fd, ino_t inode)
{
	if (m->id_bytes != 0)
		return has_id(m, fd);
	return has_start(target, m, fd) &&
	       (!target->live || inode == m->file.inode);
}

/* Returns a file if it is the module's, or closes it and returns -1. */
static int
check_file(
    struct target *target, const struct module *m, int fd, bool *is_other)
{
	struct stat info;

	if (fd < 0)
		return -1;
	if (file_is_elf(fd) && fstat(fd, &info) == 0 &&
	    is_file_of(target, m, fd, info.st_ino))
		return fd;
	*is_other = true;
	close(fd);
	return -1;
}

static int
open_live(struct target *target, const struct module *m, bool *is_other)
{
	bool is_library;
	int fd = target_file_link(
	    target, xprint("map_files/%lx-%lx", m->file.start, m->file.end));

	if (fd >= 0 && file_is_elf(fd))
		return fd;
	if (fd >= 0)
		close(fd);
	fd = check_file(
	    target, m, target_file_open(target, module_path(m)), is_other);
	if (fd >= 0)
		return fd;
	return check_file(
	    target, m, target_file_link(target, "exe"), &is_library);
}

/* Says of one file, not of each library of a container, where to find more. */
static void
warn_absent(const char *path)
{
	static bool has_warned;

	if (has_warned)
		return;
	has_warned = true;
	print_warning("%s%s: %s, so its functions have no names%s",
	    target_sysroot, plain_text(path, SIZE_MAX), strerror(errno),
	    target_sysroot[0] != '\0'
		? ""
		: "; --sysroot=DIR searches for the files "
		  "of a core below DIR");
}

int
module_open(struct target *target, const struct module *m)
{
	const char *path = module_path(m);
	bool is_other = false;
	int fd;

	if (path[0] != '/')
		return -1;
	elf_version(EV_CURRENT);
	fd = target->live ? open_live(target, m, &is_other)
			  : check_file(target, m,
				target_file_open(target, path), &is_other);
	if (fd < 0 && is_other)
		print_warning("%s: not the file that the program had mapped, "
			      "so its functions have no names",
		    plain_text(path, SIZE_MAX));
	else if (fd < 0 && !target->live)
		warn_absent(path);
	return fd;
}
