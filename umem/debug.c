/*
 * debug.c - caches that check what the program does
 *
 * Debugging is a set of flags that a cache is made with.  A cache with flags
 * has no magazines: its per-CPU header is one that refuses, so every call
 * comes the slow way and from there to here.  A cache without flags is not
 * touched by any of this.
 *
 * Chunk of a debugged cache
 *	buffer		rounded up to 8
 *	tag		24 bytes: redzone, record, record xor state
 *	room		up to the alignment
 *	A block of a size class may have been asked for with less than the
 *	class holds.  Then the size is encoded in the redzone, and bytes of
 *	0xbb follow the size (64 of them at most).
 *
 * Record (struct bufctl)
 *	One for each chunk, in an array of its slab, apart from what the
 *	program can overrun.  It has the size, the state and, with audit, who
 *	did the last transaction.  The tag leads to it, but is not trusted: the
 *	address alone does, by slab and number.
 *
 * Patterns (guards)
 *	A free buffer is filled with 0xdeadbeef and looked at when it is
 *	handed out again; then it is filled with 0xbaddcafe.  Objects are
 *	constructed at each allocation and destructed at each free.
 *
 * Held back (guards and hardened)
 *	What is freed waits in a slot of its cache (quarantine.c), so that a
 *	stale pointer does not meet a new owner at once.  With guards each
 *	allocation looks at one of those that wait, the last that was freed
 *	first: no write is found later than if that were handed out.  Large
 *	blocks end at a page that is not there, and when they are freed their
 *	pages are gone, until their record leaves the ring.
 *
 * Hardened (UMEM_OPTIONS=hardened)
 *	For programs at work rather than in search of a fault.  Tags and
 *	records as above; the pattern of blocks of a size class is zero, both
 *	when they are freed and when they are handed out, so that nobody reads
 *	what was there before.  Objects of other caches keep what is in them.
 *
 * Firewall: firewall.c.  Buffers that may not be touched (UMC_NOTOUCH) and
 * those behind a firewall have a record and no tag.
 *
 * Large blocks are their own span: the tag is at its end, the 0xbb behind the
 * size.  The records of those freed last are kept, so that a second free is
 * told from a stray one.
 *
 * A buffer that is found wrong is reported; if the program goes on
 * (noabort), nobody gets that buffer again.
 *
 * Locking: the state of a record is changed by compare-and-swap, so of two
 * threads that free one buffer, one is told.  freed_lock guards the ring of
 * freed large blocks, a leaf.
 *
 * Source: Bonwick 1994 section 6; libumem's layout and values.
 */
#include <string.h>

#include "umem/addr_map.h"
#include "umem/audit.h"
#include "umem/debug.h"
#include "umem/error.h"
#include "umem/firewall.h"
#include "umem/init.h"
#include "umem/large.h"
#include "umem/log.h"
#include "umem/stack.h"
#include "vmem/describe.h"
#include "vmem/heap.h"
#include "vmem/meta.h"
#include "vmem/os.h"
#include "vmem/panic.h"

/* Bytes behind the size that are looked at. */
#define SLACK_MOST 64

/* What "lite" looks at. */
#define LITE_VERIFY    8
#define LITE_ALIGN_MAX 1024

struct debug debug = {.nframes = AUDIT_FRAMES_DEFAULT, .verify_max = SIZE_MAX};

/* Stands for all large blocks. */
struct umem_cache debug_large_cache = {.name = "umem_oversize"};

#define FREED_LARGE 64

static struct lock freed_lock = LOCK_INITIALIZER(LOCK_LOG);
static struct bufctl *freed[FREED_LARGE]; /* [freed_lock] */
static unsigned nfreed;                   /* [freed_lock] */

