/*
 * hardened.c - the usual case of a block of a hardened size class
 *
 * debug.c checks a block step by step, for all kinds of checks.  The functions
 * here do the same for a block of a class with inner tags in one pass, without
 * calls of the layers between.  They decline an unusual block without changing
 * it; then the caller calls debug.c, which reports the error.  exit_check.c
 * explains the order of the stores.
 *
 * Between the pop and the state, and between the state and the quarantine, the
 * chunk is in hand.  Each pop and push is one section, so a thread that is
 * preempted or migrated between them still has the chunk, and a signal handler
 * gets others.  A child of fork() loses a chunk that another thread has in
 * hand, and no other.
 *
 * hardened_free() checks a block first and changes its state last, so that it
 * can decline.  Of two threads that free one block, one changes the state; the
 * other one declines, and debug.c reports it.
 */
#include <string.h>

#include "magazine/cpu.h"
#include "umem/debug/debug_inner.h"

/* Larger sizes gain nothing: their bytes take longer than the calls. */
#define HARDENED_MAX (1 * KIB)

/* Are all bytes of a free buffer zero, and is its tag that of a free one? */
static inline bool
is_clean(const uint64_t *word, const uint64_t *tag)
{
	uint64_t changed = *tag ^ PATTERN_REDZONE;

	while (word < tag)
		changed |= *word++;
	return changed == 0;
}

void *
hardened_alloc(size_t size, unsigned api)
{
	unsigned class;
	struct umem_cache *cache;
	struct bufctl *bufctl;
	struct buffer b;
	uint64_t *tag;
	uint16_t number;
	void *p;

	if (unlikely(size - 1 >= HARDENED_MAX))
		return NULL;
	class = size_class_small(size);
	while ((cache = class_cache[class])->tag_offset < size)
		class ++;
	if (!cache->has_inner_tags ||
	    rseq_pop(&cpu_layer.place, cache_header_at(cache), &p) != RSEQ_OK)
		return NULL;
	b = debug_buffer_of(cache, p);
	tag = (uint64_t *)((uintptr_t)p + cache->tag_offset);
	if (unlikely(b.bufctl->state != BUFCTL_FREE || !is_clean(p, tag)))
		return debug_begin(&b, size, api) ? p : NULL;
	bufctl = b.bufctl;
	number = load_relaxed(&bufctl->number) | 1;
	store_relaxed(&bufctl->number, number);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	store_relaxed(&bufctl->size, (uint32_t)size);
	bufctl->api = (uint8_t)api;
	for (char *slack = (char *)p + size; slack < (char *)tag; slack++)
		*slack = (char)PATTERN_END;
	store_relaxed(tag, debug_redzone(cache, size));
	store_release(&bufctl->number, (uint16_t)(number + 1));
	store_release(&bufctl->state, BUFCTL_ALLOCATED);
	return p;
}

bool
hardened_free(void *p, size_t size, unsigned api)
{
	size_t unit = page_map_unit(p), own, end;
	struct umem_cache *cache;
	struct buffer b;
	uint8_t state = BUFCTL_ALLOCATED;
	uint64_t *tag;

	if (unlikely(unit >= page_map.units))
		return false;
	cache =
	    debug_cache_of(page_map_class(load_acquire(&page_map.entry[unit])));
	if (unlikely(cache == NULL || !cache->has_inner_tags ||
		     !cache->has_magazines || !debug_heap_buffer(cache, p, &b)))
		return false;
	own = load_relaxed(&b.bufctl->size);
	end = cache->tag_offset;
	tag = (uint64_t *)((uintptr_t)p + end);
	if (unlikely(
		b.bufctl->api != api || (size != SIZE_MAX && size != own) ||
		load_relaxed(tag) != debug_redzone(cache, own) ||
		debug_slack_change(p, own, end) < end ||
		((const void *)b.bufctl != b.slab->records &&
		    !debug_redzone_is_plausible(cache, (uint64_t *)p - 1)) ||
		!__atomic_compare_exchange_n(&b.bufctl->state, &state,
		    BUFCTL_FREE, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)))
		return false;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memset(p, 0, cache->pattern_bytes);
	store_relaxed(tag, PATTERN_REDZONE);
	debug_release(&b, /* deferred */ false);
	return true;
}
