/*
 * rseq_x86_64.h - the restartable operations in x86-64 assembly
 *
 * The contracts are in rseq.h.  x86-64 does not reorder loads with loads, so
 * the plain load of top is the load-acquire that the contracts require.
 *
 * The descriptor of a section is in __rseq_cs: version and flags 0, first
 * instruction, length up to the end of the commit, abort address.  The local
 * labels are 3 for the descriptor, 1 for the first instruction, 2 behind the
 * commit, and 4 for the abort.  The signature is in the 4 bytes before label 4,
 * as the operand of an instruction that traps if it is executed.  An abort
 * continues at RSEQ_TO_ABORTED.
 *
 * prefetchw is used without a test of CPUID.  The only 64-bit CPUs that do not
 * know it as a prefetch or as a NOP are the first of Intel, of 2004 and 2005.
 *
 * A push stores the object as soon as it knows that there is room, above the
 * top, where nobody reads it if the push misses.  A pop that follows then gets
 * the object without waiting for the address of the store: 5.8 ns for a pair
 * instead of 8.7 ns on Emerald Rapids if the store comes before the decrement
 * of the counter, at any alignment of the code; and if it comes before the
 * compares, too, 200 to 2000 allocations and then as many frees take 0.97 of
 * the time (geometric mean of the minima of tests/bench/micro, 7 rounds in
 * turn).
 *
 * Without the decrement, free() has 32 instructions, and those batches take
 * 0.88 of the time, but a pair of 16 to 1000 bytes takes 9.3 ns instead of 5.9,
 * in either order of the store (Intel Xeon, 2 CPUs, 23 November 2026).
 */
#ifndef MAGAZINE_RSEQ_X86_64_H
#define MAGAZINE_RSEQ_X86_64_H

#include "magazine/cpu_layout.h"
#include "magazine/rseq.h"

/* glibc's RSEQ_SIG.  The kernel compares it with the code at each abort. */
#define RSEQ_SIGNATURE 0x53053053

/* Every kernel with rseq aborts the sections of a preempted thread. */
static inline const char *
rseq_obstacle(void)
{
	return NULL;
}

/* clang-format off */
#define RSEQ_HAS_SECTIONS true
#define RSEQ_SET(n) "movl $" #n ", %k[result]\n\t"
#define RSEQ_JUMP   "jmp "

#define RSEQ_BEGIN							\
	".pushsection __rseq_cs, \"aw\"\n\t"				\
	".balign 32\n"							\
	"3:\n\t"							\
	".long 0, 0\n\t"						\
	".quad 1f, 2f - 1f, 4f\n\t"					\
	".popsection\n\t"						\
	"leaq 3b(%%rip), %[t]\n\t"					\
	"movq %[t], %%fs:(%[cs])\n\t"					\
	"1:\n\t"

/*
 * %[h] holds the offset of the index before, and the address of the CPU's block
 * afterwards; the header is at (%[h],%[at]).
 */
#define RSEQ_BLOCK							\
	"movl %%fs:(%[h]), %k[h]\n\t"				\
	"shlq %[shift], %[h]\n\t"					\
	"addq %[base], %[h]\n\t"

#define RSEQ_PUSH							\
	"movq (%[h],%[at]), %[t]\n\t"					\
	"cmpq 16(%[h],%[at]), %[t]\n\t"				\
	"jae " RSEQ_TO_MISSED "\n\t"					\
	"movq %[object], (%[t])\n\t"					\
	"cmpq %[object], -8(%[t])\n\t"					\
	"je " RSEQ_TO_MISSED "\n\t"					\
	"cmpq %[object], -16(%[t])\n\t"				\
	"je " RSEQ_TO_MISSED "\n\t"					\
	"subl $1, %c[pushes](%[h])\n\t"					\
	"js " RSEQ_TO_MISSED "\n\t"					\
	"addq $8, %[t]\n\t"						\
	"movq %[t], (%[h],%[at])\n\t"

#define RSEQ_END							\
	"2:\n\t"							\
	".pushsection .text.unlikely, \"ax\"\n\t"			\
	".byte 0x0f, 0xb9, 0x3d\n\t"					\
	".long 0x53053053\n"						\
	"4:\n\t"							\
	"jmp " RSEQ_TO_ABORTED "\n\t"					\
	".popsection\n\t"

/* Outside the section: the sign of cpu_id does not change meanwhile. */
#define RSEQ_IF_UNREGISTERED						\
	"cmpl $0, %%fs:-4(%[cs])\n\t"					\
	"js " RSEQ_TO_UNREGISTERED "\n\t"

static inline __attribute__((always_inline)) enum rseq_result
rseq_pop(const struct rseq_place *place, uintptr_t at, void **object)
{
	uintptr_t t, h = (uintptr_t)place->index;
	void *popped, *next;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_BLOCK
	    "movq (%[h],%[at]), %[t]\n\t"
	    "cmpq 8(%[h],%[at]), %[t]\n\t"
	    "jle " RSEQ_TO_MISSED "\n\t"
	    "movq -8(%[t]), %[object]\n\t"
	    "movq -16(%[t]), %[next]\n\t"
	    "subq $8, %[t]\n\t"
	    "movq %[t], (%[h],%[at])\n\t"
	    RSEQ_END
	    "prefetchw (%[next])\n\t",
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "+&r" (h),
		[object] "=&a" (popped), [next] "=&r" (next)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [base] "m" (place->base),
		[at] "r" (at), [shift] "i" (CPU_BLOCK_SHIFT)));
	*object = popped;
	RSEQ_RESULTS;
}

