/*
 * test_rseq.c - the restartable operations, interrupted at each instruction
 *
 * A child of the test runs a section step by step (step.h), on an rseq area
 * that the kernel does not know, so that the kernel does not restart it.  The
 * test uses this in two ways:
 *
 * - It notes the addresses of the section's instructions.  Then it sets a
 *   breakpoint on each in turn and runs the operation on the true area.  The
 *   signal of the breakpoint interrupts the section at that instruction, and
 *   the handler, in the place of another thread, may change the header.  The
 *   result must be that of a model that does both operations one after the
 *   other.
 *
 * - It moves the child to another CPU number before each instruction of the
 *   whole operation, as the kernel moves a thread: inside a section the child
 *   continues at the abort address.  The operation must then be done on the
 *   header of one CPU number, or not at all.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "magazine/cpu.h"
#include "magazine/depot.h"
#include "tests/unit/hooks.h"
#include "tests/unit/stay.h"
#include "tests/unit/owner.h"
#include "tests/unit/step.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

#define NROUNDS    8
#define NPOSITIONS 64
/*
 * Rounds that one section of POP_MANY or PUSH_MANY moves: an odd round and a
 * pair.
 */
#define NMANY      3
/* Offset of the header under test in the block of its CPU. */
#define AT         (3 * sizeof(struct cpu_hot))
#define CHUNK_SIZE 48u
#define PUSHES     1000

/* The kernel's description of a section: struct rseq_cs. */
struct descriptor {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t length;
	uint64_t aborted;
};

/*
 * The linker's bounds of the ELF section __rseq_cs.  It also holds the
 * descriptors of this file's functions.
 */
extern const struct descriptor __start___rseq_cs[], __stop___rseq_cs[];

/* A magazine with NROUNDS rounds. */
union stack {
	struct magazine mag;
	void *word[sizeof(struct magazine) / sizeof(void *) + NROUNDS];
};

enum op {
	NOTHING,
	POP,
	PUSH,
	CHUNK, /* a push that checks that a chunk starts at the address */
	POP_MANY,
	PUSH_MANY,
	CLAIM,
	SWAP, /* load the other stack: only as the interruption */
	NOPS
};

/* The expected state of a CPU's header and of two stacks. */
struct model {
	void *round[2][NROUNDS];
	unsigned n[2];
	unsigned loaded;
	bool claimed;
};

struct outcome {
	enum rseq_result result;
	void *object;
	void *many[NMANY]; /* result of POP_MANY */
};

static _Thread_local _Alignas(32) struct {
	uint32_t cpu_id_start;
	int32_t cpu_id;
	const struct descriptor *cs;
	uint32_t rest[4];
} area;

static union stack stacks[2];
/* The area that the kernel knows, with the headers of this test. */
static struct rseq_place live_place;
static char *blocks; /* one block for each CPU number */
/* Divisibility test for multiples below 1400 chunks; page_map.c explains it. */
static const struct cpu_guard guard = {
    UINT32_MAX / CHUNK_SIZE + 1, 1400 * 32 + 1};
static void *const pushed = (void *)0x1110;
static void *const pushed_between = (void *)0x2220;
static void *const pushed_third = (void *)0x3330;

static struct cpu_hot *
base(void)
{
	return (struct cpu_hot *)(void *)blocks;
}

static struct cpu_hot *
header_of(unsigned cpu)
{
	return (void *)(blocks + ((size_t)cpu << CPU_BLOCK_SHIFT) + AT);
}

static noinline enum rseq_result
do_pop(const struct rseq_place *place, void **object)
{
	return rseq_pop(place, AT, object);
}

static noinline enum rseq_result
do_push(const struct rseq_place *place, void *object)
{
	return rseq_push(place, AT, object);
}

static noinline enum rseq_result
do_push_chunk(const struct rseq_place *place, void *object, uint32_t x)
{
	return rseq_push_chunk(place, AT, object, x);
}

static noinline enum rseq_result
do_pop_many(const struct rseq_place *place, void **objects, uintptr_t n)
{
	return rseq_pop_many(place, AT, objects, n);
}

static noinline enum rseq_result
do_push_many(const struct rseq_place *place, void *const *objects, uintptr_t n)
{
	return rseq_push_many(place, AT, objects, n);
}

/* The objects that PUSH_MANY pushes, derived from object. */
static void
many_of(void *object, void *many[NMANY])
{
	for (unsigned i = 0; i < NMANY; i++)
		many[i] = (char *)object + i;
}

static noinline enum rseq_result
do_claim(const struct rseq_place *place, unsigned cpu, uintptr_t *top)
{
	return rseq_claim(place, header_of(cpu), cpu, top);
}

/* This file's own area, as CPU 0.  The kernel does not know it. */
static struct rseq_place
fake_place(void)
{
	struct rseq_place place;

	memset(&area, 0, sizeof(area));
	place.cs = (char *)&area.cs - (char *)thread_self();
	place.index = place.cs - RSEQ_CS + RSEQ_MM_CID;
	place.base = base();
	return place;
}

static struct cpu_hot *
header(const struct rseq_place *place)
{
	return header_of(rseq_cpu(place));
}

static uint32_t *
pushes_of(struct cpu_hot *h)
{
	return (void *)((char *)h - AT + CPU_PUSHES_AT);
}

