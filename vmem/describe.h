/*
 * describe.h - introspection table of the library, for debuggers and inspectors
 *
 * A tool that inspects a live process or a core file must not have the layout
 * of the library's structures compiled in.  Otherwise it would misread another
 * version of the library.  The library therefore contains an introspection
 * table: entries in a section of their own, which the compiler makes from the
 * structures.  umem/describe.c describes the structures that headers define.
 * A module with private structures or variables describes them at the end of
 * its .c file.
 *
 * Kinds of entry, distinguished by the first character of the name
 *	slab.nfree	a member: value is its offset, bytes its size
 *	&cache_list	a variable: value is its address, bytes its size
 *	=HEAP_UNIT	a constant
 */
#ifndef VMEM_DESCRIBE_H
#define VMEM_DESCRIBE_H

#include "vmem/base.h"

/* Tools read the entries directly from memory: 64 bytes each, no padding. */
struct describe_entry {
	char name[48];
	union {
		uint64_t value;
		const volatile void *address;
	};
	uint64_t bytes;
};

_Static_assert(sizeof(struct describe_entry) == 64, "one after the other");

/* Never const, because all parts of one section need the same attributes. */
#define DESCRIBE_TABLE(table)                                                  \
	static struct describe_entry table[]                                   \
	    __attribute__((section("umem_describe"), used, aligned(64)))

#define DESCRIBE_MEMBER(label, type, member)                                   \
	{label "." #member, {offsetof(type, member)},                          \
	    sizeof(((type *)0)->member)}
#define DESCRIBE_VARIABLE(variable)                                            \
	{"&" #variable, {.address = &(variable)}, sizeof(variable)}
#define DESCRIBE_CONSTANT(constant) {"=" #constant, {(uint64_t)(constant)}, 8}
#define DESCRIBE_BYTES(label, type) {"=" label, {sizeof(type)}, 8}

#endif
