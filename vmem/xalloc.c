/*
 * xalloc.c - constrained allocation: align, phase, nocross, min, max
 *
 * A request gets the lowest address in a segment that is phase units above a
 * multiple of align and not below min, if the last integer of the range is not
 * above max and the range crosses no multiple of nocross.  request_place()
 * computes the address in two steps.  The first step moves up to the phase.  If
 * the range then crosses a multiple of nocross, the second step moves to that
 * multiple and up to the phase again.
 *
 * A third step is never needed.  Every request with a nocross satisfies
 * phase % nocross + size <= nocross, because vmem_xalloc() refuses the others.
 * If align < nocross, the first candidate at or above a multiple m of nocross
 * is m + phase, and its range ends at or below m + nocross.  If
 * align >= nocross, every candidate is phase % nocross above a multiple of
 * nocross, so no candidate crosses one.
 *
 * Every sum may exceed the largest integer.  Each is therefore checked for
 * overflow, and the code compares last integers instead of ends.
 *
 * Source: illumos vmem_xalloc(9F) for the meaning of the arguments.
 */
#include <errno.h>

#include "vmem/arena.h"
#include "vmem/xalloc.h"

/* Move *addr up to the next address with the phase; false on overflow. */
static bool
request_phase_up(uintptr_t *addr, uintptr_t align, uintptr_t phase)
{
	uintptr_t up = (phase - *addr) & (align - 1);

	return !__builtin_add_overflow(*addr, up, addr);
}

bool
request_place(
    const struct request *req, uintptr_t first, uintptr_t last, uintptr_t *addr)
{
	uintptr_t at = first > req->min ? first : req->min;

	last = size_min(last, req->max);
	if (!request_phase_up(&at, req->align, req->phase))
		return false;
	if (req->nocross != 0 &&
	    (at & (req->nocross - 1)) + req->size > req->nocross) {
		at = align_up(at, req->nocross);
		if (at == 0 || !request_phase_up(&at, req->align, req->phase))
			return false;
	}
	if (at > last || last - at < req->size - 1)
		return false;
	/* The proof is at the top of the file. */
	umem_assert(((at - req->phase) & (req->align - 1)) == 0);
	umem_assert(req->nocross == 0 ||
		    (at & (req->nocross - 1)) + req->size <= req->nocross);
	*addr = at;
	return true;
}

bool
request_import_size(const struct request *req, size_t source_quantum,
    bool source_aligns, size_t *size)
{
	size_t bytes = req->size;
	size_t slack = 0;

	/* Most units from the start of a span to the first aligned address. */
	if (!source_aligns || req->phase != 0)
		slack = req->align > source_quantum ? req->align : req->phase;
	if (__builtin_add_overflow(bytes, slack, &bytes) ||
	    __builtin_add_overflow(bytes, req->nocross, &bytes))
		return false;
	*size = align_up(bytes, source_quantum);
	return *size != 0;
}

/*
 * Fill in all of *req but its size, which is set already.  Returns false if the
 * constraints are invalid or contradict each other.
 */
static bool
request_init(struct request *req, const vmem_t *arena, size_t align,
    size_t phase, size_t nocross, uintptr_t minaddr, uintptr_t maxaddr)
{
	if (align == 0)
		align = arena->quantum;
	if (!is_pow2(align) || phase >= align)
		return false;
	if ((phase & (arena->quantum - 1)) != 0)
		return false;
	align = size_max(align, arena->quantum);
	req->align = align;
	req->phase = phase;

	if (nocross != 0) {
		uintptr_t in = phase & (nocross - 1);

		if (!is_pow2(nocross) || req->size > nocross - in)
			return false;
	}
	req->nocross = nocross;

	if (maxaddr != 0 && maxaddr <= minaddr)
		return false;
	req->min = minaddr;
	req->max = maxaddr - 1;
	req->bounded = minaddr != 0 || maxaddr != 0;
	req->plain = align == arena->quantum && nocross == 0 && !req->bounded;
	return true;
}

public void *
vmem_xalloc(vmem_t *arena, size_t size, size_t align, size_t phase,
    size_t nocross, void *minaddr, void *maxaddr, int vmflag)
{
	struct request req;

	if (!arena_round(arena, size, &req.size))
		return arena_error(
		    arena, size, size == 0 ? EINVAL : ENOMEM, vmflag);
	if (!request_init(&req, arena, align, phase, nocross,
		(uintptr_t)minaddr, (uintptr_t)maxaddr))
		return arena_error(arena, size, EINVAL, vmflag);
	return arena_alloc(arena, &req, vmflag);
}