static void
load(struct cpu_hot *h, unsigned which, unsigned n)
{
	struct magazine *mag = &stacks[which].mag;

	mag->capacity = NROUNDS;
	h->bottom = (uintptr_t)mag->round;
	h->limit = (uintptr_t)(mag->round + NROUNDS);
	h->top = (uintptr_t)(mag->round + n);
	h->magic = guard.magic;
	h->bound = guard.bound;
	*pushes_of(h) = PUSHES;
}

static void
model_setup(struct model *m, struct cpu_hot *h)
{
	memset(m, 0, sizeof(*m));
	memset(stacks, 0, sizeof(stacks));
	for (unsigned s = 0; s < 2; s++) {
		m->n[s] = 3 + s;
		for (unsigned i = 0; i < m->n[s]; i++) {
			m->round[s][i] = (void *)(uintptr_t)(64 * s + i + 16);
			stacks[s].mag.round[i] = m->round[s][i];
		}
	}
	load(h, 0, m->n[0]);
}

static enum rseq_result
model_many(struct model *m, enum op op, void *object, void *many[NMANY])
{
	unsigned s = m->loaded;
	unsigned n = m->n[s];

	if (op == POP_MANY ? n < NMANY : n + NMANY > NROUNDS)
		return RSEQ_MISS;
	if (op == POP_MANY) {
		m->n[s] -= NMANY;
		memcpy(many, &m->round[s][m->n[s]], NMANY * sizeof(*many));
	} else {
		many_of(object, &m->round[s][n]);
		m->n[s] += NMANY;
	}
	return RSEQ_OK;
}

static struct outcome
model_do(struct model *m, enum op op, void *object)
{
	struct outcome out = {.result = RSEQ_OK};
	unsigned s = m->loaded;

	if (op == SWAP) {
		m->loaded = m->claimed ? m->loaded : 1;
	} else if (op == CLAIM) {
		out.object = &stacks[s].mag.round[m->n[s]];
		m->claimed = true;
	} else if (op != NOTHING && m->claimed) {
		out.result = RSEQ_MISS;
	} else if (op == POP && m->n[s] == 0) {
		out.result = RSEQ_MISS;
	} else if (op == POP) {
		out.object = m->round[s][--m->n[s]];
	} else if (op == PUSH || op == CHUNK) {
		m->round[s][m->n[s]++] = object;
	} else if (op == POP_MANY || op == PUSH_MANY) {
		out.result = model_many(m, op, object, out.many);
	}
	return out;
}

static void
model_compare(const struct model *m, const struct cpu_hot *h)
{
	struct magazine *mag = &stacks[m->loaded].mag;

	for (unsigned s = 0; s < 2; s++)
		for (unsigned i = 0; i < m->n[s]; i++)
			ck_assert_ptr_eq(
			    stacks[s].mag.round[i], m->round[s][i]);
	ck_assert_uint_eq(h->bottom, (uintptr_t)mag->round);
	ck_assert_uint_eq(h->limit, (uintptr_t)(mag->round + NROUNDS));
	if (m->claimed)
		ck_assert_uint_eq(h->top, CPU_CLAIMED);
	else
		ck_assert_uint_eq(
		    h->top, (uintptr_t)(mag->round + m->n[m->loaded]));
	ck_assert_uint_eq(h->magic, guard.magic);
	ck_assert_uint_eq(h->bound, guard.bound);
}

/* Try the operation once; place decides on which area. */
static struct outcome
real_try(const struct rseq_place *place, enum op op, void *object)
{
	struct outcome out = {.result = RSEQ_OK};
	void *many[NMANY];
	uintptr_t top;

	switch (op) {
	case POP:
		out.result = do_pop(place, &out.object);
		break;
	case PUSH:
		out.result = do_push(place, object);
		break;
	case CHUNK:
		out.result = do_push_chunk(place, object, 7 * CHUNK_SIZE);
		break;
	case POP_MANY:
		out.result = do_pop_many(place, many, NMANY);
		if (out.result == RSEQ_OK)
			memcpy(out.many, many, sizeof(many));
		break;
	case PUSH_MANY:
		many_of(object, many);
		out.result = do_push_many(place, many, NMANY);
		break;
	case CLAIM:
		out.result = do_claim(place, rseq_cpu(place), &top);
		if (out.result == RSEQ_OK)
			out.object = (void *)top;
		break;
	default:
		break;
	}
	return out;
}

/*
 * The handler's operation.  It uses its own expansions of the sections, which
 * have no breakpoint in them.
 */
static void
intrude(enum op op)
{
	const struct rseq_place *place = &live_place;
	enum rseq_result r;
	void *object, *many[NMANY];
	uintptr_t top;

	do {
		r = RSEQ_OK;
		if (op == POP)
			r = rseq_pop(place, AT, &object);
		else if (op == PUSH)
			r = rseq_push(place, AT, pushed_between);
		else if (op == CHUNK)
			r = rseq_push_chunk(place, AT, pushed_between, 0);
		else if (op == POP_MANY)
			r = rseq_pop_many(place, AT, many, NMANY);
		else if (op == PUSH_MANY) {
			many_of(pushed_between, many);
			r = rseq_push_many(place, AT, many, NMANY);
		} else if (op == CLAIM)
			r = rseq_claim(
			    place, header(place), rseq_cpu(place), &top);
		else if (op == SWAP && header(place)->top != CPU_CLAIMED)
			load(header(place), 1, 4);
	} while (r == RSEQ_ABORT);
}

