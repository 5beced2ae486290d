/*
 * debug_plan.c - selection of the checks of a cache
 *
 * UMEM_DEBUG consists of parts with flags and names of caches (options.c reads
 * it).  The last part that names the cache decides; if none does, the last part
 * without names.  Then flags are removed that the cache does not permit, and
 * those that other flags exclude: a buffer with a firewall has no tag.
 *
 * Readers may read free objects of a type-stable cache (slab_retire.c).  Its
 * objects keep their contents and stay constructed and mapped, so it has no
 * patterns and no firewall.  Tags behind the objects and audit remain.
 */

#include "umem/debug/debug_inner.h"
#include "vmem/os.h"
#include "vmem/string.h"

struct debug debug = {.nframes = AUDIT_FRAMES_DEFAULT,
    .contents_bytes = CONTENTS_DEFAULT,
    .verify_max = SIZE_MAX};

/* Does the name match the pattern, in which * stands for any string? */
static bool
pattern_matches(const char *name, const char *pattern, const char *end)
{
	if (pattern == end)
		return *name == '\0';
	if (*pattern == '*' && pattern_matches(name, pattern + 1, end))
		return true;
	if (*name == '\0')
		return false;
	if (*pattern == '*')
		return pattern_matches(name + 1, pattern, end);
	return (*pattern == '?' || *pattern == *name) &&
	       pattern_matches(name + 1, pattern + 1, end);
}

static bool
choice_matches(const struct debug_choice *choice, const char *name)
{
	const char *at = choice->patterns;

	if (*at == '\0')
		return true;
	while (*at != '\0') {
		const char *end = at + string_span(at, ",");

		if (pattern_matches(name, at, end))
			return true;
		at = *end == ',' ? end + 1 : end;
	}
	return false;
}

/*
 * Returns the last choice that names the cache; otherwise the last choice
 * without names.
 */
static const struct debug_choice *
choice_for(const char *name)
{
	const struct debug_choice *general = NULL, *special = NULL;

	umem_assert(debug.nchoices <= DEBUG_CHOICES);
	for (unsigned i = 0; i < debug.nchoices; i++) {
		const struct debug_choice *choice = &debug.choice[i];

		if (!choice_matches(choice, name))
			continue;
		if (choice->patterns[0] == '\0')
			general = choice;
		else
			special = choice;
	}
	return special != NULL ? special : general;
}

/* Removes the flags that the cache's own flags exclude. */
static unsigned
plan_permitted(const struct umem_cache *cache, unsigned flags)
{
	if ((cache->flags & UMC_NOTOUCH) != 0)
		flags &= UMF_AUDIT | UMF_CHECKSIGNAL;
	if ((cache->flags & UMC_TYPESAFE_BY_RCU) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_FIREWALL);
	return flags;
}

/* Removes the flags that other flags exclude. */
static unsigned
plan_consistent(unsigned flags)
{
	if ((flags & UMF_FIREWALL) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_REDZONE);
	if ((flags & UMF_AUDIT) == 0)
		flags &= ~UMF_CONTENTS;
	/* Only caches with guards check for writes. */
	if ((flags & UMF_DEADBEEF) == 0)
		flags &= ~UMF_RCU_WRITES;
	return flags;
}

static unsigned
plan_flags(const struct umem_cache *cache, const char *name, bool sourced)
{
	const struct debug_choice *choice;
	unsigned flags;

	if (!debug.on || (cache->flags & UMC_NODEBUG) != 0)
		return 0;
	choice = choice_for(name);
	if (choice == NULL || (choice->flags & ~UMF_RCU_WRITES) == 0)
		return debug.hardened ? UMF_HARDENED : 0;
	flags = choice->flags;
	if ((flags & UMF_AUDIT) != 0)
		flags |= UMF_REDZONE;
	if (cache->bufsize < choice->firewall_min || sourced)
		flags &= ~UMF_FIREWALL;
	flags = plan_consistent(plan_permitted(cache, flags)) &
		(UMF_AUDIT | UMF_DEADBEEF | UMF_REDZONE | UMF_CONTENTS |
		    UMF_CHECKSIGNAL | UMF_FIREWALL | UMF_RCU_WRITES);
	return flags == 0 && debug.hardened ? UMF_HARDENED : flags;
}

/* Returns how many bytes of a free buffer hold the pattern. */
static size_t
plan_pattern_bytes(const struct umem_cache *cache)
{
	size_t n = cache->tag_offset;

	if (cache->bufsize == 0)
		return 0;
	if ((cache->debug & UMF_DEADBEEF) == 0 &&
	    ((cache->debug & UMF_HARDENED) == 0 || cache->class == 0))
		return 0;
	return n < debug.verify_max ? n : align_down(debug.verify_max, 8);
}

void
debug_plan(struct umem_cache *cache, const char *name, bool sourced)
{
	cache->tag_offset = align_up(cache->bufsize, 8);
	cache->debug = plan_flags(cache, name, sourced);
	cache->tag_bytes =
	    (cache->debug & UMF_TAGGED) != 0     ? sizeof(struct buftag)
	    : (cache->debug & UMF_HARDENED) != 0 ? sizeof(uint64_t)
						 : 0;
	if ((cache->debug & UMF_FIREWALL) != 0 || cache->bufsize == 0 ||
	    (cache->flags & UMC_NOTOUCH) != 0)
		cache->tag_bytes = 0;
	cache->has_inner_tags =
	    cache->class != 0 && cache->tag_bytes == sizeof(uint64_t);
	if (cache->has_inner_tags)
		cache->tag_offset -= cache->tag_bytes;
	cache->checks_slack =
	    (cache->debug & (UMF_TAGGED | UMF_FIREWALL | UMF_HARDENED)) != 0 &&
	    (cache->flags & UMC_NOTOUCH) == 0;
	cache->pattern_bytes = plan_pattern_bytes(cache);
	umem_assert(cache->pattern_bytes % 8 == 0);
	umem_assert(cache->pattern_bytes <= cache->tag_offset);
	cache->free_pattern =
	    (cache->debug & UMF_HARDENED) != 0 ? 0 : PATTERN_FREE;
}

size_t
debug_chunk_bytes(const struct umem_cache *cache)
{
	return align_up(cache->tag_bytes == 0
			    ? cache->bufsize
			    : cache->tag_offset + cache->tag_bytes,
	    cache->align);
}

size_t
debug_bufctl_bytes(const struct umem_cache *cache)
{
	if (cache->debug == 0)
		return 0;
	if ((cache->debug & UMF_HARDENED) != 0 && cache->bufsize <= UINT32_MAX)
		return sizeof(struct bufctl);
	return (cache->debug & (UMF_AUDIT | UMF_FIREWALL)) != 0
		   ? bufctl_audit_bytes(debug.nframes)
		   : sizeof(struct bufctl_audit);
}
