/*
 * freed.c - bufctls of freed buffers whose memory was released, too
 *
 * The bufctl of a buffer is stored with its slab, and the bufctl of a large
 * block is found by the tag behind the block.  If a free releases that memory,
 * the bufctl must be kept elsewhere: the report of a second free includes the
 * first one, and after the use of a freed buffer a tool reads the freeing
 * thread and its stack from the core.
 *
 * Rings of fixed size keep pointers to these bufctls.  A bufctl enters the ring
 * before the memory of its buffer is released.  This way each buffer has a
 * bufctl at every moment: in its slab or tag, in a ring, or in both.
 *
 * A ring is not searched for the address of a buffer that exists now, because
 * callers ask the page map first.  An address that was freed twice, with a
 * reuse between, has two bufctls, and the newer one counts.
 *
 * Locking: each ring has a lock, under which no other is taken.  A pointer in a
 * ring is stored with release order, after the bufctl is complete, so a tool
 * that stops the process anywhere reads complete bufctls.
 */
#include "umem/debug/described.h"
#include "umem/debug/freed.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/panic.h"

/* The addresses of these blocks are not reused (debug_large.c). */
#define FREED_LARGE 64

/*
 * The number of addresses that firewall.c takes at once (256 MiB, 64 KiB each).
 * Because next fit selects the addresses, a bufctl is replaced at about the
 * time when its address is used again.  4096 bufctls of 15 frames take 1.3 MiB,
 * those of 490 frames 31 MiB.
 */
#define FREED_FIREWALL 4096

static struct bufctl_audit *freed_large_bufctls[FREED_LARGE];
static struct bufctl_audit *freed_firewall_bufctls[FREED_FIREWALL] seldom_used;

struct freed_ring freed_large = {
    LOCK_INITIALIZER(LOCK_FREED), freed_large_bufctls, FREED_LARGE, 0};
struct freed_ring freed_firewall = {
    LOCK_INITIALIZER(LOCK_FREED), freed_firewall_bufctls, FREED_FIREWALL, 0};

/*
 * Is the ring consistent?  An element has a bufctl if and only if it was used,
 * and no bufctl is there twice.
 */
static inline bool
freed_check_locked(const struct freed_ring *ring)
{
	lock_assert_held(&ring->lock);
	for (uint64_t i = 0; i < ring->size; i++) {
		if ((ring->bufctl[i] != NULL) != (i < ring->nput))
			return false;
		if (i > 0 && ring->bufctl[i] != NULL &&
		    ring->bufctl[i] == ring->bufctl[i - 1])
			return false;
	}
	return true;
}

struct bufctl_audit *
freed_put(struct freed_ring *ring, struct bufctl_audit *bufctl)
{
	struct bufctl_audit **place, *old;

	umem_assert(bufctl->addr != NULL);
	umem_assert((ring->size & (ring->size - 1)) == 0);
	lock_take(&ring->lock);
	place = &ring->bufctl[ring->nput++ % ring->size];
	old = *place;
	umem_assert(old != bufctl);
	store_release(place, bufctl);
	/* Once a round, so that a put costs the same on average. */
	umem_assert(ring->nput % ring->size != 0 || freed_check_locked(ring));
	lock_release(&ring->lock);
	return old;
}

static bool
starts_at(const struct bufctl_audit *bufctl, const void *p)
{
	return bufctl->addr == p;
}

static bool
is_in_units_of(const struct bufctl_audit *bufctl, const void *p)
{
	uintptr_t from = align_down((uintptr_t)bufctl->addr, HEAP_UNIT);
	/* A guard page may follow. */
	uintptr_t end = (uintptr_t)bufctl->addr + bufctl->size + os_page_size();

	return (uintptr_t)p >= from && (uintptr_t)p < align_up(end, HEAP_UNIT);
}

static struct bufctl_audit *
ring_search(struct freed_ring *ring, const void *p,
    bool (*matches)(const struct bufctl_audit *, const void *))
{
	struct bufctl_audit *found = NULL;

	lock_take(&ring->lock);
	for (uint64_t i = 1; i <= ring->size && found == NULL; i++) {
		struct bufctl_audit *at =
		    ring->bufctl[(ring->nput - i) % ring->size];

		if (at != NULL && matches(at, p))
			found = at;
	}
	lock_release(&ring->lock);
	return found;
}

struct bufctl_audit *
freed_find(struct freed_ring *ring, const void *p)
{
	return ring_search(ring, p, starts_at);
}

struct bufctl_audit *
freed_near(struct freed_ring *ring, const void *p)
{
	return ring_search(ring, p, is_in_units_of);
}

void
freed_forget_cache(struct freed_ring *ring, const struct umem_cache *cache)
{
	lock_take(&ring->lock);
	for (uint64_t i = 0; i < ring->size; i++) {
		struct bufctl_audit *audit = ring->bufctl[i];

		if (audit != NULL && audit->cache == cache)
			audit->cache = NULL;
	}
	lock_release(&ring->lock);
}

DESCRIBE(DESCRIBED_FREED_RINGS);
