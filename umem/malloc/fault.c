/*
 * fault.c - an explanation of faults in guard pages
 *
 * A program that uses a block behind a guard page wrongly dies of SIGSEGV, and
 * without a core nothing tells why.  Therefore the library handles SIGSEGV
 * where it makes guard pages: with guarded samples, with a firewall, and with
 * large blocks of UMEM_DEBUG=guards and of UMEM_OPTIONS=hardened.  The handler
 * writes which block the address belongs to, and who allocated and freed it.
 * Then it restores the default action and returns.  The instruction faults
 * again, so that the status and the core are those of a program without the
 * handler.
 *
 * When
 *	With UMEM_DEBUG and hardened: at the start of the library, which makes
 *	the first block there.  With samples: before the first guarded sample.
 *	In both cases only if SIGSEGV has its default action then.  A handler
 *	that the program installs later replaces that of the library, which
 *	interposes nothing.
 *
 * Locking: the handler takes the locks of freed.c and of messages, which are
 * leaves.  A thread that holds one of them touches no block of the program.
 */
#include "umem/debug/debug.h"
#include "umem/debug/explain.h"
#include "umem/debug/freed.h"
#include "umem/debug/stack.h"
#include "umem/malloc/fault.h"
#include "umem/malloc/sample.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Frames of the thread that faults, the handler's among them. */
#define FAULT_FRAMES 64

/* Writes which part of which block was accessed. */
static void
say_access(const struct os_fault *fault, bool is_freed, const void *block,
    uint64_t size)
{
	uintptr_t at = (uintptr_t)fault->address, from = (uintptr_t)block;
	const char *how = fault->access == OS_FAULT_WRITE  ? "write to"
			  : fault->access == OS_FAULT_READ ? "read of"
							   : "access to";
	const char *which = is_freed ? "freed " : "";

	if (at < from)
		message_line("%s %p, %zu bytes before the %sblock of %zu bytes "
			     "at %p",
		    how, fault->address, from - at, which, size, block);
	else if (at - from < size)
		message_line("%s %p, at offset %zu of the %sblock of %zu bytes "
			     "at %p",
		    how, fault->address, at - from, which, size, block);
	else
		message_line("%s %p, %zu bytes past the end of the %sblock of "
			     "%zu bytes at %p",
		    how, fault->address, at - from - size, which, size, block);
}

/* Writes the stack of the fault, without the frames of the handler. */
static void
say_stack(const struct os_fault *fault)
{
	uintptr_t pcs[FAULT_FRAMES];
	unsigned n = stack_trace(pcs, FAULT_FRAMES), first = 0;

	for (unsigned i = 0; i < n && first == 0; i++)
		if (pcs[i] == fault->pc)
			first = i;
	explain_where();
	explain_frames(pcs + first, n - first);
}

static void
say_end(void)
{
	message_line("umem crash CORE prints these stacks with lines of the "
		     "source");
}

static bool
explain_sample(const struct os_fault *fault)
{
	const struct sample *s = sample_guarded_near(fault->address);

	if (s == NULL)
		return false;
	say_access(fault, sample_is_freed(s), s->block, s->size);
	say_stack(fault);
	sample_say_stacks(s);
	return true;
}

static bool
explain_debugged(const struct os_fault *fault)
{
	const struct bufctl *bufctl = debug_bufctl_near(fault->address);
	const struct bufctl_audit *audit = (const void *)bufctl;
	uint64_t now = os_exact_ns();
	bool is_freed;

	if (bufctl == NULL)
		return false;
	is_freed = bufctl->state == BUFCTL_FREE;
	say_access(fault, is_freed, bufctl->addr, bufctl->size);
	say_stack(fault);
	if (bufctl->depth == 0)
		return true;
	explain_stack(is_freed ? "freed" : "allocated", audit->thread,
	    now - audit->timestamp, audit->stack, bufctl->depth);
	if (audit->allocated_time != 0)
		explain_stack("allocated", audit->allocated_thread,
		    now - audit->allocated_time, audit->stack + debug.nframes,
		    (unsigned)audit->allocated_depth);
	return true;
}

static void
fault_explain(const struct os_fault *fault)
{
	if (explain_sample(fault) || explain_debugged(fault))
		say_end();
}

void
fault_explain_guards(void)
{
	static bool is_done seldom_used; /* [a] */

	if (!__atomic_exchange_n(&is_done, true, __ATOMIC_RELAXED))
		os_explain_faults(fault_explain);
}