/* Written by the child: 1 while the operation runs. */
static uint64_t stepped_running;
static enum op stepped_op;
static struct rseq_place stepped_place;
static struct outcome stepped_outcome;

static void
run_stepped(void)
{
	__atomic_store_n(&stepped_running, 1, __ATOMIC_SEQ_CST);
	stepped_outcome = real_try(&stepped_place, stepped_op, pushed);
	__atomic_store_n(&stepped_running, 0, __ATOMIC_SEQ_CST);
}

static uintptr_t positions[NPOSITIONS];
static unsigned npositions;
static const struct descriptor *section;
static step_code_t *trap_at;
static step_code_t trap_code; /* code that the breakpoint replaces */
/* Written by the handler. */
static volatile unsigned ntraps;
static volatile bool trap_restarted;
static enum op trap_op;

static void
trap_write(step_code_t code)
{
	*(volatile step_code_t *)trap_at = code;
	__builtin___clear_cache((char *)trap_at, (char *)(trap_at + 1));
}

static void
on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	ntraps++;
	trap_write(trap_code);
	trap_restarted = step_context_pc(context) == section->aborted;
	if (!trap_restarted)
		step_context_jump(context, trap_at);
	intrude(trap_op);
}

static void
catch_traps(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO};

	action.sa_sigaction = on_trap;
	sigemptyset(&action.sa_mask);
	ck_assert_int_eq(sigaction(SIGTRAP, &action, NULL), 0);
}

/*
 * Note each instruction of the section of op, in the expansion that real_try()
 * runs.  False: the kernel refuses to single-step.
 */
static bool
learn_positions(enum op op)
{
	struct model m;
	pid_t child;

	stepped_op = op;
	stepped_place = fake_place();
	model_setup(&m, header(&stepped_place));
	run_stepped();
	section = area.cs;
	ck_assert_ptr_nonnull(section);
	model_setup(&m, header(&stepped_place));
	child = step_start(run_stepped);
	if (child == 0)
		return false;
	npositions = 0;
	while (step_one(child)) {
		uintptr_t pc = step_pc(child);

		if (pc - section->start < section->length &&
		    npositions < NPOSITIONS)
			positions[npositions++] = pc;
	}
	ck_assert_uint_ge(npositions, 4);
	ck_assert_uint_lt(npositions, NPOSITIONS);
	ck_assert_uint_eq(positions[0], section->start);
	positions[npositions] = section->start + section->length;
	return true;
}

static void
make_writable(uintptr_t at)
{
	uintptr_t page = align_down(at, os_page_size());

	ck_assert_int_eq(mprotect((void *)page, 2 * os_page_size(),
			     PROT_READ | PROT_WRITE | PROT_EXEC),
	    0);
}

static void
setup(void)
{
	/* Include CPU number 1 on a machine with one CPU. */
	size_t bytes = (size_t)(os_cpu_slots() + 1) << CPU_BLOCK_SHIFT;

	blocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(blocks, MAP_FAILED);
	live_place = cpu_layer.place;
	live_place.base = base();
	catch_traps();
	stay_here();
}

static bool
have_rseq(void)
{
	return cpu_layer.rseq.owner != RSEQ_NONE;
}

/* Run op, interrupted before the given instruction by the operation between. */
static void
interrupt_at(enum op op, unsigned position, enum op between)
{
	bool committed = position == npositions;
	const struct rseq_place *place = &live_place;
	struct cpu_hot *h = header(place);
	struct outcome want, got;
	struct model m;
	unsigned naborts = 0;

	model_setup(&m, h);
	if (!committed)
		model_do(&m, between, pushed_between);
	want = model_do(&m, op, pushed);
	if (committed)
		model_do(&m, between, pushed_between);
	trap_op = between;
	ntraps = 0;
	trap_at = (step_code_t *)positions[position];
	trap_code = *trap_at;
	trap_write(STEP_TRAP);
	while ((got = real_try(place, op, pushed)).result == RSEQ_ABORT &&
	       naborts < 1000)
		naborts++;
	ck_assert_ptr_eq(h, header(place));
	ck_assert_uint_eq(ntraps, 1);
	ck_assert_int_eq(trap_restarted, !committed);
	/*
	 * The scheduler may cause more aborts than the one of the breakpoint.
	 */
	ck_assert_uint_ge(naborts, committed ? 0 : 1);
	ck_assert_uint_lt(naborts, 20);
	ck_assert_int_eq(got.result, want.result);
	if (want.result == RSEQ_OK)
		ck_assert_ptr_eq(got.object, want.object);
	ck_assert_mem_eq(got.many, want.many, sizeof(got.many));
	model_compare(&m, h);
}

static void
interrupt_everywhere(enum op op, bool with_claims)
{
	if (!have_rseq() || !learn_positions(op))
		return;
	make_writable(section->start);
	for (unsigned i = 0; i <= npositions; i++)
		for (enum op between = NOTHING; between < NOPS; between++)
			if (between != CLAIM || with_claims)
				interrupt_at(op, i, between);
}

