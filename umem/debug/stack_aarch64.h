/* stack_aarch64.h - stack frames on aarch64 */
#ifndef UMEM_STACK_AARCH64_H
#define UMEM_STACK_AARCH64_H

#include "vmem/base.h"

/* Register numbers in unwind tables. */
#define REG_FP   29
#define REG_SP   31
#define REG_LINK 30

static inline __attribute__((always_inline)) void
frame_here(struct frame *frame)
{
	__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29\n\tmov %3, x30"
			 : "=r"(frame->pc), "=r"(frame->sp), "=r"(frame->fp),
			 "=r"(frame->link));
}

/*
 * Removes the signature that pointer authentication puts into the upper bits of
 * an address, above as many bits as the kernel uses for addresses (39, 42, 47,
 * 48 or 52).  The processor knows how many: hint 7 is xpaclri, which strips
 * x30, and does nothing without pointer authentication.
 */
static inline uintptr_t
strip_signature(uintptr_t pc)
{
	register uintptr_t x30 __asm__("x30") = pc;

	__asm__("hint #7" : "+r"(x30));
	return x30;
}

/*
 * Is pc where a signal handler returns to?  That is "mov x8, #139; svc #0",
 * which is rt_sigreturn(), in the kernel's vDSO or in libc.  The vDSO of Linux
 * 5.9 and later has no unwind table for these instructions, and neither has
 * musl.  pc may be their address less 1: it then is a return address that the
 * caller has moved into the call.
 */
static inline bool
is_signal_return(uintptr_t pc, bool (*is_readable)(const void *))
{
	const uint32_t *code = (const uint32_t *)align_up(pc, sizeof(*code));

	return is_readable(code) && is_readable(code + 1) &&
	       code[0] == 0xd2801168 && code[1] == 0xd4000001;
}

/*
 * struct rt_sigframe lies at sp: siginfo of 128 bytes, then ucontext, whose
 * uc_mcontext begins at byte 176: fault address, then x0 to x30, sp, pc.
 */
#define SIGNAL_X0 (128 + 176 + 8)

static inline bool
frame_step_signal(struct frame *frame,
    bool (*frame_word)(struct frame *, uintptr_t, uintptr_t *))
{
	uintptr_t at = frame->sp + SIGNAL_X0;

	return frame_word(frame, at + 29 * 8, &frame->fp) &&
	       frame_word(frame, at + 30 * 8, &frame->link) &&
	       frame_word(frame, at + 32 * 8, &frame->pc) &&
	       frame_word(frame, at + 31 * 8, &frame->sp);
}

#endif
