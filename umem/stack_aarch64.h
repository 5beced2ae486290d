/* stack_aarch64.h - what a frame is on aarch64 */
#ifndef UMEM_STACK_AARCH64_H
#define UMEM_STACK_AARCH64_H

#include "vmem/base.h"

/* Numbers of registers in unwind tables. */
#define REG_FP   29
#define REG_SP   31
#define REG_LINK 30

struct frame {
	uintptr_t pc, sp, fp;
	uintptr_t link;   /* register 30 */
	uintptr_t lo, hi; /* readable */
	bool exact;       /* pc is of the instruction, not behind a call */
};

static inline __attribute__((always_inline)) void
frame_here(struct frame *frame)
{
	__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
			 : "=r"(frame->pc), "=r"(frame->sp), "=r"(frame->fp),
			 "=r"(frame->link));
}

/* Pointer authentication puts a signature above the 48 bits of an address. */
static inline uintptr_t
strip_signature(uintptr_t pc)
{
	return pc & (((uintptr_t)1 << 48) - 1);
}

/*
 * struct rt_sigframe lies at sp: siginfo of 128 bytes, ucontext, whose
 * uc_mcontext begins 176 bytes in: fault address, then x0 to x30, sp, pc.
 */
#define SIGNAL_X0 (128 + 176 + 8)

static inline bool
step_signal(struct frame *frame,
    bool (*word_at)(struct frame *, uintptr_t, uintptr_t *))
{
	uintptr_t at = frame->sp + SIGNAL_X0;

	return word_at(frame, at + 29 * 8, &frame->fp) &&
	       word_at(frame, at + 30 * 8, &frame->link) &&
	       word_at(frame, at + 32 * 8, &frame->pc) &&
	       word_at(frame, at + 31 * 8, &frame->sp);
}

#endif