START_TEST(a_pop_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(POP, true);
}
END_TEST

START_TEST(a_push_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(PUSH, true);
}
END_TEST

START_TEST(a_push_of_a_chunk_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(CHUNK, true);
}
END_TEST

START_TEST(a_pop_of_many_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(POP_MANY, true);
}
END_TEST

START_TEST(a_push_of_many_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(PUSH_MANY, true);
}
END_TEST

/* Two claims never overlap, because a claim acquires the header first. */
START_TEST(a_claim_interrupted_anywhere_happens_once)
{
	interrupt_everywhere(CLAIM, false);
}
END_TEST

/* Written by the test: has the child moved to CPU number 1? */
static volatile uint64_t moved;
/* Written by the test: did the commit precede the move? */
static volatile uint64_t moved_after_commit;

static void
compare_header(const struct model *m, unsigned which)
{
	const struct cpu_hot *h = header_of(which);
	struct magazine *mag = &stacks[which].mag;
	uintptr_t top = (uintptr_t)(mag->round + m->n[which]);

	for (unsigned i = 0; i < m->n[which]; i++)
		ck_assert_ptr_eq(mag->round[i], m->round[which][i]);
	ck_assert_uint_eq(h->bottom, (uintptr_t)mag->round);
	ck_assert_uint_eq(h->limit, (uintptr_t)(mag->round + NROUNDS));
	if (m->claimed && which == m->loaded)
		top = CPU_CLAIMED;
	ck_assert_uint_eq(h->top, top);
}

/*
 * The operation was done on the header of the CPU number that the child had at
 * the commit.  It may have failed only if the child was moved before that.
 */
static void
compare_moved(struct model *m)
{
	struct outcome want, got = stepped_outcome;

	m->loaded = moved && !moved_after_commit;
	if (m->loaded == 1 &&
	    (got.result == RSEQ_ABORT ||
		(got.result == RSEQ_MISS && stepped_op == CLAIM)))
		return;
	want = model_do(m, stepped_op, pushed);
	ck_assert_int_eq(got.result, want.result);
	ck_assert_ptr_eq(got.object, want.object);
	ck_assert_mem_eq(got.many, want.many, sizeof(got.many));
}

/*
 * Runs in the child: repeat the operation without end.  Stack 0 is loaded at
 * the header of CPU number 0, and stack 1 at the header of CPU number 1.
 */
static void
operate_and_compare(void)
{
	struct model m;

	for (;;) {
		area.rest[2] = 0;
		area.cs = NULL;
		moved = moved_after_commit = 0;
		model_setup(&m, header_of(0));
		load(header_of(1), 1, m.n[1]);
		step_pause();
		run_stepped();
		compare_moved(&m);
		compare_header(&m, 0);
		compare_header(&m, 1);
	}
}

/*
 * Treat the child as the kernel treats a thread that it moves to another CPU.
 * Inside a section the child continues at the abort address.  rseq_cs is
 * cleared.
 */
static void
move_child(pid_t child, uintptr_t top)
{
	const struct descriptor *d = (void *)step_peek(child, &area.cs);

	if (d != NULL && step_pc(child) - d->start < d->length)
		step_jump(child, d->aborted);
	step_poke(child, &area.cs, 0);
	step_poke(child, &area.rest[2], 1);
	step_poke(child, (void *)&moved, 1);
	step_poke(child, (void *)&moved_after_commit,
	    step_peek(child, &header_of(0)->top) != top);
}

/* False: the operation has fewer than n instructions. */
static bool
step_into_operation(pid_t child, unsigned n)
{
	while (step_peek(child, &stepped_running) == 0)
		ck_assert(step_one(child));
	for (unsigned i = 0; i < n; i++) {
		ck_assert(step_one(child));
		if (step_peek(child, &stepped_running) == 0)
			return false;
	}
	return true;
}

/*
 * The thread moves to another CPU before each instruction of an operation,
 * including the instructions outside the section, where the kernel does not
 * restart it.
 */
START_TEST(a_move_to_another_cpu_before_any_instruction_is_noticed)
{
	unsigned n = 0;
	pid_t child;

	stepped_op = (enum op)_i;
	stepped_place = fake_place();
	child = step_start(operate_and_compare);
	if (child == 0)
		return;
	for (;; n++) {
		ck_assert(step_resume(child));
		if (!step_into_operation(child, n))
			break;
		move_child(child, (uintptr_t)(stacks[0].mag.round + 3));
	}
	ck_assert_uint_gt(n, 10);
	step_end(child);
}
END_TEST

/* In the area, an operation changes only rseq_cs. */
START_TEST(of_the_area_only_rseq_cs_is_written)
{
	struct rseq_place place = fake_place();
	struct model m;

	for (enum op op = POP; op <= CLAIM; op++) {
		memset(&area, 0x5a, sizeof(area));
		area.cpu_id = 7;
		area.cs = NULL;
		area.rest[2] = 0; /* mm_cid */
		unsigned char before[sizeof(area)];
		memcpy(before, &area, sizeof(area));
		model_setup(&m, (void *)(blocks + AT));
		ck_assert_int_eq(real_try(&place, op, pushed).result, RSEQ_OK);
		ck_assert_ptr_nonnull(area.cs);
		area.cs = NULL;
		ck_assert_mem_eq(before, &area, sizeof(area));
	}
}
END_TEST

