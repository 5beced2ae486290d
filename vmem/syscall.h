/* syscall.h - system calls without errno, one file an architecture */
#ifndef VMEM_SYSCALL_H
#define VMEM_SYSCALL_H

/*
 * syscall6(number, six arguments) returns what the kernel returns: a result,
 * or -4095 to -1 for an error.
 */
#if defined(__x86_64__)
#include "vmem/syscall_x86_64.h"
#elif defined(__aarch64__)
#include "vmem/syscall_aarch64.h"
#else
#error "umem knows x86-64 and aarch64"
#endif

#endif
