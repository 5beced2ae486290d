/*
 * umem.h - object caches and sized allocation
 *
 * A cache allocates objects of one size that stay constructed between uses.
 * umem_alloc() and related functions allocate plain memory of any size.  Both
 * keep freed objects in per-CPU magazines, so that most calls take no lock.
 * Their memory comes from the arenas of vmem.h.
 *
 * The following rules apply to each function below unless its comment says
 * otherwise:
 *  - sizes and alignments are in bytes;
 *  - any thread may call it, at any time, from before main() to after exit
 *    handlers, and in the child of fork();
 *  - a signal handler must not call it, because the handler can interrupt a
 *    function that holds a lock;
 *  - the child of vfork() must not call it, nor another task that shares memory
 *    and thread-local storage with a thread, because the kernel does not
 *    restart the critical sections of such a task.  A program that runs on
 *    libumem_malloc may call it there, because that library replaces vfork()
 *    and clone();
 *  - it sets errno only when it reports a failure; a function without a result
 *    leaves errno unchanged, unless a callback of the program changes it;
 *  - if it detects misuse (a pointer that is not from this library, a block
 *    freed twice), it reports the misuse on standard error in one line and
 *    calls abort().  umem_free() always checks that the pointer is the start of
 *    a block and not one of the blocks just freed.  umem_cache_free() checks
 *    only the latter; a wrong cache is detected when the object reaches a slab.
 *
 * With UMEM_OPTIONS=hardened or UMEM_DEBUG in the environment, the library
 * detects nearly all misuse: see umem_options(7), umem_debug(3).
 *
 * Free memory of umem_alloc() with umem_free(), of umem_alloc_align() with
 * umem_free_align(), of umem_cache_alloc() with umem_cache_free() and the cache
 * that it came from, and of malloc() with free().
 *
 * Source: libumem(3LIB) and umem_alloc(3MALLOC) of illumos; the spellings
 * umem_alloc_aligned, umem_free_aligned and umem_cache_reap_now are from
 * OpenZFS.
 */
#ifndef UMEM_H
#define UMEM_H

/* The last two are here because the header of illumos includes them, too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

/* gcc warns that a function has the name of the structure which it fills. */
#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

/*
 * Attributes of a function that returns a new block, for the compiler.  The
 * arguments are the positions of the parameters for the size and the alignment.
 */
#if defined(__GNUC__) && (__GNUC__ >= 5 || defined(__clang__))
#define UMEM_RETURNS_BLOCK(size)                                               \
	__attribute__((malloc, alloc_size(size), warn_unused_result))
#define UMEM_RETURNS_ALIGNED(size, align)                                      \
	UMEM_RETURNS_BLOCK(size) __attribute__((alloc_align(align)))
#define UMEM_RESULT_IS_USED __attribute__((warn_unused_result))
#else
#define UMEM_RETURNS_BLOCK(size)
#define UMEM_RETURNS_ALIGNED(size, align)
#define UMEM_RESULT_IS_USED
#endif

/* A cache of objects of one size. */
typedef struct umem_cache umem_cache_t;

/* An arena; see vmem.h, which is needed only to create an arena. */
#ifndef UMEM_VMEM_T
#define UMEM_VMEM_T
typedef struct vmem vmem_t;
#endif

/*
 * umem_constructor_t - turn raw memory into an object
 *
 * buf		the memory; its contents are undefined
 * priv		as given to umem_cache_create()
 * flags	always UMEM_DEFAULT, also on behalf of a UMEM_NOFAIL request
 *
 * Returns 0, or non-zero for failure, which makes the allocation fail, too.
 * umem_cache_alloc() calls it, in the calling thread, once for each object that
 * it returns for the first time.  It is called ahead of need only for a
 * reserve.  It runs with no lock of the library held and may allocate, but not
 * from its own cache.  If it does not return (longjmp, a C++ exception), the
 * library does not use the memory of this object again until
 * umem_cache_destroy(), which frees the memory without a call of the
 * destructor.
 */
typedef int umem_constructor_t(void *buf, void *priv, int flags);

/*
 * umem_destructor_t - reverse the construction before the memory leaves a cache
 *
 * buf		the object, in the state in which it was freed; it was allocated
 *		at least once, also if the cache has no constructor
 * priv		as given to umem_cache_create()
 *
 * It runs with no lock of the library held, in one of these threads (for a
 * cache with UMC_TYPESAFE_BY_RCU, in a thread of libumem_rcu or in
 * umem_cache_destroy()):
 *  - the upkeep thread of the library, if it exists (umem_options(7), thread),
 *    for objects that were not used for some time;
 *  - a thread that calls umem_reap(), umem_cache_reap_now(),
 *    umem_cache_destroy() or malloc_trim();
 *  - in a process without an upkeep thread, a thread that requests an object
 *    by umem_cache_alloc(), one of its relatives or a bulk call, and finds no
 *    memory.
 * It does not run in malloc(), free(), umem_alloc(), umem_free() or
 * umem_cache_free(), nor in a umem_cache_alloc() that finds memory.  Therefore
 * a thread that calls these functions may hold a lock that the destructor
 * takes.  With the debug word guards, in contrast, each umem_cache_free() calls
 * the destructor.  It must return: not by longjmp(), a C++ exception,
 * pthread_exit() or cancellation.
 */
typedef void umem_destructor_t(void *buf, void *priv);

/*
 * umem_reclaim_t - free objects of a cache that the program can create again
 *
 * priv		as given to umem_cache_create()
 *
 * The library calls it for a request that finds no memory or is beyond the
 * hard limit, by umem_reap(), umem_cache_reap_now() and malloc_trim(), and,
 * if it has an upkeep thread, when the heap stays above the soft limit (the
 * options hard_limit and soft_limit).
 *
 * For one request, the library calls it again as long as each call frees
 * memory, up to 1000 times.  It may allocate and free, take locks of the
 * program that no thread holds while it calls the library, and change errno.
 * It never runs in a signal handler that does not call one of these functions.
 * It runs with no lock of the library held, in one of these threads:
 *  - the upkeep thread of the library, if it exists, for umem_reap(), for the
 *    limits, and for any request that finds no memory; that request waits for
 *    it for at most 200 ms.  All signals are blocked in that thread;
 *  - in a process without an upkeep thread, a thread that calls umem_reap(), or
 *    that calls umem_cache_alloc() and finds no memory; malloc() and
 *    umem_alloc() do not call it;
 *  - a thread that calls umem_cache_reap_now() or malloc_trim().
 * It must return, as a umem_destructor_t must.
 */
