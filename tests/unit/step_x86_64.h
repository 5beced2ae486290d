/* step_x86_64.h - registers and breakpoints on x86-64 */
#ifndef TESTS_UNIT_STEP_X86_64_H
#define TESTS_UNIT_STEP_X86_64_H

#include <stdint.h>
#include <sys/user.h>
#include <ucontext.h>

typedef uint8_t step_code_t;
#define STEP_TRAP ((step_code_t)0xcc) /* int3 */

static inline unsigned long long *
step_pc_of(struct user_regs_struct *registers)
{
	return (unsigned long long *)&registers->rip;
}

/* The address to which a signal handler returns. */
static inline uintptr_t
step_context_pc(const ucontext_t *context)
{
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}

static inline void
step_context_jump(ucontext_t *context, const void *to)
{
	context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)to;
}

#endif
