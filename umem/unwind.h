/* unwind.h - how to get from a frame to its caller's; see unwind.c */
#ifndef UMEM_UNWIND_H
#define UMEM_UNWIND_H

#include "vmem/base.h"

enum unwind_kind {
	UNWIND_UNKNOWN, /* nothing is known of this address: by frame pointer */
	UNWIND_FRAME,   /* cfa = sp or fp + cfa_off */
	UNWIND_DEREF,  /* cfa = the word at fp + cfa_off, fp's at fp + fp_off */
	UNWIND_SIGNAL, /* the kernel's frame for a signal handler */
	UNWIND_END     /* the outermost */
};

/* Offsets that mean something else. */
#define FP_SAME INT16_MIN /* the caller's frame pointer is this one's */
#define RA_LINK INT16_MIN /* the return address is in the link register */

struct unwind_rule {
	unsigned kind;
	bool by_fp; /* cfa counts from the frame pointer */
	int32_t cfa_off;
	int16_t fp_off; /* where the caller's frame pointer is, from the cfa */
	int16_t ra_off; /* where the return address is */
};

/*
 * The rule for the instruction at pc.  Takes no lock, allocates nothing; may
 * be called anywhere.
 */
struct unwind_rule unwind_rule(uintptr_t pc);

#endif