START_TEST(each_operation_works_on_the_header_of_its_cpu_number)
{
	struct rseq_place place = fake_place();
	struct model m;

	for (unsigned cpu = 0; cpu < os_cpu_slots(); cpu += 13)
		for (enum op op = POP; op <= CLAIM; op++) {
			area.rest[2] = cpu;
			area.cpu_id = 1;
			model_setup(&m, header(&place));
			struct outcome want = model_do(&m, op, pushed);
			struct outcome got = real_try(&place, op, pushed);
			ck_assert_int_eq(got.result, RSEQ_OK);
			ck_assert_ptr_eq(got.object, want.object);
			model_compare(&m, header(&place));
		}
}
END_TEST

START_TEST(an_area_without_a_cpu_is_left_alone)
{
	struct rseq_place place = fake_place();
	struct model m;

	for (int32_t cpu_id = -2; cpu_id < 0; cpu_id++)
		for (enum op op = POP; op <= CLAIM; op++) {
			area.cpu_id = cpu_id;
			model_setup(&m, (void *)(blocks + AT));
			ck_assert_int_eq(real_try(&place, op, pushed).result,
			    RSEQ_UNREGISTERED);
			ck_assert_ptr_null(area.cs);
			model_compare(&m, (void *)(blocks + AT));
		}
}
END_TEST

START_TEST(a_pop_of_no_rounds_misses)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	struct cpu_hot before;
	void *object = NULL;

	for (int i = 0; i < 4; i++) {
		memset(h, 0, sizeof(*h)); /* 0: as the kernel gave it */
		if (i > 0)
			load(h, 0, 0);
		if (i == 2)
			h->top = CPU_CLAIMED;
		if (i == 3) {
			h->top += 16;
			h->bottom = CPU_NO_BOTTOM;
			h->limit = 0;
		}
		before = *h;
		ck_assert_int_eq(do_pop(&place, &object), RSEQ_MISS);
		ck_assert_mem_eq(&before, h, sizeof(before));
	}
}
END_TEST

START_TEST(a_push_without_room_misses)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	struct cpu_hot before;
	union stack copy;

	for (int i = 0; i < 4; i++) {
		memset(h, 0, sizeof(*h));
		memset(stacks, 0, sizeof(stacks));
		if (i > 0)
			load(h, 0, NROUNDS);
		if (i == 2)
			h->top = CPU_CLAIMED;
		if (i == 3) {
			h->top -= 16;
			h->bottom = CPU_NO_BOTTOM;
			h->limit = 0;
		}
		before = *h;
		copy = stacks[0];
		ck_assert_int_eq(do_push(&place, pushed), RSEQ_MISS);
		ck_assert_mem_eq(&before, h, sizeof(before));
		ck_assert_mem_eq(&copy, &stacks[0], sizeof(copy));
	}
}
END_TEST

START_TEST(a_push_that_is_no_chunk_misses)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	struct cpu_hot before;

	load(h, 0, 1);
	before = *h;
	for (uint32_t x = 1; x < 3 * CHUNK_SIZE; x++)
		if (x % CHUNK_SIZE != 0)
			ck_assert_int_eq(
			    do_push_chunk(&place, pushed, x), RSEQ_MISS);
	ck_assert_mem_eq(&before, h, sizeof(before));
	ck_assert_uint_eq(*pushes_of(h), PUSHES);
	for (uint32_t n = 0; n < 3; n++)
		ck_assert_int_eq(
		    do_push_chunk(
			&place, &stacks[n % 2].mag.round[n], n * CHUNK_SIZE),
		    RSEQ_OK);
	ck_assert_uint_eq(*pushes_of(h), PUSHES - 3);
}
END_TEST

START_TEST(when_the_counter_has_run_out_pushes_miss_and_pops_do_not)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	struct cpu_hot before;
	void *object;

	load(h, 0, 1);
	*pushes_of(h) = 2;
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
	ck_assert_int_eq(do_push_chunk(&place, pushed_between, 0), RSEQ_OK);
	before = *h;
	ck_assert_int_eq(do_push(&place, pushed_third), RSEQ_MISS);
	ck_assert_int_eq(do_push_chunk(&place, pushed_third, 0), RSEQ_MISS);
	ck_assert_mem_eq(&before, h, sizeof(before));
	ck_assert_int_lt((int32_t)*pushes_of(h), 0);
	ck_assert_int_eq(do_pop(&place, &object), RSEQ_OK);
	*pushes_of(h) = 1;
	ck_assert_int_eq(do_push(&place, pushed_between), RSEQ_OK);
}
END_TEST

START_TEST(the_last_room_and_the_last_round_can_be_had)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	void *object;

	load(h, 0, 0);
	for (uintptr_t i = 1; i <= NROUNDS; i++)
		ck_assert_int_eq(do_push(&place, (void *)(16 * i)), RSEQ_OK);
	ck_assert_uint_eq(h->top, h->limit);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_MISS);
	for (uintptr_t i = NROUNDS; i > 0; i--) {
		ck_assert_int_eq(do_pop(&place, &object), RSEQ_OK);
		ck_assert_ptr_eq(object, (void *)(16 * i));
	}
	ck_assert_uint_eq(h->top, h->bottom);
	ck_assert_int_eq(do_pop(&place, &object), RSEQ_MISS);
}
END_TEST

