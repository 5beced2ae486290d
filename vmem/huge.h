/* huge.h - decides which growth of the heap uses huge pages; see huge.c */
#ifndef VMEM_HUGE_H
#define VMEM_HUGE_H

#include "vmem/base.h"

#define HUGE_PAGE (2 * MIB)

/*
 * The most bytes of huge pages by which a heap of heap_bytes may grow now.  0:
 * use small pages.
 */
size_t huge_growth_max(size_t heap_bytes);

/*
 * The most bytes of the next piece of growth, after huge_growth_max() has
 * allowed huge pages.  If *small becomes true, the piece must use small pages.
 */
size_t huge_growth_next(bool *small);

/* Record that the heap has grown by [from, to), with huge pages or without. */
void huge_growth_record(uintptr_t from, uintptr_t to, bool huge);

/*
 * Add the pages in a range, of which only the first huge page counts, and those
 * of them that have memory.  Return false if the kernel does not tell.
 */
bool huge_count(uintptr_t at, size_t bytes, size_t *npages, size_t *nresident);

/* Which growth of the heap uses huge pages? */
enum huge_use {
	HUGE_NO,
	HUGE_AUTO,  /* growth that the program is likely to touch */
	HUGE_ALWAYS /* all growth */
};

extern hidden enum huge_use huge_use; /* an option */

#endif
