/*
 * debug_plan.c - selection of the checks of a cache
 *
 * UMEM_DEBUG consists of parts with flags and names of caches (options.c reads
 * it).  The last part that names the cache decides; if none does, the last part
 * without names.  Then flags are removed for which the cache has no space or
 * which it does not permit, and those that other flags exclude: a buffer with a
 * firewall has no tag, and "lite" is a pattern of eight bytes and nothing else.
 *
 * Readers may read free objects of a type-stable cache (slab_retire.c).  Its
 * objects keep their contents and stay constructed and mapped, so it has no
 * patterns and no firewall.  Tags behind the objects and audit remain.
 */

#include "umem/debug/debug_inner.h"
#include "vmem/os.h"
#include "vmem/string.h"

/* "lite" skips caches of this alignment and above, in bytes. */
#define LITE_ALIGN_MAX 1024

/* "lite": bytes of a free buffer that hold the pattern. */
#define LITE_PATTERN 8

/* "lite": bytes behind the requested size that are checked. */
#define LITE_SLACK 64

struct debug debug = {.nframes = AUDIT_FRAMES_DEFAULT,
    .contents_bytes = CONTENTS_DEFAULT,
    .verify_max = SIZE_MAX};

/* Does the name match the pattern, in which * stands for any string? */
static bool
pattern_matches(const char *name, const char *pattern, const char *end)
{
	for (; pattern < end; pattern++, name++) {
		if (*pattern == '*') {
			for (const char *rest = name;; rest++) {
				if (pattern_matches(rest, pattern + 1, end))
					return true;
				if (*rest == '\0')
					return false;
			}
		}
		if (*name == '\0' || (*pattern != '?' && *pattern != *name))
			return false;
	}
	return *name == '\0';
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

/* "random": selects some of the flags, differently for each cache. */
static unsigned
random_flags(unsigned flags, const char *name)
{
	uint64_t draw = os_random() ^ os_now_ns();

	for (; *name != '\0'; name++)
		draw = (draw ^ (unsigned char)*name) * 0x100000001b3;
	if ((flags & (UMF_TAGGED | UMF_FIREWALL)) == 0)
		flags |= UMF_AUDIT | UMF_DEADBEEF | UMF_REDZONE;
	return flags & (unsigned)(draw >> 32);
}

static bool
lite_has_no_space(const struct umem_cache *cache)
{
	return cache->align > LITE_ALIGN_MAX ||
	       cache->bufsize % LITE_ALIGN_MAX == 0;
}

/* Removes the flags that the cache's own flags exclude. */
static unsigned
plan_permitted(const struct umem_cache *cache, unsigned flags)
{
	if ((cache->flags & UMC_NOTOUCH) != 0)
		flags &=
		    ~(UMF_DEADBEEF | UMF_REDZONE | UMF_LITE | UMF_FIREWALL);
	if ((cache->flags & UMC_TYPESAFE_BY_RCU) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_FIREWALL | UMF_LITE);
	return flags;
}

/* Removes the flags that other flags exclude, and those without space. */
static unsigned
plan_consistent(const struct umem_cache *cache, unsigned flags)
{
	if ((flags & UMF_FIREWALL) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_REDZONE | UMF_LITE);
	if ((flags & UMF_LITE) != 0)
		flags &= lite_has_no_space(cache)
			     ? ~UMF_LITE
			     : ~(UMF_AUDIT | UMF_CONTENTS | UMF_DEADBEEF |
				   UMF_REDZONE);
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

	if (!debug.on || (cache->flags & (UMC_NODEBUG | UMC_QCACHE)) != 0)
		return 0;
	choice = choice_for(name);
	if (choice == NULL || (choice->flags & ~UMF_RCU_WRITES) == 0)
		return debug.hardened ? UMF_HARDENED : 0;
	flags = choice->flags;
	if (debug.random)
		flags = random_flags(flags, name) |
			(choice->flags & UMF_RCU_WRITES);
	if ((flags & UMF_AUDIT) != 0)
		flags |= UMF_REDZONE;
	if (cache->bufsize < choice->firewall_min || sourced)
		flags &= ~UMF_FIREWALL;
	flags = plan_consistent(cache, plan_permitted(cache, flags));
	return flags &
	       (UMF_AUDIT | UMF_DEADBEEF | UMF_REDZONE | UMF_CONTENTS |
		   UMF_CHECKSIGNAL | UMF_FIREWALL | UMF_LITE | UMF_RCU_WRITES);
}

/* Returns how many bytes of a free buffer hold the pattern. */
static size_t
plan_pattern_bytes(const struct umem_cache *cache)
{
	size_t n = cache->tag_offset;

	if (cache->bufsize == 0)
		return 0;
	if ((cache->debug & UMF_LITE) != 0)
		return LITE_PATTERN;
	if ((cache->debug & UMF_DEADBEEF) == 0 &&
	    ((cache->debug & UMF_HARDENED) == 0 || cache->class == 0))
		return 0;
	return n < debug.verify_max ? n : align_down(debug.verify_max, 8);
}

/* Returns the most bytes behind the requested size that hold a pattern. */
static size_t
slack_most(const struct umem_cache *cache)
{
	if ((cache->debug & (UMF_REDZONE | UMF_DEADBEEF | UMF_LITE |
				UMF_FIREWALL | UMF_HARDENED)) == 0 ||
	    (cache->flags & UMC_NOTOUCH) != 0)
		return 0;
	return (cache->debug & UMF_LITE) != 0 ? LITE_SLACK : SIZE_MAX;
}

void
debug_plan(struct umem_cache *cache, const char *name, bool sourced)
{
	cache->tag_offset = align_up(cache->bufsize, 8);
	cache->debug = plan_flags(cache, name, sourced);
	cache->tagged = (cache->debug & (UMF_TAGGED | UMF_HARDENED)) != 0 &&
			(cache->debug & UMF_FIREWALL) == 0 &&
			cache->bufsize != 0 &&
			(cache->flags & UMC_NOTOUCH) == 0;
	cache->slack_most = slack_most(cache);
	cache->pattern_bytes = plan_pattern_bytes(cache);
	umem_assert(cache->pattern_bytes % 8 == 0);
	umem_assert(cache->pattern_bytes <= cache->tag_offset);
	umem_assert((cache->debug & UMF_FIREWALL) == 0 ||
		    (cache->debug & (UMF_TAGGED | UMF_HARDENED)) ==
			(cache->debug & UMF_AUDIT));
	umem_assert((cache->flags & UMC_TYPESAFE_BY_RCU) == 0 ||
		    (cache->debug & (UMF_DEADBEEF | UMF_FIREWALL)) == 0);
	cache->free_pattern =
	    (cache->debug & UMF_HARDENED) != 0 ? 0 : PATTERN_FREE;
}

size_t
debug_chunk_bytes(const struct umem_cache *cache)
{
	size_t bytes = cache->tag_offset + sizeof(struct buftag);

	if (!cache->tagged)
		bytes = cache->bufsize;
	return align_up(bytes, cache->align);
}

size_t
debug_bufctl_bytes(const struct umem_cache *cache)
{
	if (cache->debug == 0)
		return 0;
	return cache->debug & UMF_AUDIT ? bufctl_audit_bytes(debug.nframes)
					: sizeof(struct bufctl);
}
