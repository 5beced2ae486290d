/*
 * dlopen_aarch64.h - the entries of dlopen() and dlmopen() on aarch64; the
 * contract is in dlopen.h
 *
 * They jump by x16, from which a jump may go to the "bti c" of a function.  The
 * hints are bti c, paciasp and autiasp; older processors ignore them.
 */
#ifndef UMEM_DLOPEN_AARCH64_H
#define UMEM_DLOPEN_AARCH64_H

/* clang-format off */
__asm__(
    ".pushsection .text\n\t"
    ".balign 16\n\t"
    ".globl dlopen\n\t"
    ".type dlopen, %function\n"
    "dlopen:\n\t"
    ".cfi_startproc\n\t"
    "hint 34\n\t"
    "hint 25\n\t"
    ".cfi_negate_ra_state\n\t"
    "stp x29, x30, [sp, -32]!\n\t"
    ".cfi_adjust_cfa_offset 32\n\t"
    ".cfi_rel_offset x29, 0\n\t"
    ".cfi_rel_offset x30, 8\n\t"
    "stp x0, x1, [sp, 16]\n\t"
    "bl dlopen_next\n\t"
    "mov x16, x0\n\t"
    "ldp x0, x1, [sp, 16]\n\t"
    "ldp x29, x30, [sp], 32\n\t"
    ".cfi_adjust_cfa_offset -32\n\t"
    ".cfi_restore x29\n\t"
    ".cfi_restore x30\n\t"
    "hint 29\n\t"
    ".cfi_negate_ra_state\n\t"
    "and w1, w1, ~8\n\t"		/* RTLD_DEEPBIND */
    "br x16\n\t"
    ".cfi_endproc\n\t"
    ".size dlopen, . - dlopen\n\t"

    ".balign 16\n\t"
    ".globl dlmopen\n\t"
    ".type dlmopen, %function\n"
    "dlmopen:\n\t"
    ".cfi_startproc\n\t"
    "hint 34\n\t"
    "hint 25\n\t"
    ".cfi_negate_ra_state\n\t"
    "stp x29, x30, [sp, -48]!\n\t"
    ".cfi_adjust_cfa_offset 48\n\t"
    ".cfi_rel_offset x29, 0\n\t"
    ".cfi_rel_offset x30, 8\n\t"
    "stp x0, x1, [sp, 16]\n\t"
    "str x2, [sp, 32]\n\t"
    "bl dlmopen_next\n\t"
    "mov x16, x0\n\t"
    "ldr x2, [sp, 32]\n\t"
    "ldp x0, x1, [sp, 16]\n\t"
    "ldp x29, x30, [sp], 48\n\t"
    ".cfi_adjust_cfa_offset -48\n\t"
    ".cfi_restore x29\n\t"
    ".cfi_restore x30\n\t"
    "hint 29\n\t"
    ".cfi_negate_ra_state\n\t"
    "cbnz x0, 1f\n\t"			/* LM_ID_BASE */
    "and w2, w2, ~8\n"
    "1:\n\t"
    "br x16\n\t"
    ".cfi_endproc\n\t"
    ".size dlmopen, . - dlmopen\n\t"
    ".popsection\n"
);
/* clang-format on */

#endif
