/*
 * stack.c - return addresses of the calling thread
 *
 * A trace is taken twice for each block in an audited program, so it has to be
 * fast.  It runs inside malloc(), so it takes no lock and allocates nothing.
 *
 * Most programs have no frame pointers.  The unwind table of the code
 * (unwind.c) leads from a frame to the frame of its caller.  To look up a rule
 * in it takes a microsecond.  Because a program calls malloc() from few places,
 * rules are cached in a table by address, and a frame costs a few nanoseconds.
 * An entry has two words that any thread may overwrite at any time.  The first
 * word is the address xor the second, so that halves of two entries do not
 * match.
 * Where there is no unwind table (code generated at run time), the trace
 * follows the frame pointer.
 *
 * Safety
 *	An unwind table can be wrong, and a rule can outlive the library for
 *	which it was made.  So the trace reads a word only from a range of pages
 *	around the stack pointer that is known to be readable:
 *	the thread's own stack	The range goes from the lowest page found so far
 *				up to the page of the thread's TLS, which libc
 *				keeps at the top of the stack, or, in the first
 *				thread, to __libc_stack_end.  Every page between
 *				has been probed once.  The range is kept in TLS,
 *				because this stack stays mapped as long as the
 *				thread runs on it.
 *	any other stack		The range is the page of the stack pointer, and
 *				pages above it, each probed when a frame reaches
 *				it.  This range is dropped after the trace,
 *				because a program may unmap the stack of a
 *				fiber.
 *	A probe is one system call (os_readable()).
 *	    The stack of a fiber can adjoin the thread's own stack without a
 *	guard page between them.  Therefore pages count as part of the own stack
 *	only if the unwind tables lead from a frame there to a frame that is
 *	known to be on the own stack.
 *
 * Frames of the library's own functions are left out.
 */
#include <elf.h>

#include "umem/debug/described.h"
#include "umem/base/page_map.h"
#include "umem/base/ready.h"
#include "umem/debug/code.h"
#include "umem/debug/stack.h"
#include "umem/debug/unwind.h"
#include "vmem/describe.h"
#include "vmem/hash.h"
#include "vmem/os.h"
#include "vmem/panic.h"
#include "vmem/vmem.h"

/*
 * Sanitizers must not check these reads, because the stack may contain any
 * bytes.
 */
#define unchecked __attribute__((no_sanitize("address", "thread")))

/*
 * Bytes beyond the known range within which a frame is accepted; a frame
 * further away is taken for an error.
 */
#define STACK_GAP_MAX (256 * KIB)

/* In one trace, the thread's own range grows downwards by this much at most. */
#define RANGE_GROWTH_MAX (64 * KIB)

/*
 * Limits of the walks: frames beyond those wanted, for frames of the library;
 * and frames among which stack_in_signal() searches a signal handler.
 */
#define LIBRARY_FRAMES_MAX 24
#define SIGNAL_FRAMES_MAX  64

/*
 * Limit of the walk that finds out whether a frame is on the thread's own
 * stack: as many frames of 64 bytes as fit into RANGE_GROWTH_MAX.
 */
#define OWN_FRAMES_MAX 1024

/*
 * A frame this close below the end of the thread's own stack is on that stack.
 * Half of the smallest stack (PTHREAD_STACK_MIN, 16 KiB).  Other objects' TLS
 * and libc's surplus of TLS (about 2 KiB) are in between, too.
 */
#define STACK_TOP_BYTES (8 * KIB)

#define NRULES 16384

struct rule_entry {
	uint64_t key; /* [a] pc ^ rule; 0, 0: empty */
	uint64_t rule;
};

static struct rule_entry rules[NRULES] seldom_used;

/*
 * Data of a thread: 16 bytes of static TLS.  It has the alignment of its
 * members, because gcc 14 would align it to 16 bytes and leave a hole before
 * it.
 */
static __thread struct {
	uintptr_t hi;    /* end of the own stack; 0: not known yet */
	uint32_t npages; /* so many below hi are readable */
	uint32_t thread; /* number of the thread; 0: not known yet */
} thread_cache __attribute__((tls_model("initial-exec"), aligned(8)));

/* Defined by libc: the start of the first thread's stack. */
extern void *__libc_stack_end __attribute__((weak));

/* Where it is, or NULL; described instead of it, because it is not ours. */
static void *const *libc_stack_end = &__libc_stack_end;

uint64_t
stack_thread(void)
{
	if (unlikely(thread_cache.thread == 0))
		thread_cache.thread = os_thread_id();
	return thread_cache.thread;
}

start_path void
stack_after_fork(void)
{
	/* The child has no other thread. */
	thread_cache.thread = 0;
}

union rule_word {
	struct unwind_rule rule;
	uint64_t word;
};

