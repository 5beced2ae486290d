/* syscall.h - system calls without errno, one file for each architecture */
#ifndef VMEM_SYSCALL_H
#define VMEM_SYSCALL_H

#include "vmem/arch.h"

/*
 * syscall6(number, six arguments) returns the kernel's result unchanged: -4095
 * to -1 is a negated error number.
 */
#include ARCH_HEADER(syscall)

#endif
