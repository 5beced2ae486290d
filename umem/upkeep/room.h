/*
 * room.h - reclaims cached memory when the heap grows or is asked for much; see
 * room.c
 */
#ifndef UMEM_ROOM_H
#define UMEM_ROOM_H

#include <stdint.h>

/*
 * Reclaims memory that caches keep if the heap has allocated much since the
 * last check.  Called on slow paths with no lock held; leaves errno alone.
 */
void room_look(uint64_t now_ns);

#endif