static cold_path uint64_t
rule_find(struct rule_entry *entry, uintptr_t pc)
{
	union rule_word found = {.rule = unwind_rule(pc)};

	store_relaxed(&entry->rule, found.word);
	store_relaxed(&entry->key, pc ^ found.word);
	return found.word;
}

static inline unchecked struct unwind_rule
rule_of(uintptr_t pc)
{
	struct rule_entry *entry = &rules[hash_multiply(pc) >> 50];
	union rule_word found = {.word = load_relaxed(&entry->rule)};

	if (unlikely((load_relaxed(&entry->key) ^ found.word) != pc ||
		     found.word == 0))
		found.word = rule_find(entry, pc);
	return found.rule;
}

/*
 * Extends the frame's range to end; false: a page in between is not readable.
 */
static cold_path bool
range_extend(struct frame *frame, uintptr_t end)
{
	umem_assert(frame->lo < frame->hi && frame->hi % os_page_size() == 0);
	if (end < frame->hi || end - frame->hi > STACK_GAP_MAX)
		return false;
	while (frame->hi < end) {
		if (!os_readable((const void *)frame->hi))
			return false;
		frame->hi += os_page_size();
	}
	return true;
}

static inline unchecked bool
frame_word(struct frame *frame, uintptr_t at, uintptr_t *word)
{
	/* Neither end is at 0, so one comparison checks both. */
	if (unlikely(at - frame->lo > frame->hi - frame->lo - sizeof(*word) ||
		     at % sizeof(*word) != 0) &&
	    (at % sizeof(*word) != 0 ||
		!range_extend(frame, at + sizeof(*word))))
		return false;
	*word = *(const uintptr_t *)at;
	return true;
}

/*
 * Returns an address at the end of the thread's own stack; 0: not known.  The
 * TLS of the first thread is not on its stack.
 */
static cold_path uintptr_t
own_stack_end(void)
{
	if (stack_thread() != os_process_id())
		return (uintptr_t)&thread_cache;
	return libc_stack_end == NULL ? 0 : (uintptr_t)*libc_stack_end;
}

cold_path bool
stack_contains(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)__builtin_frame_address(0) &&
	       (uintptr_t)p < own_stack_end();
}

/* Steps by the frame pointer: it is stored next to the return address. */
static unchecked bool
frame_step_by_pointer(struct frame *frame)
{
	uintptr_t fp = frame->fp;
	uintptr_t next, pc;

	if (fp < frame->sp || !frame_word(frame, fp, &next) ||
	    !frame_word(frame, fp + sizeof(fp), &pc))
		return false;
	frame->sp = fp + 2 * sizeof(fp);
	frame->fp = next;
	frame->pc = pc;
	return true;
}

static inline unchecked bool
frame_step_by_rule(struct frame *frame, struct unwind_rule rule)
{
	uintptr_t from = rule.by_fp ? frame->fp : frame->sp;
	uintptr_t cfa = from + (intptr_t)rule.cfa_off;
	uintptr_t fp = frame->fp, pc = frame->link;

	if (rule.kind == UNWIND_DEREF) {
		if (!frame_word(frame, cfa, &cfa) ||
		    (rule.fp_off != FP_SAME &&
			!frame_word(frame, frame->fp + rule.fp_off, &fp)))
			return false;
	} else if (rule.fp_off != FP_SAME &&
		   !frame_word(frame, cfa + rule.fp_off, &fp)) {
		return false;
	}
	if (cfa < frame->sp || (rule.ra_off != RA_LINK &&
				   !frame_word(frame, cfa + rule.ra_off, &pc)))
		return false;
	/* Only a leaf without a frame leaves cfa unchanged, and only once. */
	if (cfa == frame->sp && (pc == frame->pc || rule.ra_off != RA_LINK))
		return false;
	frame->sp = cfa;
	frame->fp = fp;
	frame->pc = strip_signature(pc);
	return true;
}

/* Steps to the caller's frame.  False: there is none, or it is not found. */
static inline unchecked bool
frame_step(struct frame *frame)
{
	/* A return address may be behind the last instruction. */
	struct unwind_rule rule = rule_of(frame->pc - !frame->exact);

	if (likely(rule.kind == UNWIND_FRAME)) {
		frame->exact = false;
		return frame_step_by_rule(frame, rule);
	}
	switch (rule.kind) {
	case UNWIND_DEREF:
		frame->exact = false;
		return frame_step_by_rule(frame, rule);
	case UNWIND_SIGNAL:
		frame->exact = true;
		return frame_step_signal(frame, frame_word);
	case UNWIND_END:
		return false;
	default:
		frame->exact = false;
		return frame_step_by_pointer(frame);
	}
}

/*
 * Do the unwind tables lead from this frame up to the address to, without a
 * signal handler on the way?  Extends the frame's range by the pages that the
 * walk has probed.
 */
