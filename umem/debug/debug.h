/*
 * debug.h - caches that check how the program uses their buffers; see debug.c
 *
 * Tools read these structures from outside the process.  Therefore they are
 * plain C without implicit padding, and addresses and sizes have 8 bytes.
 */
#ifndef UMEM_DEBUG_H
#define UMEM_DEBUG_H

#include "umem/base/page_map.h"
#include "umem/cache/cache.h"
#include "umem/cache/cache_hooks.h"

/* Patterns, the same values as in libumem. */
#define PATTERN_FREE    0xdeadbeefdeadbeefull
#define PATTERN_UNINIT  0xbaddcafebaddcafeull
#define PATTERN_REDZONE 0xfeedfacefeedfaceull
#define PATTERN_END     0xbb /* bytes between the requested size and the tag */

/*
 * Follows a buffer, at cache->tag_offset.  A hardened cache has only the first
 * word (cache->tag_bytes).
 */
struct buftag {
	uint64_t redzone; /* size encoded in the upper half, if it is known */
	struct bufctl *bufctl;
	uintptr_t bxstat; /* address of the bufctl xor one of these */
};
#define BUFTAG_ALLOCATED 0xa110c8edul
#define BUFTAG_FREE      0xf4eef4eeul

/* The size in the upper half of a redzone. */
#define REDZONE_FACTOR 251u
#define REDZONE_ADDEND 1u
#define REDZONE_ENCODE(size)                                                   \
	(REDZONE_FACTOR * (uint32_t)(size) + REDZONE_ADDEND)

enum bufctl_state {
	BUFCTL_NEVER, /* never allocated */
	BUFCTL_ALLOCATED,
	BUFCTL_FREE,
	BUFCTL_RETIRED, /* found corrupt and retired: not allocated again */
	BUFCTL_WAITING  /* freed; waits for a grace period */
};

/*
 * One for each buffer of a debugged cache, in an array of the slab.  A hardened
 * cache has nothing else there.
 */
struct bufctl {
	uint32_t size;   /* bytes requested, of a hardened cache */
	uint16_t number; /* [a] of the change; see exit_check.c */
	uint8_t state;   /* [a] enum bufctl_state */
	uint8_t api;     /* enum alloc_api */
};

/* Of all other caches, and of large blocks. */
struct bufctl_audit {
	struct bufctl head;
	void *addr;        /* of the buffer; NULL: never allocated */
	struct slab *slab; /* NULL: a large block */
	uint64_t size;     /* bytes requested */
	struct umem_cache *cache;
	uint32_t sum;       /* WAITING: checksum of the bytes, see wait_sum.h */
	uint32_t depth;     /* frames in the stack; 0 without audit */
	uint64_t timestamp; /* ns, CLOCK_MONOTONIC */
	uint64_t thread;    /* the kernel's number */
	void *contents;     /* copy in the contents log */
	uint64_t allocated_time; /* of a freed buffer; else 0 */
	uint64_t allocated_thread;
	uint64_t allocated_depth; /* frames of the allocation's stack */
	uintptr_t stack[]; /* the caller first; the allocation's at nframes */
};

_Static_assert(sizeof(struct buftag) == 24, "umem verify knows this size");
_Static_assert(sizeof(struct bufctl) == 8, "no implicit padding");
_Static_assert(sizeof(struct bufctl_audit) % sizeof(uint64_t) == 0,
    "bufctls of an array are aligned");
_Static_assert(API_COUNT <= UINT8_MAX, "bufctl.api has 8 bits");

/* Defaults and a limit of libumem. */
#define AUDIT_FRAMES_DEFAULT 15
#define AUDIT_FRAMES_MAX     490
#define CONTENTS_DEFAULT     256

/* Bytes of a bufctl in a log, which has the stack of one transaction. */
static inline size_t
bufctl_log_bytes(unsigned nframes)
{
	return sizeof(struct bufctl_audit) + nframes * sizeof(uintptr_t);
}

/* Bytes of a buffer's bufctl, which has the stack of its allocation, too. */
static inline size_t
bufctl_audit_bytes(unsigned nframes)
{
	return bufctl_log_bytes(nframes) + nframes * sizeof(uintptr_t);
}

/* Flags for caches whose names match; see options.c. */
struct debug_choice {
	unsigned flags;
	size_t firewall_min; /* smallest object for UMF_FIREWALL */
	char patterns[256];  /* comma-separated; empty: every cache */
};

/* Parts of UMEM_DEBUG with a list of caches each; more are reported. */
#define DEBUG_CHOICES 8

struct debug {
	bool on; /* some choice has flags */
	bool noabort;
	bool checknull;
	bool hardened; /* caches to which no choice gives flags */
	/* [a] hardened.c may use sections and the caches of the classes. */
	bool has_sections;
	/*
	 * [a] Some block may be in a larger chunk than its size needs, or have
	 * a larger size than was asked for.  While that is false, a sized free
	 * with a size that is too small is wrong.
	 */
	bool sizes_are_relaxed;
	unsigned nframes;      /* frames in a bufctl */
	size_t contents_bytes; /* bytes of a freed buffer that are logged */
	size_t verify_max;     /* bytes of pattern that are checked */
	uint32_t mtbf;
	unsigned nchoices;
	struct debug_choice choice[DEBUG_CHOICES];
};

