/*
 * rseq_aarch64.h - the restartable operations in aarch64 assembly
 *
 * The contracts are in rseq.h.  The descriptor of a section is in __rseq_cs:
 * version and flags 0, first instruction, length up to the end of the commit,
 * abort address.  The local labels are 3 for the descriptor, 1 for the first
 * instruction, 2 behind the commit, and 4 for the abort.  The signature is in
 * the 4 bytes before label 4, as an instruction that traps if it is executed.
 * An abort continues at RSEQ_TO_ABORTED.
 *
 * A section is left early only by b.cond.  The range of tbnz and cbz is too
 * short, because the compiler may place a rarely reached label far away.
 *
 * Ordering
 *	top is loaded with ldar.  A section that reads the value which
 *	cpu_release() has stored with release therefore reads the bottom, the
 *	limit and the rounds written before it.
 *
 *	The commit is a plain str.  The CPU may reorder it with the preceding
 *	store of the round.  No reader can see one of the two stores without
 *	the other:
 *	- the next section of this CPU number in the same thread, by program
 *	  order;
 *	- a section of this CPU number in another thread, because the kernel
 *	  has switched threads and passed on the number meanwhile, with a full
 *	  barrier at both steps;
 *	- a claim, because a claim is such a section too;
 *	- an owner that has closed the header of another CPU, because its
 *	  membarrier has executed a full barrier on that CPU before the owner
 *	  reads.
 *	For the same reasons a thread that pops an object sees the bytes that
 *	were written to the object before the push.
 */
#ifndef MAGAZINE_RSEQ_AARCH64_H
#define MAGAZINE_RSEQ_AARCH64_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq.h"
#include "vmem/os.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
    "the signature is compared as data and lies there as code");

/*
 * glibc's RSEQ_SIG, a brk instruction.  The kernel compares it with the code at
 * each abort.
 */
#define RSEQ_SIGNATURE 0xd428bc00

/*
 * Address inside a thread's area.  The sections need it in a register, because
 * no addressing mode has three terms.
 */
#define RSEQ_AT(offset) ((char *)__builtin_thread_pointer() + (offset))

/*
 * Why the sections cannot be used unless the program asks for them, or NULL.
 *
 * On aarch64, Linux 6.19 does so only if the thread continues on another CPU.
 * A thread that continues on the same CPU commits, although another thread may
 * have moved the top meanwhile, so two threads pop the same object.  The commit
 * "arm64/entry: Fix arm64-specific rseq brokenness" mends 7.1 and 7.0.14.
 *
 * No test at the start can take the place of the number: signals still abort
 * sections there, so it would have to wait for a preemption by another thread
 * on the same CPU.  A distribution may have mended a kernel with an older
 * number; the library does not know that, and its user can ask for mode=own.
 */
static inline const char *
rseq_obstacle(void)
{
	uint32_t version = os_kernel_version();

	return version < OS_VERSION(6, 19, 0) || version >= OS_VERSION(7, 0, 14)
		   ? NULL
		   : "Linux 6.19 to 7.0.13 does not abort preempted sections "
		     "on aarch64";
}

/* clang-format off */
#define RSEQ_HAS_SECTIONS true
#define RSEQ_SET(n) "mov %w[result], #" #n "\n\t"
#define RSEQ_JUMP   "b "

#define RSEQ_BEGIN							\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"adrp %[t], 3b\n\t"						\
	"add %[t], %[t], :lo12:3b\n\t"					\
	"str %[t], [%[cs]]\n\t"						\
	"1:\n\t"

/*
 * Load the address of the CPU's block into %[block], the address of its header
 * for this cache into %[h], and top, the first word of the header, into %[t].
 */
#define RSEQ_HEADER							\
	"ldr %w[block], [%[index]]\n\t"				\
	"add %[block], %[base], %[block], lsl %[shift]\n\t"		\
	"add %[h], %[block], %[at]\n\t"				\
	"ldar %[t], [%[h]]\n\t"