/*
 * Each count from 1 on, against a header with fewer, as many, and more rounds.
 */
START_TEST(many_are_moved_all_or_none)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	void *many[NROUNDS + 1], *out[NROUNDS + 1];
	struct cpu_hot before;
	enum rseq_result want;

	for (unsigned n = 1; n <= NROUNDS + 1; n++)
		for (unsigned have = 0; have <= NROUNDS; have++) {
			for (unsigned i = 0; i <= NROUNDS; i++)
				many[i] = (void *)(uintptr_t)(16 + 16 * i);
			memset(stacks, 0, sizeof(stacks));
			memset(out, 0, sizeof(out));
			load(h, 0, have);
			before = *h;
			want = have + n <= NROUNDS ? RSEQ_OK : RSEQ_MISS;
			ck_assert_int_eq(do_push_many(&place, many, n), want);
			if (want == RSEQ_OK) {
				ck_assert_mem_eq(stacks[0].mag.round + have,
				    many, n * sizeof(void *));
				ck_assert_uint_eq(*pushes_of(h), PUSHES - n);
				h->top -= n * sizeof(void *);
			}
			ck_assert_mem_eq(&before, h, sizeof(before));
			want = n <= have ? RSEQ_OK : RSEQ_MISS;
			ck_assert_int_eq(do_pop_many(&place, out, n), want);
			if (want == RSEQ_OK) {
				ck_assert_mem_eq(out,
				    stacks[0].mag.round + have - n,
				    n * sizeof(void *));
				h->top += n * sizeof(void *);
			}
			ck_assert_mem_eq(&before, h, sizeof(before));
		}
}
END_TEST

START_TEST(many_miss_a_header_that_is_claimed_closed_or_fresh)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	void *many[RSEQ_MANY];
	struct cpu_hot before;

	for (unsigned i = 0; i < RSEQ_MANY; i++)
		many[i] = (void *)(uintptr_t)(16 + 16 * i);
	for (int state = 0; state < 3; state++)
		for (unsigned n = 1; n <= RSEQ_MANY; n++) {
			load(h, 0, 4);
			if (state == 0) {
				h->top = CPU_CLAIMED;
			} else if (state == 1) {
				h->bottom = CPU_NO_BOTTOM;
				h->limit = 0;
			} else {
				h->top = h->bottom = h->limit = 0;
			}
			before = *h;
			ck_assert_int_eq(
			    do_pop_many(&place, many, n), RSEQ_MISS);
			ck_assert_int_eq(
			    do_push_many(&place, many, n), RSEQ_MISS);
			ck_assert_mem_eq(&before, h, sizeof(before));
		}
}
END_TEST

START_TEST(many_miss_for_the_newest_and_for_the_counter)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	void *many[2] = {pushed_third, pushed};

	load(h, 0, 0);
	ck_assert_int_eq(do_push(&place, pushed_third), RSEQ_OK);
	ck_assert_int_eq(do_push_many(&place, many, 2), RSEQ_MISS);
	ck_assert_int_eq(do_push(&place, pushed_between), RSEQ_OK);
	ck_assert_int_eq(do_push_many(&place, many, 2), RSEQ_MISS);
	many[0] = pushed;
	*pushes_of(h) = 1;
	ck_assert_int_eq(do_push_many(&place, many, 2), RSEQ_MISS);
	ck_assert_uint_eq(h->top, h->bottom + 2 * sizeof(void *));
	*pushes_of(h) = 2;
	ck_assert_int_eq(do_push_many(&place, many, 2), RSEQ_OK);
}
END_TEST

START_TEST(a_push_of_one_of_the_two_newest_misses)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	void *object;

	load(h, 0, 0);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_MISS);
	ck_assert_uint_eq(h->top, h->bottom + sizeof(void *));
	ck_assert_int_eq(do_push(&place, pushed_between), RSEQ_OK);
	ck_assert_int_eq(do_pop(&place, &object), RSEQ_OK);
	/*
	 * An object that was popped meanwhile may be pushed again: that is no
	 * second free.
	 */
	ck_assert_int_eq(do_push(&place, pushed_between), RSEQ_OK);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_MISS);
	ck_assert_int_eq(do_push_chunk(&place, pushed, 0), RSEQ_MISS);
	ck_assert_uint_eq(h->top, h->bottom + 2 * sizeof(void *));
	ck_assert_int_eq(do_push(&place, pushed_third), RSEQ_OK);
	ck_assert_int_eq(do_push(&place, pushed_between), RSEQ_MISS);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
}
END_TEST

START_TEST(a_claim_for_another_cpu_misses)
{
	struct rseq_place place = fake_place();
	struct cpu_hot *h = (void *)(blocks + AT);
	uintptr_t top = 42;

	load(h, 0, 3);
	area.rest[2] = 5;
	ck_assert_int_eq(rseq_claim(&place, h, 4, &top), RSEQ_MISS);
	ck_assert_uint_eq(top, 42);
	ck_assert_uint_eq(h->top, h->bottom + 3 * sizeof(void *));
}
END_TEST