typedef void umem_reclaim_t(void *priv);

/*
 * umem_import_t - get resources for an import cache
 *
 * arg		as given to umem_import_cache_create()
 * store	receives the resources: values that are not NULL and that
 *		differ from all other existing resources of the cache
 * n		number of requested resources, at least 1.  It is 1 at first and
 *		grows with use up to 64, or is the number of resources that
 *		umem_cache_alloc_bulk() still needs
 * flags	always UMEM_DEFAULT, also on behalf of a UMEM_NOFAIL request
 *
 * Returns the number of resources delivered, 0 to n.  A function that should
 * not run ahead of need delivers 1, whatever n is.  If it returns 0, the
 * allocation fails with the errno that the function has set, or with ENOMEM if
 * it has set none, unless another CPU has an idle resource.
 *
 * The library calls it in umem_cache_alloc() and umem_cache_alloc_bulk() of its
 * cache, in the calling thread, with no lock of the library held.  It may
 * allocate, but not from its own cache, and must return: not by longjmp() or by
 * a C++ exception.
 */
typedef size_t umem_import_t(void *arg, void **store, size_t n, int flags);

/*
 * umem_release_t - release resources of an import cache
 *
 * arg		as given to umem_import_cache_create()
 * store	the resources, which are idle; the function must not change it
 * n		number of resources, 1 to 64
 *
 * The library calls it with no lock of the library held, in one of these
 * threads:
 *  - the upkeep thread of the library, if it exists (umem_options(7), thread),
 *    for resources that were not used for some time;
 *  - a thread that calls umem_reap(), umem_cache_reap_now(),
 *    umem_cache_shrink(), umem_cache_destroy() or malloc_trim();
 *  - in a process without an upkeep thread, a thread that calls
 *    umem_cache_alloc() of any cache and finds no memory;
 *  - if the cache has a max_idle and more resources are idle, a thread that
 *    allocates from the cache, frees to it, or calls umem_cache_free_bulk(),
 *    and after a grace period a thread of libumem_rcu or one that calls
 *    umem_rcu_barrier(); see umem_rcu.h.
 * It does not run in malloc(), free(), umem_alloc() or umem_free(), nor,
 * without a max_idle, in umem_cache_free().  It may use other caches, and must
 * return, as a umem_import_t must.
 */
typedef void umem_release_t(void *arg, void *const *store, size_t n);

/*
 * umem_nofail_callback_t - decide how a failed UMEM_NOFAIL request continues
 *
 * Returns UMEM_CALLBACK_RETRY or UMEM_CALLBACK_EXIT(status), or does not
 * return (longjmp and pthread_exit are allowed).  It runs with no lock of the
 * library held.  A UMEM_NOFAIL request of its own may call it again.
 */
typedef int umem_nofail_callback_t(void);

/* Flags of a request, or-ed together. */
#define UMEM_DEFAULT 0x0000 /* may fail */
#define UMEM_NOFAIL  0x0100 /* see umem_nofail_callback() */
/* The last two are for objects of caches; other requests ignore them. */
#define UMEM_NOWAIT  0x0200 /* do not wait at the cache's limit */
#define UMEM_RESERVE 0x0400 /* may take from the cache's reserve */
#define UMEM_FLAGS   0xffff /* mask of valid flags; others are ignored */

/* The results of a umem_nofail_callback_t. */
#define UMEM_CALLBACK_RETRY        0
#define UMEM_CALLBACK_EXIT(status) (0x100 | ((status) & 0xff))

/* Flags of a cache, or-ed together. */
#define UMC_NOTOUCH    0x00010000        /* never write into free objects */
#define UMC_NODEBUG    0x00020000        /* ignore UMEM_DEBUG */
#define UMC_NOMAGAZINE 0x00040000        /* no per-CPU layer */
#define UMC_NOHASH     0x00080000        /* accepted without effect */
#define UMC_QCACHE     0x00100000        /* accepted without effect */
#define UMC_INTERNAL   (-0x7fffffff - 1) /* accepted without effect */

/*
 * UMC_TYPESAFE_BY_RCU - keep the memory of freed objects an object of the cache
 *
 * For structures that readers traverse in read-side critical sections of
 * liburcu while updaters free objects by umem_cache_free(), without a grace
 * period for each object.  A reader may then hold a pointer to an object that
 * an updater has freed, and that another thread may have allocated again.  With
 * this flag the library promises the following until the reader leaves its
 * section:
 *  - the memory stays mapped and stays an object of this cache;
 *  - the library does not write to it, and calls neither the constructor nor
 *    the destructor on it.
 *
 * The library takes a slab that is empty out of use, waits for a grace period,
 * calls the destructor for its objects, and releases its memory.  It waits for
 * readers of the flavours for which the program called umem_cache_rcu() of
 * libumem_rcu; before the first such call it releases no slab.
 * umem_cache_destroy() does not wait, so no reader may hold a pointer to an
 * object of the cache at that time.
 *
 * The object may be another object than the reader searched for.  Therefore the
 * reader finds an object, takes a reference, and then compares the key again:
 *
 *	rcu_read_lock();
 *	while ((object = find(key)) != NULL) {
 *		if (!take_reference(object))
 *			continue;		// it was free: count of 0
 *		if (object->key == key)
 *			break;
 *		drop_reference(object);		// it is another object now
 *	}
 *	rcu_read_unlock();
 *
 * take_reference() increments a count that is not 0, or locks a lock, inside
 * the object.  Such a member must be valid at any time.  Therefore the
 * constructor has to set it up, the program must free the object with the
 * member in its constructed state (a count of 0, the lock released), and the
 * allocating thread must not initialise it again.  That thread writes the key
 * first and increments the count from 0 last (release).  Without a constructor
 * the contents of a new object are undefined, and the pattern is not valid.
 *
 * umem_cache_zalloc() refuses such a cache, and UMEM_DEBUG and hardened put no
 * pattern into its free objects.
 *
 * Source: Linux's SLAB_TYPESAFE_BY_RCU.
 */
