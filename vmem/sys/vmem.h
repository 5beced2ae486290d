/* sys/vmem.h - the name by which programs of illumos include vmem.h */
#ifndef UMEM_SYS_VMEM_H
#define UMEM_SYS_VMEM_H

/* vmem.h lies one folder up, where the compiler looks for headers. */
#include <vmem.h>

#endif
