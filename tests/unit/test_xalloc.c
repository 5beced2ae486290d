/*
 * test_xalloc.c - constraints and policies, also against a simple model
 *
 * The model has one byte per quantum of one or more spans, and finds its
 * answers by trying every place.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmem/arena.h"
#include "vmem/arenas.h"

#define P(x) ((void *)(uintptr_t)(x))
#define A(p) ((uintptr_t)(p))

static vmem_t *
arena_make(uintptr_t base, size_t size, size_t quantum)
{
	vmem_t *arena = vmem_create(
	    "test", P(base), size, quantum, NULL, NULL, NULL, 0, VM_SLEEP);

	ck_assert_ptr_nonnull(arena);
	return arena;
}

static uintptr_t
xalloc(vmem_t *arena, size_t size, size_t align, size_t phase, size_t nocross,
    uintptr_t min, uintptr_t max)
{
	uintptr_t at = A(vmem_xalloc(
	    arena, size, align, phase, nocross, P(min), P(max), VM_SLEEP));

	ck_assert(arena_check(arena));
	return at;
}

START_TEST(alignment_and_phase_are_met)
{
	vmem_t *arena = arena_make(10, 10000, 1);
	uintptr_t at = xalloc(arena, 3, 256, 0, 0, 0, 0);

	ck_assert_uint_eq(at, 256);
	at = xalloc(arena, 3, 256, 17, 0, 0, 0);
	ck_assert_uint_eq(at % 256, 17);
	/* The space before the allocated segment stays free. */
	ck_assert_uint_eq(vmem_size(arena, VMEM_FREE), 10000 - 6);
	ck_assert_ptr_nonnull(vmem_alloc(arena, 1, VM_SLEEP));
}
END_TEST

START_TEST(no_multiple_of_nocross_lies_inside)
{
	vmem_t *arena = arena_make(4096 - 100, 100000, 1);

	ck_assert_uint_eq(xalloc(arena, 200, 0, 0, 4096, 0, 0), 4096);
	ck_assert_uint_eq(xalloc(arena, 100, 0, 0, 4096, 0, 0), 4096 - 100);
	/* The phase moves the segment behind the boundary. */
	uintptr_t at = xalloc(arena, 4000, 64, 32, 4096, 0, 0);

	ck_assert_uint_eq(at % 64, 32);
	ck_assert_uint_eq(at / 4096, (at + 3999) / 4096);
	/* align is greater than nocross. */
	at = xalloc(arena, 16, 256, 16, 32, 0, 0);
	ck_assert_uint_eq(at % 256, 16);
}
END_TEST

START_TEST(min_and_max_bound_the_segment)
{
	vmem_t *arena = arena_make(100, 1000, 1);

	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 500, 510), 500);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 500, 510), 0);
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 500, 520), 510);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 0, 110), 100);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 0, 110), 0);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 1090, 0), 1090);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 1090, 0), 0);
	ck_assert_uint_eq(xalloc(arena, 10, 0, 0, 0, 5000, 6000), 0);
}
END_TEST

START_TEST(the_last_integer_can_be_allocated)
{
	uintptr_t base = UINTPTR_MAX - 4095;
	vmem_t *arena = arena_make(base, 4096, 1);

	ck_assert_uint_eq(
	    xalloc(arena, 1, 0, 0, 0, UINTPTR_MAX, 0), UINTPTR_MAX);
	ck_assert_uint_eq(xalloc(arena, 1, 0, 0, 0, UINTPTR_MAX, 0), 0);
	ck_assert_uint_eq(xalloc(arena, 1, 1 << 20, 0, 0, 0, 0), 0);
	ck_assert_uint_eq(xalloc(arena, 1, 4096, 0, 0, 0, 0), base);
	ck_assert_uint_eq(xalloc(arena, 1, 0, 0, 0, 0, UINTPTR_MAX), base + 1);
	ck_assert_uint_eq(xalloc(arena, 5000, 0, 0, 0, 0, 0), 0);
	ck_assert_uint_eq(xalloc(arena, SIZE_MAX, 0, 0, 0, 0, 0), 0);
	vmem_xfree(arena, P(UINTPTR_MAX), 1);
	vmem_xfree(arena, P(base), 1);
	vmem_xfree(arena, P(base + 1), 1);
	ck_assert_uint_eq(xalloc(arena, 4096, 0, 0, 0, 0, 0), base);
	ck_assert(arena_check(arena));
}
END_TEST

