/*
 * fault.c - an explanation of faults in guard pages
 *
 * A program that uses a block behind a guard page wrongly dies of SIGSEGV, and
 * without a core nothing tells why.  Therefore the library handles SIGSEGV
 * where it makes guard pages: with guarded samples, with a firewall, and with
 * large blocks of UMEM_DEBUG=guards and of UMEM_OPTIONS=hardened.  The handler
 * writes the block of the address, and the stacks of its allocation and free.
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
 * Locking: the handler takes the lock of freed.c and then that of report.c.  A
 * thread that holds one of them touches no block of the program.
 */
#include "umem/debug/debug.h"
#include "umem/debug/report.h"
#include "umem/profile/fault.h"
#include "umem/profile/sample.h"
#include "vmem/os.h"

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
		report_line("%s %p, %zu bytes before the %sblock of %zu bytes "
			    "at %p",
		    how, fault->address, from - at, which, size, block);
	else if (at - from < size)
		report_line("%s %p, at offset %zu of the %sblock of %zu bytes "
			    "at %p",
		    how, fault->address, at - from, which, size, block);
	else
		report_line("%s %p, %zu bytes past the end of the %sblock of "
			    "%zu bytes at %p",
		    how, fault->address, at - from - size, which, size, block);
}

/* Writes the stack of the fault, without the frames of the handler. */
static void
say_stack(const struct os_fault *fault)
{
	report_where();
	report_send();
	report_stack(fault->pc);
}

static void
say_sample(const struct os_fault *fault, const struct sample *s)
{
	say_access(fault, sample_is_freed(s), s->block, s->size);
	say_stack(fault);
	sample_report_callers(s);
}

static void
say_debugged(const struct os_fault *fault, const struct bufctl_audit *audit)
{
	uint64_t now = os_exact_ns();
	bool is_freed = audit->head.state == BUFCTL_FREE;

	say_access(fault, is_freed, audit->addr, audit->size);
	say_stack(fault);
	if (audit->depth == 0) {
		report_no_record();
		return;
	}
	report_caller(is_freed ? "freed" : "allocated", audit->thread,
	    now - audit->timestamp, audit->stack, audit->depth);
	if (audit->allocated_time != 0)
		report_caller("allocated", audit->allocated_thread,
		    now - audit->allocated_time, audit->stack + debug.nframes,
		    (unsigned)audit->allocated_depth);
}

void
fault_explain(const struct os_fault *fault)
{
	const struct sample *s = sample_guarded_near(fault->address);
	const struct bufctl_audit *audit =
	    s == NULL ? debug_bufctl_near(fault->address) : NULL;

	if ((s == NULL && audit == NULL) || !report_begin("umem: "))
		return;
	if (s != NULL)
		say_sample(fault, s);
	else
		say_debugged(fault, audit);
	report_crash_command();
	report_end();
}

void
fault_explain_guards(void)
{
	static bool is_done seldom_used; /* [a] */

	if (!__atomic_exchange_n(&is_done, true, __ATOMIC_RELAXED))
		os_explain_faults();
}
