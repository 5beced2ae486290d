/* room.h - memory for who asks the heap, from what caches keep; see room.c */
#ifndef UMEM_ROOM_H
#define UMEM_ROOM_H

#include <stdint.h>

/*
 * Has the heap handed out much since the last look?  Called on slow paths with
 * no lock held; leaves errno alone.
 */
void room_look(uint64_t now_ns);

#endif