static inline __attribute__((always_inline)) enum rseq_result
rseq_push(const struct rseq_place *place, uintptr_t at, void *object)
{
	uintptr_t t, h = (uintptr_t)place->index;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_BLOCK
	    RSEQ_PUSH
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "+&r" (h)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [base] "m" (place->base),
		[at] "r" (at), [object] "r" (object),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)));
	RSEQ_RESULTS;
}

static inline __attribute__((always_inline)) enum rseq_result
rseq_push_chunk(const struct rseq_place *place, uintptr_t at, void *object,
    uint32_t x)
{
	uintptr_t t, h = (uintptr_t)place->index;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_BLOCK
	    "imull 24(%[h],%[at]), %[x]\n\t"
	    "cmpl 28(%[h],%[at]), %[x]\n\t"
	    "jae " RSEQ_TO_MISSED "\n\t"
	    RSEQ_PUSH
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "+&r" (h), [x] "+&r" (x)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [base] "m" (place->base),
		[at] "r" (at), [object] "r" (object),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)));
	RSEQ_RESULTS;
}

/*
 * Copy n words from the last to the first, two at a time.  If n is odd, a
 * single word is copied first.  %[i] is n and counts down to 0.
 */
#define RSEQ_COPY(from, to)						\
	"testb $1, %b[i]\n\t"					\
	"jz 5f\n\t"							\
	"movq -8(" from ",%[i],8), %[word]\n\t"			\
	"movq %[word], -8(" to ",%[i],8)\n\t"			\
	"decq %[i]\n\t"						\
	"jz 6f\n\t"							\
	"5:\n\t"							\
	"movups -16(" from ",%[i],8), %%xmm0\n\t"			\
	"movups %%xmm0, -16(" to ",%[i],8)\n\t"			\
	"subq $2, %[i]\n\t"						\
	"jnz 5b\n\t"							\
	"6:\n\t"

static inline enum rseq_result
rseq_pop_many(const struct rseq_place *place, uintptr_t at, void **objects,
    uintptr_t n)
{
	uintptr_t t, word, i, h = (uintptr_t)place->index;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_BLOCK
	    "movq (%[h],%[at]), %[t]\n\t"
	    "movq 8(%[h],%[at]), %[word]\n\t"
	    "cmpq %[word], %[t]\n\t"
	    "jle " RSEQ_TO_MISSED "\n\t"
	    "movq %[n], %[i]\n\t"
	    "shlq $3, %[i]\n\t"
	    "subq %[i], %[t]\n\t"
	    "cmpq %[word], %[t]\n\t"
	    "jl " RSEQ_TO_MISSED "\n\t"
	    "shrq $3, %[i]\n\t"
	    RSEQ_COPY("%[t]", "%[objects]")
	    "movq %[t], (%[h],%[at])\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "+&r" (h), [word] "=&r" (word),
		[i] "=&r" (i)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [base] "m" (place->base),
		[at] "r" (at), [objects] "r" (objects), [n] "r" (n),
		[shift] "i" (CPU_BLOCK_SHIFT)),
	    "xmm0");
	RSEQ_RESULTS;
}

static inline enum rseq_result
rseq_push_many(const struct rseq_place *place, uintptr_t at,
    void *const *objects, uintptr_t n)
{
	uintptr_t t, word, i, h = (uintptr_t)place->index;

	RSEQ_ASM(
	    RSEQ_IF_UNREGISTERED
	    RSEQ_BEGIN
	    RSEQ_BLOCK
	    "movq (%[h],%[at]), %[t]\n\t"
	    "movq 16(%[h],%[at]), %[word]\n\t"
	    "cmpq %[word], %[t]\n\t"
	    "jae " RSEQ_TO_MISSED "\n\t"
	    "leaq (%[t],%[n],8), %[i]\n\t"
	    "cmpq %[word], %[i]\n\t"
	    "ja " RSEQ_TO_MISSED "\n\t"
	    "movq (%[objects]), %[word]\n\t"
	    "cmpq %[word], -8(%[t])\n\t"
	    "je " RSEQ_TO_MISSED "\n\t"
	    "cmpq %[word], -16(%[t])\n\t"
	    "je " RSEQ_TO_MISSED "\n\t"
	    "subl %k[n], %c[pushes](%[h])\n\t"
	    "js " RSEQ_TO_MISSED "\n\t"
	    "movq %[n], %[i]\n\t"
	    RSEQ_COPY("%[objects]", "%[t]")
	    "leaq (%[t],%[n],8), %[t]\n\t"
	    "movq %[t], (%[h],%[at])\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [h] "+&r" (h), [word] "=&r" (word),
		[i] "=&r" (i)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [base] "m" (place->base),
		[at] "r" (at), [objects] "r" (objects), [n] "r" (n),
		[shift] "i" (CPU_BLOCK_SHIFT), [pushes] "i" (CPU_PUSHES_AT)),
	    "xmm0");
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
	    "cmpl %[cpu], %%fs:(%[index])\n\t"
	    "jne " RSEQ_TO_MISSED "\n\t"
	    "movq (%[h]), %[old]\n\t"
	    "movq %[claimed], (%[h])\n\t"
	    RSEQ_END,
	    RSEQ_OPERANDS([t] "=&r" (t), [old] "=&r" (old)),
	    RSEQ_OPERANDS([cs] "r" (place->cs), [index] "r" (place->index),
		[h] "r" (h), [cpu] "r" (cpu), [claimed] "r" (CPU_CLAIMED)));
	*top = old;
	RSEQ_RESULTS;
}
/* clang-format on */

/* This thread's CPU number as the sections use it; may change at any time. */
static inline unsigned
rseq_cpu(const struct rseq_place *place)
{
	unsigned cpu;

	__asm__ volatile("movl %%fs:(%[index]), %[cpu]"
			 : [cpu] "=r"(cpu)
			 : [index] "r"(place->index));
	return cpu;
}

#endif
