/* rseq_ops.h - the restartable operations, one file for each architecture */
#ifndef MAGAZINE_RSEQ_OPS_H
#define MAGAZINE_RSEQ_OPS_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq.h"

#if defined(__x86_64__)
#include "magazine/rseq_x86_64.h"
#elif defined(__aarch64__)
#include "magazine/rseq_aarch64.h"
#else
#error "umem knows x86-64 and aarch64"
#endif

#endif
