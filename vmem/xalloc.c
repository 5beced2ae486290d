/*
 * xalloc.c - constrained allocation: align, phase, nocross, min, max
 *
 * A request is met at the lowest address of a segment that is phase beyond a
 * multiple of align, not below min, and such that its last integer is not
 * above max and no multiple of nocross lies inside.  Computing it takes two
 * steps: up to the phase; and if the range would then cross a multiple of
 * nocross, to that multiple and up to the phase again.
 *
 * The second step is final.  request_place() is only asked with
 * phase % nocross + size <= nocross (vmem_xalloc() refuses the rest).  If
 * align < nocross, the place behind a multiple m of nocross is m + phase and
 * ends within m + nocross.  If align >= nocross, every place has the same
 * distance phase % nocross from a multiple, so none crosses at all.
 *
 * All sums may run beyond the last integer; each is checked for it, which is
 * why last integers are compared instead of ends.
 *
 * Source: illumos vmem_xalloc(9F) for the meaning of the arguments.
 */
#include <errno.h>

#include "vmem/arena.h"
#include "vmem/xalloc.h"

/* The first address from addr on with the phase; false beyond the end. */
static bool
phase_up(uintptr_t *addr, uintptr_t align, uintptr_t phase)
{
	uintptr_t up = (phase - *addr) & (align - 1);

	return !__builtin_add_overflow(*addr, up, addr);
}

bool
request_place(
    const struct request *req, uintptr_t first, uintptr_t last, uintptr_t *addr)
{
	uintptr_t at = first > req->min ? first : req->min;

	if (last > req->max)
		last = req->max;
	if (!phase_up(&at, req->align, req->phase))
		return false;
	if (req->nocross != 0 &&
	    (at & (req->nocross - 1)) + req->size > req->nocross) {
		at = align_up(at, req->nocross);
		if (at == 0 || !phase_up(&at, req->align, req->phase))
			return false;
	}
	if (at > last || last - at < req->size - 1)
		return false;
	*addr = at;
	return true;
}

bool
request_import_size(const struct request *req, size_t source_quantum,
    bool source_aligns, size_t *size)
{
	size_t bytes = req->size;
	size_t slack = 0;

	/* The way from the start of a span to the first place in it. */
	if (!source_aligns || req->phase != 0)
		slack = req->align > source_quantum ? req->align : req->phase;
	if (__builtin_add_overflow(bytes, slack, &bytes) ||
	    __builtin_add_overflow(bytes, req->nocross, &bytes))
		return false;
	*size = align_up(bytes, source_quantum);
	return *size != 0;
}

/* Fill in a request; false if it can never be met. */
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
	if (align < arena->quantum)
		align = arena->quantum;
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
		return arena_failed(
		    arena, size, size == 0 ? EINVAL : ENOMEM, vmflag);
	if (!request_init(&req, arena, align, phase, nocross,
		(uintptr_t)minaddr, (uintptr_t)maxaddr))
		return arena_failed(arena, size, EINVAL, vmflag);
	return arena_alloc(arena, &req, vmflag);
}

public void
vmem_xfree(vmem_t *arena, void *addr, size_t size)
{
	arena_free(arena, addr, size);
}
