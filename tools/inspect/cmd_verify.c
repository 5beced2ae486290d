/*
 * cmd_verify.c - umem verify: are the buffers of debugged caches intact?
 *
 * The command finds the errors that a free of each allocated buffer, and the
 * next allocation of each free buffer, would find now (see umem/debug/debug.c).  If
 * the slab and the record of a buffer disagree, a thread is working on the
 * buffer at this moment, and the command skips it.  A buffer that waits for a
 * grace period is checked as the library checks it at the end of the wait.
 */
#include <string.h>
#include <unistd.h>

#include "tools/inspect/audit.h"
#include "tools/inspect/print.h"
#include "umem/debug/wait_sum.h"

/* Size of a buftag, in bytes. */
#define TAG_BYTES 24

#define PATTERN_REDZONE  0xfeedfacefeedfaceull
#define BUFTAG_ALLOCATED 0xa110c8edul
#define BUFTAG_FREE      0xf4eef4eeul
#define PATTERN_END      0xbb

/* With "lite": number of bytes after the size that are compared. */
#define LITE_SLACK 64

/* Has each buffer a tag?  The flags do not show it, but the library does. */
static bool
is_tagged(struct model *model, const struct cache *c)
{
	return layout_get(model->layout, c->record, L_CACHE_TAGGED) != 0;
}

static uint64_t
tag_get(struct model *model, const char *tag, enum layout_entry entry)
{
	return layout_get(model->layout, tag, entry);
}

/* Returns the first changed byte between a tag and the next buffer, or NULL. */
static const char *
room_fault(const struct cache *c, const char *buffer, uint64_t tag_offset)
{
	if ((c->debug & UMF_LITE) != 0)
		return NULL;
	for (uint64_t i = tag_offset + TAG_BYTES; i < c->chunk; i++)
		if ((unsigned char)buffer[i] != PATTERN_END)
			return buffer + i;
	return NULL;
}

/* Returns the text for a fault of a free buffer, or NULL; *where: the byte. */
static const char *
free_fault(struct model *model, const struct cache *c, const char *buffer,
    uint64_t bufctl, uint64_t *where)
{
	const struct layout *l = model->layout;
	uint64_t tag_offset = layout_get(l, c->record, L_CACHE_TAG_OFFSET);
	uint64_t n = layout_get(l, c->record, L_CACHE_PATTERN_BYTES);
	uint64_t pattern = layout_get(l, c->record, L_CACHE_FREE_PATTERN);
	const char *tag = buffer + tag_offset;
	const char *room = room_fault(c, buffer, tag_offset);

	for (uint64_t i = 0; i + 8 <= n && i + 8 <= c->chunk; i += 8)
		if (layout_number(buffer + i, 8) != pattern) {
			*where = i;
			return "(free) seems corrupted";
		}
	if (tag_get(model, tag, L_TAG_REDZONE) != PATTERN_REDZONE)
		return "(free) seems to have a corrupt redzone pattern";
	if (tag_get(model, tag, L_TAG_BXSTAT) != (bufctl ^ BUFTAG_FREE))
		return "(free) has a corrupt buftag";
	if (room == NULL)
		return NULL;
	*where = (uint64_t)(room - buffer);
	return "(free) has corrupt bytes behind it";
}

/* Has a buffer changed since it began to wait for a grace period? */
static bool
waiting_is_changed(struct model *model, const struct cache *c,
    const char *buffer, const struct audit *audit)
{
	const struct layout *l = model->layout;
	const char *debug = layout_at(l, model->target, L_DEBUG);
	const char *record = target_at(
	    model->target, audit->at, layout_value(l, L_BUFCTL_BYTES));
	uint64_t n = audit->size;

	if ((c->debug & (UMF_DEADBEEF | UMF_RCU_WRITES)) != UMF_DEADBEEF ||
	    debug == NULL || record == NULL)
		return false;
	if (n > WAIT_BYTES_MOST)
		n = WAIT_BYTES_MOST;
	if (n > layout_get(l, debug, L_DEBUG_VERIFY_MAX))
		n = layout_get(l, debug, L_DEBUG_VERIFY_MAX);
	return n <= c->chunk &&
	       wait_sum(buffer, n) != layout_get(l, record, L_BUFCTL_SUM);
}

static const char *
allocated_fault(struct model *model, const struct cache *c, const char *buffer,
    const struct audit *audit, uint64_t *where)
{
	uint64_t tag_offset =
	    layout_get(model->layout, c->record, L_CACHE_TAG_OFFSET);
	const char *tag = buffer + tag_offset;
	const char *room = room_fault(c, buffer, tag_offset);
	uint64_t redzone = tag_get(model, tag, L_TAG_REDZONE);
	uint32_t size = 251u * (uint32_t)audit->size + 1u;
	uint64_t end = tag_offset;

	if ((c->debug & UMF_LITE) != 0 && audit->size + LITE_SLACK < end)
		end = audit->size + LITE_SLACK;
	if ((uint32_t)redzone != (uint32_t)PATTERN_REDZONE ||
	    (c->class == 0 && redzone != PATTERN_REDZONE))
		return "(allocated) has a corrupt redzone signature";
	if (c->class != 0 && (uint32_t)(redzone >> 32) != size)
		return "(allocated) has a corrupt redzone size encoding";
	if (tag_get(model, tag, L_TAG_BXSTAT) != (audit->at ^ BUFTAG_ALLOCATED))
		return "(allocated) has a corrupt buftag";
	for (uint64_t i = audit->size; i < end; i++)
		if ((unsigned char)buffer[i] != PATTERN_END) {
			*where = i;
			return "(allocated) has a corrupt redzone";
		}
	if (room == NULL)
		return NULL;
	*where = (uint64_t)(room - buffer);
	return "(allocated) has corrupt bytes behind it";
}