#define UMC_TYPESAFE_BY_RCU 0x00200000

/* Longest name of a cache, without the 0 at its end. */
#define UMEM_CACHE_NAMELEN 31

/*
 * umem_alloc - allocate a block
 *
 * size		of the block; 0 is not an error and gives NULL, even with
 *		UMEM_NOFAIL, unless UMEM_OPTIONS=zero_size=block is set, which
 *		gives a block of 0 bytes, for umem_free() with size 0
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block with undefined contents, for umem_free() with this size.  The
 * block is aligned to 8, to 16 from a size of 16 on, to 64 if size is a
 * multiple of 64, and to the page if size is a multiple of the page size.
 * Without UMEM_NOFAIL, it may return NULL with errno set:
 *	ENOMEM	memory is exhausted, or size exceeds PTRDIFF_MAX
 *
 * Source: umem_alloc(3MALLOC).
 */
void *umem_alloc(size_t size, int flags) UMEM_RETURNS_BLOCK(1);

/*
 * umem_zalloc - allocate a block of zeros
 *
 * size		of the block, as for umem_alloc()
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block of zeros, for umem_free() with this size, or NULL as
 * umem_alloc() does.
 */
void *umem_zalloc(size_t size, int flags) UMEM_RETURNS_BLOCK(1);

/*
 * umem_free - free a block of umem_alloc() or umem_zalloc()
 *
 * buf		the block; NULL is allowed and does nothing
 * size		exactly the requested size
 *
 * Never fails and leaves errno unchanged.  A size in another size class than
 * the block is misuse, and is reported.  Above 32 KiB, it is reported if it is
 * larger than the block or at most half of it: a block may be in a chunk that
 * was cached, of one of the next three classes.
 */
void umem_free(const void *buf, size_t size);

/*
 * umem_realloc - change the size of a block
 *
 * buf		from umem_alloc(), umem_zalloc() or umem_realloc(); with NULL
 *		the call is umem_alloc(size, flags)
 * old		exactly the size with which buf was requested
 * size		the new size; with 0 the block is freed, and the result is that
 *		of umem_alloc(0, flags)
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block for umem_free() with the new size, which has the contents of
 * buf up to the lesser size; the rest is undefined.  buf is then no block any
 * more, unless it is the result.  A block that was not resized before stays in
 * place if both sizes have one umem_good_size() and it is no sample (see
 * umem_sample()).  A block of more than 64 KiB stays in place if the heap
 * behind it is free; from 4 MiB on, pages are moved instead of copied where
 * that is cheaper.  With UMEM_DEBUG or UMEM_OPTIONS=hardened, a large block
 * that grows is copied.
 * Without UMEM_NOFAIL, it may return NULL with errno set, and then leaves buf
 * as it is:
 *	ENOMEM	memory is exhausted, or size exceeds PTRDIFF_MAX
 *
 * The alignment is that of umem_alloc(size).  Source: our own.
 */
void *umem_realloc(
    void *buf, size_t old, size_t size, int flags) UMEM_RESULT_IS_USED;

/*
 * umem_good_size - return the size that a block has at least
 *
 * size		as for umem_alloc()
 *
 * Returns the largest size for which a block of umem_alloc() is as good as for
 * this size, at least size.  A container that can use more than it needs
 * requests umem_good_size() bytes.  It may free a block of umem_alloc() with
 * any size that has the same umem_good_size() as the requested one.  With
 * UMEM_DEBUG or UMEM_OPTIONS=hardened the result is size, so that an overrun is
 * detected at the byte.  Source: jemalloc's nallocx().
 */
size_t umem_good_size(size_t size);

/*
 * umem_alloc_align, umem_alloc_aligned - allocate an aligned block
 *
 * size		of the block; 0 has the effect that it has for umem_alloc()
 * align	of the block: a power of two; less than 8 counts as 8
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block with undefined contents, for umem_free_align() with this
 * size, or NULL with errno set:
 *	EINVAL	align is not a power of two, also with UMEM_NOFAIL
 *	ENOMEM	memory is exhausted, or size and align together exceed
 *		PTRDIFF_MAX; without UMEM_NOFAIL only
 *
 * Source: libumem's private interface; the second spelling is OpenZFS's.
 */
void *umem_alloc_align(size_t size, size_t align, int flags)
    UMEM_RETURNS_ALIGNED(1, 2);
void *umem_alloc_aligned(size_t size, size_t align, int flags)
    UMEM_RETURNS_ALIGNED(1, 2);

/*
 * umem_free_align, umem_free_aligned - free a block of umem_alloc_align()
 *
 * buf		the block; NULL is allowed and does nothing
 * size		exactly the requested size
 *
 * Never fails and leaves errno unchanged.
 */
void umem_free_align(void *buf, size_t size);
void umem_free_aligned(void *buf, size_t size);

/*
 * umem_nofail_callback - set the callback for UMEM_NOFAIL requests that fail
 *
 * callback	called for each failure; NULL removes the current callback
 *
 * The failed request calls it with no lock held, and acts on its result:
 *	UMEM_CALLBACK_RETRY	try the request again
 *	UMEM_CALLBACK_EXIT(s)	call exit(s), once; other threads with a request
 *				that fails at the same time block forever, and a
 *				second exit from an exit handler aborts
 *	any other value		write a message and call exit(255)
 * Without a callback the program ends by exit(255).
 *
 * In a child that was forked while another thread was in such an exit(), the
 * library calls _exit() instead, because the child can never acquire glibc's
 * lock of exit().
 *
 * Source: umem_nofail_callback(3MALLOC).
 */
void umem_nofail_callback(umem_nofail_callback_t *callback);

