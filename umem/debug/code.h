/* code.h - selects the header for the stack frames of the architecture */
#ifndef UMEM_CODE_H
#define UMEM_CODE_H

#include "vmem/arch.h"

#include ARCH_HEADER(stack)

#endif
