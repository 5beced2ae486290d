/* step_aarch64.h - registers and breakpoints on aarch64 */
#ifndef TESTS_UNIT_STEP_AARCH64_H
#define TESTS_UNIT_STEP_AARCH64_H

#include <stdint.h>
#include <sys/user.h>
#include <ucontext.h>

typedef uint32_t step_code_t;
#define STEP_TRAP ((step_code_t)0xd4200000) /* brk #0 */

static inline unsigned long long *
step_pc_of(struct user_regs_struct *registers)
{
	return &registers->pc;
}

/* The address to which a signal handler returns. */
static inline uintptr_t
step_context_pc(const ucontext_t *context)
{
	return context->uc_mcontext.pc;
}

static inline void
step_context_jump(ucontext_t *context, const void *to)
{
	context->uc_mcontext.pc = (uintptr_t)to;
}

#endif
