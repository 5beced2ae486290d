/*
 * dlopen_x86_64.h - the entries of dlopen() and dlmopen() on x86-64; the
 * contract is in dlopen.h
 *
 * Each pushes three words, of which the last aligns the stack for dlopen(), and
 * is the mode for dlmopen().
 */
#ifndef UMEM_DLOPEN_X86_64_H
#define UMEM_DLOPEN_X86_64_H

/* clang-format off */
#define DLOPEN_ENTRY(name, clear_flag)					\
    ".balign 16\n\t"							\
    ".globl " name "\n\t"						\
    ".type " name ", @function\n"					\
    name ":\n\t"							\
    ".cfi_startproc\n\t"						\
    "endbr64\n\t"							\
    "pushq %rdi\n\t"							\
    ".cfi_adjust_cfa_offset 8\n\t"					\
    "pushq %rsi\n\t"							\
    ".cfi_adjust_cfa_offset 8\n\t"					\
    "pushq %rdx\n\t"							\
    ".cfi_adjust_cfa_offset 8\n\t"					\
    "call " name "_next\n\t"						\
    "popq %rdx\n\t"							\
    ".cfi_adjust_cfa_offset -8\n\t"					\
    "popq %rsi\n\t"							\
    ".cfi_adjust_cfa_offset -8\n\t"					\
    "popq %rdi\n\t"							\
    ".cfi_adjust_cfa_offset -8\n\t"					\
    clear_flag								\
    "jmp *%rax\n\t"							\
    ".cfi_endproc\n\t"							\
    ".size " name ", . - " name "\n\t"

__asm__(
    ".pushsection .text\n\t"
    DLOPEN_ENTRY("dlopen",
	"andl $~8, %esi\n\t")		/* RTLD_DEEPBIND */
    DLOPEN_ENTRY("dlmopen",
	"testq %rdi, %rdi\n\t"		/* LM_ID_BASE */
	"jnz 1f\n\t"
	"andl $~8, %edx\n"
	"1:\n\t")
    ".popsection\n"
);
#undef DLOPEN_ENTRY
/* clang-format on */

#endif