/*
 * umem_setmtbf - make requests fail on purpose, to test the program
 *
 * mtbf		0: none; 1: every UMEM_DEFAULT request fails; n: about one
 *		request in n fails, at random
 *
 * Requests with UMEM_NOFAIL do not fail.  malloc() and related functions fail,
 * too, if this library provides them (libumem_malloc).  The function works at
 * any time; in libumem it requires UMEM_DEBUG.
 *
 * Source: umem_setmtbf(3MALLOC).
 */
void umem_setmtbf(uint32_t mtbf);

/* The default sampling interval of UMEM_OPTIONS=sample, in bytes. */
#define UMEM_SAMPLE_DEFAULT ((size_t)1024 * 1024)

/*
 * umem_sample - set the sampling interval
 *
 * bytes	mean number of allocated bytes between two samples; 0 ends
 *		sampling.  The cost of UMEM_SAMPLE_DEFAULT is hardly noticeable;
 *		with 1, every block is a sample
 *
 * A sample is a block of malloc(), umem_alloc() or a related function, or an
 * object of a cache.  The library keeps its stack (the innermost 64 frames),
 * time and thread until the block is freed, for umem users and umem leaks; see
 * umem(1).  One sample in 32, if it is smaller than 60 KiB, ends at a guard
 * page, and the library unmaps its pages when it is freed.  Therefore an access
 * past its end or after the free faults.  The library reports a second free of
 * such a block with the stacks of its allocation and of its first free.
 *
 * A sampled object is constructed when it is allocated, and destructed when it
 * is freed; if the constructor refuses, the request gets an object that is no
 * sample.  A cache applies that sampling was turned on or off when a call next
 * leaves the fast path, at the latest when a CPU has no free object of it.  Not
 * sampled are objects of a source, of import caches and of caches with
 * UMC_TYPESAFE_BY_RCU, because a sample has memory of its own in the heap,
 * which is released when it is freed, and objects of a cache from its first
 * umem_cache_free_rcu() on.
 *
 * Existing samples remain samples until they are freed; a large block that
 * realloc() enlarges is counted like a new one.  Each thread applies a new
 * interval at the latest after 256 KiB of allocations.  If bytes is not 0, the
 * sums of what the stacks have allocated, and the peak, begin anew; umem users
 * --allocated, --temporary and --peak show them.  Returns 0, or -1 with errno
 * set:
 *	ENOTSUP	every block is already checked by UMEM_DEBUG, by
 *		UMEM_OPTIONS=hardened, or by a memory checker
 *	EAGAIN	there is no memory for the data of the library itself
 *
 * Any thread may call it at any time; of two simultaneous calls, one takes
 * effect.  Source: our own.
 */
int umem_sample(size_t bytes);

/*
 * umem_startup - start the library
 *
 * start	no effect, as the other four arguments: the library obtains its
 * bytes	memory from the kernel
 * page
 * minstack
 * maxstack
 *
 * A program need not call it, because the first call of any other function
 * starts the library.
 *
 * Source: libumem's interface for programs that start the library themselves.
 */
void umem_startup(
    char *start, size_t bytes, size_t page, char *minstack, char *maxstack);

/*
 * _umem_options_init, _umem_debug_init, _umem_logging_init - settings that a
 * program provides
 *
 * The library does not define these functions.  A program may define them; each
 * returns the string that the library uses if UMEM_OPTIONS, UMEM_DEBUG or
 * UMEM_LOGGING, respectively, is not in the environment.  The library calls
 * them once, while it starts.  They may allocate up to 1 MiB.  The program must
 * export them to shared libraries (-rdynamic).  See umem_debug(3).
 *
 * Source: umem_debug(3MALLOC).
 */
const char *_umem_options_init(void);
const char *_umem_debug_init(void);
const char *_umem_logging_init(void);

/*
 * umem_reap - release memory that no object uses
 *
 * Calls the reclaim callback of every cache that has one, empties the magazines
 * of all CPUs and depots, and releases empty slabs.  If the upkeep thread
 * exists, it does this work later, and the call returns at once.  A call within
 * reap_interval of another call may do nothing.
 *
 * Source: libumem's private interface.
 */
void umem_reap(void);

/*
 * umem_cache_create - create a cache of objects that stay constructed
 *
 * name		of the cache in reports; copied, cut to UMEM_CACHE_NAMELEN bytes
 * bufsize	of an object, at least 1
 * align	of every object: a power of two up to the quantum of source (the
 *		page size for the default heap).  0 means 16 if bufsize rounded
 *		up to 8 is at least 16, and 8 otherwise.  Less than 8 counts as
 *		8 unless cflags has UMC_NOTOUCH
 * constructor	called once for a new object, when it is first allocated, and
 *		not again while the object stays in the cache.  May be NULL
 * destructor	called before the memory of an object that was allocated leaves
 *		the cache.  May be NULL
 * reclaim	called when memory is short, to free objects.  May be NULL
 * priv		passed to the three callbacks unchanged
 * source	the arena that slabs come from; NULL for the default heap.  It
 *		must provide writable memory, unless cflags has UMC_NOTOUCH, and
 *		must outlive the cache
 * cflags	UMC_* or-ed together, or 0
 *
 * If bufsize or align is a multiple of the cache line (64), no two objects
 * share a line, unless source has a quantum below 64.  Returns the cache, to be
 * destroyed by umem_cache_destroy(), or NULL with errno set:
 *	EINVAL	name is NULL; bufsize is 0; align is not a power of two or
 *		exceeds the quantum; UMC_NOHASH and UMC_NOTOUCH together; bits
 *		in cflags that are not UMC_*
 *	ENOMEM	bufsize is so large that a computation with it would overflow
 *	EAGAIN	there is no memory for the data of the cache itself
 *
 * Source: umem_cache_create(3MALLOC); the order of arguments is kept.
 */
umem_cache_t *umem_cache_create(const char *name, size_t bufsize, size_t align,
    umem_constructor_t *constructor, umem_destructor_t *destructor,
    umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags);

