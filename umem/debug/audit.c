/*
 * audit.c - thread, time and stack of a buffer's last transaction
 *
 * A free moves the thread, time and stack of the allocation to the second half
 * of the bufctl, so that reports and tools know both.
 */
#include <string.h>

#include "umem/debug/audit.h"
#include "umem/debug/log.h"
#include "umem/debug/stack.h"
#include "vmem/os.h"
#include "vmem/panic.h"

static void
audit_fill(struct bufctl_audit *bufctl)
{
	umem_assert(debug.nframes <= AUDIT_FRAMES_MAX);
	bufctl->timestamp = os_exact_ns();
	bufctl->thread = stack_thread();
	bufctl->depth = stack_trace(bufctl->stack, debug.nframes);
}

/*
 * Keeps the last transaction of a buffer that is being freed, as its
 * allocation.  A deferred free that was taken back has kept it already.
 */
static void
audit_keep_allocation(struct bufctl_audit *bufctl)
{
	umem_assert(bufctl->depth <= debug.nframes);
	if (bufctl->allocated_time != 0)
		return;
	bufctl->allocated_time = bufctl->timestamp;
	bufctl->allocated_thread = bufctl->thread;
	bufctl->allocated_depth = bufctl->depth;
	memcpy(bufctl->stack + debug.nframes, bufctl->stack,
	    bufctl->depth * sizeof(uintptr_t));
}

void
audit_stamp(struct bufctl_audit *bufctl)
{
	if (bufctl->head.state == BUFCTL_FREE ||
	    bufctl->head.state == BUFCTL_WAITING)
		audit_keep_allocation(bufctl);
	else
		bufctl->allocated_time = bufctl->allocated_depth = 0;
	audit_fill(bufctl);
	if (log_is_on(LOG_TRANSACTION))
		log_put(
		    LOG_TRANSACTION, bufctl, bufctl_log_bytes(debug.nframes));
}

void
audit_event(enum log_kind log, struct umem_cache *cache, struct slab *slab,
    void *addr, size_t size)
{
	union {
		struct bufctl_audit bufctl;
		char bytes[sizeof(struct bufctl_audit) +
			   AUDIT_FRAMES_MAX * sizeof(uintptr_t)];
	} event;

	umem_assert(log == LOG_FAIL || log == LOG_SLAB);
	if (!log_is_on(log))
		return;
	memset(&event.bufctl, 0, sizeof(event.bufctl));
	event.bufctl.addr = addr;
	event.bufctl.slab = slab;
	event.bufctl.cache = cache;
	event.bufctl.size = size;
	audit_fill(&event.bufctl);
	log_put(log, &event.bufctl, bufctl_log_bytes(debug.nframes));
}
