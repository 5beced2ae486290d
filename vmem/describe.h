/*
 * describe.h - macros that make the introspection table; see description.h
 *
 * The entries are in two sections of their own.  umem/describe.c describes the
 * structures that headers define.  A module with private structures or
 * variables describes them at the end of its .c file, by DESCRIBE(its list).
 */
#ifndef VMEM_DESCRIBE_H
#define VMEM_DESCRIBE_H

#include "vmem/base.h"
#include "vmem/description.h"

#define DESCRIBE_MEMBER(id, label, type, member)                               \
	{#label "." #member, {offsetof(struct type, member)},                  \
	    sizeof(((struct type *)0)->member)},
#define DESCRIBE_VARIABLE(id, variable)                                        \
	{"&" #variable, {.address = &(variable)}, sizeof(variable)},
#define DESCRIBE_CONSTANT(constant)     {"=" #constant, {(uint64_t)(constant)}, 8},
#define DESCRIBE_BYTES(id, label, type) {"=" #label, {sizeof(struct type)}, 8},

#define DESCRIBE_NO_MEMBER(id, label, type, member)
#define DESCRIBE_NO_VARIABLE(id, variable)
#define DESCRIBE_NO_CONSTANT(constant)
#define DESCRIBE_NO_BYTES(id, label, type)

/* Never const, because all parts of one section need the same attributes. */
#define DESCRIBE_SECTION(name) __attribute__((section(name), used, aligned(64)))

/*
 * The loader relocates the entries of variables and no others.  Because these
 * entries are in a section of their own, it writes to few pages.
 */
#define DESCRIBE(list)                                                         \
	static struct describe_entry described[] DESCRIBE_SECTION(             \
	    "umem_describe") = {list(DESCRIBE_MEMBER, DESCRIBE_NO_VARIABLE,    \
	    DESCRIBE_CONSTANT, DESCRIBE_BYTES)};                               \
	static struct describe_entry described_variables[] DESCRIBE_SECTION(   \
	    "umem_variables") = {list(DESCRIBE_NO_MEMBER, DESCRIBE_VARIABLE,   \
	    DESCRIBE_NO_CONSTANT, DESCRIBE_NO_BYTES)}

#endif
