/*
 * description.h - format and entries of the library's introspection table
 *
 * A tool that inspects a live process or a core file must not have the layout
 * of the library's structures compiled in.  Otherwise it would misread another
 * build of the library.  The library therefore contains a table of names with
 * offsets, sizes, addresses and values, which the compiler makes from the
 * structures (vmem/describe.h).  The command umem (tools/inspect) looks up the
 * names in the table of its target.
 *
 * This file has the format of the table.  The lists of its entries are beside
 * the structures, in the files described.h; umem/described.h joins them.  The
 * library and the command share these files and no others for that purpose.
 * The library makes the table from the lists, and the command its look-up, so
 * a name is written once.  No offset and no value is in these files: the
 * command reads all of them from the target.
 *
 * The format changes only with a new DESCRIPTION_VERSION.  Entries come and go;
 * the command reports an entry that it needs and the target lacks.
 *
 * Each list belongs to the file that its comment names, which can see the
 * structures and variables of the list.  A list calls these macros:
 *	M(id, label, type, member)	a member of struct type: "label.member",
 *					with its offset and size
 *	V(id, variable)			"&variable", with its distance from
 *					the entry, and its size
 *	C(constant)			"=constant", with its value
 *	B(id, label, type)		"=label", with the size of struct type
 * id, or the name of the constant, is the name of the entry in the command,
 * with the prefix L_ (tools/inspect/model/layout.h).
 */
#ifndef VMEM_DESCRIPTION_H
#define VMEM_DESCRIPTION_H

#include <stdint.h>

/* The header of the table is at a multiple of this address. */
#define DESCRIPTION_ALIGN   128
#define DESCRIPTION_MAGIC   "umem described\n"
#define DESCRIPTION_VERSION 3

/* Tools read the entries directly from memory: 64 bytes each, no padding. */
struct describe_entry {
	char name[48];
	uint64_t value;
	uint64_t bytes;
};

_Static_assert(sizeof(struct describe_entry) == 64, "one after the other");

/*
 * The header.  Tools search for the magic.  The header contains its own
 * address, which distinguishes it from a copy.
 */
struct description {
	char magic[16];
	uint32_t version;
	uint32_t entry_bytes;
	struct description *self;
	struct describe_entry *entries;
	struct describe_entry *entries_end;
	char library[16]; /* version of the library */
};

_Static_assert(sizeof(struct description) == 64, "no padding");

#endif