/*
 * The attributes of a cache, for umem_cache_create_args().  Each attribute has
 * the meaning of the argument of umem_cache_create() with its name; size is
 * bufsize.  0 or NULL selects the default, so a program sets only the
 * attributes that it needs:
 *
 *	struct umem_cache_args args = { .size = 96, .destructor = end_job };
 *
 * Limits and reserves are described in umem_cache_limits(3):
 *
 * limit		maximum number of objects that the program may hold; 0:
 *			no limit
 * reserve		number of objects to keep constructed for requests with
 *			UMEM_RESERVE that find no memory; 0: none
 * limit_wait		milliseconds that a request waits at the limit before it
 *			fails; 0: it does not wait, -1: no time limit
 *
 * Later versions add members at the end.
 */
struct umem_cache_args {
	size_t size;
	size_t align;
	umem_constructor_t *constructor;
	umem_destructor_t *destructor;
	umem_reclaim_t *reclaim;
	void *priv;
	vmem_t *source;
	int cflags;
	int limit_wait;
	size_t limit;
	size_t reserve;
};

/*
 * umem_cache_create_args - create a cache from a structure of attributes
 *
 * name		as for umem_cache_create()
 * args		the attributes; read during the call only
 * args_size	sizeof(struct umem_cache_args), in bytes, so that the structure
 *		can grow: a program may be older or newer than the library
 *
 * Returns the cache, to be destroyed by umem_cache_destroy(), or NULL with
 * errno set as by umem_cache_create(), and also:
 *	EINVAL	args is NULL; args_size is less than in the first version;
 *		args has an attribute that this library does not know and that
 *		is not 0; limit_wait is less than -1
 *	ENOMEM	there is no memory for the reserve, or the constructor failed
 *
 * Any thread may call it, but no signal handler.  Source: Linux's
 * struct kmem_cache_args.
 */
umem_cache_t *umem_cache_create_args(
    const char *name, const struct umem_cache_args *args, size_t args_size);

/*
 * UMEM_CACHE - create a cache of objects of a type, without callbacks
 *
 * type		of the objects; gives the cache's name, size and alignment
 * cflags	as for umem_cache_create()
 *
 * Returns the result of umem_cache_create(), and sets errno as it does.
 * Source: Linux's KMEM_CACHE().
 */
#define UMEM_CACHE(type, cflags)                                               \
	umem_cache_create(#type, sizeof(type), __alignof__(type), NULL, NULL,  \
	    NULL, NULL, NULL, (cflags))

/*
 * umem_import_cache_create - create a cache of resources that are not memory
 *
 * name		of the cache in reports; copied, cut to UMEM_CACHE_NAMELEN bytes
 * import	called to get resources
 * release	called to release resources
 * arg		passed to the two functions unchanged
 * max_idle	maximum number of idle resources; 0: no limit, so that resources
 *		stay idle until they were not used for some time.  A call in
 *		progress may exceed the limit by the resources that it moves,
 *		and a program that runs on more CPUs than at its start by what
 *		idles on these
 * cflags	UMC_NOMAGAZINE and UMC_NODEBUG, or-ed together, or 0.
 *		UMC_NOTOUCH is implied
 *
 * A resource is any value of the size of a pointer except NULL: a descriptor
 * plus 1, an identifier, a buffer that the program has registered.  The library
 * keeps idle resources in per-CPU magazines and never uses them as addresses.
 *
 * umem_cache_alloc() returns an idle resource or, if there is none, a resource
 * that import() has just delivered, and umem_cache_free() makes it idle.
 * umem_cache_alloc_bulk(), umem_cache_free_bulk(), umem_cache_reap_now(),
 * umem_cache_shrink(), umem_cache_name() and umem_cache_destroy() work as for
 * objects, with release() in place of the destructor.  A reserve works, too;
 * its resources are in use, not idle.  There is no reclaim callback and no
 * limit of resources in use: import() may implement a limit, and
 * umem_cache_set_limit() fails with ENOTSUP.  umem_cache_size() returns 0, and
 * umem_cache_zalloc() fails with EINVAL.  With UMEM_NOFAIL, a request calls the
 * umem_nofail_callback() when import() delivers nothing.
 *
 * To free a resource that is already free, or that was never allocated, is
 * misuse.  The library always detects it under UMEM_DEBUG (unless cflags has
 * UMC_NODEBUG) and UMEM_OPTIONS=hardened.  Otherwise it detects the misuse if
 * the resource is one of the two just freed, or if the program frees more
 * resources than it allocated.
 *
 * The child of fork() has a copy of the cache with all its idle resources.  The
 * program must not use them there if a child does not inherit them.  The child
 * loses resources that other threads were importing or releasing.
 *
 * Returns the cache, to be destroyed by umem_cache_destroy(), or NULL with
 * errno set:
 *	EINVAL	name, import or release is NULL; bits in cflags other than the
 *		two flags above
 *	EAGAIN	there is no memory for the data of the cache itself
 *
 * Any thread may call it, but no signal handler.  Source: uma_zcache_create()
 * and uma_zone_set_maxcache() of FreeBSD.
 */
umem_cache_t *umem_import_cache_create(const char *name, umem_import_t *import,
    umem_release_t *release, void *arg, size_t max_idle, int cflags);

/*
 * umem_cache_size - return the size of a cache's objects
 *
 * cache	from umem_cache_create() or umem_import_cache_create()
 *
 * Returns the bufsize of the cache in bytes, or 0 for an import cache.  A
 * signal handler may call it.
 */
size_t umem_cache_size(const umem_cache_t *cache);

/*
 * umem_cache_name - return the name of a cache
 *
 * cache	from umem_cache_create()
 *
 * Returns the name as in reports, cut to UMEM_CACHE_NAMELEN bytes; it is valid
 * until umem_cache_destroy().  A signal handler may call it.
 */
const char *umem_cache_name(const umem_cache_t *cache);

/*
 * umem_cache_set_limit, umem_cache_set_limit_wait - change the limit of a cache
 *
 * cache	from umem_cache_create_args()
 * n		as limit of struct umem_cache_args.  A limit below the number of
 *		objects in use is allowed; requests then succeed after enough
 *		frees
 * ms		as limit_wait of struct umem_cache_args; applies to later
 *		requests
 *
 * Waiting requests that fit the new limit succeed; waiting requests for more
 * objects than the limit fail.  Each function returns 0, or -1 with errno set:
 *	EINVAL	ms is less than -1
 *	ENOTSUP	the cache does not count its objects, because it was created
 *		without limit and limit_wait
 *
 * Source: FreeBSD's uma_zone_set_max().
 */
