/*
 * vfork_x86_64.h - the entry of vfork() on x86-64; the contract is in vfork.h
 *
 * The system call changes rax, rcx and r11 only.  rdi holds the return address
 * across it, and esi the result of vfork_begin().  The child leaves by an
 * indirect jump because it also shares the parent's shadow stack: a return
 * would remove the entry that the parent still needs.
 */
#ifndef UMEM_VFORK_X86_64_H
#define UMEM_VFORK_X86_64_H

/* clang-format off */
__asm__(
    ".pushsection .text\n\t"
    ".balign 16\n\t"
    ".globl vfork\n\t"
    ".type vfork, @function\n\t"
    ".globl __vfork\n\t"
    ".set __vfork, vfork\n"
    "vfork:\n\t"
    ".cfi_startproc\n\t"
    "endbr64\n\t"
    "subq $8, %rsp\n\t"			/* aligns the stack for the call */
    ".cfi_adjust_cfa_offset 8\n\t"
    "call vfork_begin\n\t"
    "addq $8, %rsp\n\t"
    ".cfi_adjust_cfa_offset -8\n\t"
    "cmpl $2, %eax\n\t"		/* RSEQ_NOT_STOPPED */
    "je 2f\n\t"
    "movl %eax, %esi\n\t"
    ".cfi_remember_state\n\t"
    "popq %rdi\n\t"
    ".cfi_adjust_cfa_offset -8\n\t"
    ".cfi_register %rip, %rdi\n\t"
    "movl $58, %eax\n\t"		/* SYS_vfork */
    "syscall\n\t"
    "testq %rax, %rax\n\t"
    "jz 1f\n\t"
    ".cfi_remember_state\n\t"
    "pushq %rdi\n\t"
    ".cfi_adjust_cfa_offset 8\n\t"
    ".cfi_offset %rip, -8\n\t"
    "movq %rax, %rdi\n\t"
    "jmp vfork_end\n"
    "1:\n\t"
    ".cfi_restore_state\n\t"
    "jmp *%rdi\n"
    "2:\n\t"
    ".cfi_restore_state\n\t"
    "jmp vfork_by_fork\n\t"
    ".cfi_endproc\n\t"
    ".size vfork, . - vfork\n\t"
    ".popsection\n"
);
/* clang-format on */

#endif
