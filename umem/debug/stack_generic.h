/*
 * stack_generic.h - stack frames on other architectures: there are none, and
 * reports have no stacks
 */
#ifndef UMEM_STACK_GENERIC_H
#define UMEM_STACK_GENERIC_H

#include "vmem/base.h"

/* Register numbers that no unwind table has.  riscv64's libc has a REG_SP. */
#undef REG_SP
#define REG_FP   ((uint64_t)1 << 32)
#define REG_SP   (REG_FP + 1)
#define REG_LINK (REG_FP + 2)

/* A frame pointer below the stack pointer ends the walk. */
static inline void
frame_here(struct frame *frame)
{
	*frame = (struct frame){.sp = 1};
}

static inline uintptr_t
strip_signature(uintptr_t pc)
{
	return pc;
}

static inline bool
is_signal_return(uintptr_t pc, bool (*is_readable)(const void *))
{
	(void)pc;
	(void)is_readable;
	return false;
}

static inline bool
frame_step_signal(struct frame *frame,
    bool (*frame_word)(struct frame *, uintptr_t, uintptr_t *))
{
	(void)frame;
	(void)frame_word;
	return false;
}

#endif
