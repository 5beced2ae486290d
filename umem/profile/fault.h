/* fault.h - an explanation of faults in guard pages; see fault.c */
#ifndef UMEM_FAULT_H
#define UMEM_FAULT_H

#include "vmem/base.h"

/*
 * Called when the first guard page may come into being: handles SIGSEGV unless
 * the program does, or the process is confined.
 */
void fault_explain_guards(void);

/* For panic_hooks. */
struct os_fault;
void fault_explain(const struct os_fault *fault);

#endif