static cold_path bool
frame_leads_to(struct frame *frame, uintptr_t to)
{
	struct frame walk = *frame;

	for (unsigned i = 0; i < OWN_FRAMES_MAX && walk.sp < to; i++) {
		unsigned kind = rule_of(walk.pc - !walk.exact).kind;

		if ((kind != UNWIND_FRAME && kind != UNWIND_DEREF) ||
		    !frame_step(&walk))
			break;
	}
	frame->hi = walk.hi;
	return walk.sp >= to;
}

/*
 * For a frame outside the range [lo, hi) of the thread's own stack; hi is 0 if
 * the thread has no range yet.  If the frame is on that stack, the range is
 * extended to it and kept.
 *
 * A signal handler may run a trace between any two of the stores.  hi is stored
 * last and is equal in every trace of the thread, and each value of npages is
 * that of a range that was probed.
 */
static cold_path void
range_init_outside(struct frame *frame, uintptr_t lo, uintptr_t hi)
{
	uintptr_t end = hi != 0 ? lo : own_stack_end();
	uintptr_t to = hi != 0 ? lo : end - STACK_TOP_BYTES;
	size_t bytes_max =
	    hi != 0 ? RANGE_GROWTH_MAX : STACK_GAP_MAX - os_page_size();

	frame->lo = align_down(frame->sp, os_page_size());
	frame->hi = frame->lo + os_page_size();
	if (frame->sp >= end || end - frame->lo > bytes_max ||
	    !frame_leads_to(frame, to) ||
	    (frame->hi < end && !range_extend(frame, end)))
		return;
	if (hi != 0)
		frame->hi = hi;
	thread_cache.npages =
	    (uint32_t)((frame->hi - frame->lo) / os_page_size());
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	thread_cache.hi = frame->hi;
}

/* Sets the frame's range. */
static inline void
range_init(struct frame *frame)
{
	/*
	 * Atomic, because a handler may change them, and because the compiler
	 * must not combine both loads into one vector load.
	 */
	uintptr_t hi = load_relaxed(&thread_cache.hi);
	uint32_t n = load_relaxed(&thread_cache.npages);
	uintptr_t lo = hi - n * os_page_size();

	frame->lo = lo;
	frame->hi = hi;
	if (unlikely(frame->sp < lo || frame->sp >= hi))
		range_init_outside(frame, lo, hi);
}

/*
 * The library's own code: in a shared library all of it; in a program, into
 * which the linker puts it in one piece, from the first to the last of some
 * functions.
 */
extern const char __ehdr_start[] __attribute__((visibility("hidden"), weak));
extern const char etext[] __attribute__((visibility("hidden"), weak));

static uintptr_t library_lo, library_hi; /* [a] */

static void
library_code_find(void)
{
	uintptr_t lo = UINTPTR_MAX, hi = 0;

	if (os_auxv(AT_PHDR) - (uintptr_t)__ehdr_start > 4096) {
		lo = (uintptr_t)__ehdr_start;
		hi = (uintptr_t)etext;
	} else {
		for (const void *const *at = stack_landmarks; *at != NULL;
		     at++) {
			lo = size_min(lo, (uintptr_t)*at);
			hi = size_max(hi, (uintptr_t)*at + 1024);
		}
	}
	store_relaxed(&library_lo, lo);
	/* Release: a thread that reads library_hi also sees library_lo. */
	store_release(&library_hi, hi);
}

static inline bool
is_library_code(uintptr_t pc)
{
	uintptr_t hi = load_acquire(&library_hi), lo;

	if (unlikely(hi == 0)) {
		library_code_find();
		hi = load_relaxed(&library_hi);
	}
	lo = load_relaxed(&library_lo);
	return pc - lo < hi - lo;
}

noinline unchecked unsigned
stack_trace(uintptr_t *pcs, unsigned n)
{
	struct frame frame;
	unsigned got = 0;

	frame_here(&frame);
	frame.exact = true;
	range_init(&frame);
	for (unsigned i = 0; got < n && i < n + LIBRARY_FRAMES_MAX; i++) {
		if (!frame_step(&frame) || frame.pc == 0)
			break;
		if (got != 0 || !is_library_code(frame.pc))
			pcs[got++] = frame.pc;
	}
	return got;
}

noinline unchecked bool
stack_in_signal(void)
{
	struct frame frame;

	frame_here(&frame);
	frame.exact = true;
	range_init(&frame);
	for (unsigned i = 0; i < SIGNAL_FRAMES_MAX + LIBRARY_FRAMES_MAX; i++) {
		/* NOLINTNEXTLINE(bugprone-narrowing-conversions): 3 bits */
		if (rule_of(frame.pc - !frame.exact).kind == UNWIND_SIGNAL)
			return true;
		if (!frame_step(&frame) || frame.pc == 0)
			break;
	}
	return false;
}

DESCRIBE(DESCRIBED_STACK);
