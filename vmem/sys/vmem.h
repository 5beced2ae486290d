/* sys/vmem.h - for illumos programs, which include vmem.h by this name */
#ifndef UMEM_SYS_VMEM_H
#define UMEM_SYS_VMEM_H

/* vmem.h is one directory up, in the compiler's header search path. */
#include <vmem.h>

#endif
