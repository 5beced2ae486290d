/*
 * whatis.c - umem whatis: explain an address
 *
 * The search examines objects first, allocated or free; then freed objects
 * with unmapped memory; then segments of arenas, the innermost arena first;
 * then mappings of the library and of the process.
 */
#include <limits.h>
#include <stdlib.h>

#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/commands.h"
#include "tools/inspect/commands/whatis.h"
#include "tools/inspect/model/audit.h"
#include "tools/inspect/model/model.h"
#include "tools/inspect/model/roots.h"
#include "tools/inspect/model/snapshot.h"
#include "vmem/vmem.h"

/* Addresses below are those of a null pointer plus a small offset. */
#define NULL_BYTES 4096

/* No program has addresses as high as this one, which is that of x86-64. */
#define ADDRESS_END ((uint64_t)1 << 56)

enum state {
	ALLOCATED,
	IN_MAGAZINE,
	IN_QUARANTINE,
	IN_RESERVE,
	WAITING,
	FREE,
	FREED /* and unmapped */
};

static const char *const state_words[] = {"allocated", "in a magazine",
    "in quarantine", "in the reserve", "freed, waits for a grace period",
    "free", "freed"};

static_assert(array_size(state_words) == FREED + 1, "a word for each state");

static enum state
chunk_state(struct model *model, const struct cache *c, const struct slab *slab,
    unsigned i, const struct domain *domain)
{
	const uint64_t *slot;
	uint64_t n;

	assert(!bit_get(slab->live, i) || !bit_get(slab->free, i));
	if (bit_get(slab->live, i))
		return ALLOCATED;
	if (bit_get(slab->free, i))
		return FREE;
	if (domain != NULL)
		return WAITING;
	n = layout_get(model->layout, c->record, L_CACHE_QUARANTINE_SLOTS);
	slot = target_array(model->target,
	    layout_get(model->layout, c->record, L_CACHE_QUARANTINE), n);
	while (slot != NULL && n-- > 0)
		if (slot[n] == slab_chunk_at(model, slab, i))
			return IN_QUARANTINE;
	return c->has_magazines ? IN_MAGAZINE : IN_RESERVE;
}

/* Begins an object of JSON about an address in the block at start. */
static void
json_begin(uint64_t at, const char *kind, uint64_t start, uint64_t size)
{
	json_open(NULL, '{');
	json_address("address", at);
	json_text("kind", kind);
	json_address("buffer", start);
	json_number("size", size);
}

/* A block or object that was found at an address. */
struct found {
	const char *kind;
	enum state state;
	uint64_t start, size;
	const char *size_text;       /* ", 65536 bytes", or empty */
	const char *cache;           /* its name */
	uint64_t slab;               /* 0: none */
	const struct domain *domain; /* of a waiting one */
	bool has_record;
	struct audit audit; /* of has_record */
};

/* Returns the words after "freed from CACHE". */
static const char *
freed_words(struct model *model, enum state state, const struct domain *domain)
{
	assert(state != WAITING || domain != NULL);
	if (state == WAITING)
		return xprint(" (waits for a grace period of %s)",
		    model_flavour(model, domain));
	return state > ALLOCATED && state < WAITING
		   ? xprint(" (%s)", state_words[state])
		   : "";
}

static void
say_found(
    struct model *model, uint64_t at, const struct found *found, bool stack)
{
	json_begin(at, found->kind, found->start, found->size);
	json_text("state", state_words[found->state]);
	if (found->state == WAITING)
		json_text("flavour", model_flavour(model, found->domain));
	json_text("cache", found->cache);
	if (found->slab != 0)
		json_address("slab", found->slab);
	plain_print("%lx is %lx+0x%lx, ", at, found->start, at - found->start);
	if (found->has_record)
		plain_print("bufctl %lx ", found->audit.at);
	plain_print("%s from %s%s%s\n",
	    found->state == ALLOCATED ? "allocated" : "freed", found->cache,
	    found->size_text, freed_words(model, found->state, found->domain));
	if (found->has_record && stack)
		audit_say_transactions(model, &found->audit);
	json_close();
}

static void
say_chunk(
    struct model *model, uint64_t at, const struct block *block, bool stack)
{
	const struct cache *c = &model->caches[block->slab->cache];
	struct found found = {.kind = "object",
	    .start = block->start,
	    .size = c->bufsize,
	    .size_text = "",
	    .cache = c->name,
	    .slab = block->slab->at,
	    .domain = model_waits_for(model, block->start)};

	found.state =
	    chunk_state(model, c, block->slab, block->chunk, found.domain);
	found.has_record =
	    audit_of_chunk(model, block->slab, block->chunk, &found.audit);
	say_found(model, at, &found, stack);
}

/* Prints the free of a buffer with unmapped memory. */
static bool
say_freed(struct model *model, uint64_t at, bool stack)
{
	struct found found = {
	    .state = FREED, .size_text = "", .has_record = true};

	if (!audit_of_freed(model, at, &found.audit))
		return false;
	found.kind = found.audit.slab != 0 ? "object" : "large block";
	found.start = found.audit.addr;
	found.size = found.audit.size;
	found.cache = audit_cache_name(model, &found.audit);
	say_found(model, at, &found, stack);
	return true;
}