/* Checks a waiting buffer, which has the tag of an allocated buffer. */
static const char *
waiting_fault(struct model *model, const struct cache *c, const char *buffer,
    const struct audit *audit, uint64_t *where)
{
	const char *fault = allocated_fault(model, c, buffer, audit, where);

	if (fault != NULL)
		return fault;
	return waiting_is_changed(model, c, buffer, audit)
		   ? "(waits for a grace period) was changed since it was freed"
		   : NULL;
}

static const char *
chunk_fault(
    struct model *model, const struct slab *s, unsigned i, uint64_t *where)
{
	const struct cache *c = &model->caches[s->cache];
	const char *buffer =
	    target_at(model->target, slab_chunk_at(model, s, i), c->chunk);
	const struct layout *l = model->layout;
	bool is_free = !bit_get(s->live, i);
	struct audit audit;

	*where = UINT64_MAX;
	if (buffer == NULL ||
	    layout_get(l, c->record, L_CACHE_TAG_OFFSET) + TAG_BYTES >
		c->chunk ||
	    !audit_of_chunk(model, s, i, &audit))
		return NULL;
	if (audit.state == layout_value(l, L_BUFCTL_LOST))
		return "was found corrupt before, and is out of use";
	if (is_free && audit.state == layout_value(l, L_BUFCTL_FREE))
		return free_fault(model, c, buffer, audit.at, where);
	if (!is_free && audit.state == layout_value(l, L_BUFCTL_ALLOCATED))
		return allocated_fault(model, c, buffer, &audit, where);
	if (is_free && audit.state == layout_value(l, L_BUFCTL_WAITING) &&
	    model_waits_for(model, audit.addr) != NULL)
		return waiting_fault(model, c, buffer, &audit, where);
	return NULL;
}

static void
say_fault(const char *fault, uint64_t at, uint64_t where, const char *cache)
{
	if (json_wanted) {
		json_open(NULL, '{');
		json_text("cache", cache);
		json_address("buffer", at);
		json_text("fault", fault);
		if (where != UINT64_MAX)
			json_address("at", at + where);
		json_close();
	} else if (where != UINT64_MAX) {
		printf("  buffer %lx %s, at %lx\n", at, fault, at + where);
	} else {
		printf("  buffer %lx %s\n", at, fault);
	}
}

/* Returns the number of corrupt buffers of a cache; tell: prints each. */
static uint64_t
verify_cache(struct model *model, const struct cache *c, bool tell)
{
	uint64_t n = 0, where;

	for (size_t i = 0; i < model->nslabs; i++) {
		struct slab *s = &model->slabs[i];

		if (&model->caches[s->cache] != c || s->records == 0)
			continue;
		for (unsigned j = 0; j < s->nchunks; j++) {
			const char *fault = chunk_fault(model, s, j, &where);

			if (fault == NULL)
				continue;
			n++;
			if (tell || json_wanted)
				say_fault(fault, slab_chunk_at(model, s, j),
				    where, c->name);
		}
	}
	return n;
}

static uint64_t
verify_one(struct model *model, const char *name)
{
	const struct cache *c = model_cache(model, name);
	uint64_t n;

	if (c == NULL)
		fail(EXIT_BLIND, "verify: no cache %s", name);
	if (!json_wanted)
		printf("Summary for cache '%s'\n", c->name);
	if (!is_tagged(model, c)) {
		warn("warning: cache %lx (%s) does not have redzone checking "
		     "enabled",
		    c->at, c->name);
		return 0;
	}
	n = verify_cache(model, c, true);
	if (n == 0 && !json_wanted)
		puts("  clean");
	return n;
}

static uint64_t
verify_all(struct model *model)
{
	uint64_t all = 0;

	if (!json_wanted)
		printf("%-25s %-16s %s\n", "Cache Name", "Addr",
		    "Cache Integrity");
	for (size_t i = 0; i < model->ncaches; i++) {
		const struct cache *c = &model->caches[i];
		uint64_t n;

		if (!is_tagged(model, c))
			continue;
		n = verify_cache(model, c, false);
		all += n;
		if (json_wanted)
			continue;
		printf("%-25s %-16lx ", c->name, c->at);
		if (n == 0)
			puts("clean");
		else
			printf("%lu corrupt buffer%s\n", n, n == 1 ? "" : "s");
	}
	return all;
}

int
command_verify(int argc, char **argv)
{
	struct model *model;
	uint64_t n = 0;
	int letter;

	while ((letter = next_option(argc, argv, "")) != -1)
		json_wanted |= letter == 'J';
	if (argc == optind)
		fail_usage(argv[0]);
	model = model_of(argv[optind], MODEL_MEMORY);
	if (json_wanted)
		json_open(NULL, '[');
	for (int i = optind + 1; i < argc; i++)
		n += verify_one(model, argv[i]);
	if (argc == optind + 1)
		n += verify_all(model);
	if (json_wanted)
		json_close();
	return n ? EXIT_FOUND : EXIT_FINE;
}
