/* cgroup.h - limits of the process's cgroup; see cgroup.c */
#ifndef UMEM_CGROUP_H
#define UMEM_CGROUP_H

#include "vmem/base.h"

/*
 * A confined process must not call these: they open files in /proc and /sys.
 *
 * Returns the least memory limit of the process's cgroup and of the groups
 * above it, or the memory of the machine if that is less, in bytes.
 */
size_t cgroup_memory_limit(void);

/*
 * Returns the least quota of processor time of these groups as a number of
 * CPUs, rounded up, or ncpus if that is less.
 */
unsigned cgroup_cpu_quota(unsigned ncpus);

#endif
