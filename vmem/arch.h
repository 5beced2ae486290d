/*
 * arch.h - the one place that knows the names of architectures
 *
 * A header that depends on the architecture has one file for each, and one for
 * all others, in its folder: in vmem/syscall.h, #include ARCH_HEADER(syscall)
 * reads vmem/syscall_x86_64.h, vmem/syscall_aarch64.h or
 * vmem/syscall_generic.h.  On the others the library has no restartable
 * sequences, and works in the locked mode.
 *
 * ASM_NUMBER and the number of an operand "i" give inline assembly its value.
 */
#ifndef VMEM_ARCH_H
#define VMEM_ARCH_H

#if defined(__x86_64__)
#define ARCH_HEADER(name) ARCH_NAME(name##_x86_64.h)
#define ASM_NUMBER        "%c"
#elif defined(__aarch64__)
#define ARCH_HEADER(name) ARCH_NAME(name##_aarch64.h)
#define ASM_NUMBER        "%c"
#else
#define ARCH_HEADER(name) ARCH_NAME(name##_generic.h)
#define ASM_NUMBER        "%"
#endif
#define ARCH_NAME(name) #name

_Static_assert(sizeof(void *) == 8, "umem needs a 64-bit architecture");

#endif