int umem_cache_set_limit(umem_cache_t *cache, size_t n);
int umem_cache_set_limit_wait(umem_cache_t *cache, int ms);

/*
 * umem_cache_set_reserve - change the number of objects kept in reserve
 *
 * cache	from umem_cache_create() or umem_cache_create_args(); only one
 *		call for a cache at a time
 * n		number of objects.  The call allocates and constructs missing
 *		objects, and returns excess objects to the cache
 *
 * A call that makes the reserve smaller does not fail.  If the reserve was used
 * and there is no memory, it is filled later, as after any use.
 *
 * Returns 0, or -1 with errno set, and then leaves the reserve unchanged:
 *	ENOMEM	there is no memory for the objects, or the constructor failed
 *
 * Source: FreeBSD's uma_zone_reserve() and uma_prealloc().
 */
int umem_cache_set_reserve(umem_cache_t *cache, size_t n);

/* The result of umem_cache_limits(); counts start when the cache is created. */
struct umem_cache_limits {
	size_t limit;      /* in objects; 0: none */
	size_t in_use;     /* objects that count; 0 if the cache counts none */
	size_t waiting;    /* requests that wait now */
	uint64_t waits;    /* requests that have waited */
	uint64_t failures; /* requests that failed at the limit */
	size_t reserve;    /* objects that the reserve should have */
	size_t ready;      /* objects that it has */
	uint64_t used;     /* objects that requests took from it */
};

/*
 * umem_cache_limits - return the limit and the reserve of a cache
 *
 * cache	from umem_cache_create() or umem_cache_create_args()
 * out		filled in
 * bytes	sizeof(struct umem_cache_limits), so that the structure can grow
 *
 * Each figure is exact at some moment of the call.  Returns 0, or -1 with errno
 * set:
 *	EINVAL	out is NULL, or bytes is not a size that this library knows
 *
 * A signal handler may call it.  Source: FreeBSD's uma_zone_get_cur() and
 * uma_zone_get_max().
 */
int umem_cache_limits(
    const umem_cache_t *cache, struct umem_cache_limits *out, size_t bytes);

/*
 * umem_cache_destroy - destroy a cache
 *
 * cache	from umem_cache_create(); no other thread may be using it.  NULL
 *		is allowed and does nothing
 *
 * The program should have freed every object.  The library calls the destructor
 * for each object and returns the memory to the arena.  If objects are still
 * allocated, it calls the destructor for the free objects only and reports the
 * allocated objects on standard error, with the stacks of their allocation if
 * they are samples or audited.  The slabs of these objects stay mapped
 * forever, and the library reports a later umem_cache_free() of such an object.
 * Requests that wait at the cache's limit then fail with ECANCELED.
 * If the kernel refuses membarrier(2), objects in magazines and objects that
 * wait for a grace period also keep their slabs, and no destructor is called
 * for them after this function returns, unless a thread of libumem_rcu has
 * begun the call before.
 *
 * Source: umem_cache_destroy(3MALLOC).
 */
void umem_cache_destroy(umem_cache_t *cache);

/*
 * umem_cache_alloc - allocate a constructed object
 *
 * cache	from umem_cache_create()
 * flags	UMEM_DEFAULT, or UMEM_NOFAIL, UMEM_NOWAIT and UMEM_RESERVE or-ed
 *		together
 *
 * Returns an object in the state in which it was freed or, if none is free, a
 * new object that this call has constructed.  Without UMEM_NOFAIL, it may
 * return NULL with errno set:
 *	ENOMEM	the arena has no memory, or the constructor failed
 * and for a cache with a limit (struct umem_cache_args):
 *	EAGAIN	the limit is reached, and the request may not wait
 *	ETIMEDOUT
 *		the limit was still reached after limit_wait
 *	ECANCELED
 *		the cache was destroyed during the wait
 *
 * Source: umem_cache_alloc(3MALLOC).
 */
/*
 * The result is not declared as a new block, because the constructor may have
 * stored pointers in it.
 */
void *umem_cache_alloc(umem_cache_t *cache, int flags) UMEM_RESULT_IS_USED;

/*
 * umem_cache_free - free an object
 *
 * cache	the cache that allocated it.  To free to another cache is
 *		misuse.  Debugged caches report it at once, other caches only if
 *		the object reaches a slab
 * buf		the object, in its constructed state; NULL is allowed and does
 *		nothing
 *
 * Never fails and leaves errno unchanged.
 *
 * Source: umem_cache_free(3MALLOC).
 */
void umem_cache_free(umem_cache_t *cache, void *buf);

/*
 * umem_cache_zalloc - allocate an object of zeros
 *
 * cache	from umem_cache_create(), without a constructor, UMC_NOTOUCH
 *		and UMC_TYPESAFE_BY_RCU
 * flags	as for umem_cache_alloc()
 *
 * Returns an object whose bufsize bytes are 0, for umem_cache_free(), or NULL
 * with errno set:
 *	EINVAL	the cache has a constructor, whose state zeros would overwrite,
 *		or UMC_NOTOUCH, or UMC_TYPESAFE_BY_RCU, with which readers may
 *		access a free object; UMEM_NOFAIL does not prevent this error
 *	ENOMEM, EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_alloc()
 *
 * Source: Linux's kmem_cache_zalloc().
 */
void *umem_cache_zalloc(umem_cache_t *cache, int flags);

