/*
 * describe.c - the library's description of itself, for tools
 *
 * The description is a table that tools find without symbols: they search the
 * writable mappings of a process's files for the header (vmem/description.h).
 * The header points to the entries that this file and others have put into a
 * section (vmem/describe.h).  This file describes the structures and variables
 * that headers declare; other files describe those that they keep to
 * themselves, and vmem/ and magazine/ those of their inner headers.
 *
 * The description is in writable data, although nothing writes to it, because
 * core files leave out pages that cannot be written to.
 */
#include "umem/described.h"
#include "umem/base/page_map.h"
#include "umem/cache/import.h"
#include "umem/debug/error.h"
#include "umem/debug/log.h"
#include "umem/debug/report.h"
#include "umem/malloc/alloc.h"
#include "umem/rcu/defer.h"
#include "umem/umem.h"
#include "vmem/describe.h"

extern struct describe_entry __start_umem_describe[]
    __attribute__((visibility("hidden")));
extern struct describe_entry __stop_umem_describe[]
    __attribute__((visibility("hidden")));

static struct description description
    __attribute__((used, section(".data"), aligned(DESCRIPTION_ALIGN))) = {
	.magic = DESCRIPTION_MAGIC,
	.version = DESCRIPTION_VERSION,
	.entry_bytes = sizeof(struct describe_entry),
	.self = &description,
	.entries = __start_umem_describe,
	.entries_end = __stop_umem_describe,
	.library = UMEM_VERSION,
};

/* Defined by the linker: the end of this file's data. */
extern char _end[0] __attribute__((visibility("hidden")));

DESCRIBE(DESCRIBED_PUBLIC);

/*
 * A linker that leaves out unused sections (--gc-sections) finds no use of the
 * description, and lld does not take __start_umem_describe for a use of the
 * section.  Distances, beside variables that are used, are such uses, and the
 * loader need not relocate them.
 */
__asm__(".pushsection umem_early, \"aw\"\n\t"
	".balign 8\n\t"
	".quad description - ., described - .\n\t"
	".popsection");