START_TEST(all_integers_but_0_fit_in_one_span)
{
	vmem_t *arena = arena_make(1, UINTPTR_MAX, 1);

	ck_assert_uint_eq(xalloc(arena, 1, 0, 0, 0, 0, 0), 1);
	ck_assert_uint_eq(
	    xalloc(arena, 1, (size_t)1 << 63, 0, 0, 0, 0), (uintptr_t)1 << 63);
	uintptr_t at = xalloc(
	    arena, (size_t)1 << 62, (size_t)1 << 62, 0, (size_t)1 << 62, 0, 0);

	ck_assert_uint_ne(at, 0);
	ck_assert_uint_eq(at % ((uintptr_t)1 << 62), 0);
	ck_assert_uint_eq(vmem_size(arena, VMEM_ALLOC | VMEM_FREE), SIZE_MAX);
	ck_assert(vmem_contains(arena, P(1), SIZE_MAX));
}
END_TEST

START_TEST(wrong_arguments_are_einval)
{
	vmem_t *arena = arena_make(4096, 1 << 20, 64);
	static const struct {
		size_t size, align, phase, nocross;
		uintptr_t min, max;
	} bad[] = {
	    {0, 0, 0, 0, 0, 0},
	    {64, 100, 0, 0, 0, 0},   /* align is no power of two */
	    {64, 128, 128, 0, 0, 0}, /* phase is not below align */
	    {64, 0, 64, 0, 0, 0},
	    {64, 128, 32, 0, 0, 0},    /* phase is no multiple of the quantum */
	    {64, 0, 0, 100, 0, 0},     /* nocross is no power of two */
	    {256, 0, 0, 128, 0, 0},    /* size is above nocross */
	    {128, 128, 64, 128, 0, 0}, /* also with a phase */
	    {128, 256, 192, 128, 0, 0},
	    {64, 0, 0, 0, 8192, 8192},
	    {64, 0, 0, 0, 8192, 4096},
	};

	for (unsigned i = 0; i < array_size(bad); i++) {
		errno = 0;
		uintptr_t at = xalloc(arena, bad[i].size, bad[i].align,
		    bad[i].phase, bad[i].nocross, bad[i].min, bad[i].max);

		ck_assert_msg(at == 0, "row %u", i);
		ck_assert_int_eq(errno, EINVAL);
	}
	errno = 0;
	ck_assert_ptr_null(vmem_xalloc(
	    arena, 64, 0, 0, 0, NULL, NULL, VM_BESTFIT | VM_FIRSTFIT));
	ck_assert_int_eq(errno, EINVAL);
	/* Any segment satisfies an alignment below the quantum. */
	ck_assert_uint_ne(xalloc(arena, 64, 8, 0, 0, 0, 0), 0);
}
END_TEST

/* ---- the model ---- */

#define UNITS 400

struct model {
	vmem_t *arena;
	uintptr_t base;
	size_t quantum;
	uint8_t used[UNITS];   /* 0 free, 1 allocated, 2 in no span */
	uint8_t border[UNITS]; /* a span starts here */
	struct {
		uintptr_t at;
		size_t size; /* as requested */
	} live[UNITS];
	unsigned nlive;
	uintptr_t next_at; /* where next fit continues */
	uint64_t seed;
};

struct want {
	size_t size, align, phase, nocross;
	uintptr_t min, max;
	int policy;
};

static uint64_t
dice(struct model *m, uint64_t n)
{
	m->seed ^= m->seed << 13;
	m->seed ^= m->seed >> 7;
	m->seed ^= m->seed << 17;
	return (m->seed >> 11) % n;
}

static size_t
quanta(const struct model *m, size_t size)
{
	return (size + m->quantum - 1) / m->quantum;
}

/* Number of free units from unit i on, within one span. */
static size_t
run(const struct model *m, size_t i)
{
	size_t n = 0;

	while (i + n < UNITS && m->used[i + n] == 0 &&
	       (n == 0 || !m->border[i + n]))
		n++;
	return n;
}

static bool
suits(const struct model *m, const struct want *w, uintptr_t at, size_t size)
{
	size_t align = w->align > m->quantum ? w->align : m->quantum;

	if (at % align != w->phase)
		return false;
	if (w->nocross != 0 && at / w->nocross != (at + size - 1) / w->nocross)
		return false;
	if (at < w->min)
		return false;
	return w->max == 0 || at + (size - 1) <= w->max - 1;
}

