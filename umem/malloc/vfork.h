/*
 * vfork.h - the entry of vfork(), one file per architecture
 *
 * vfork() returns twice on one stack: the child returns to the caller first and
 * calls other functions there, which overwrites everything below the caller's
 * frame.  Therefore the entry keeps the return address and the result of
 * vfork_begin() in registers, which the kernel saves for each of the two tasks,
 * makes the system call itself, and leaves the child without touching the stack
 * again.  The parent leaves through vfork_end().
 */
#ifndef UMEM_VFORK_H
#define UMEM_VFORK_H

#include <sys/types.h>

#include "magazine/rseq.h"
#include "vmem/arch.h"

/*
 * Called by the entry, before the child exists; thread.c defines these.  If the
 * result is RSEQ_NOT_STOPPED, the entry continues at vfork_by_fork().
 */
enum rseq_stopped vfork_begin(void);
_Static_assert(RSEQ_NOT_STOPPED == 2, "the entries compare with it");

/*
 * Called by the entry in the parent, after the child has exec'd or ended.
 * result is the kernel's result, stopped the result of vfork_begin().  Returns
 * the result of vfork().
 */
pid_t vfork_end(long result, enum rseq_stopped stopped);

/* Calls fork(), and returns its result. */
pid_t vfork_by_fork(void);

#include ARCH_HEADER(vfork)

#endif