START_TEST(every_descriptor_is_what_the_kernel_asks_for)
{
	uint32_t signature;

	if (!RSEQ_HAS_SECTIONS)
		return;
	ck_assert(&__start___rseq_cs[0] < &__stop___rseq_cs[0]);
	ck_assert_uint_eq((uintptr_t)__start___rseq_cs % 32, 0);
	for (const struct descriptor *d = __start___rseq_cs;
	     d < __stop___rseq_cs; d++) {
		ck_assert_uint_eq(d->version, 0);
		ck_assert_uint_eq(d->flags, 0);
		ck_assert_uint_gt(d->length, 0);
		/* 130 bytes without optimisation. */
		ck_assert_uint_lt(d->length, 160);
		ck_assert_uint_ge(d->aborted - d->start, d->length);
		memcpy(&signature, (char *)d->aborted - 4, 4);
		ck_assert_uint_eq(signature, RSEQ_SIGNATURE);
	}
}
END_TEST

START_TEST(a_mode_asked_for_is_had_or_none)
{
	enum rseq_owner wanted = (enum rseq_owner)_i;
	struct rseq_state state = {.owner = RSEQ_LIBC};
	struct rseq_place place = {.base = base()};

	if (!have_rseq())
		return;
	rseq_start(wanted, &state, &place);
	ck_assert_ptr_nonnull(state.reason);
	if (wanted == RSEQ_LIBC && state.owner == RSEQ_NONE)
		return; /* a kernel that is avoided */
	ck_assert_int_eq(state.owner, owner_expected(wanted));
	if (state.owner != RSEQ_LIBC)
		ck_assert_str_ne(state.reason, "");
	if (state.owner == RSEQ_NONE) {
		/* There is no area to have an offset. */
		ck_assert_int_eq(place.cs, 0);
		ck_assert_int_eq(place.index, 0);
		ck_assert_int_eq(rseq_thread_stop(&state), RSEQ_NOT_RUNNING);
		return;
	}
	ck_assert_uint_lt(rseq_cpu(&place), os_cpu_slots());
	load(header(&place), 0, 0);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
}
END_TEST

/*
 * The kernels whose sections are not atomic, and their neighbours.  The choice
 * is made before the kernel is asked for rseq, which an emulator lacks.
 */
START_TEST(a_kernel_that_aborts_no_preempted_section_is_avoided)
{
	static const struct {
		uint32_t version;
		bool is_reliable_on_aarch64;
	} kernel[] = {
	    {OS_VERSION(5, 10, 223), true},
	    {OS_VERSION(6, 18, 1023), true},
	    {OS_VERSION(6, 19, 0), false},
	    {OS_VERSION(6, 19, 6), false},
	    {OS_VERSION(7, 0, 0), false},
	    {OS_VERSION(7, 0, 13), false},
	    {OS_VERSION(7, 0, 14), true},
	    {OS_VERSION(7, 1, 0), true},
	};
	struct rseq_state state;
	struct rseq_place place = {.base = base()};
	const char *refusal = "does not abort preempted sections";

	hook_kernel_version = kernel[_i].version;
	rseq_start(RSEQ_LIBC, &state, &place);
#ifdef __aarch64__
	ck_assert(kernel[_i].is_reliable_on_aarch64 ==
		  (strstr(state.reason, refusal) == NULL));
	if (!kernel[_i].is_reliable_on_aarch64)
		ck_assert_int_eq(state.owner, RSEQ_NONE);
#else
	ck_assert_ptr_null(strstr(state.reason, refusal));
#endif
	/* The user answers for the kernel. */
	rseq_start(RSEQ_OWN, &state, &place);
	ck_assert_ptr_null(strstr(state.reason, refusal));
}
END_TEST

START_TEST(a_thread_stops_and_resumes)
{
	struct rseq_state state = {.owner = RSEQ_NONE};
	struct rseq_place place = {.base = base()};

	if (!have_rseq())
		return;
	rseq_start(_i == 0 ? RSEQ_LIBC : RSEQ_OWN, &state, &place);
	/* Without an area, place is not set. */
	ck_assert_int_ne(state.owner, RSEQ_NONE);
	for (int i = 0; i < 3; i++) {
		load(header(&place), 0, 0);
		ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
		ck_assert_int_eq(rseq_thread_stop(&state), RSEQ_STOPPED);
		ck_assert_int_eq(
		    do_push(&place, pushed_between), RSEQ_UNREGISTERED);
		ck_assert(!rseq_thread_start(&state));
		ck_assert_int_eq(rseq_thread_stop(&state), RSEQ_NOT_RUNNING);
		ck_assert_int_eq(
		    do_push(&place, pushed_between), RSEQ_UNREGISTERED);
		rseq_thread_resume(&state);
		ck_assert_uint_lt(rseq_cpu(&place), os_cpu_slots());
	}
	load(header(&place), 0, 0);
	ck_assert_int_eq(do_push(&place, pushed), RSEQ_OK);
}
END_TEST

/*
 * The child of a vfork made by clone(), because this function could not return
 * from libc's vfork().
 */
