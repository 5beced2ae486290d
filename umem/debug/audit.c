/* audit.c - thread, time and stack of a buffer's last transaction */
#include <string.h>

#include "umem/debug/audit.h"
#include "umem/debug/log.h"
#include "umem/debug/stack.h"
#include "vmem/os.h"

static void
fill(struct bufctl_audit *record)
{
	record->timestamp = os_exact_ns();
	record->thread = stack_thread();
	record->head.depth =
	    (uint16_t)stack_trace(record->stack, debug.nframes);
}

void
audit_stamp(struct bufctl_audit *record)
{
	fill(record);
	if (log_is_on(LOG_TRANSACTION))
		record->lastlog = log_put(
		    LOG_TRANSACTION, record, bufctl_audit_bytes(debug.nframes));
}

void
audit_event(unsigned log, struct umem_cache *cache, struct slab *slab,
    void *addr, size_t size)
{
	union {
		struct bufctl_audit record;
		char room[sizeof(struct bufctl_audit) +
			  AUDIT_FRAMES_MAX * sizeof(uintptr_t)];
	} event;

	if (!log_is_on((enum log_kind)log))
		return;
	memset(&event.record, 0, sizeof(event.record));
	event.record.head.addr = addr;
	event.record.head.slab = slab;
	event.record.head.cache = cache;
	event.record.head.size = size;
	fill(&event.record);
	log_put((enum log_kind)log, &event.record,
	    bufctl_audit_bytes(debug.nframes));
}
