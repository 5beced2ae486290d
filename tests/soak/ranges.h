/*
 * ranges.h - segments of arenas: no two overlap
 *
 * One arena is of identifiers, with a table of the allocated ones; the other
 * imports memory from the heap, and its segments are blocks with contents.
 */
#ifndef TESTS_SOAK_RANGES_H
#define TESTS_SOAK_RANGES_H

#include "tests/soak/objects.h"

enum {
	NIDS = 1 << 16,
	NSEGMENTS = 12
};

struct segment {
	uintptr_t at;
	size_t size;
	bool by_xalloc;
	struct block block; /* in memory_arena */
};

static vmem_t *id_arena;
static uint8_t ids[NIDS]; /* [atomic] */

static void
ids_set(uintptr_t at, size_t size, uint8_t value)
{
	must(at >= 1 && at + size <= NIDS);
	for (; size > 0; size--, at++)
		if (__atomic_exchange_n(&ids[at], value, __ATOMIC_RELAXED) ==
		    value)
			differs("identifier %zu is %s twice", (size_t)at,
			    value ? "allocated" : "freed");
}

static void
segment_free(struct actor *a, struct segment *s)
{
	void *at = (void *)s->at;

	a->ops++;
	if (s->block.origin != NOTHING) {
		check_block(&s->block, "segment");
		s->block.origin = NOTHING;
		a->bytes -= s->size;
		vmem_free(memory_arena, at, s->size);
	} else {
		ids_set(s->at, s->size, 0);
		if (s->by_xalloc)
			vmem_xfree(id_arena, at, s->size);
		else
			vmem_free(id_arena, at, s->size);
	}
	s->size = 0;
}

static void
segment_of_memory(struct actor *a, struct segment *s)
{
	unsigned mark = scarce_mark();
	size_t size = (1 + draw(a, draw(a, 8) ? 4 : 64)) * 4096;
	void *at = vmem_alloc(memory_arena, size, VM_NOSLEEP);

	if (at == NULL) {
		failed(mark, "vmem_alloc()", size);
		return;
	}
	must(is_aligned(at, 4096));
	s->at = (uintptr_t)at;
	s->size = size;
	s->block = (struct block){at, size, next_random(&a->random), MALLOC, 0};
	a->ops++;
	a->bytes += size;
	fill_from(&s->block, 0);
}

/* The arena has few of all in use, so it has room for each. */
static void
segment_of_ids(struct actor *a, struct segment *s)
{
	static const int policy[] = {0, VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT};
	int flags = VM_NOSLEEP | policy[draw(a, 4)];
	unsigned mark = scarce_mark();
	size_t size = 1 + draw(a, draw(a, 4) ? 8 : 200);
	size_t align = (size_t)1 << draw(a, 6);
	uintptr_t at;

	s->by_xalloc = draw(a, 4) == 0;
	at = s->by_xalloc ? (uintptr_t)vmem_xalloc(id_arena, size, align, 0, 0,
				(void *)1, (void *)(uintptr_t)NIDS, flags)
			  : (uintptr_t)vmem_alloc(id_arena, size, flags);
	if (at == 0) {
		failed(mark, "vmem_alloc() of identifiers", size);
		return;
	}
	must(!s->by_xalloc || at % align == 0);
	ids_set(at, size, 1);
	s->at = at;
	s->size = size;
	a->ops++;
}

static inline void
ranges_step(struct actor *a, struct segment *table)
{
	struct segment *s = &table[draw(a, NSEGMENTS)];

	if (s->size != 0)
		segment_free(a, s);
	else if (draw(a, 4) == 0)
		segment_of_memory(a, s);
	else
		segment_of_ids(a, s);
}

static inline void
ranges_free(struct actor *a, struct segment *table)
{
	for (int i = 0; i < NSEGMENTS; i++)
		if (table[i].size != 0)
			segment_free(a, &table[i]);
}

static void
ranges_make(void)
{
	vmem_alloc_t *import;
	vmem_free_t *release;
	vmem_t *heap = vmem_heap_arena(&import, &release);

	id_arena = vmem_create("soak_ids", (void *)1, NIDS - 1, 1, NULL, NULL,
	    NULL, 4, VM_NOSLEEP | VMC_IDENTIFIER);
	memory_arena = vmem_create("soak_memory", NULL, 0, 4096, import,
	    release, heap, 8 * 4096, VM_NOSLEEP);
	must(id_arena != NULL && memory_arena != NULL);
}

static void
ranges_end(void)
{
	vmem_destroy(memory_arena);
	vmem_destroy(id_arena);
}

#endif
