/* machine.h - what a machine that runs the tests lacks */
#ifndef TESTS_UNIT_MACHINE_H
#define TESTS_UNIT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "umem/debug/code.h"

/* Architectures without a header for stack frames have none; see code.h. */
static inline bool
machine_has_stacks(void)
{
	return REG_FP <= UINT32_MAX;
}

/*
 * QEMU emulates the processes, not a machine: there are no limits, no
 * ptrace(), no huge pages and no restartable sequences, clone() with CLONE_VM
 * is fork(), and it knows nothing of moves of pages that leave the source
 * mapped: the source keeps its contents, or is gone.  tests/run_tests.sh is
 * told so by EMULATED=qemu.
 */
static inline bool
machine_is_emulated(void)
{
	return getenv("EMULATED") != NULL;
}

#endif
