/* code.h - stack frames, by a header of the architecture */
#ifndef UMEM_CODE_H
#define UMEM_CODE_H

#include "vmem/arch.h"
#include "vmem/base.h"

/* A frame of a stack. */
struct frame {
	uintptr_t pc, sp, fp;
	uintptr_t link;   /* register 30 of aarch64; else 0 */
	uintptr_t lo, hi; /* readable range */
	bool exact;       /* pc is in the instruction, not behind a call */
};

#include ARCH_HEADER(stack)

#endif
