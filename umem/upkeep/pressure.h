/* pressure.h - memory pressure that the kernel reports; see pressure.c */
#ifndef UMEM_PRESSURE_H
#define UMEM_PRESSURE_H

#include "vmem/base.h"

/* The option memory_pressure. */
extern hidden bool pressure_is_watched;

/* The pressure at the last update, from 0 to RECLAIM_PRESSURE_MAX. */
unsigned pressure_level(void);

/* Reads the pressure.  Only the worker may call it. */
void pressure_read(uint64_t now_ns);

#endif