extern hidden struct debug debug;

/*
 * Selects the checks of a cache that is about to be created: sets cache->debug,
 * cache->tag_offset and cache->tag_bytes, which depend on its other fields.
 */
void debug_plan(struct umem_cache *cache, const char *name, bool sourced);

/* Bytes from one buffer to the next; SIZE_MAX: too large. */
size_t debug_chunk_bytes(const struct umem_cache *cache);

/* Bytes of a bufctl of the cache; 0: it has none. */
size_t debug_bufctl_bytes(const struct umem_cache *cache);

/*
 * Allocates an object, or size bytes of a class.  api is the API that the
 * program called.  Returns NULL if there is no memory or the constructor
 * refused.
 */
void *debug_alloc(struct umem_cache *cache, size_t size, unsigned api);

/*
 * Checks and frees a buffer.  On an error, reports it and, under noabort only,
 * returns false.  size is SIZE_MAX if the caller does not know it.
 */
bool debug_free(struct umem_cache *cache, void *p, size_t size, unsigned api);

/*
 * debug_free() in two steps, for a free that waits for a grace period.
 * debug_defer() checks the buffer; it returns false if it has reported misuse.
 * debug_free_deferred() frees it.  Readers may read the buffer between the two.
 * With guards debug_free_deferred() reports a change of the buffer, unless the
 * cache has UMF_RCU_WRITES.  debug_defer_undo() takes the first step back.
 */
bool debug_defer(struct umem_cache *cache, void *p, size_t size, unsigned api);
void debug_defer_undo(struct umem_cache *cache, void *p);
void debug_free_deferred(struct umem_cache *cache, void *p);

/*
 * debug_reserve() marks an object from debug_alloc() as one of a reserve: the
 * program may not free or change it.  debug_hand_out() is called when it goes
 * to the program; it reports a change, and stores the caller in the bufctl.
 * debug_unreserve() lets the library free it again.
 */
void debug_reserve(struct umem_cache *cache, void *p);
void debug_hand_out(struct umem_cache *cache, void *p);
void debug_unreserve(struct umem_cache *cache, void *p);

/* Called before the first cache is created, when the options are known. */
void debug_start(void);

/* Do the options ask for guard pages? */
bool debug_has_guards(void);

/* Returns all quarantined buffers of the cache to its slabs. */
void debug_quarantine_flush(struct umem_cache *cache);

/*
 * Returns the bytes requested; SIZE_MAX if misuse was reported, under noabort.
 */
size_t debug_usable(unsigned class, const void *p);

/*
 * Resizes a block to a size of the same class, in its chunk, or a large block
 * in its span.  Returns false if it must move.
 */
bool debug_resize(unsigned class, void *p, size_t size);

/*
 * Reports free(p) and the like where p is no block.  Returns under noabort
 * only.
 */
void debug_bad_address(const void *p);

/*
 * Returns the bufctl of the buffer, live or freed, whose guard page or
 * inaccessible pages contain this address, or NULL.
 */
struct bufctl_audit *debug_bufctl_near(const void *p);

/* Stands for all large blocks: the functions above take it for a cache. */
extern hidden struct umem_cache debug_large_cache;

/* Returns the cache of the blocks of a class; NULL: they have no checks. */
static inline struct umem_cache *
debug_cache_of(unsigned class)
{
	struct umem_cache *cache =
	    class == PAGE_MAP_LARGE ? &debug_large_cache : class_cache[class];

	return debug.on && cache != NULL && cache->debug != 0 ? cache : NULL;
}

/* Are large blocks debugged? */
bool debug_large(void);

/* Like large_alloc(), for a large block with a tag and a bufctl. */
void *debug_large_alloc(size_t size, size_t align, bool *zeroed, unsigned api);

/*
 * Returns the class that serves a size, from the class that would serve it
 * without checks; 0: a large block serves it.
 */
unsigned debug_class(unsigned class, size_t size);

/*
 * May the functions below be called: are the options hardened, and sections in
 * use?
 */
static inline bool
debug_has_sections(void)
{
	/* Acquire; pairs with the release in start_fast_paths(). */
	return unlikely(load_acquire(&debug.has_sections));
}

/*
 * The usual case of malloc() and of a free.  Return NULL and false if the
 * caller must go on as for any other block.
 */
void *hardened_alloc(size_t size, unsigned api);
bool hardened_free(void *p, size_t size, unsigned api);

/* Sets the API of a block that was just allocated. */
void debug_set_api(void *p, unsigned api);

/*
 * Logs an allocation of this many bytes that returns NULL, and aborts if
 * checknull is set; cache is NULL if it was for no cache.
 */
void debug_alloc_failed(struct umem_cache *cache, size_t size);

#endif
