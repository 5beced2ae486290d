/* owner.h - the owner of rseq areas that a mode must lead to */
#ifndef UNIT_OWNER_H
#define UNIT_OWNER_H

#include "magazine/rseq.h"

/*
 * A libc without areas (glibc before 2.35, musl, glibc.pthread.rseq=0) leaves
 * the registration to the library.
 */
static inline int
owner_expected(int mode)
{
	extern const unsigned int __rseq_size __attribute__((weak));

	if (mode == RSEQ_LIBC && (&__rseq_size == NULL || __rseq_size == 0))
		return RSEQ_OWN;
	return mode;
}

#endif
