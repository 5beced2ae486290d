/*
 * panic_report.c - the report of misuse and of internal errors, before abort
 *
 * Misuse that malloc and the caches find without UMEM_DEBUG is reported by one
 * line (umem/cache/misuse.c).  The functions here add all that is known: the
 * block, the program with its process and thread, the stack of the call, and
 * the stacks of the block's allocation and free if it is a sample.
 *
 * Locking: the block is looked up before the report begins, because the look-up
 * can take the lock of a slab.  No caller of panic_about() holds such a lock.
 */
#include "umem/base/large.h"
#include "umem/base/page_map.h"
#include "umem/cache/cache.h"
#include "umem/profile/fault.h"
#include "umem/debug/report.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "umem/profile/sample.h"

/* The block that contains an address. */
struct block {
	const struct sample *sample; /* NULL: it is no sample */
	uintptr_t start;             /* 0: there is no block */
	size_t bytes;                /* the largest size that it can have */
	const char *cache;           /* its name, or NULL */
};

static void
block_find_in_slab(struct block *block, struct slab *slab, const void *p)
{
	struct umem_cache *cache =
	    container_of(slab->store, struct umem_cache, slabs);
	unsigned i = 0;

	if (slab_find_chunk(&cache->slabs, (void *)(uintptr_t)p, &slab, &i) ==
	    SLAB_FOREIGN)
		return;
	block->start = slab->first + i * cache->slabs.layout.chunk;
	block->bytes = cache->slabs.layout.chunk;
	block->cache = cache->name;
}

static struct block
block_find(const void *p)
{
	struct block block = {.sample = sample_near(p)};
	void *owner = page_map_owner(p);
	const void *large = large_containing(p);

	if (block.sample != NULL) {
		block.start = (uintptr_t)block.sample->block;
		block.bytes = block.sample->size;
	} else if (large != NULL) {
		block.start = (uintptr_t)large;
		block.bytes = page_map_large_bytes(page_map_owner(large));
	} else if (owner != NULL && page_map_large_bytes(owner) == 0) {
		block_find_in_slab(&block, owner, p);
	}
	return block;
}

static void
say_block(const struct block *block, const void *p)
{
	uintptr_t at = (uintptr_t)p;
	const char *most = block->sample != NULL ? "" : "at most ";
	const char *of = block->cache != NULL ? ", of cache " : "";
	const char *cache = block->cache != NULL ? block->cache : "";

	if (at == block->start)
		report_line("%p is a block of %s%zu bytes%s%s", p, most,
		    block->bytes, of, cache);
	else if (at > block->start)
		report_line("%p is at offset %zu of the block at %p of %s%zu "
			    "bytes%s%s",
		    p, at - block->start, (void *)block->start, most,
		    block->bytes, of, cache);
}

/* Describes an address outside all blocks. */
static void
say_address(const void *p)
{
	const char *object = symbol_object(p);

	if (stack_contains(p))
		report_line("%p is on the stack of this thread", p);
	else if (object != NULL)
		report_line("%p is a variable or code of %s", p, object);
}

static bool
panic_report(const struct message *m, const void *p)
{
	struct block block = {.start = 0};

	if (p != NULL)
		block = block_find(p);
	if (!report_begin("umem: "))
		return false;
	report_add(m);
	if (block.start != 0)
		say_block(&block, p);
	else if (p != NULL)
		say_address(p);
	report_where();
	report_send();
	report_stack(/* pc */ 0);
	if (block.sample != NULL)
		sample_report_callers(block.sample);
	else if (page_map_unit(p) < page_map.units)
		report_no_record();
	report_crash_command();
	report_end();
	return true;
}

const struct panic_hooks panic_hooks = {
    .line = report_sink, .report = panic_report, .explain = fault_explain};
