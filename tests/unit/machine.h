/* machine.h - abilities that a machine may lack */
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
 * ptrace(), no huge pages and no restartable sequences, and clone() with
 * CLONE_VM is fork().  tests/run_tests.sh is told so by EMULATED=qemu.
 */
static inline bool
machine_is_emulated(void)
{
	return getenv("EMULATED") != NULL;
}

#endif