/*
 * umem_cache_alloc_bulk - allocate many objects by one call, all or none
 *
 * cache	from umem_cache_create()
 * n		number of objects; 0 is not an error and does nothing
 * objects	receives the n objects; undefined after a failure
 * flags	as for umem_cache_alloc()
 *
 * The objects are equivalent to those of umem_cache_alloc(), and may be freed
 * singly or in bulk, in any groups.  Returns n.  Without UMEM_NOFAIL, it may
 * return 0 with errno set:
 *	ENOMEM	the arena has no memory for n objects, or the constructor
 *		failed
 *	EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_alloc(); a request for more objects than the
 *		limit fails with EAGAIN at once
 * With UMEM_NOFAIL the callback runs while the call holds no object.  If the
 * constructor does not return (longjmp, a C++ exception), the objects that the
 * call had before stay allocated, and the caller cannot tell which they are.
 * Use single calls with a constructor that may do so.
 *
 * One call accesses the per-CPU magazines once, not once for each object.  From
 * 16 objects on, the cost for each object is less than half the cost of a
 * single call.  Source: kmem_cache_alloc_bulk() of Linux.
 */
size_t umem_cache_alloc_bulk(
    umem_cache_t *cache, size_t n, void **objects, int flags);

/*
 * umem_cache_free_bulk - free many objects by one call
 *
 * cache	the cache that allocated all objects
 * n		number of pointers in objects; may be 0
 * objects	the objects; NULL pointers in it are ignored.  It is not changed
 *
 * Never fails and leaves errno unchanged.  The function detects misuse as
 * umem_cache_free() does, but compares only the first object with those just
 * freed.  Source: kmem_cache_free_bulk() of Linux.
 */
void umem_cache_free_bulk(umem_cache_t *cache, size_t n, void *const *objects);

/*
 * umem_alloc_bulk - allocate many blocks of one size by one call, all or none
 *
 * size		of each block, in bytes; 0 is not a failure, and each block is
 *		then the result of umem_alloc(0)
 * n		number of blocks; 0 is not an error and does nothing
 * blocks	receives the n blocks; undefined after a failure
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * The blocks are equivalent to those of umem_alloc(), for umem_free() or
 * umem_free_bulk() with this size.  Returns n.  Without UMEM_NOFAIL, it may
 * return 0 with errno set:
 *	ENOMEM	memory is exhausted, or size exceeds PTRDIFF_MAX
 *
 * Source: our own, after umem_cache_alloc_bulk().
 */
size_t umem_alloc_bulk(size_t size, size_t n, void **blocks, int flags);

/*
 * umem_free_bulk - free many blocks of one size by one call
 *
 * n		number of pointers in blocks; may be 0
 * blocks	from umem_alloc(), umem_zalloc() or umem_alloc_bulk(); NULL
 *		pointers in it are ignored.  It is not changed
 * size		exactly the requested size of each block, in bytes
 *
 * Never fails and leaves errno unchanged.  The function detects misuse as
 * umem_free() does, but compares only the first block with those just freed.
 */
void umem_free_bulk(size_t n, void *const *blocks, size_t size);

/*
 * umem_cache_reap_now - release the memory that a cache does not use, at once
 *
 * cache	from umem_cache_create()
 *
 * Calls the cache's reclaim callback, empties its per-CPU magazines and depot,
 * runs the destructor on the objects that were in them, and returns empty slabs
 * to the arena.  With UMC_TYPESAFE_BY_RCU, the last two steps follow after a
 * grace period.
 *
 * Source: OpenZFS.
 */
void umem_cache_reap_now(umem_cache_t *cache);

/*
 * umem_cache_shrink - release the memory that a cache does not use, without
 * reclaim
 *
 * cache	from umem_cache_create()
 *
 * Works as umem_cache_reap_now(), but does not call the reclaim callback.
 * Returns 0 if the cache has no memory for objects now, and 1 if allocated
 * objects still occupy some.  Leaves errno unchanged, unless a destructor
 * changes it.
 *
 * Source: Linux's kmem_cache_shrink().
 */
int umem_cache_shrink(umem_cache_t *cache);

/*
 * umem_strdup - copy a string
 *
 * string	ends in 0
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a copy, or NULL with errno set.  Free the copy with umem_strfree(),
 * or with umem_free() and the size of the string including its 0:
 *	ENOMEM	memory is exhausted; without UMEM_NOFAIL only
 *
 * Source: kmem_strdup() of illumos and OpenZFS.
 */
char *umem_strdup(const char *string, int flags);

/*
 * umem_strfree - free a string of umem_strdup()
 *
 * string	the copy, which the program may have shortened meanwhile; NULL
 *		is allowed and does nothing
 *
 * Never fails and leaves errno unchanged.  Source: kmem_strfree() of illumos
 * and OpenZFS.
 */
void umem_strfree(char *string);

/* The version of these declarations; compare with umem_version(). */
#define UMEM_VERSION "0.1.0"

/* How the process accesses per-CPU magazines; see umem_mode(). */
enum umem_mode_kind {
	UMEM_MODE_RSEQ_LIBC, /* rseq, in the area that libc registered */
	UMEM_MODE_RSEQ_OWN,  /* rseq, in an area that umem registered */
	UMEM_MODE_LOCKED     /* one lock for each CPU; slower */
};

/* The number that selects the per-CPU magazines of a thread. */
enum umem_index_kind {
	UMEM_INDEX_MM_CID, /* dense number of a running thread */
	UMEM_INDEX_CPU_ID  /* the CPU number */
};

struct umem_mode {
	int mode;           /* enum umem_mode_kind */
	int index;          /* enum umem_index_kind */
	unsigned ncpus;     /* maximum number of CPU slots */
	const char *reason; /* the reason why no better mode is used, or "";
				   never to be freed */
};

/*
 * umem_mode - return the mode of the library
 *
 * out		filled in
 * bytes	sizeof(struct umem_mode), so that the structure can grow
 *
 * Returns 0, or -1 with errno set:
 *	EINVAL	out is NULL, or bytes is not a size that this library knows
 *
 * The result stays valid until exit.  Source: our own.
 */
int umem_mode(struct umem_mode *out, size_t bytes);

