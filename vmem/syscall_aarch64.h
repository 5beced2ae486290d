/* syscall_aarch64.h - the kernel's calling convention on aarch64 */
#ifndef VMEM_SYSCALL_AARCH64_H
#define VMEM_SYSCALL_AARCH64_H

#include <ucontext.h>

#include "vmem/os.h"

/* The vDSO's function that reads a clock. */
#define VDSO_CLOCK "__kernel_clock_gettime"

static inline long
syscall6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

/* The instruction at which a signal has interrupted the thread. */
static inline uintptr_t
context_pc(const void *context)
{
	const ucontext_t *c = context;

	return (uintptr_t)c->uc_mcontext.pc;
}

/* The kernel stores the kind of access in a record that is optional. */
static inline unsigned
context_access(const void *context)
{
	(void)context;
	return OS_FAULT_UNKNOWN;
}

/* The address of the thread's control block; other threads have others. */
static inline uintptr_t
thread_self(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/* Tell the CPU that the caller is in a spin loop. */
static inline void
cpu_relax(void)
{
	__asm__ volatile("yield");
}

#endif
