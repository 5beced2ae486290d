/* rseq_ops.h - the restartable operations, one file for each architecture */
#ifndef MAGAZINE_RSEQ_OPS_H
#define MAGAZINE_RSEQ_OPS_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq.h"

/* The end of each operation: the section falls through, or jumps to a label. */
#define RSEQ_RESULTS                                                           \
	return RSEQ_OK;                                                        \
missed:                                                                        \
	return RSEQ_MISS;                                                      \
aborted:                                                                       \
	return RSEQ_ABORT;                                                     \
unregistered:                                                                  \
	return RSEQ_UNREGISTERED;

#if defined(__x86_64__)
#include "magazine/rseq_x86_64.h"
#elif defined(__aarch64__)
#include "magazine/rseq_aarch64.h"
#else
#error "umem knows x86-64 and aarch64"
#endif

#endif