/* Does the name match the pattern, in which * stands for anything? */
static bool
matches(const char *name, const char *pattern, const char *end)
{
	for (; pattern < end; pattern++, name++) {
		if (*pattern == '*') {
			for (const char *rest = name;; rest++) {
				if (matches(rest, pattern + 1, end))
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
chosen(const struct debug_choice *choice, const char *name)
{
	const char *at = choice->patterns;

	if (*at == '\0')
		return true;
	while (*at != '\0') {
		const char *end = at + strcspn(at, ",");

		if (matches(name, at, end))
			return true;
		at = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* The last choice that names the cache, or the last that names none. */
static const struct debug_choice *
choice_of(const char *name)
{
	const struct debug_choice *general = NULL, *special = NULL;

	for (unsigned i = 0; i < debug.nchoices; i++) {
		const struct debug_choice *choice = &debug.choice[i];

		if (!chosen(choice, name))
			continue;
		if (choice->patterns[0] == '\0')
			general = choice;
		else
			special = choice;
	}
	return special != NULL ? special : general;
}

/* "random": some of the flags, others for each cache. */
static unsigned
some_of(unsigned flags, const char *name)
{
	uint64_t draw = os_random() ^ os_now_ns();

	for (; *name != '\0'; name++)
		draw = (draw ^ (unsigned char)*name) * 0x100000001b3;
	if ((flags & (UMF_TAGGED | UMF_FIREWALL)) == 0)
		flags |= UMF_AUDIT | UMF_DEADBEEF | UMF_REDZONE;
	return flags & (unsigned)(draw >> 32);
}

static bool
lite_has_no_room(const struct umem_cache *cache)
{
	return cache->align > LITE_ALIGN_MAX ||
	       cache->bufsize % LITE_ALIGN_MAX == 0;
}

void
debug_plan(struct umem_cache *cache, const char *name, bool sourced)
{
	const struct debug_choice *choice;
	unsigned flags;

	cache->debug = 0;
	cache->tag_offset = align_up(cache->bufsize, 8);
	if (!debug.on || (cache->flags & (UMC_NODEBUG | UMC_QCACHE)) != 0)
		return;
	choice = choice_of(name);
	if (choice == NULL || choice->flags == 0) {
		cache->debug = debug.hardened ? UMF_HARDENED : 0;
		return;
	}
	flags = choice->flags;
	if (debug.random)
		flags = some_of(flags, name);
	if ((flags & UMF_AUDIT) != 0)
		flags |= UMF_REDZONE;
	if ((cache->flags & UMC_NOTOUCH) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_REDZONE | UMF_LITE);
	if ((flags & UMF_FIREWALL) != 0 &&
	    (cache->bufsize < choice->firewall_min || sourced ||
		(cache->flags & UMC_NOTOUCH) != 0))
		flags &= ~UMF_FIREWALL;
	if ((flags & UMF_FIREWALL) != 0)
		flags &= ~(UMF_DEADBEEF | UMF_REDZONE | UMF_LITE);
	if ((flags & UMF_LITE) != 0)
		flags &= lite_has_no_room(cache)
			     ? ~UMF_LITE
			     : ~(UMF_AUDIT | UMF_CONTENTS | UMF_DEADBEEF |
				   UMF_REDZONE);
	if ((flags & UMF_AUDIT) == 0)
		flags &= ~UMF_CONTENTS;
	cache->debug =
	    flags & (UMF_AUDIT | UMF_DEADBEEF | UMF_REDZONE | UMF_CONTENTS |
			UMF_CHECKSIGNAL | UMF_FIREWALL | UMF_LITE);
}

static bool
is_tagged(const struct umem_cache *cache)
{
	return (cache->debug & (UMF_TAGGED | UMF_HARDENED)) != 0 &&
	       (cache->debug & UMF_FIREWALL) == 0 &&
	       (cache->flags & UMC_NOTOUCH) == 0;
}

size_t
debug_chunk(const struct umem_cache *cache)
{
	size_t bytes = cache->tag_offset + sizeof(struct buftag);

	if (!is_tagged(cache))
		bytes = cache->bufsize;
	return align_up(bytes, cache->align);
}

size_t
debug_record_bytes(const struct umem_cache *cache)
{
	if (cache->debug == 0)
		return 0;
	return cache->debug & UMF_AUDIT ? bufctl_audit_bytes(debug.nframes)
					: sizeof(struct bufctl);
}

static struct buftag *
tag_of(const struct umem_cache *cache, void *p)
{
	return (struct buftag *)(void *)((char *)p + cache->tag_offset);
}

static struct bufctl *
record_of(const struct slab *slab, unsigned i)
{
	return (struct bufctl *)(void *)((char *)slab->records +
					 i * slab->store->record_bytes);
}

static void
stamp(const struct umem_cache *cache, struct bufctl *bufctl)
{
	if ((cache->debug & UMF_AUDIT) != 0)
		audit_stamp((struct bufctl_audit *)(void *)bufctl);
}

/* How much of a buffer has patterns. */
static size_t
pattern_bytes(const struct umem_cache *cache)
{
	size_t n = cache->tag_offset;

	if ((cache->debug & UMF_LITE) != 0)
		return LITE_VERIFY;
	return n < debug.verify_max ? n : align_down(debug.verify_max, 8);
}

static bool
is_hardened(const struct umem_cache *cache)
{
	return (cache->debug & UMF_HARDENED) != 0;
}

/* Is what is freed kept away from the next owner for a while? */
static bool
holds_back(const struct umem_cache *cache)
{
	return (cache->debug & (UMF_HARDENED | UMF_DEADBEEF)) != 0;
}

static bool
has_patterns(const struct umem_cache *cache)
{
	return (cache->debug & (UMF_DEADBEEF | UMF_LITE)) != 0 ||
	       (is_hardened(cache) && cache->class != 0);
}

static uint64_t
free_pattern(const struct umem_cache *cache)
{
	return is_hardened(cache) ? 0 : PATTERN_FREE;
}

static void
pattern_fill(void *p, size_t n, uint64_t pattern)
{
	uint64_t *word = p;

	for (size_t i = 0; i < n / sizeof(*word); i++)
		word[i] = pattern;
}

/* The first word that is not the pattern; n / 8 if all are. */
static size_t
pattern_check(const void *p, size_t n, uint64_t pattern)
{
	const uint64_t *word = p;
	size_t i = 0;

	/* Eight at a time, without a branch for each. */
	for (; i + 8 <= n / sizeof(*word); i += 8) {
		uint64_t wrong = 0;

		for (size_t j = 0; j < 8; j++)
			wrong |= word[i + j] ^ pattern;
		if (wrong != 0)
			break;
	}
	while (i < n / sizeof(*word) && word[i] == pattern)
		i++;
	return i;
}

/* Reports; the buffer is out of use from now on. */
static void
report(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info)
{
	info.code = code;
	info.address = p;
	info.cache = (struct umem_cache *)(uintptr_t)cache;
	info.bufctl = bufctl;
	if (bufctl != NULL && info.buffer == NULL)
		info.buffer = bufctl->addr;
	if (bufctl != NULL)
		info.slab = bufctl->slab;
	if (info.buffer == NULL)
		info.buffer = p;
	error_report(&info);
}

/* A report after which the buffer is lost. */
static void
report_lost(enum error_code code, const struct umem_cache *cache,
    struct bufctl *bufctl, const void *p, struct error_info info)
{
	report(code, cache, bufctl, p, info);
	__atomic_store_n(&bufctl->state, BUFCTL_LOST, __ATOMIC_RELAXED);
}

/* What the redzone of an allocated buffer must be. */
static uint64_t
redzone_of(const struct umem_cache *cache, const struct bufctl *bufctl)
{
	if (cache->class == 0)
		return PATTERN_REDZONE;
	return (PATTERN_REDZONE & UINT32_MAX) |
	       (uint64_t)REDZONE_ENCODE(bufctl->size) << 32;
}

/* Bytes from the size that was asked for to the tag, as far as looked at. */
static size_t
slack_of(const struct umem_cache *cache, const struct bufctl *bufctl)
{
	size_t n = cache->tag_offset - bufctl->size;

	if ((cache->debug & (UMF_REDZONE | UMF_DEADBEEF | UMF_LITE |
				UMF_FIREWALL | UMF_HARDENED)) == 0 ||
	    (cache->flags & UMC_NOTOUCH) != 0)
		return 0;
	return n < SLACK_MOST ? n : SLACK_MOST;
}

/* The first byte behind the size that is not as we left it; 0: all are. */
static size_t
first_overrun(const struct umem_cache *cache, const struct bufctl *bufctl,
    void *p, const struct buftag *tag, struct error_info *info)
{
	const unsigned char *byte = p;
	uint64_t redzone = redzone_of(cache, bufctl);
	size_t n = slack_of(cache, bufctl);

	for (size_t i = bufctl->size; i < bufctl->size + n; i++)
		if (byte[i] != PATTERN_END) {
			info->expected = PATTERN_END;
			info->found = byte[i];
			return i;
		}
	if (tag == NULL || tag->redzone == redzone)
		return 0;
	info->expected = redzone;
	info->found = tag->redzone;
	byte = (const unsigned char *)&tag->redzone;
	for (size_t i = 0; i < sizeof(redzone); i++)
		if (byte[i] != (unsigned char)(redzone >> 8 * i))
			return (size_t)(byte - (const unsigned char *)p) + i;
	return 0;
}

/* Is what is around an allocated buffer whole?  Reports if not. */
static bool
surroundings_are_whole(const struct umem_cache *cache, struct bufctl *bufctl,
    void *p, const struct buftag *tag)
{
	struct error_info info = {0};

	info.offset = first_overrun(cache, bufctl, p, tag, &info);
	if (info.offset != 0 || info.expected != 0) {
		report_lost(UMERR_REDZONE, cache, bufctl, p, info);
		return false;
	}
	if (tag == NULL)
		return true;
	if (tag->bxstat != ((uintptr_t)tag->bufctl ^ BUFTAG_ALLOCATED)) {
		info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
		info.expected = BUFTAG_ALLOCATED;
		report_lost(UMERR_BADBUFTAG, cache, bufctl, p, info);
		return false;
	}
	if (tag->bufctl != bufctl) {
		report_lost(UMERR_BADBUFCTL, cache, bufctl, p, info);
		return false;
	}
	return true;
}

static void
surround(const struct umem_cache *cache, struct bufctl *bufctl, void *p,
    struct buftag *tag)
{
	size_t n = slack_of(cache, bufctl);

	memset((char *)p + bufctl->size, PATTERN_END, n);
	if (tag == NULL)
		return;
	tag->redzone = redzone_of(cache, bufctl);
	tag->bufctl = bufctl;
	tag->bxstat = (uintptr_t)bufctl ^ BUFTAG_ALLOCATED;
}

/* Was a free buffer left alone?  Reports if not. */
static bool
free_is_whole(const struct umem_cache *cache, struct bufctl *bufctl, void *p)
{
	struct error_info info = {0};
	const struct buftag *tag = tag_of(cache, p);

	if (has_patterns(cache)) {
		size_t n = pattern_bytes(cache);
		size_t i = pattern_check(p, n, free_pattern(cache));

		if (i < n / 8) {
			info.offset = i * 8;
			info.expected = free_pattern(cache);
			info.found = ((const uint64_t *)p)[i];
			report_lost(UMERR_MODIFIED, cache, bufctl, p, info);
			return false;
		}
	}
	if (!is_tagged(cache))
		return true;
	if (tag->redzone != PATTERN_REDZONE) {
		info.offset = cache->tag_offset;
		info.expected = PATTERN_REDZONE;
		info.found = tag->redzone;
		report_lost(UMERR_MODIFIED, cache, bufctl, p, info);
		return false;
	}
	if (tag->bxstat != ((uintptr_t)bufctl ^ BUFTAG_FREE)) {
		info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
		info.expected = BUFTAG_FREE;
		report_lost(UMERR_BADBUFTAG, cache, bufctl, p, info);
		return false;
	}
	return true;
}

static void
make_free(const struct umem_cache *cache, struct bufctl *bufctl, void *p)
{
	struct buftag *tag = tag_of(cache, p);

	if (has_patterns(cache))
		pattern_fill(p, pattern_bytes(cache), free_pattern(cache));
	if (is_tagged(cache)) {
		tag->redzone = PATTERN_REDZONE;
		tag->bufctl = bufctl;
		tag->bxstat = (uintptr_t)bufctl ^ BUFTAG_FREE;
	}
}

static void
make_allocated(struct umem_cache *cache, struct slab *slab,
    struct bufctl *bufctl, void *p, size_t size, unsigned kind)
{
	/* A hardened one that was looked at is zero. */
	if (has_patterns(cache) &&
	    (!is_hardened(cache) || bufctl->state == BUFCTL_NEVER))
		pattern_fill(p, pattern_bytes(cache),
		    is_hardened(cache) ? 0 : PATTERN_UNINIT);
	bufctl->addr = p;
	bufctl->slab = slab;
	bufctl->cache = cache;
	bufctl->size = size;
	bufctl->kind = (uint16_t)kind;
	surround(cache, bufctl, p, is_tagged(cache) ? tag_of(cache, p) : NULL);
	__atomic_store_n(&bufctl->state, BUFCTL_ALLOCATED, __ATOMIC_RELEASE);
	stamp(cache, bufctl);
}

static bool
constructs_each_time(const struct umem_cache *cache)
{
	return cache->construct != NULL && has_patterns(cache);
}

/* Back to the slab, as if it had not been handed out. */
static void
take_back(struct umem_cache *cache, struct bufctl *bufctl, void *p, bool raw)
{
	void *bad;

	__atomic_add_fetch(&cache->nrefused, 1, __ATOMIC_RELAXED);
	make_free(cache, bufctl, p);
	__atomic_store_n(&bufctl->state, BUFCTL_FREE, __ATOMIC_RELAXED);
	if (raw)
		slab_give_raw(&cache->slabs, p);
	else
		slab_give(&cache->slabs, &p, 1, &bad);
}

static void
check_signal(const struct umem_cache *cache)
{
	struct error_info info = {.code = UMERR_SIGNAL};

	if ((cache->debug & UMF_CHECKSIGNAL) == 0 || !stack_in_signal())
		return;
	info.cache = (struct umem_cache *)(uintptr_t)cache;
	error_report(&info);
}

/* A chunk from the slabs; *raw: it has to be constructed. */
static void *
take(struct umem_cache *cache, bool *raw)
{
	uint64_t ncreated =
	    __atomic_load_n(&cache->slabs.ncreated, __ATOMIC_RELAXED);
	void *chunk;

	if (slab_take(&cache->slabs, &chunk, 1) == 0)
		return NULL;
	*raw = cache->slabs.constructs && ((uintptr_t)chunk & 1) != 0;
	if (*raw)
		chunk = (char *)chunk - 1;
	if (log_is_on(LOG_SLAB) && __atomic_load_n(&cache->slabs.ncreated,
				       __ATOMIC_RELAXED) != ncreated)
		audit_event(LOG_SLAB, cache, addr_map_owner(chunk), chunk,
		    cache->bufsize);
	return chunk;
}

static void *
take_failed(struct umem_cache *cache, size_t size)
{
	__atomic_add_fetch(&cache->nfailed, 1, __ATOMIC_RELAXED);
	if (log_is_on(LOG_FAIL))
		audit_event(LOG_FAIL, cache, NULL, NULL, size);
	return NULL;
}

static bool
held_is_whole(struct umem_cache *cache, void *p)
{
	struct slab *slab;
	unsigned i;

	slab_look(&cache->slabs, p, &slab, &i);
	return free_is_whole(cache, record_of(slab, i), p);
}

/*
 * What is held back is looked at, too, one at each allocation; the last that
 * was freed first, so that no report is later than without holding back.
 */
static void
look_at_held(struct umem_cache *cache)
{
	size_t at;
	void *p = quarantine_look(&cache->quarantine, &at), *bad;

	if (p == NULL || !held_is_whole(cache, p))
		return;
	p = quarantine_put_back(&cache->quarantine, at, p);
	if (p != NULL)
		slab_give(&cache->slabs, &p, 1, &bad);
}

void *
debug_alloc(struct umem_cache *cache, size_t size, unsigned kind)
{
	struct slab *slab;
	struct bufctl *bufctl;
	unsigned i;
	bool raw;
	void *p;

	check_signal(cache);
	if ((cache->debug & UMF_DEADBEEF) != 0)
		look_at_held(cache);
	do {
		p = take(cache, &raw);
		if (p == NULL)
			return take_failed(cache, size);
		slab_look(&cache->slabs, p, &slab, &i);
		bufctl = record_of(slab, i);
	} while (
	    bufctl->state != BUFCTL_NEVER && !free_is_whole(cache, bufctl, p));
	make_allocated(cache, slab, bufctl, p, size, kind);
	if (cache->construct == NULL ||
	    (!raw && !constructs_each_time(cache)) ||
	    cache->construct(p, cache->priv, UMEM_DEFAULT) == 0)
		return p;
	take_back(cache, bufctl, p, raw);
	return NULL;
}

/* The cache of the slab that p is in, if the map knows. */
static struct umem_cache *
cache_at(const void *p, struct slab **slab)
{
	void *owner = addr_map_owner(p);

	*slab = NULL;
	if (owner == NULL || addr_map_large_bytes(owner) != 0)
		return NULL;
	*slab = owner;
	return container_of((*slab)->store, struct umem_cache, slabs);
}

/* The ring of freed large blocks. */

/* Behind a large block that is held back later is a page that is not there. */
static size_t
large_guard(void)
{
	return holds_back(&debug_large_cache) ? os_page_size() : 0;
}

/* What a large block takes up, its tag and guard included. */
static size_t
large_whole(size_t size)
{
	return size + sizeof(struct buftag) + large_guard();
}

/*
 * A freed large block: the address leads nowhere any more, and the pages
 * go.  The span stays away from others as long as its record is in the ring.
 */
static void
large_hold(void *p)
{
	size_t bytes = addr_map_large_bytes(addr_map_owner(p));

	large_forget(p, bytes);
	if (!os_decommit(p, bytes))
		os_purge(p, bytes);
}

/* The end of that; with no memory for page tables, the addresses are lost. */
static void
large_let_go(const struct bufctl *bufctl)
{
	size_t bytes = align_up(large_whole(bufctl->size), HEAP_UNIT);

	if (holds_back(&debug_large_cache) && os_commit(bufctl->addr, bytes))
		heap_free(bufctl->addr, bytes);
}

/* Keeps the record for a while. */
static void
remember_freed(struct bufctl *bufctl)
{
	struct bufctl *old;

	lock_take(&freed_lock);
	old = freed[nfreed % FREED_LARGE];
	freed[nfreed++ % FREED_LARGE] = bufctl;
	lock_release(&freed_lock);
	if (old == NULL)
		return;
	large_let_go(old);
	meta_free(old, bufctl_audit_bytes(debug.nframes));
}

/* The record of the large block at p that was freed last, if it is known. */
static struct bufctl *
find_freed(const void *p)
{
	struct bufctl *found = NULL;

	lock_take(&freed_lock);
	for (unsigned i = 0; i < FREED_LARGE && found == NULL; i++) {
		struct bufctl *at = freed[(nfreed - 1 - i) % FREED_LARGE];

		if (at != NULL && at->addr == p)
			found = at;
	}
	lock_release(&freed_lock);
	return found;
}

/* p is in nothing that is in use now; was it once? */
static void
report_gone(struct umem_cache *cache, const void *p)
{
	struct bufctl *bufctl = find_freed(p);
	struct error_info none = {0};

	if (bufctl != NULL)
		cache = &debug_large_cache;
	report(
	    bufctl != NULL || (uintptr_t)p - heap_slot.base < heap_committed()
		? UMERR_DUPFREE
		: UMERR_BADADDR,
	    cache, bufctl, p, none);
}

/* p is in no slab of the cache. */
static void
report_foreign(struct umem_cache *cache, void *p)
{
	struct error_info info = {0};
	struct slab *slab;
	unsigned i;

	info.real_cache = cache_at(p, &slab);
	if (info.real_cache == NULL && addr_map_owner(p) == NULL) {
		report_gone(cache, p);
		return;
	}
	if (info.real_cache == NULL || info.real_cache == cache) {
		report(UMERR_BADADDR, cache, NULL, p, info);
		return;
	}
	info.slab = slab;
	report(UMERR_BADCACHE, cache,
	    info.real_cache->debug != 0 && slab_look(&info.real_cache->slabs, p,
					       &slab, &i) == SLAB_FINE
		? record_of(slab, i)
		: NULL,
	    p, info);
}

/* p is inside chunk i. */
static void
report_inside(struct umem_cache *cache, struct slab *slab, unsigned i, void *p)
{
	struct error_info info = {0};

	if (i >= cache->slabs.layout.nchunks) {
		report(UMERR_BADADDR, cache, NULL, p, info);
		return;
	}
	info.buffer =
	    (void *)(slab->first + (size_t)i * cache->slabs.layout.chunk);
	report(UMERR_BADBASE, cache, record_of(slab, i), p, info);
}

/* Is it allocated?  Then it is free now: who asks again is told. */
static bool
claim(struct umem_cache *cache, struct bufctl *bufctl, const void *p)
{
	uint32_t state = BUFCTL_ALLOCATED;
	struct error_info none = {0};

	if (__atomic_compare_exchange_n(&bufctl->state, &state, BUFCTL_FREE,
		false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return true;
	report(state == BUFCTL_NEVER ? UMERR_BADADDR : UMERR_DUPFREE, cache,
	    bufctl, p, none);
	return false;
}

/* Is it freed as it was allocated? */
static bool
is_freed_rightly(struct umem_cache *cache, struct bufctl *bufctl, void *p,
    size_t size, unsigned kind)
{
	struct error_info info = {0};

	if (kind != bufctl->kind) {
		info.subject = kind == KIND_MALLOC ? "free" : "umem_free";
		report_lost(UMERR_BADKIND, cache, bufctl, p, info);
		return false;
	}
	if (size != SIZE_MAX && size != bufctl->size) {
		info.found = size;
		info.expected = bufctl->size;
		report_lost(UMERR_BADSIZE, cache, bufctl, p, info);
		return false;
	}
	return true;
}

static void
keep_contents(
    struct umem_cache *cache, struct bufctl *bufctl, const void *p, size_t n)
{
	struct bufctl_audit *audit = (void *)bufctl;

	if ((cache->debug & UMF_CONTENTS) == 0 || !log_is_on(LOG_CONTENTS))
		return;
	if (n > debug.contents_bytes)
		n = debug.contents_bytes;
	audit->contents = n == 0 ? NULL : log_put(LOG_CONTENTS, p, n);
}

void
debug_free(struct umem_cache *cache, void *p, size_t size, unsigned kind)
{
	struct slab *slab;
	struct bufctl *bufctl;
	void *bad;
	unsigned i = 0;

	switch (slab_look(&cache->slabs, p, &slab, &i)) {
	case SLAB_FOREIGN:
		report_foreign(cache, p);
		return;
	case SLAB_INTERIOR:
		report_inside(cache, slab, i, p);
		return;
	default:
		break;
	}
	bufctl = record_of(slab, i);
	if (!claim(cache, bufctl, p) ||
	    !is_freed_rightly(cache, bufctl, p, size, kind) ||
	    !surroundings_are_whole(
		cache, bufctl, p, is_tagged(cache) ? tag_of(cache, p) : NULL))
		return;
	check_signal(cache);
	if (cache->destruct != NULL && has_patterns(cache))
		cache->destruct(p, cache->priv);
	keep_contents(cache, bufctl, p, bufctl->size);
	make_free(cache, bufctl, p);
	stamp(cache, bufctl);
	if (holds_back(cache))
		p = quarantine_swap(&cache->quarantine, p);
	if (p != NULL)
		slab_give(&cache->slabs, &p, 1, &bad);
}

void
debug_release(struct umem_cache *cache)
{
	size_t at = 0;
	void *p, *bad;

	while ((p = quarantine_take(&cache->quarantine, &at)) != NULL)
		if (held_is_whole(cache, p))
			slab_give(&cache->slabs, &p, 1, &bad);
}

/* Large blocks. */

bool
debug_large(void)
{
	return debug_large_cache.debug != 0;
}

static struct buftag *
large_tag(const void *p)
{
	size_t bytes = addr_map_large_bytes(addr_map_owner(p));

	return (struct buftag *)(uintptr_t)((const char *)p + bytes -
					    large_guard() -
					    sizeof(struct buftag));
}

void
debug_start(void)
{
	debug_large_cache.bufsize = SIZE_CLASS_MAX + 1;
	debug_large_cache.align = HEAP_UNIT;
	debug_large_cache.class = ADDR_LARGE;
	debug_plan(&debug_large_cache, debug_large_cache.name, true);
	if (debug_large_cache.debug != 0)
		debug_large_cache.debug |= UMF_REDZONE;
}

/* The cache that says where this block's tag is. */
static struct umem_cache
large_view(const void *p)
{
	struct umem_cache view = debug_large_cache;

	view.tag_offset = (uintptr_t)large_tag(p) - (uintptr_t)p;
	return view;
}

static void
surround_large(struct bufctl *bufctl)
{
	struct umem_cache view = large_view(bufctl->addr);

	surround(&view, bufctl, bufctl->addr, large_tag(bufctl->addr));
}

/* Zero, and a page at the end that is not there, if the kernel has it so. */
static void
large_harden(char *p, bool *zeroed)
{
	size_t bytes = addr_map_large_bytes(addr_map_owner(p));

	if (!*zeroed && !os_purge(p, bytes))
		memset(p, 0, bytes);
	*zeroed = true;
	os_decommit(p + bytes - large_guard(), large_guard());
}

void *
debug_large_alloc(size_t size, size_t align, bool *zeroed, unsigned kind)
{
	struct bufctl *bufctl;
	void *p;

	if (size > PTRDIFF_MAX - MIB)
		return NULL;
	check_signal(&debug_large_cache);
	bufctl = meta_alloc(bufctl_audit_bytes(debug.nframes));
	if (bufctl == NULL)
		return NULL;
	p = large_alloc(large_whole(size), align, zeroed);
	if (p == NULL) {
		meta_free(bufctl, bufctl_audit_bytes(debug.nframes));
		return NULL;
	}
	if (holds_back(&debug_large_cache))
		large_harden(p, zeroed);
	bufctl->addr = p;
	bufctl->cache = &debug_large_cache;
	bufctl->size = size;
	bufctl->kind = (uint16_t)kind;
	surround_large(bufctl);
	__atomic_store_n(&bufctl->state, BUFCTL_ALLOCATED, __ATOMIC_RELEASE);
	stamp(&debug_large_cache, bufctl);
	return p;
}

/* The record of a large block, or NULL after a report. */
static struct bufctl *
large_record(const void *p)
{
	const struct buftag *tag = large_tag(p);
	struct error_info info = {0};

	if (tag->bxstat == ((uintptr_t)tag->bufctl ^ BUFTAG_ALLOCATED) &&
	    tag->bufctl != NULL)
		return tag->bufctl;
	info.found = (uintptr_t)tag->bufctl ^ tag->bxstat;
	info.expected = BUFTAG_ALLOCATED;
	info.cache = &debug_large_cache;
	report(UMERR_BADBUFTAG, &debug_large_cache, NULL, p, info);
	return NULL;
}

void
debug_large_free(void *p, size_t size, unsigned kind)
{
	struct umem_cache *cache = &debug_large_cache;
	struct umem_cache view = large_view(p);
	struct bufctl *bufctl = large_record(p);

	if (bufctl == NULL || !claim(cache, bufctl, p) ||
	    !is_freed_rightly(cache, bufctl, p, size, kind))
		return;
	if (!surroundings_are_whole(&view, bufctl, p, large_tag(p)))
		return;
	keep_contents(cache, bufctl, p, bufctl->size);
	stamp(cache, bufctl);
	if (holds_back(cache))
		large_hold(p);
	else
		large_free(p, addr_map_large_bytes(addr_map_owner(p)));
	remember_freed(bufctl);
}

/* Blocks of either kind. */

bool
debug_owns(unsigned class)
{
	if (likely(!debug.on) || class == 0)
		return false;
	return class == ADDR_LARGE ? debug_large()
				   : class_cache[class]->debug != 0;
}

/* The record of an allocated block; NULL: reported. */
static struct bufctl *
block_record(unsigned class, const void *p)
{
	struct umem_cache *cache = &debug_large_cache;
	struct bufctl *bufctl = NULL;
	struct error_info none = {0};
	struct slab *slab;
	unsigned i;

	if (class == ADDR_LARGE) {
		bufctl = large_record(p);
	} else {
		cache = class_cache[class];
		if (slab_look(&cache->slabs, (void *)(uintptr_t)p, &slab, &i) !=
		    SLAB_FINE) {
			debug_bad_address(p);
			return NULL;
		}
		bufctl = record_of(slab, i);
	}
	if (bufctl == NULL || bufctl->state == BUFCTL_ALLOCATED)
		return bufctl;
	report(UMERR_DUPFREE, cache, bufctl, p, none);
	return NULL;
}

size_t
debug_usable(unsigned class, const void *p)
{
	struct bufctl *bufctl = block_record(class, p);

	return bufctl == NULL ? SIZE_MAX : bufctl->size;
}

void
debug_mark_umem(void *p)
{
	size_t unit = addr_map_unit(p);
	unsigned class;

	if (!debug.on || unit >= addr_map.units)
		return;
	class = addr_map_class(addr_map.entry[unit]);
	if (debug_owns(class))
		block_record(class, p)->kind = KIND_UMEM;
}

bool
debug_resize(unsigned class, void *p, size_t size)
{
	struct umem_cache *cache = class_cache[class];
	struct bufctl *bufctl = block_record(class, p);
	struct buftag *tag = is_tagged(cache) ? tag_of(cache, p) : NULL;

	if (bufctl == NULL || !surroundings_are_whole(cache, bufctl, p, tag))
		return false;
	bufctl->size = size;
	surround(cache, bufctl, p, tag);
	stamp(cache, bufctl);
	return true;
}

/* The large block that p lies in; NULL: none. */
static void *
large_around(const void *p)
{
	size_t unit = addr_map_unit(p);

	if (unit >= addr_map.units)
		return NULL;
	for (size_t i = unit + 1; i-- > 0;) {
		uintptr_t at = addr_map.base + (i << HEAP_UNIT_SHIFT);
		void *owner = addr_map_owner((void *)at);

		if (owner != NULL)
			return (uintptr_t)p - at < addr_map_large_bytes(owner)
				   ? (void *)at
				   : NULL;
	}
	return NULL;
}

void
debug_bad_address(const void *p)
{
	struct error_info info = {0};
	struct slab *slab;
	struct umem_cache *cache = cache_at(p, &slab);
	unsigned i = 0;

	if (cache != NULL) {
		enum slab_fault fault =
		    slab_look(&cache->slabs, (void *)(uintptr_t)p, &slab, &i);

		if (fault == SLAB_INTERIOR && cache->debug != 0) {
			report_inside(cache, slab, i, (void *)(uintptr_t)p);
			return;
		}
		info.real_cache = cache;
		report(UMERR_BADADDR, NULL, NULL, p, info);
		return;
	}
	info.buffer = large_around(p);
	if (info.buffer != NULL) {
		report(UMERR_BADBASE, &debug_large_cache,
		    debug_large() ? large_record(info.buffer) : NULL, p, info);
		return;
	}
	report_gone(NULL, p);
}

void
debug_failed(const char *what, size_t size)
{
	if (log_is_on(LOG_FAIL))
		audit_event(LOG_FAIL, NULL, NULL, NULL, size);
	if (debug.checknull)
		panic("%s: no memory for %zu bytes", what, size);
}

void
debug_lock_for_fork(void)
{
	log_lock_for_fork();
	lock_take_for_fork(&freed_lock);
}

void
debug_unlock_for_fork(bool child)
{
	lock_release_for_fork(&freed_lock);
	log_unlock_for_fork();
	if (child) {
		error_after_fork();
		stack_after_fork();
	}
}

DESCRIBE_TABLE(described) = {
    DESCRIBE_VARIABLE(debug_large_cache),
};
