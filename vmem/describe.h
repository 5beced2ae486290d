/*
 * describe.h - what tools outside the process need to know of this library
 *
 * A tool that looks at a live process or at a core file must not know how our
 * structures are laid out, lest it misread those of another version.  So the
 * library carries the answer: a table of entries in a section of its own, made
 * by the compiler from the structures themselves.  A room whose structures
 * are in a header is described by umem/describe.c; one that keeps some for
 * itself says so at its end.
 *
 * Kinds of entry, told apart by the first letter of the name
 *	slab.nfree	a member: value is its offset, bytes its size
 *	&cache_list	a variable: value is its address, bytes its size
 *	=HEAP_UNIT	a constant
 */
#ifndef VMEM_DESCRIBE_H
#define VMEM_DESCRIBE_H

#include "vmem/base.h"

/* Tools read these as they lie in memory: 64 bytes each, without padding. */
struct describe_entry {
	char name[48];
	union {
		uint64_t value;
		const volatile void *address;
	};
	uint64_t bytes;
};

_Static_assert(sizeof(struct describe_entry) == 64, "one after the other");

/* Never const: all of the section has to be of one kind. */
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