/* The memory of the library, in bytes; see umem_stats(). */
struct umem_stats {
	size_t mapped_bytes;    /* heap_bytes + own_bytes */
	size_t heap_bytes;      /* heap memory not returned to the kernel: the
				   sum of live_bytes, cached_bytes,
				   waiting_bytes, dirty_bytes, sampled_bytes */
	size_t live_bytes;      /* blocks and objects that the program holds,
				   except samples */
	size_t cached_bytes;    /* free blocks and objects */
	size_t waiting_bytes;   /* freed objects that wait for a grace period */
	size_t slab_bytes;      /* part of cached_bytes: slabs */
	size_t dirty_bytes;     /* free pages, which will be returned */
	size_t own_bytes;       /* structures of the library */
	size_t large_bytes;     /* part of live_bytes: large blocks */
	size_t nlarge;          /* number of large blocks and samples */
	size_t sampled_bytes;   /* pages of samples */
	size_t arena_bytes;     /* part of live_bytes: arenas of the program */
	size_t committed_bytes; /* largest size, less what was released */
	size_t sample_bytes;    /* sampling interval; 0: off */
	size_t nfree;           /* number of free blocks and objects, cached
				   and waiting ones included */
	size_t ncaches;         /* number of caches, size classes included */
	uint64_t nfailures;     /* allocations that failed */
	size_t soft_limit_bytes; /* limit on heap_bytes; 0: none */
	uint64_t nsoft_limit;    /* releases because of it */
	size_t hard_limit_bytes; /* limit on limited_bytes; 0: none */
	uint64_t nhard_limit;    /* allocations that failed because of it */
	size_t limited_bytes;    /* heap_bytes, and memory that the program gets
				    back without a request: see hard_limit */
	size_t cpu_bytes;        /* part of cached_bytes: magazines of CPUs */
	size_t depot_bytes;      /* part of cached_bytes: depots, reserves, and
				    the quarantine of UMEM_DEBUG */
	uint64_t nwrong_sizes;   /* frees with a size that does not fit */
	/*
	 * Estimates from samples of all that the program has allocated and
	 * freed since sampling began: bytes, and numbers of blocks and objects.
	 */
	uint64_t allocated_bytes;
	uint64_t nallocated;
	uint64_t freed_bytes;
	uint64_t nfreed;
};

/*
 * umem_stats - return how much memory the library holds
 *
 * out		filled in
 * bytes	sizeof(struct umem_stats), so that the structure can grow
 *
 * Memory that was never written to counts as well as resident memory.  Other
 * threads may allocate meanwhile, so the members are of slightly different
 * moments.  The time grows with the number of caches and CPUs: about
 * 0.1 ms for the caches of malloc() on a small machine.  Takes the lock of the
 * list of caches, and allocates nothing.
 *
 * Returns 0, or -1 with errno set:
 *	EINVAL	out is NULL, or bytes is not a size that this library knows
 *
 * Any thread may call it at any time, but no signal handler.  Source: our own.
 */
int umem_stats(struct umem_stats *out, size_t bytes);

/* The reports of umem_dump(). */
enum umem_dump_kind {
	UMEM_DUMP_STATS,  /* the samples of umem_sample() as a heap
			     profile, and the text of umem_metrics() */
	UMEM_DUMP_OPTIONS /* all options and their values, as "umem options" */
};

/*
 * umem_dump - write a report about the library to a descriptor
 *
 * fd		an open descriptor; if write(2) blocks on it, no other thread
 *		waits for that
 * what		enum umem_dump_kind
 *
 * Returns 0, or -1 with errno set:
 *	EINVAL	what is no value of enum umem_dump_kind
 *	ENOMEM	there is no memory for the text of the report
 *	an error of write(2); a part of the report may have been written
 *
 * UMEM_DUMP_STATS writes what UMEM_OPTIONS=stats writes at exit.  The heap
 * profile is one that pprof reads, with the mappings of /proc/self/maps.  Other
 * threads may allocate meanwhile; a lock that the taking and freeing of samples
 * needs is held for some microseconds at a time.
 *
 * Any thread may call it at any time, but no signal handler, because it locks
 * the list of caches, or the samples, while it reads them.  It is no
 * cancellation point.  Source: our own.
 */
int umem_dump(int fd, int what);

/*
 * umem_metrics - return the statistics as OpenMetrics text, for Prometheus
 *
 * buffer	where to store the text with a final 0; may be NULL if bytes is
 *		0
 * bytes	size of buffer; a longer text is cut
 *
 * The text ends in "# EOF" and is to be served with the Content-Type
 * application/openmetrics-text; version=1.0.0; charset=utf-8.  A program that
 * serves metrics of its own puts them before that line.
 *
 * Returns the bytes of the whole text without the final 0, as snprintf() does;
 * with a result of bytes or more, the program repeats the call with a larger
 * buffer.  Returns -1 with errno set:
 *	ENOMEM	there is no memory to put the text together
 *
 * Any thread may call it at any time, but no signal handler.  Source: the
 * OpenMetrics specification, version 1.0.
 */
ssize_t umem_metrics(char *buffer, size_t bytes);

/*
 * umem_ctl - read or change an option of the library
 *
 * name		a word of UMEM_OPTIONS, UMEM_DEBUG or UMEM_LOGGING that has a
 *		value
 * value	the new value, as in the variable, "yes" or "no" for a word that
 *		takes no value; NULL leaves the option as it is
 * old		where to store the value before the call, with a final 0; may be
 *		NULL
 * bytes	size of old; 64 are enough for any option but a path
 *
 * The following options can change while the program runs: depot_bytes,
 * hard_limit, huge_pages, rcu_budget, rcu_delay, reap_interval, sample and
 * soft_limit of UMEM_OPTIONS, checknull and noabort of UMEM_DEBUG.  The library
 * applies a new value at its next use.  A depot that is already larger than a
 * new depot_bytes keeps its size.
 *
 * Returns 0, or -1 with errno set, and then changes nothing:
 *	ENOENT	there is no such option, or it has no value
 *	EPERM	the option cannot change while the program runs
 *	EINVAL	the value is malformed or out of range
 *	ERANGE	old is too small
 *	ENOTSUP, EAGAIN	of umem_sample(), for the option sample
 *
 * Any thread may call it at any time, but no signal handler.  Of two
 * simultaneous calls for one option, one takes effect.  Source: our own.
 */
int umem_ctl(const char *name, const char *value, char *old, size_t bytes);

/*
 * umem_version - return the version of the loaded library, such as "0.1.0"
 *
 * Returns a static string.  A signal handler may call it.
 */
const char *umem_version(void);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
