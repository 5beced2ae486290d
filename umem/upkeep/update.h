/*
 * update.h - upkeep: trims working sets, returns memory to the kernel; see
 * update.c
 */
#ifndef UMEM_UPDATE_H
#define UMEM_UPDATE_H

#include "umem/cache/cache.h"

/*
 * The interval between updates, in nanoseconds.  UMEM_OPTIONS may set it before
 * the library starts.
 */
extern hidden uint64_t update_interval_ns;

/*
 * Does an update in the calling thread if one is due, or tells the upkeep
 * thread to do it.  Called on slow paths with no lock held; leaves errno alone.
 */
void update_poll(void);

/*
 * Does an update if one is due, or returns all unused memory if the program is
 * idle.  The slow path of free() calls it once per countdown of
 * cpu_layer.tick_pushes pushes; leaves errno alone.
 */
void update_tick(void);

/*
 * Does the work that slow paths of a cache have left: work has WORK_POLL for
 * update_poll(), WORK_TICKED for update_tick().
 */
void update_run(unsigned work);

/*
 * Reclaims memory for a request of size bytes that has found none and was tried
 * again ntried times after earlier reclaims.  may_call says that the request is
 * one of the program for an object; such a request may call destructors and
 * reclaim callbacks in the calling thread if the library has no thread.
 * Returns whether the caller is to try the request again.  The caller holds no
 * lock.
 */
bool update_reclaim(size_t size, unsigned ntried, bool may_call);

/*
 * Reclaims from every cache, then returns every free page to the kernel, also
 * the pages within partly used slabs.  Returns the bytes given to the kernel.
 */
size_t update_trim(void);

/*
 * Does one update, which may call functions of the program.  For the upkeep
 * thread, which is the worker.  Returns true if there was anything to release,
 * or will be.
 */
bool update_all(void);

/*
 * Are there free pages that an update can return, now or after they have aged?
 */
bool update_may_purge(void);

/*
 * In the child of fork(): there is no upkeep thread.  counted: thread.c counts
 * the thread that forked, as the only one of the program.  Otherwise no thread
 * is counted.
 */
void update_after_fork(bool counted);

#endif
