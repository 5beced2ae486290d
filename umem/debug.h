/*
 * debug.h - caches that check what the program does; see debug.c
 *
 * The structures here are laid out for tools that read them from outside:
 * plain C, no padding to guess, addresses and sizes of 8 bytes.
 */
#ifndef UMEM_DEBUG_H
#define UMEM_DEBUG_H

#include "umem/cache.h"
#include "umem/cache_hooks.h"

/* Patterns, libumem's again. */
#define PATTERN_FREE    0xdeadbeefdeadbeefull
#define PATTERN_UNINIT  0xbaddcafebaddcafeull
#define PATTERN_REDZONE 0xfeedfacefeedfaceull
#define PATTERN_END     0xbb /* bytes between the size asked for and the tag */

/* Behind a buffer, at cache->tag_offset. */
struct buftag {
	uint64_t redzone; /* size encoded in the upper half, if it is known */
	struct bufctl *bufctl;
	uintptr_t bxstat; /* bufctl xor one of these */
};
#define BUFTAG_ALLOCATED 0xa110c8edul
#define BUFTAG_FREE      0xf4eef4eeul

/* The size in the upper half of a redzone. */
#define REDZONE_ENCODE(size) (251u * (uint32_t)(size) + 1u)
#define REDZONE_HAS_SIZE(x)  (((x) - 1u) % 251u == 0)
#define REDZONE_DECODE(x)    (((x) - 1u) / 251u)

enum bufctl_state {
	BUFCTL_NEVER, /* was never allocated; all zeros */
	BUFCTL_ALLOCATED,
	BUFCTL_FREE,
	BUFCTL_LOST,   /* found corrupt: nobody gets it any more */
	BUFCTL_WAITING /* freed, and waits for a grace period */
};

/* Which functions a block belongs to. */
enum bufctl_kind {
	KIND_OBJECT, /* umem_cache_alloc() */
	KIND_MALLOC,
	KIND_UMEM,  /* umem_alloc() */
	KIND_NEW,   /* operator new */
	KIND_ARRAY, /* operator new[] */
	KIND_ASIDE, /* an object that was not handed out yet; see aside.c */
	KINDS
};

/* One for each buffer of a debugged cache, in an array a slab. */
struct bufctl {
	uint64_t sum; /* WAITING: of the bytes, see wait_sum.h */
	void *addr;   /* of the buffer; NULL: never allocated */
	struct slab *slab;
	struct umem_cache *cache;
	uint64_t size;  /* as asked for */
	uint32_t state; /* [a] enum bufctl_state */
	uint16_t kind;  /* enum bufctl_kind */
	uint16_t depth; /* of stack; 0 without audit */
};

/* With UMF_AUDIT. */
struct bufctl_audit {
	struct bufctl head;
	uint64_t timestamp;           /* ns, CLOCK_MONOTONIC */
	uint64_t thread;              /* the kernel's number */
	struct bufctl_audit *lastlog; /* the buffer's last transaction */
	void *contents;               /* in the contents log */
	uintptr_t stack[];            /* the caller first */
};

#define AUDIT_FRAMES_DEFAULT 15
#define AUDIT_FRAMES_MAX     490
#define CONTENTS_DEFAULT     256

static inline size_t
bufctl_audit_bytes(unsigned nframes)
{
	return sizeof(struct bufctl_audit) + nframes * sizeof(uintptr_t);
}

/* Words for caches whose names match; see options.c. */
struct debug_choice {
	unsigned flags;
	size_t firewall_min; /* smallest object for UMF_FIREWALL */
	char patterns[256];  /* comma-separated; empty: every cache */
};

#define DEBUG_CHOICES 8

struct debug {
	bool on; /* some choice has flags */
	bool noabort;
	bool checknull;
	bool random;
	bool hardened;         /* caches that no choice has flags for */
	unsigned output;       /* 1 verbose, 2 allverbose */
	unsigned nframes;      /* of a record */
	size_t contents_bytes; /* of a freed buffer that are kept */
	size_t verify_max;     /* bytes of pattern looked at */
	uint32_t mtbf;
	unsigned nchoices;
	struct debug_choice choice[DEBUG_CHOICES];
};

