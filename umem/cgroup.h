/* cgroup.h - the memory limit of the cgroup of the process; see cgroup.c */
#ifndef UMEM_CGROUP_H
#define UMEM_CGROUP_H

#include "vmem/base.h"

/*
 * Returns the least memory limit of the process's cgroup and of the groups
 * above it, or the memory of the machine if that is less, in bytes.  Reads
 * files in /proc and /sys, so it is for options that ask for a share only.
 */
size_t cgroup_memory_limit(void);

#endif
