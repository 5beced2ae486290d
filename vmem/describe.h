/*
 * describe.h - macros that make the introspection table; see description.h
 *
 * The entries are in a section of their own.  A .c file describes at its end,
 * by DESCRIBE(its list), the structures and variables that tools read and no
 * other file sees; umem/describe.c describes those of most headers.  The lists
 * are in the folders' described.h.
 *
 * Otherwise the loader would relocate the address of each variable, in every
 * process.  Therefore the entry of a variable has a distance, which is constant
 * at link time.  C has no initialiser for it, so the assembler makes the entry.
 */
#ifndef VMEM_DESCRIBE_H
#define VMEM_DESCRIBE_H

#include "vmem/arch.h"
#include "vmem/base.h"
#include "vmem/description.h"

#define DESCRIBE_MEMBER(id, label, type, member)                               \
	{#label "." #member, offsetof(struct type, member),                    \
	    sizeof(typeof(((struct type *)0)->member))},
#define DESCRIBE_CONSTANT(constant)     {"=" #constant, (uint64_t)(constant), 8},
#define DESCRIBE_BYTES(id, label, type) {"=" #label, sizeof(struct type), 8},
#define DESCRIBE_VARIABLE(id, variable)                                        \
	__asm__ volatile(".pushsection umem_describe, \"aw\"\n\t"              \
			 ".balign 64\n"                                        \
			 "0:\t.ascii \"&" #variable "\"\n\t"                   \
			 ".org 0b + 48\n\t"                                    \
			 ".quad " #variable " - 0b, " ASM_NUMBER "0\n\t"       \
			 ".popsection"                                         \
			 :                                                     \
			 : "i"(sizeof(typeof(variable))), "r"(&(variable)));

#define DESCRIBE_NO_MEMBER(id, label, type, member)
#define DESCRIBE_NO_VARIABLE(id, variable)
#define DESCRIBE_NO_CONSTANT(constant)
#define DESCRIBE_NO_BYTES(id, label, type)

/* Never const, because all parts of one section need the same attributes. */
#define DESCRIBE_SECTION                                                       \
	__attribute__((section("umem_describe"), used, aligned(64)))

/*
 * The function is never called.  It gives the assembler the sizes, and the
 * compiler a use of the variables, which the assembler finds by their names.
 */
#define DESCRIBE(list)                                                         \
	static struct describe_entry described[] DESCRIBE_SECTION = {          \
	    list(DESCRIBE_MEMBER, DESCRIBE_NO_VARIABLE, DESCRIBE_CONSTANT,     \
		DESCRIBE_BYTES)};                                              \
	static __attribute__((used)) cold_path void describe_variables(void)   \
	{                                                                      \
		list(DESCRIBE_NO_MEMBER, DESCRIBE_VARIABLE,                    \
		    DESCRIBE_NO_CONSTANT, DESCRIBE_NO_BYTES)                   \
	}

#endif
