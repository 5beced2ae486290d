/*
 * rseq.c - finds the rseq area of a thread, or registers one
 *
 * glibc 2.35 and later registers an rseq area for every thread and publishes
 * its offset.  The library uses this area, because the kernel accepts only one
 * area for each thread.  If libc has none (an older libc, musl,
 * glibc.pthread.rseq=0), the library registers a thread-local area of its own
 * on the first miss of each thread.  cpu_id of an unregistered area is
 * negative, and every operation tests it first.  This test also detects a
 * thread for which libc could not register an area, for example because of a
 * seccomp filter.
 *
 * An own area is not unregistered when its thread exits.  Like that of libc, it
 * is in the static TLS block, which stays mapped until the thread has exited.
 */
#include <elf.h>

#include <valgrind/memcheck.h>

#include "magazine/rseq.h"
#include "magazine/rseq_ops.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

/* From this feature size on, the kernel writes mm_cid. */
#define FEATURE_MM_CID (RSEQ_MM_CID + 4)

/* Published by glibc 2.35 and later. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

struct rseq_area {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t padding;
};
_Static_assert(
    sizeof(struct rseq_area) == RSEQ_AREA_BYTES, "the kernel's layout");
_Static_assert(
    offsetof(struct rseq_area, mm_cid) == RSEQ_MM_CID, "the kernel's layout");

/* cpu_id of an own area that is not registered. */
enum {
	AREA_UNUSED = -1, /* the first miss registers the area */
	AREA_STOPPED = -2 /* the area must not be registered */
};

/* The own area of the calling thread, in its static TLS block. */
static __thread struct rseq_area own_area
    __attribute__((aligned(RSEQ_AREA_BYTES), tls_model("initial-exec"))) = {
	.cpu_id = AREA_UNUSED,
	.mm_cid = (uint32_t)AREA_UNUSED,
};

/* libc's area of the calling thread, or NULL if libc has none. */
static struct rseq_area *
libc_area(void)
{
	if (&__rseq_offset == NULL || &__rseq_size == NULL || __rseq_size == 0)
		return NULL;
	return (struct rseq_area *)(thread_self() + (uintptr_t)__rseq_offset);
}

/*
 * A length with which libc may have registered its area, i = 0, 1, ..., or 0
 * after the last.  The kernel unregisters an area only by the length of its
 * registration.  glibc 2.41 and later register __rseq_size bytes, but at least
 * 32: 33 on Linux 7.2.  Earlier versions register 32, and report fewer.  The
 * others are for a libc that registers the size that the kernel asks for.
 */
static uint32_t
libc_bytes(unsigned i)
{
	switch (i) {
	case 0:
		return __rseq_size > RSEQ_AREA_BYTES ? __rseq_size
						     : RSEQ_AREA_BYTES;
	case 1:
		return RSEQ_AREA_BYTES;
	case 2:
		return (uint32_t)os_auxv(AT_RSEQ_FEATURE_SIZE);
	case 3:
		return (uint32_t)align_up(os_auxv(AT_RSEQ_FEATURE_SIZE), 32);
	default:
		return 0;
	}
}

/* Make a call with each length in turn until it succeeds. */
static bool
libc_call(bool (*call)(void *, uint32_t, uint32_t), struct rseq_area *area)
{
	uint32_t bytes;

	for (unsigned i = 0; (bytes = libc_bytes(i)) != 0; i++)
		if (call(area, bytes, RSEQ_SIGNATURE))
			return true;
	return false;
}

/*
 * Register the own area, unless it is registered.  In mode=own, an area of libc
 * must be unregistered first.
 */
static bool
register_own(void)
{
	if (load_relaxed(&own_area.cpu_id) >= 0)
		return true;
	if (libc_area() != NULL)
		libc_call(os_rseq_unregister, libc_area());
	/* Older versions of valgrind print a warning of several lines. */
	return !RUNNING_ON_VALGRIND &&
	       os_rseq_register(&own_area, RSEQ_AREA_BYTES, RSEQ_SIGNATURE);
}

