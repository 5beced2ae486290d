/* vdso.h - the kernel's function that reads a clock; see vdso.c */
#ifndef VMEM_VDSO_H
#define VMEM_VDSO_H

#include <time.h>

/* Returns 0 or a negated error number, and leaves errno alone. */
typedef int vdso_clock(clockid_t clock, struct timespec *now);

/* Returns the function, or NULL if the process has none. */
vdso_clock *vdso_find_clock(void);

#endif