static int
look_at_area(void *held)
{
	*(bool *)held = rseq_is_held();
	return 0;
}

START_TEST(an_area_is_held_for_one_thread)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	struct rseq_place place = {0};
	bool held = true;
	int status;
	pid_t pid;

	if (!have_rseq())
		return;
	rseq_start(_i == 0 ? RSEQ_LIBC : RSEQ_OWN, &cpu_layer.rseq, &place);
	ck_assert(rseq_is_held());
	pid = clone(look_at_area, stack + sizeof(stack),
	    CLONE_VM | CLONE_VFORK | SIGCHLD, &held);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(!held);
	ck_assert(rseq_is_held());
	ck_assert_int_eq(rseq_thread_stop(&cpu_layer.rseq), RSEQ_STOPPED);
	ck_assert(!rseq_is_held());
	/* Asking registers nothing. */
	ck_assert(rseq_is_allowed(&cpu_layer.rseq));
	ck_assert(!rseq_is_held());
	rseq_thread_resume(&cpu_layer.rseq);
	ck_assert(rseq_is_held());
}
END_TEST

static void *
stop_at_once(void *arg)
{
	bool *ok = arg;

	*ok = rseq_thread_stop(&cpu_layer.rseq) == RSEQ_STOPPED &&
	      !rseq_thread_start(&cpu_layer.rseq) && !rseq_is_held();
	rseq_thread_resume(&cpu_layer.rseq);
	*ok &= rseq_is_held();
	return NULL;
}

START_TEST(a_thread_that_never_missed_stops_too)
{
	struct rseq_place place = {0};
	pthread_t thread;
	bool ok = false;

	if (!have_rseq())
		return;
	rseq_start(_i == 0 ? RSEQ_LIBC : RSEQ_OWN, &cpu_layer.rseq, &place);
	ck_assert_int_eq(pthread_create(&thread, NULL, stop_at_once, &ok), 0);
	pthread_join(thread, NULL);
	ck_assert(ok);
}
END_TEST

/* The kernel restarts a section on a signal only if the area is registered. */
START_TEST(an_own_area_is_known_to_the_kernel)
{
	if (!have_rseq())
		return;
	rseq_start(RSEQ_OWN, &cpu_layer.rseq, &live_place);
	interrupt_everywhere(PUSH, true);
	interrupt_everywhere(POP, true);
}
END_TEST

Suite *
rseq_suite(void)
{
	Suite *suite = suite_create("rseq");
	TCase *tcase = tcase_create("rseq");

	tcase_add_checked_fixture(tcase, setup, NULL);
	tcase_set_timeout(tcase, 60);
	suite_add_tcase(suite, tcase);
	tcase_add_loop_test(tcase, a_mode_asked_for_is_had_or_none, 0, 3);
	tcase_add_loop_test(
	    tcase, a_kernel_that_aborts_no_preempted_section_is_avoided, 0, 8);
	if (!RSEQ_HAS_SECTIONS)
		return suite;
	tcase_add_test(tcase, a_pop_interrupted_anywhere_happens_once);
	tcase_add_test(tcase, a_push_interrupted_anywhere_happens_once);
	tcase_add_test(
	    tcase, a_push_of_a_chunk_interrupted_anywhere_happens_once);
	tcase_add_test(tcase, a_claim_interrupted_anywhere_happens_once);
	tcase_add_test(tcase, a_pop_of_many_interrupted_anywhere_happens_once);
	tcase_add_test(tcase, a_push_of_many_interrupted_anywhere_happens_once);
	tcase_add_test(tcase, an_own_area_is_known_to_the_kernel);
	tcase_add_loop_test(tcase,
	    a_move_to_another_cpu_before_any_instruction_is_noticed, POP,
	    CLAIM + 1);
	tcase_add_test(tcase, of_the_area_only_rseq_cs_is_written);
	tcase_add_test(
	    tcase, each_operation_works_on_the_header_of_its_cpu_number);
	tcase_add_test(tcase, an_area_without_a_cpu_is_left_alone);
	tcase_add_test(tcase, a_pop_of_no_rounds_misses);
	tcase_add_test(tcase, a_push_without_room_misses);
	tcase_add_test(tcase, a_push_that_is_no_chunk_misses);
	tcase_add_test(
	    tcase, when_the_counter_has_run_out_pushes_miss_and_pops_do_not);
	tcase_add_test(tcase, the_last_room_and_the_last_round_can_be_had);
	tcase_add_test(tcase, many_are_moved_all_or_none);
	tcase_add_test(
	    tcase, many_miss_a_header_that_is_claimed_closed_or_fresh);
	tcase_add_test(tcase, many_miss_for_the_newest_and_for_the_counter);
	tcase_add_test(tcase, a_push_of_one_of_the_two_newest_misses);
	tcase_add_test(tcase, a_claim_for_another_cpu_misses);
	tcase_add_test(tcase, every_descriptor_is_what_the_kernel_asks_for);
	tcase_add_loop_test(tcase, a_thread_stops_and_resumes, 0, 2);
	tcase_add_loop_test(tcase, an_area_is_held_for_one_thread, 0, 2);
	tcase_add_loop_test(tcase, a_thread_that_never_missed_stops_too, 0, 2);
	return suite;
}