extern struct debug debug;

/*
 * What a cache that is about to be made will be debugged with: sets
 * cache->debug and cache->tag_offset by its other fields.
 */
void debug_plan(struct umem_cache *cache, const char *name, bool sourced);

/* Bytes from one buffer to the next; SIZE_MAX: too large. */
size_t debug_chunk(const struct umem_cache *cache);

/* Of a record of the cache; 0: it has none. */
size_t debug_record_bytes(const struct umem_cache *cache);

/*
 * An object, or size bytes of a class.  NULL: no memory, or the constructor
 * refused.  stamp: whose the block is.
 */
void *debug_alloc(struct umem_cache *cache, size_t size, unsigned kind);

/*
 * Checks and frees; reports what is wrong, and then returns only under
 * noabort, with false.  size is SIZE_MAX where the caller does not know it.
 */
bool debug_free(struct umem_cache *cache, void *p, size_t size, unsigned kind);

/*
 * As debug_free(), in two steps, for a free that waits for a grace period: the
 * first checks, the second frees.  False: misuse that was reported.  Readers may
 * read the buffer between the two.  With guards the second step reports a
 * change of the buffer, unless the cache has UMF_RCU_WRITES.  debug_defer_undo()
 * takes the first step back.
 */
bool debug_defer(struct umem_cache *cache, void *p, size_t size, unsigned kind);
void debug_defer_undo(struct umem_cache *cache, void *p);
void debug_free_deferred(struct umem_cache *cache, void *p);

/*
 * An object of debug_alloc() is set aside: nobody may free or change it.  It
 * goes to the program: reports a change, and the record names the caller.  It
 * may be freed again, on behalf of the library.
 */
void debug_set_aside(struct umem_cache *cache, void *p);
void debug_hand_out(struct umem_cache *cache, void *p);
void debug_end_aside(struct umem_cache *cache, void *p);

/* Before the first cache is made; the options are known. */
void debug_start(void);

/* What the cache holds back goes to its slabs. */
void debug_release(struct umem_cache *cache);

/* The cache is about to be destroyed: kept records name it no longer. */
void debug_forget(const struct umem_cache *cache);

/* Is the block of this class byte one that is debugged? */
bool debug_owns(unsigned class);

/* Bytes asked for; SIZE_MAX: misuse that was reported and survived. */
size_t debug_usable(unsigned class, const void *p);

/* Another size for the same chunk; false: it must move. */
bool debug_resize(unsigned class, void *p, size_t size);

/* free(p) and the like, where p is no block; returns under noabort only. */
void debug_bad_address(const void *p);

/* Large blocks: as large.h, but tagged, and with a record. */
bool debug_large(void);
void *debug_large_alloc(size_t size, size_t align, bool *zeroed, unsigned kind);
void debug_large_free(void *p, size_t size, unsigned kind);

/* As debug_defer() and its relatives, for a large block. */
bool debug_large_defer(void *p, size_t size, unsigned kind);
void debug_large_defer_undo(void *p);
void debug_large_free_deferred(void *p);

/* Another size for the same span; false: the block must move. */
bool debug_large_resize(void *p, size_t size);

/* Do blocks of this class come as large ones, whose pages go at the free? */
bool debug_vanishes(unsigned class);

/* The block, which was just allocated, is of this kind. */
void debug_set_kind(void *p, unsigned kind);

/* For the log: the cache, or none if it is NULL, had nothing of this size. */
void debug_refused(struct umem_cache *cache, size_t size);

/* An allocation is about to return NULL. */
void debug_failed(const char *what, size_t size);

void debug_lock_for_fork(void);
void debug_unlock_for_fork(bool child);

#endif
