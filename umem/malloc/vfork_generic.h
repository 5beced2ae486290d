/*
 * vfork_generic.h - the entry of vfork() on other architectures; the contract
 * is in vfork.h
 *
 * The child of fork() shares nothing.  It costs a copy of the page tables.
 */
#ifndef UMEM_VFORK_GENERIC_H
#define UMEM_VFORK_GENERIC_H

#include <unistd.h>

#include "vmem/base.h"

public pid_t
vfork(void)
{
	return vfork_by_fork();
}

/* gcc warns of an alias with fewer attributes than libc's vfork() has. */
__asm__(".globl __vfork\n\t.set __vfork, vfork");

#endif
