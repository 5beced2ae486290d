/*
 * dlopen.h - the entries of dlopen() and dlmopen(), one file per architecture
 *
 * An entry keeps the arguments and calls dlopen_next() or dlmopen_next().  It
 * clears RTLD_DEEPBIND in the mode, that of dlmopen() only in the base
 * namespace, and jumps to the function that it got.  Registers and stack are
 * then those of the call, the return address included.
 */
#ifndef UMEM_DLOPEN_H
#define UMEM_DLOPEN_H

#include <dlfcn.h>

#include "vmem/arch.h"

#ifdef RTLD_DEEPBIND

/* Called by the entries; dlopen.c defines both.  Each returns a function. */
void *dlopen_next(void);
void *dlmopen_next(void);

/* The entries have these numbers. */
_Static_assert(RTLD_DEEPBIND == 8, "the bit that the entries clear");
_Static_assert(LM_ID_BASE == 0, "the namespace that the entries compare");

#include ARCH_HEADER(dlopen)

#endif

#endif
