/* syscall_x86_64.h - the kernel's calling convention on x86-64 */
#ifndef VMEM_SYSCALL_X86_64_H
#define VMEM_SYSCALL_X86_64_H

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

/* Tell the CPU that the caller is in a spin loop. */
static inline void
cpu_relax(void)
{
	__builtin_ia32_pause();
}

#endif