static void
say_large(
    struct model *model, uint64_t at, const struct block *block, bool stack)
{
	struct found found = {.kind = "large block",
	    .start = block->start,
	    .size = block->bytes,
	    .size_text = xprint(", %lu bytes", block->bytes),
	    .cache = "umem_oversize",
	    .domain = block->large->waits ? model_waits_for(model, block->start)
					  : NULL};

	found.state = found.domain != NULL ? WAITING : ALLOCATED;
	found.has_record = audit_of_large(model, block->large, &found.audit);
	say_found(model, at, &found, stack);
}

static bool
is_in_buffer(struct model *model, uint64_t at)
{
	struct block block;

	return model_find(model, at, &block) && !block.between;
}

static bool
say_object(struct model *model, uint64_t at, bool stack)
{
	struct block block;

	if (!model_find(model, at, &block))
		return false;
	assert((block.large != NULL) != (block.slab != NULL));
	if (block.large != NULL)
		say_large(model, at, &block, stack);
	else if (block.between && json_wanted)
		return false;
	else if (block.between)
		printf("%lx is in slab %lx of %s, in no buffer\n", at,
		    block.slab->at, model->caches[block.slab->cache].name);
	else
		say_chunk(model, at, &block, stack);
	return true;
}

static void
say_segment(uint64_t at, const struct arena *a, const struct segment *s)
{
	bool allocated = s->type == VMEM_ALLOC;

	assert(at - s->start < s->size);
	json_begin(at, "segment", s->start, s->size);
	json_text("state", allocated ? "allocated" : "free");
	json_address("segment", s->at);
	json_text("arena", a->name);
	json_close();
	plain_print("%lx is %lx+0x%lx (vmem_seg %lx) %s %s vmem arena\n", at,
	    s->start, at - s->start, s->at, allocated ? "from" : "freed from",
	    a->name);
}

/* Prints segments of arenas, each importing arena before its source. */
static bool
say_segments(struct model *model, uint64_t at, bool all)
{
	bool found = false;

	for (size_t i = model->narenas; i-- > 0 && (all || !found);) {
		const struct arena *a = &model->arenas[i];
		size_t n;
		struct segment *segments = model_segments(model, a, &n);

		for (size_t j = 0; j < n; j++)
			if ((segments[j].type == VMEM_ALLOC ||
				segments[j].type == VMEM_FREE) &&
			    at - segments[j].start < segments[j].size) {
				say_segment(at, a, &segments[j]);
				found = true;
			}
		free(segments);
	}
	return found;
}

static bool
say_mapping(struct model *model, uint64_t at)
{
	const struct mapping *m = target_mapping(model->target, at);
	const char *what = NULL;
	int tid = m == NULL ? 0 : target_stack_of(model->target, m);

	if (m == NULL || at - model->base < model->end - model->base)
		return false;
	if (roots_is_meta(model, at))
		what = "memory of the library itself";
	else if (tid != 0)
		what = xprint("the stack of thread %d", tid);
	else if (m->name[0] != '\0')
		what = m->name;
	else
		what = "memory that the program mapped";
	json_begin(at, "mapping", m->start, m->end - m->start);
	json_text("what", what);
	json_close();
	plain_print(
	    "%lx is %lx+0x%lx, in %s\n", at, m->start, at - m->start, what);
	return true;
}

static void
say_unknown(uint64_t at)
{
	plain_print("%lx is %s\n", at,
	    at == 0            ? "a null pointer"
	    : at < NULL_BYTES  ? "a null pointer plus an offset, as of a member"
	    : at < ADDRESS_END ? "unknown"
			       : "an impossible pointer value");
	json_open(NULL, '{');
	json_address("address", at);
	json_text("kind", "unknown");
	json_close();
}

static void
say_all(struct model *model, uint64_t at, bool all, bool stack)
{
	bool found =
	    whatis_say_sample(model, at, stack) || say_object(model, at, stack);

	/* A slab may now be where a larger buffer was freed. */
	if (!is_in_buffer(model, at) || all)
		found |= say_freed(model, at, stack);
	if (!found || all)
		found |= say_segments(model, at, all);
	if (!found || all)
		found |= say_mapping(model, at);
	if (!found)
		say_unknown(at);
}

bool
whatis_is_block(
    struct model *model, uint64_t at, uint64_t *start, bool *is_freed)
{
	struct block block;
	struct audit audit;

	if (model_find(model, at, &block) && !block.between) {
		*start = block.start;
		*is_freed = block.slab != NULL &&
			    !bit_get(block.slab->live, block.chunk);
		return true;
	}
	*is_freed = audit_of_freed(model, at, &audit);
	*start = audit.addr;
	return *is_freed;
}

void
whatis_say_stacks(struct model *model, uint64_t at)
{
	say_all(model, at, /* all */ false, /* stack */ true);
}

void
whatis_say(struct model *model, uint64_t at)
{
	say_all(model, at, /* all */ false, /* stack */ false);
}

int
command_whatis(int argc, char **argv)
{
	bool all = false;
	const struct option_word words[] = {{"a", .flag = &all}};
	char **arguments = options_take(argc, argv, words, 1, 2, INT_MAX);
	struct model *model;

	for (char **at = arguments + 1; *at != NULL; at++)
		address_argument(argv[0], *at);
	model = snapshot_open(arguments[0], 0);
	json_open(NULL, '[');
	for (char **at = arguments + 1; *at != NULL; at++)
		say_all(model, address_argument(argv[0], *at), all,
		    /* stack */ true);
	json_close();
	return EXIT_OK;
}