/* Choose the owner, and store this thread's area and the reason. */
static enum rseq_owner
choose(enum rseq_owner wanted, struct rseq_area **area, const char **reason)
{
	const char *obstacle = rseq_obstacle();

	*area = libc_area();
	*reason = "";
	if (wanted == RSEQ_NONE) {
		*reason = "asked for by mode=locked";
		return RSEQ_NONE;
	}
	if (obstacle != NULL && (wanted == RSEQ_LIBC || !RSEQ_HAS_SECTIONS)) {
		*reason = obstacle;
		return RSEQ_NONE;
	}
	if (wanted == RSEQ_LIBC && *area != NULL &&
	    load_relaxed(&(*area)->cpu_id) >= 0)
		return RSEQ_LIBC;
	*area = &own_area;
	if (!register_own()) {
		*reason = "the kernel refuses rseq";
		return RSEQ_NONE;
	}
	*reason = wanted == RSEQ_OWN ? "asked for by mode=own"
				     : "libc registers no rseq area";
	return RSEQ_OWN;
}

void
rseq_start(
    enum rseq_owner wanted, struct rseq_state *state, struct rseq_place *place)
{
	struct rseq_area *area;

	state->owner = choose(wanted, &area, &state->reason);
	if (state->owner == RSEQ_NONE)
		return;
	state->by_mm_cid = os_auxv(AT_RSEQ_FEATURE_SIZE) >= FEATURE_MM_CID;
	place->cs = (intptr_t)((uintptr_t)&area->rseq_cs - thread_self());
	place->index = place->cs - RSEQ_CS +
		       (state->by_mm_cid ? RSEQ_MM_CID : RSEQ_CPU_ID);
}

bool
rseq_thread_start(const struct rseq_state *state)
{
	return state->owner == RSEQ_OWN && !os_is_confined() &&
	       load_relaxed(&own_area.cpu_id) == AREA_UNUSED && register_own();
}

bool
rseq_is_allowed(const struct rseq_state *state)
{
	return state->owner != RSEQ_LIBC || os_is_confined() ||
	       os_rseq_allowed();
}

bool
rseq_is_held(void)
{
	return os_is_confined() || os_rseq_is_held();
}

/* The kernel and libc set a negative cpu_id in an area without registration. */
static enum rseq_stopped
stop_libc(struct rseq_area *area)
{
	if (load_relaxed(&area->cpu_id) < 0)
		return RSEQ_NOT_RUNNING;
	return libc_call(os_rseq_unregister, area) ? RSEQ_STOPPED
						   : RSEQ_NOT_STOPPED;
}

/*
 * An own area that is not registered yet is stopped, too.  Otherwise the first
 * miss of a child that shares the storage would register it for the child.
 */
static enum rseq_stopped
stop_own(void)
{
	int32_t cpu = load_relaxed(&own_area.cpu_id);

	if (cpu == AREA_STOPPED)
		return RSEQ_NOT_RUNNING;
	if (cpu != AREA_UNUSED &&
	    !os_rseq_unregister(&own_area, RSEQ_AREA_BYTES, RSEQ_SIGNATURE))
		return RSEQ_NOT_STOPPED;
	store_relaxed(&own_area.cpu_id, AREA_STOPPED);
	return RSEQ_STOPPED;
}

enum rseq_stopped
rseq_thread_stop(const struct rseq_state *state)
{
	if (state->owner == RSEQ_NONE)
		return RSEQ_NOT_RUNNING;
	return state->owner == RSEQ_OWN ? stop_own() : stop_libc(libc_area());
}

void
rseq_thread_resume(const struct rseq_state *state)
{
	if (state->owner == RSEQ_OWN)
		register_own();
	else
		libc_call(os_rseq_register, libc_area());
}
