/*
 * step_generic.h - other architectures: a child is not stepped, and nothing of
 * this is called
 */
#ifndef TESTS_UNIT_STEP_GENERIC_H
#define TESTS_UNIT_STEP_GENERIC_H

#include <stdint.h>
#include <ucontext.h>

struct user_regs_struct {
	uintptr_t pc;
};

typedef unsigned char step_code_t;
#define STEP_TRAP ((step_code_t)0)

static inline uintptr_t *
step_pc_of(struct user_regs_struct *registers)
{
	return &registers->pc;
}

static inline uintptr_t
step_context_pc(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static inline void
step_context_jump(ucontext_t *context, const void *to)
{
	(void)context;
	(void)to;
}

#endif
