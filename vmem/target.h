/* target.h - the targets of the memory policy: how much memory may be idle */
#ifndef VMEM_TARGET_H
#define VMEM_TARGET_H

#include "vmem/base.h"

/* The parts of the heap that may be idle, at least IDLE_LEAST bytes. */
#define IDLE_PART   32 /* free pages, which the kernel could have */
#define CACHED_PART 8  /* objects in depots, or of large classes in a CPU */
#define IDLE_LEAST  (256 * KIB)

static inline size_t
target_of_part(size_t part)
{
	return part > IDLE_LEAST ? part : IDLE_LEAST;
}

/* The bytes that may be idle without pressure in a heap of this size. */
static inline size_t
idle_target(size_t bytes)
{
	return target_of_part(bytes / IDLE_PART);
}

/* The bytes of objects that may be cached in a heap of this size. */
static inline size_t
cached_target(size_t bytes)
{
	return target_of_part(bytes / CACHED_PART);
}

#endif