/* Can the request be satisfied at unit i? */
static bool
possible(const struct model *m, const struct want *w, size_t i)
{
	size_t n = quanta(m, w->size);

	return run(m, i) >= n &&
	       suits(m, w, m->base + i * m->quantum, n * m->quantum);
}

/* First unit of the free run around unit i. */
static size_t
hole_of(const struct model *m, size_t i)
{
	while (i > 0 && !m->border[i] && m->used[i - 1] == 0)
		i--;
	return i;
}

/*
 * The unit that the policy prescribes, or UNITS if none is possible.  For
 * instant fit any possible unit is right.
 */
static size_t
expected(const struct model *m, const struct want *w)
{
	size_t best = UNITS, best_size = SIZE_MAX;
	size_t behind = UNITS;

	for (size_t i = 0; i < UNITS; i++) {
		if (!possible(m, w, i))
			continue;
		size_t size = run(m, hole_of(m, i));

		if (best == UNITS ||
		    (w->policy == VM_BESTFIT && size < best_size)) {
			best = i;
			best_size = size;
		}
		if (behind == UNITS && m->next_at != 0 &&
		    m->base + i * m->quantum >= m->next_at)
			behind = i;
	}
	return w->policy == VM_NEXTFIT && behind != UNITS ? behind : best;
}

static void
model_alloc(struct model *m)
{
	static const int policies[] = {0, VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT};
	struct want w = {.policy = policies[dice(m, 4)]};
	bool plain = dice(m, 2) == 0;

	w.size = 1 + dice(m, (dice(m, 4) == 0 ? 40 : 8) * m->quantum);
	if (!plain) {
		w.align = m->quantum << dice(m, 5);
		if (dice(m, 2) == 0)
			w.phase = dice(m, w.align / m->quantum) * m->quantum;
		if (dice(m, 3) == 0)
			w.nocross = m->quantum << dice(m, 6);
		if (dice(m, 3) == 0)
			w.min = m->base + dice(m, UNITS) * m->quantum;
		if (dice(m, 3) == 0)
			w.max = m->base + dice(m, UNITS * m->quantum);
	}

	bool valid = w.max == 0 || w.max > w.min;

	if (w.nocross != 0)
		valid = valid && (w.phase & (w.nocross - 1)) +
					 quanta(m, w.size) * m->quantum <=
				     w.nocross;

	size_t want = expected(m, &w);

	errno = 0;
	uintptr_t at = A(plain ? vmem_alloc(m->arena, w.size, w.policy)
			       : vmem_xalloc(m->arena, w.size, w.align, w.phase,
				     w.nocross, P(w.min), P(w.max), w.policy));

	if (!valid) {
		ck_assert_uint_eq(at, 0);
		ck_assert_int_eq(errno, EINVAL);
		return;
	}
	if (want == UNITS) {
		ck_assert_uint_eq(at, 0);
		ck_assert_int_eq(errno, ENOMEM);
		return;
	}
	ck_assert_uint_ne(at, 0);
	ck_assert_int_eq(errno, 0);

	size_t i = (at - m->base) / m->quantum;

	ck_assert(possible(m, &w, i));
	if (w.policy == VM_FIRSTFIT || w.policy == VM_NEXTFIT)
		ck_assert_uint_eq(i, want);
	if (w.policy == VM_BESTFIT)
		ck_assert_uint_eq(
		    run(m, hole_of(m, i)), run(m, hole_of(m, want)));
	if (w.policy == VM_NEXTFIT)
		m->next_at = at + quanta(m, w.size) * m->quantum;
	memset(&m->used[i], 1, quanta(m, w.size));
	m->live[m->nlive].at = at;
	m->live[m->nlive++].size = w.size;
}

static void
model_free(struct model *m)
{
	if (m->nlive == 0)
		return;
	size_t k = dice(m, m->nlive);
	uintptr_t at = m->live[k].at;
	size_t n = quanta(m, m->live[k].size);

	vmem_xfree(m->arena, P(at), m->live[k].size);
	memset(&m->used[(at - m->base) / m->quantum], 0, n);
	m->live[k] = m->live[--m->nlive];
}

