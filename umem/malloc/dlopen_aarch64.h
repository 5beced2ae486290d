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
#define DLOPEN_ENTRY(name, clear_flag)					\
    ".balign 16\n\t"							\
    ".globl " name "\n\t"						\
    ".type " name ", %function\n"					\
    name ":\n\t"							\
    ".cfi_startproc\n\t"						\
    "hint 34\n\t"							\
    "hint 25\n\t"							\
    ".cfi_negate_ra_state\n\t"						\
    "stp x29, x30, [sp, -48]!\n\t"					\
    ".cfi_adjust_cfa_offset 48\n\t"					\
    ".cfi_rel_offset x29, 0\n\t"					\
    ".cfi_rel_offset x30, 8\n\t"					\
    "stp x0, x1, [sp, 16]\n\t"						\
    "str x2, [sp, 32]\n\t"						\
    "bl " name "_next\n\t"						\
    "mov x16, x0\n\t"							\
    "ldr x2, [sp, 32]\n\t"						\
    "ldp x0, x1, [sp, 16]\n\t"						\
    "ldp x29, x30, [sp], 48\n\t"					\
    ".cfi_adjust_cfa_offset -48\n\t"					\
    ".cfi_restore x29\n\t"						\
    ".cfi_restore x30\n\t"						\
    "hint 29\n\t"							\
    ".cfi_negate_ra_state\n\t"						\
    clear_flag								\
    "br x16\n\t"							\
    ".cfi_endproc\n\t"							\
    ".size " name ", . - " name "\n\t"

__asm__(
    ".pushsection .text\n\t"
    DLOPEN_ENTRY("dlopen",
	"and w1, w1, ~8\n\t")		/* RTLD_DEEPBIND */
    DLOPEN_ENTRY("dlmopen",
	"cbnz x0, 1f\n\t"		/* LM_ID_BASE */
	"and w2, w2, ~8\n"
	"1:\n\t")
    ".popsection\n"
);
#undef DLOPEN_ENTRY
/* clang-format on */

#endif