#define RSEQ_PUSH							\
	"ldr %[word], [%[h], #16]\n\t"					\
	"cmp %[t], %[word]\n\t"					\
	"b.hs " RSEQ_TO_MISSED "\n\t"					\
	"ldr %[word], [%[t], #-8]\n\t"					\
	"cmp %[word], %[object]\n\t"					\
	"b.eq " RSEQ_TO_MISSED "\n\t"					\
	"ldr %[word], [%[t], #-16]\n\t"				\
	"cmp %[word], %[object]\n\t"					\
	"b.eq " RSEQ_TO_MISSED "\n\t"					\
	"ldr %w[word], [%[block], %[pushes]]\n\t"			\
	"subs %w[word], %w[word], #1\n\t"				\
	"str %w[word], [%[block], %[pushes]]\n\t"			\
	"b.mi " RSEQ_TO_MISSED "\n\t"					\
	"str %[object], [%[t]], #8\n\t"				\
	"str %[t], [%[h]]\n\t"

#define RSEQ_END							\
	"2:\n\t"							\
	".pushsection .text.unlikely, \"ax\"\n\t"			\
	".inst 0xd428bc00\n"						\
	"4:\n\t"							\
	"b " RSEQ_TO_ABORTED "\n\t"					\
	".popsection\n\t"

/* Outside the section: the sign of cpu_id does not change meanwhile. */
#define RSEQ_IF_UNREGISTERED						\
	"ldr %w[t], [%[cs], #-4]\n\t"					\
	"cmp %w[t], #0\n\t"						\
	"b.lt " RSEQ_TO_UNREGISTERED "\n\t"

static inline __attribute__((always_inline)) enum rseq_result
rseq_pop(const struct rseq_place *place, uintptr_t at, void **object)
{
	uintptr_t t, h, block;
	void *popped, *next;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_HEADER
	    "ldr %[object], [%[h], #8]\n\t"
	    "cmp %[t], %[object]\n\t"
	    "b.le " RSEQ_TO_MISSED "\n\t"
	    "ldr %[object], [%[t], #-8]!\n\t"
	    "ldr %[next], [%[t], #-8]\n\t"
	    "str %[t], [%[h]]\n\t"
	    RSEQ_END
	    "prfm pstl1keep, [%[next]]\n\t",
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "=&r" (h), [block] "=&r" (block),
		[object] "=&r" (popped), [next] "=&r" (next)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [base] "r" (place->base),
		[at] "r" (at), [shift] "i" (CPU_BLOCK_SHIFT)));
	*object = popped;
	RSEQ_RESULTS;
}

static inline __attribute__((always_inline)) enum rseq_result
rseq_push(const struct rseq_place *place, uintptr_t at, void *object)
{
	uintptr_t t, h, block, word;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_HEADER
	    RSEQ_PUSH
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "=&r" (h), [block] "=&r" (block),
		[word] "=&r" (word)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [base] "r" (place->base),
		[at] "r" (at), [object] "r" (object),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)));
	RSEQ_RESULTS;
}

static inline __attribute__((always_inline)) enum rseq_result
rseq_push_chunk(const struct rseq_place *place, uintptr_t at, void *object,
    uint32_t x)
{
	uintptr_t t, h, block, word;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_HEADER
	    "ldr %w[word], [%[h], #24]\n\t"
	    "mul %w[x], %w[x], %w[word]\n\t"
	    "ldr %w[word], [%[h], #28]\n\t"
	    "cmp %w[x], %w[word]\n\t"
	    "b.hs " RSEQ_TO_MISSED "\n\t"
	    RSEQ_PUSH
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "=&r" (h), [block] "=&r" (block),
		[word] "=&r" (word), [x] "+&r" (x)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [base] "r" (place->base),
		[at] "r" (at), [object] "r" (object),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)));
	RSEQ_RESULTS;
}

/* Copy n words from the last to the first; %[i] is n and counts down to 0. */
#define RSEQ_COPY(from, to)						\
	"5:\n\t"							\
	"sub %[i], %[i], #1\n\t"					\
	"ldr %[word], [" from ", %[i], lsl #3]\n\t"			\
	"str %[word], [" to ", %[i], lsl #3]\n\t"			\
	"cbnz %[i], 5b\n\t"

