/*
 * rseq_ops.h - the restartable operations, one file for each architecture
 *
 * A file writes each operation as RSEQ_ASM(code, outputs, inputs, registers
 * that it changes), followed by the stores of its results and RSEQ_RESULTS.
 * The code jumps to RSEQ_TO_MISSED, RSEQ_TO_ABORTED or RSEQ_TO_UNREGISTERED, or
 * ends.
 *
 * These are labels of C where the compiler lets a jump leave an asm statement
 * that has outputs (gcc 11, clang 11).  Otherwise the statement has the result
 * as one more output.
 */
#ifndef MAGAZINE_RSEQ_OPS_H
#define MAGAZINE_RSEQ_OPS_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq.h"
#include "vmem/arch.h"

#define RSEQ_OPERANDS(...) __VA_ARGS__

/* clang-format off */
/*
 * Without the empty statements at the labels, gcc 12 may set a result of the
 * caller before it copies an output to the same register.
 */
#if defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 11
#define RSEQ_TO_MISSED	     "%l[missed]"
#define RSEQ_TO_ABORTED	     "%l[aborted]"
#define RSEQ_TO_UNREGISTERED "%l[unregistered]"
#define RSEQ_ASM(code, outputs, inputs, ...)				\
	__asm__ volatile goto(						\
	    code							\
	    : outputs							\
	    : inputs							\
	    : "memory", "cc", ##__VA_ARGS__				\
	    : missed, aborted, unregistered)
#define RSEQ_RESULTS							\
	return RSEQ_OK;							\
missed:									\
	__asm__ volatile("");						\
	return RSEQ_MISS;						\
aborted:								\
	__asm__ volatile("");						\
	return RSEQ_ABORT;						\
unregistered:								\
	__asm__ volatile("");						\
	return RSEQ_UNREGISTERED
#else
/*
 * The numbers are local labels of the assembler, behind the code of the
 * section, which conditional jumps of aarch64 reach.
 */
#define RSEQ_TO_MISSED	     "11f"
#define RSEQ_TO_ABORTED	     "12f"
#define RSEQ_TO_UNREGISTERED "13f"
#define RSEQ_ASM(code, outputs, inputs, ...)				\
	unsigned result;						\
	__asm__ volatile(						\
	    code							\
	    RSEQ_SET(0)							\
	    "10:\n\t"							\
	    ".subsection 1\n"						\
	    "11:\n\t" RSEQ_SET(1) RSEQ_JUMP "10b\n"			\
	    "12:\n\t" RSEQ_SET(2) RSEQ_JUMP "10b\n"			\
	    "13:\n\t" RSEQ_SET(3) RSEQ_JUMP "10b\n\t"			\
	    ".previous\n\t"						\
	    : [result] "=&r" (result), outputs				\
	    : inputs							\
	    : "memory", "cc", ##__VA_ARGS__);				\
	if (unlikely(result != RSEQ_OK))				\
	return (enum rseq_result)result
#define RSEQ_RESULTS return RSEQ_OK
_Static_assert(RSEQ_OK == 0 && RSEQ_MISS == 1 && RSEQ_ABORT == 2 &&
    RSEQ_UNREGISTERED == 3, "the numbers of the labels");
#endif
/* clang-format on */

#include ARCH_HEADER(rseq)

/*
 * ThreadSanitizer does not see into a section.  A build for it has a header
 * that tells it of the rounds that sections pass from thread to thread, and of
 * those that an owner receives from sections or hands over to them.
 */
#ifdef RSEQ_WATCHER
#include RSEQ_WATCHER
#else
#define rseq_received(rounds, n)    ((void)0)
#define rseq_handed_over(rounds, n) ((void)0)
#endif

#endif
