/* huge.h - which growth of the heap is to come as huge pages; see huge.c */
#ifndef VMEM_HUGE_H
#define VMEM_HUGE_H

#include "vmem/base.h"

#define HUGE_PAGE (2 * MIB)

/*
 * How many bytes of huge pages may a heap of so many bytes grow by at most,
 * when it must grow to hold a block?  0: none.
 */
size_t huge_most(size_t heap_bytes, size_t block_bytes);

/*
 * If so: the most to grow by in one piece; *probe says that it shall be of
 * small pages all the same.
 */
size_t huge_piece(bool *probe);

/* It has grown so. */
void huge_grew(uintptr_t from, uintptr_t to, bool huge);

/* An option: huge pages may be asked for at all. */
void huge_allow(bool allowed);

#endif