static inline enum rseq_result
rseq_pop_many(const struct rseq_place *place, uintptr_t at, void **objects,
    uintptr_t n)
{
	uintptr_t t, h, block, word, i;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_HEADER
	    "ldr %[word], [%[h], #8]\n\t"
	    "cmp %[t], %[word]\n\t"
	    "b.le " RSEQ_TO_MISSED "\n\t"
	    "sub %[t], %[t], %[n], lsl #3\n\t"
	    "cmp %[t], %[word]\n\t"
	    "b.lt " RSEQ_TO_MISSED "\n\t"
	    "mov %[i], %[n]\n\t"
	    RSEQ_COPY("%[t]", "%[objects]")
	    "str %[t], [%[h]]\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "=&r" (h), [block] "=&r" (block),
		[word] "=&r" (word), [i] "=&r" (i)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [base] "r" (place->base),
		[at] "r" (at), [objects] "r" (objects), [n] "r" (n),
		[shift] "i" (CPU_BLOCK_SHIFT)));
	RSEQ_RESULTS;
}

static inline enum rseq_result
rseq_push_many(const struct rseq_place *place, uintptr_t at,
    void *const *objects, uintptr_t n)
{
	uintptr_t t, h, block, word, i;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_HEADER
	    "ldr %[word], [%[h], #16]\n\t"
	    "cmp %[t], %[word]\n\t"
	    "b.hs " RSEQ_TO_MISSED "\n\t"
	    "add %[i], %[t], %[n], lsl #3\n\t"
	    "cmp %[i], %[word]\n\t"
	    "b.hi " RSEQ_TO_MISSED "\n\t"
	    "ldr %[i], [%[objects]]\n\t"
	    "ldr %[word], [%[t], #-8]\n\t"
	    "cmp %[word], %[i]\n\t"
	    "b.eq " RSEQ_TO_MISSED "\n\t"
	    "ldr %[word], [%[t], #-16]\n\t"
	    "cmp %[word], %[i]\n\t"
	    "b.eq " RSEQ_TO_MISSED "\n\t"
	    "ldr %w[word], [%[block], %[pushes]]\n\t"
	    "subs %w[word], %w[word], %w[n]\n\t"
	    "str %w[word], [%[block], %[pushes]]\n\t"
	    "b.mi " RSEQ_TO_MISSED "\n\t"
	    "mov %[i], %[n]\n\t"
	    RSEQ_COPY("%[objects]", "%[t]")
	    "add %[t], %[t], %[n], lsl #3\n\t"
	    "str %[t], [%[h]]\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "=&r" (h), [block] "=&r" (block),
		[word] "=&r" (word), [i] "=&r" (i)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [base] "r" (place->base),
		[at] "r" (at), [objects] "r" (objects), [n] "r" (n),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)));
	RSEQ_RESULTS;
}

static inline enum rseq_result
rseq_claim(const struct rseq_place *place, struct cpu_hot *h, unsigned cpu,
    uintptr_t *top)
{
	uintptr_t t, old;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    "ldr %w[t], [%[index]]\n\t"
	    "cmp %w[t], %w[cpu]\n\t"
	    "b.ne " RSEQ_TO_MISSED "\n\t"
	    "ldr %[old], [%[h]]\n\t"
	    "str %[claimed], [%[h]]\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [old] "=&r" (old)),
	    RSEQ_OPERANDS([cs] "r" (RSEQ_AT(place->cs)),
		[index] "r" (RSEQ_AT(place->index)), [h] "r" (h),
		[cpu] "r" (cpu), [claimed] "r" (CPU_CLAIMED)));
	*top = old;
	RSEQ_RESULTS;
}
/* clang-format on */

/* This thread's CPU number as the sections use it; may change at any time. */
static inline unsigned
rseq_cpu(const struct rseq_place *place)
{
	return *(const volatile uint32_t *)RSEQ_AT(place->index);
}

#endif
