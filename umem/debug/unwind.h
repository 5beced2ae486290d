/* unwind.h - rules that lead from a frame to its caller's; see unwind.c */
#ifndef UMEM_UNWIND_H
#define UMEM_UNWIND_H

#include "vmem/base.h"

enum unwind_kind {
	UNWIND_UNKNOWN = 1, /* no table here: use the frame pointer */
	UNWIND_FRAME,       /* cfa = sp or fp + cfa_off */
	UNWIND_DEREF,  /* cfa = the word at fp + cfa_off, fp's at fp + fp_off */
	UNWIND_SIGNAL, /* the kernel's frame for a signal handler */
	UNWIND_END     /* the outermost frame */
};

/* Offsets with a special meaning. */
#define FP_SAME INT16_MIN /* the caller's frame pointer is unchanged */
#define RA_LINK INT16_MIN /* the return address is in the link register */

/* A rule, in one word; no rule is 0. */
struct unwind_rule {
	uint32_t kind : 3;  /* enum unwind_kind */
	uint32_t by_fp : 1; /* cfa_off is relative to the frame pointer */
	int32_t cfa_off : 28;
	int16_t fp_off; /* of the caller's frame pointer, from the cfa */
	int16_t ra_off; /* of the return address, from the cfa */
};

_Static_assert(sizeof(struct unwind_rule) == 8, "stack.c keeps it in a word");
_Static_assert(UNWIND_END < 8, "a kind has 3 bits");

/*
 * Returns the rule for the instruction at pc.  Takes no lock and allocates
 * nothing, so any code may call it anywhere.
 */
struct unwind_rule unwind_rule(uintptr_t pc);

#endif
