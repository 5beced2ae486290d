/* stack_x86_64.h - stack frames on x86-64 */
#ifndef UMEM_STACK_X86_64_H
#define UMEM_STACK_X86_64_H

#include <string.h>

#include "vmem/base.h"

/* Register numbers in unwind tables. */
#define REG_FP   6
#define REG_SP   7
#define REG_LINK 16 /* no register: the return address */

static inline __attribute__((always_inline)) void
frame_here(struct frame *frame)
{
	__asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
			 : "=r"(frame->pc), "=r"(frame->sp), "=r"(frame->fp));
	frame->link = 0;
}

static inline uintptr_t
strip_signature(uintptr_t pc)
{
	return pc;
}

/*
 * Is pc where a signal handler returns to?  That is "mov $15, %rax; syscall",
 * which is rt_sigreturn().  glibc has an unwind table for it, musl has none.
 * pc may be its address less 1: it then is a return address that the caller
 * has moved into the call.
 */
static inline bool
is_signal_return(uintptr_t pc, bool (*is_readable)(const void *))
{
	static const uint8_t code[] = {
	    0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	const char *at = (const char *)pc;

	/* is_readable() takes the address of a word of 4 bytes. */
	return is_readable((const void *)align_down(pc, 4)) &&
	       is_readable((const void *)align_down(pc + sizeof(code), 4)) &&
	       (memcmp(at, code, sizeof(code)) == 0 ||
		   memcmp(at + 1, code, sizeof(code)) == 0);
}

/* struct ucontext lies at sp: offsets of the registers in its uc_mcontext. */
#define SIGNAL_RBP (40 + 10 * 8)
#define SIGNAL_RSP (40 + 15 * 8)
#define SIGNAL_RIP (40 + 16 * 8)

static inline bool
frame_step_signal(struct frame *frame,
    bool (*frame_word)(struct frame *, uintptr_t, uintptr_t *))
{
	uintptr_t at = frame->sp;

	return frame_word(frame, at + SIGNAL_RIP, &frame->pc) &&
	       frame_word(frame, at + SIGNAL_RBP, &frame->fp) &&
	       frame_word(frame, at + SIGNAL_RSP, &frame->sp);
}

#endif