static void
model_resize(struct model *m)
{
	if (m->nlive == 0)
		return;
	size_t k = dice(m, m->nlive);
	uintptr_t at = m->live[k].at;
	size_t old = m->live[k].size;
	size_t new = 1 + dice(m, 12 * m->quantum);
	size_t end = (at - m->base) / m->quantum + quanta(m, old);
	size_t more = quanta(m, new) - quanta(m, old);

	if (new > old) {
		bool can = more == 0 || (end < UNITS && !m->border[end] &&
					    run(m, end) >= more);

		ck_assert(vmem_grow(m->arena, P(at), old, new) == can);
		if (!can)
			return;
		memset(&m->used[end], 1, more);
	} else {
		ck_assert(vmem_shrink(m->arena, P(at), old, new));
		memset(&m->used[end + more], 0, -more);
	}
	m->live[k].size = new;
}

static void
model_add(struct model *m, size_t from, size_t n)
{
	bool taken = false;

	for (size_t i = from; i < from + n; i++)
		taken |= m->used[i] != 2;

	errno = 0;
	void *span = P(m->base + from * m->quantum);
	void *got = vmem_add(m->arena, span, n * m->quantum, VM_SLEEP);

	ck_assert_ptr_eq(got, taken ? NULL : span);
	ck_assert_int_eq(errno, taken ? EINVAL : 0);
	if (taken)
		return;
	memset(&m->used[from], 0, n);
	m->border[from] = 1;
	if (from + n < UNITS)
		m->border[from + n] = 1;
}

static void
model_verify(const struct model *m)
{
	size_t nfree = 0, nused = 0;

	for (size_t i = 0; i < UNITS; i++) {
		nfree += m->used[i] == 0;
		nused += m->used[i] == 1;
	}
	ck_assert(arena_check(m->arena));
	ck_assert_uint_eq(vmem_size(m->arena, VMEM_ALLOC), nused * m->quantum);
	ck_assert_uint_eq(vmem_size(m->arena, VMEM_FREE), nfree * m->quantum);
}

/* Arenas near both ends of the integers, with small and large quanta. */
static const struct {
	uintptr_t base;
	size_t quantum;
} places[] = {
    {1, 1},
    {64, 64},
    {4096, 4096},
    {0x123456000, 16},
    {UINTPTR_MAX - UNITS + 1, 1},
    {-(uintptr_t)(UNITS * 4096), 4096},
    {((uintptr_t)1 << 63) - UNITS * 16 / 2, 16},
};

#define MODEL_SEEDS 4

START_TEST(arenas_do_what_a_simple_model_does)
{
	unsigned place = (unsigned)_i / MODEL_SEEDS;
	struct model m = {.base = places[place].base,
	    .quantum = places[place].quantum,
	    .seed = 1234567 + 977 * (uint64_t)_i};

	memset(m.used, 2, sizeof(m.used));
	m.arena = vmem_create(
	    "model", NULL, 0, m.quantum, NULL, NULL, NULL, 0, VM_SLEEP);
	model_add(&m, 100, 60);
	for (int step = 0; step < 8000; step++) {
		/*
		 * Alternate between phases with more allocations and phases
		 * with more frees.
		 */
		uint64_t bias = step / 500 % 2 == 0 ? 6 : 4;

		if (dice(&m, 400) == 0) {
			size_t from = dice(&m, UNITS - 80);

			model_add(&m, from, 1 + dice(&m, 80));
		} else if (dice(&m, 10) == 0) {
			model_resize(&m);
		} else if (dice(&m, 10) < bias) {
			model_alloc(&m);
		} else {
			model_free(&m);
		}
		model_verify(&m);
	}
	while (m.nlive > 0)
		model_free(&m);
	model_verify(&m);
	vmem_destroy(m.arena);
}
END_TEST

Suite *
xalloc_suite(void)
{
	Suite *suite = suite_create("xalloc");
	TCase *tc = tcase_create("xalloc");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, alignment_and_phase_are_met);
	tcase_add_test(tc, no_multiple_of_nocross_lies_inside);
	tcase_add_test(tc, min_and_max_bound_the_segment);
	tcase_add_test(tc, the_last_integer_can_be_allocated);
	tcase_add_test(tc, all_integers_but_0_fit_in_one_span);
	tcase_add_test(tc, wrong_arguments_are_einval);
	tcase_add_loop_test(tc, arenas_do_what_a_simple_model_does, 0,
	    array_size(places) * MODEL_SEEDS);
	suite_add_tcase(suite, tc);
	return suite;
}
