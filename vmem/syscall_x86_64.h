/* syscall_x86_64.h - the kernel's calling convention on x86-64 */
#ifndef VMEM_SYSCALL_X86_64_H
#define VMEM_SYSCALL_X86_64_H

#include <ucontext.h>

#include "vmem/os.h"

/* The vDSO's function that reads a clock. */
#define VDSO_CLOCK "__vdso_clock_gettime"

static inline long
syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile(
	    "syscall"
	    : "=a"(result)
	    : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	    : "rcx", "r11", "memory");
	return result;
}

/* The instruction at which a signal has interrupted the thread. */
static inline uintptr_t
context_pc(const void *context)
{
	const ucontext_t *c = context;

	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
}

/* Bit 1 of the page fault's error code is set for a write. */
static inline unsigned
context_access(const void *context)
{
	const ucontext_t *c = context;

	return c->uc_mcontext.gregs[REG_ERR] & 2 ? OS_FAULT_WRITE
						 : OS_FAULT_READ;
}

/* The address of the thread's control block; other threads have others. */
static inline uintptr_t
thread_self(void)
{
	uintptr_t pointer;

	__asm__("movq %%fs:0, %0" : "=r"(pointer));
	return pointer;
}

/* Tell the CPU that the caller is in a spin loop. */
static inline void
cpu_relax(void)
{
	__builtin_ia32_pause();
}

#endif
