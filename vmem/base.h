/* base.h - small arithmetic and compiler attributes for every module */
#ifndef VMEM_BASE_H
#define VMEM_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define noinline    __attribute__((noinline))
#define cold_path   __attribute__((cold, __noinline__))
/*
 * Functions of the constructor, which runs in every process, and those that run
 * in each child of fork(): on few pages, because each piece of 64 KiB costs a
 * page fault.
 */
#define start_path  __attribute__((section(".text.startup")))
#define public      __attribute__((visibility("default")))
/*
 * For extern declarations of the library's own data.  -fvisibility=hidden does
 * not apply to them; without the attribute the compiler takes the address of
 * the variable from a table that the loader relocates.
 */
#define hidden      __attribute__((visibility("hidden")))
/*
 * A variable that a file of malloc defines again, for that library alone.  No
 * function of the file that defines it as replaceable may read it: compilers
 * take this value.  Without a definition, ld.gold gives it an address.
 */
#define replaceable __attribute__((weak))

/*
 * Large, rarely used data goes to a section of its own.  This keeps the small,
 * often used variables on few pages.
 */
#define seldom_used __attribute__((section(".bss.seldom")))

/*
 * A small variable that every process writes to, even if it never allocates.
 * It is on a page that the loader writes to anyway; see umem/sections.ld.
 */
#define written_early __attribute__((section("umem_early")))

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

/* Accesses to a word that several threads use; the name is the memory order. */
#define load_relaxed(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#define load_acquire(word) __atomic_load_n(word, __ATOMIC_ACQUIRE)
#define store_relaxed(word, value)                                             \
	__atomic_store_n(word, value, __ATOMIC_RELAXED)
#define store_release(word, value)                                             \
	__atomic_store_n(word, value, __ATOMIC_RELEASE)
/* These return the new value. */
#define add_relaxed(word, n) __atomic_add_fetch(word, n, __ATOMIC_RELAXED)
#define sub_relaxed(word, n) __atomic_sub_fetch(word, n, __ATOMIC_RELAXED)

/*
 * Publishes value in *word, unless another thread has published one since *word
 * was NULL.  Returns the published value: if it is not value, the caller frees
 * value, which no other thread has seen.  Release: pairs with the acquire by
 * which other threads read *word.
 */
typedef void *publish_word __attribute__((may_alias));

static inline void *
publish_once(void *word, void *value)
{
	void *published = NULL;

	return __atomic_compare_exchange_n((publish_word *)word, &published,
		   value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
		   ? value
		   : published;
}

/* Set errno, for "return fail_int(EINVAL)": they return -1, and NULL. */
static inline int
fail_int(int error)
{
	errno = error;
	return -1;
}

static inline void *
fail_null(int error)
{
	errno = error;
	return NULL;
}

static inline size_t
size_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t
size_max(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns a - b, or 0 if b is larger, as counts that change may be. */
static inline size_t
difference_or_zero(size_t a, size_t b)
{
	return a > b ? a - b : 0;
}

#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr) - offsetof(type, member)))

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/*
 * Bytes in a cache line of x86-64 and of the common aarch64 cores.  Only speed
 * depends on this number.
 */
#define CACHE_LINE 64

static inline bool
is_pow2(uintptr_t x)
{
	return x != 0 && (x & (x - 1)) == 0;
}

/*
 * Round x up to a multiple of align, a power of two.  The result wraps to 0 if
 * no such multiple is representable.
 */
static inline uintptr_t
align_up(uintptr_t x, uintptr_t align)
{
	return (x + align - 1) & -align;
}

static inline uintptr_t
align_down(uintptr_t x, uintptr_t align)
{
	return x & -align;
}

/* Index of the highest set bit; x is not 0. */
static inline unsigned
highbit(uint64_t x)
{
	return 63 - (unsigned)__builtin_clzll(x);
}

/* Index of the lowest set bit; x is not 0. */
static inline unsigned
lowbit(uint64_t x)
{
	return (unsigned)__builtin_ctzll(x);
}

#endif
