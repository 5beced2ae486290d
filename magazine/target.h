/* target.h - the target of the memory policy: how much memory may be idle */
#ifndef MAGAZINE_TARGET_H
#define MAGAZINE_TARGET_H

#include "vmem/base.h"

/* The target: this part of the memory, at least IDLE_MIN bytes. */
#define IDLE_PART 8
#define IDLE_MIN  (1 * MIB)

/* The bytes that may be idle without pressure in a heap of this size. */
static inline size_t
idle_target(size_t bytes)
{
	size_t target = bytes / IDLE_PART;

	return target > IDLE_MIN ? target : IDLE_MIN;
}

#endif
