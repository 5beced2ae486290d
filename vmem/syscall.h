/* syscall.h - system calls without errno, one file for each architecture */
#ifndef VMEM_SYSCALL_H
#define VMEM_SYSCALL_H

/*
 * syscall6(number, six arguments) returns the kernel's result unchanged: -4095
 * to -1 is a negated error number.
 */
#if defined(__x86_64__)
#include "vmem/syscall_x86_64.h"
#elif defined(__aarch64__)
#include "vmem/syscall_aarch64.h"
#else
#error "umem knows x86-64 and aarch64"
#endif

#endif
