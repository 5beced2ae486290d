/*
 * vfork_aarch64.h - the entry of vfork() on aarch64; the contract is in vfork.h
 *
 * The system call changes x0 only.  x30 holds the return address across it, and
 * w9 the result of vfork_begin().  Because the kernel has no vfork system call
 * on aarch64, the entry calls clone() with CLONE_VM, CLONE_VFORK and SIGCHLD
 * and no stack of its own, which is equivalent.  The hints are bti c, paciasp
 * and autiasp; older processors ignore them.
 */
#ifndef UMEM_VFORK_AARCH64_H
#define UMEM_VFORK_AARCH64_H

/* clang-format off */
__asm__(
    ".pushsection .text\n\t"
    ".balign 16\n\t"
    ".globl vfork\n\t"
    ".type vfork, %function\n\t"
    ".globl __vfork\n\t"
    ".set __vfork, vfork\n"
    "vfork:\n\t"
    ".cfi_startproc\n\t"
    "hint 34\n\t"
    "hint 25\n\t"
    ".cfi_negate_ra_state\n\t"
    "stp x29, x30, [sp, -16]!\n\t"
    ".cfi_adjust_cfa_offset 16\n\t"
    ".cfi_rel_offset x29, 0\n\t"
    ".cfi_rel_offset x30, 8\n\t"
    "bl vfork_begin\n\t"
    "ldp x29, x30, [sp], 16\n\t"
    ".cfi_adjust_cfa_offset -16\n\t"
    ".cfi_restore x29\n\t"
    ".cfi_restore x30\n\t"
    "hint 29\n\t"
    ".cfi_negate_ra_state\n\t"
    "cmp w0, 2\n\t"			/* RSEQ_NOT_STOPPED */
    "b.eq 2f\n\t"
    "mov w9, w0\n\t"
    "mov x0, 0x4111\n\t"
    "mov x1, 0\n\t"
    "mov x2, 0\n\t"
    "mov x3, 0\n\t"
    "mov x4, 0\n\t"
    "mov x8, 220\n\t"			/* SYS_clone */
    "svc 0\n\t"
    "cbz x0, 1f\n\t"
    "mov w1, w9\n\t"
    "b vfork_end\n"
    "1:\n\t"
    "ret\n"
    "2:\n\t"
    "b vfork_by_fork\n\t"
    ".cfi_endproc\n\t"
    ".size vfork, . - vfork\n\t"
    ".popsection\n"
);
/* clang-format on */

#endif
