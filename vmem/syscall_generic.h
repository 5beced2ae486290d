/*
 * syscall_generic.h - system calls through libc, where the kernel's calling
 * convention is not known
 */
#ifndef VMEM_SYSCALL_GENERIC_H
#define VMEM_SYSCALL_GENERIC_H

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmem/os.h"

/* No name: on some architectures the functions of the vDSO are not C's. */
#define VDSO_CLOCK ""

/* mmap() and clone() of s390x take their arguments in another way. */
static inline long
syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	uint64_t args[8] = {(uint64_t)a}; /* struct clone_args */
	int saved = errno;
	long result;

	if (number == SYS_mmap)
		result =
		    (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
	else if (number == SYS_clone)
		result = syscall(SYS_clone3, args, sizeof(args));
	else
		result = syscall(number, a, b, c, d, e, f);
	if (result == -1)
		result = -errno;
	errno = saved;
	return result;
}

/* Not known: the context has no common layout. */
static inline uintptr_t
context_pc(const void *context)
{
	(void)context;
	return 0;
}

static inline unsigned
context_access(const void *context)
{
	(void)context;
	return OS_FAULT_UNKNOWN;
}

/* An address that no other thread has. */
static inline uintptr_t
thread_self(void)
{
	return (uintptr_t)&errno;
}

static inline void
cpu_relax(void)
{
	__asm__ volatile("" : : : "memory");
}

#endif
