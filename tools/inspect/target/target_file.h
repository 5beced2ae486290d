/* target_file.h - files at paths that the target chose; see target_file.c */
#ifndef TOOLS_TARGET_FILE_H
#define TOOLS_TARGET_FILE_H

#include "tools/inspect/target/target.h"

/*
 * Opens a regular file for reading at a path that the target chose, below the
 * root of a process or the directory of --sysroot, with the rights of the
 * target's owner.  Returns -1 and sets errno if that is not possible.
 */
int target_file_open(struct target *target, const char *path);

/* Opens a file to which a link of /proc/PID leads: "exe", "map_files/...". */
int target_file_link(struct target *target, const char *link);

/* Does the file begin as an ELF file does?  A compressed file does not. */
bool file_is_elf(int fd);

/*
 * Until target_file_guard(NULL), the files that other libraries open in this
 * process are ELF files opened by target_file_open().  For calls of libdw.
 */
void target_file_guard(struct target *target);

#endif
