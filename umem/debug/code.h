/* code.h - selects the header for the stack frames of the architecture */
#ifndef UMEM_CODE_H
#define UMEM_CODE_H

#include "vmem/base.h"

#if defined(__x86_64__)
#include "umem/debug/stack_x86_64.h"
#elif defined(__aarch64__)
#include "umem/debug/stack_aarch64.h"
#endif

#endif
