/*
 * umem.h - object caches and sized allocation
 *
 * A cache hands out objects of one size that stay constructed between uses;
 * umem_alloc() and its relatives hand out plain memory of any size.  Both
 * keep what was freed in stacks that belong to a CPU, so that most calls take
 * no lock.  The ranges of addresses below them are the arenas of vmem.h.
 *
 * Unless a function says otherwise, below:
 *  - sizes and alignments are in bytes;
 *  - any thread may call it, at any time, from before main() to after exit
 *    handlers, and in the child of fork();
 *  - no function may be called from a signal handler, because a handler can
 *    interrupt one that holds a lock;
 *  - no function may be called in the child of vfork(), nor in another task
 *    that shares memory and thread-local storage with a thread, because the
 *    kernel restarts no section of such a task.  Programs that run on
 *    libumem_malloc may: that library has a vfork() and a clone() of its own;
 *  - errno is set only where a failure is reported, and left alone by what
 *    returns nothing, unless a callback of the program changes it;
 *  - misuse (a pointer that is not of this library, a block freed twice) that
 *    is noticed is reported on standard error in one line and ends the program
 *    by abort().  What umem_free() gets is looked up each time, and compared
 *    with what was freed last; of objects of caches only the latter, and what
 *    gets to a slab that does not have it.
 *
 * With UMEM_OPTIONS=hardened or UMEM_DEBUG in the environment nearly all of it
 * is noticed: see umem_options(7), umem_debug(3).
 *
 * Memory of umem_alloc() goes to umem_free(), of umem_alloc_align() to
 * umem_free_align(), of umem_cache_alloc() to umem_cache_free() with the same
 * cache, and of malloc() to free().
 *
 * Source: libumem(3LIB) and umem_alloc(3MALLOC) of illumos; the spellings
 * umem_alloc_aligned, umem_free_aligned and umem_cache_reap_now are OpenZFS's.
 */
#ifndef UMEM_H
#define UMEM_H

/* The last two because illumos' header includes them, too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What the compiler may know of a function that returns a new block: arguments
 * are the numbers of those with the size and the alignment.
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

/* A cache of equal objects. */
typedef struct umem_cache umem_cache_t;

/* An arena; see vmem.h, which is needed only to make one. */
#ifndef UMEM_VMEM_T
#define UMEM_VMEM_T
typedef struct vmem vmem_t;
#endif

/*
 * umem_constructor_t - make raw memory an object
 *
 * buf		the memory; holds anything
 * priv		as given to umem_cache_create()
 * flags	always UMEM_DEFAULT, also on behalf of a UMEM_NOFAIL request
 *
 * Returns 0, or non-zero for failure: the allocation it was called for then
 * fails too.  umem_cache_alloc() calls it, in the calling thread, once for
 * each object that is handed out for the first time, and ahead of need only for
 * a prefill handle or a reserve.
 * It runs with no lock of the library held and may allocate, but not from its
 * own cache.  If it does not return (longjmp, a C++ exception), its one piece
 * of memory is not used again before umem_cache_destroy(), which frees it
 * without the destructor.
 */
typedef int umem_constructor_t(void *buf, void *priv, int flags);

/*
 * umem_destructor_t - undo the constructor, before the memory goes elsewhere
 *
 * buf		the object, in the state in which it was freed; it was handed
 *		out at least once, also if the cache has no constructor
 * priv		as given to umem_cache_create()
 *
 * It runs with no lock of the library held, in one of these threads (for a
 * cache with UMC_TYPESAFE_BY_RCU, in a thread of libumem_rcu or in
 * umem_cache_destroy()):
 *  - the library's own, where it has one (umem_options(7), thread), which
 *    destructs objects that were not used for a while;
 *  - a thread that calls umem_reap(), umem_cache_reap_now(),
 *    umem_cache_destroy() or malloc_trim();
 *  - a thread whose request for memory of the cache's own source, by
 *    vmem_alloc() or from any cache of that source, finds none;
 *  - if the library has no thread, one whose umem_cache_alloc() finds none.
 * It does not run in malloc(), free(), umem_alloc(), umem_free() or
 * umem_cache_free(), nor in a umem_cache_alloc() that finds memory.  So a
 * thread that calls these may hold a lock that the destructor takes.  Debugging
 * with guards is different: then each umem_cache_free() calls the destructor.
 */
typedef void umem_destructor_t(void *buf, void *priv);

/*
 * umem_reclaim_t - the program is asked to free objects of a cache
 *
 * priv		as given to umem_cache_create()
 *
 * It is called again for one request as long as the calls free something, up
 * to 1000 times.  It runs with no lock of the library held, in one of these
 * threads:
 *  - the library's own, where it has one, for umem_reap() and for any request
 *    that finds no memory; that request waits for it, 100 ms at most;
 *  - else a thread that calls umem_reap(), or whose umem_cache_alloc() finds no
 *    memory; malloc() and umem_alloc() do not call it;
 *  - a thread that calls umem_cache_reap_now() or malloc_trim().
 */
typedef void umem_reclaim_t(void *priv);

/*
 * umem_import_t - get resources for an import cache
 *
 * arg		as given to umem_import_cache_create()
 * store	receives the resources: values that are not NULL and of which
 *		no two are equal while both exist
 * n		number of resources wanted, at least 1.  It is 1 at first and
 *		grows with use up to 64, or what umem_cache_alloc_bulk() lacks
 * flags	always UMEM_DEFAULT, also on behalf of a UMEM_NOFAIL request
 *
 * Returns the number of resources delivered, 0 to n.  A function that should
 * not run ahead of need delivers 1, whatever n is.  If it returns 0, the
 * allocation fails with the errno that it has set, or ENOMEM if it has set
 * none, unless another CPU has an idle resource.
 *
 * The library calls it in umem_cache_alloc() and umem_cache_alloc_bulk() of its
 * cache, in the calling thread, with no lock of the library held.  It may
 * allocate, but not from its own cache, and must return: not by longjmp() or by
 * a C++ exception.
 */
typedef size_t umem_import_t(void *arg, void **store, size_t n, int flags);

/*
 * umem_release_t - give up resources of an import cache
 *
 * arg		as given to umem_import_cache_create()
 * store	the resources, which are idle.  Not to be changed
 * n		number of resources, 1 to 64
 *
 * The library calls it with no lock of the library held, in one of these
 * threads:
 *  - the library's own, where it has one (umem_options(7), thread), for
 *    resources that were not used for a while;
 *  - a thread that calls umem_reap(), umem_cache_reap_now(),
 *    umem_cache_shrink(), umem_cache_destroy() or malloc_trim();
 *  - if the library has no thread, one whose umem_cache_alloc() of any cache
 *    finds no memory;
 *  - if the cache has a max_idle, one that allocates from it, frees to it, or
 *    calls umem_cache_free_bulk(), when more than that many are idle, and the
 *    thread that frees resources of umem_cache_free_rcu() after a grace period.
 * It does not run in malloc(), free(), umem_alloc() or umem_free(), nor, without
 * a max_idle, in umem_cache_free().  It may use other caches, and must return,
 * as a umem_import_t must.
 */
typedef void umem_release_t(void *arg, void *const *store, size_t n);

/*
 * umem_nofail_callback_t - what to do when a UMEM_NOFAIL request fails
 *
 * Returns UMEM_CALLBACK_RETRY or UMEM_CALLBACK_EXIT(status), or does not
 * return (longjmp and pthread_exit are allowed).  It runs with no lock of the
 * library held.  A UMEM_NOFAIL request of its own may call it again.
 */
typedef int umem_nofail_callback_t(void);

/* How a request is made, or-ed together. */
#define UMEM_DEFAULT 0x0000 /* may fail */
#define UMEM_NOFAIL  0x0100 /* see umem_nofail_callback() */
/* The last two are for objects of caches; other requests ignore them. */
#define UMEM_NOWAIT  0x0200 /* do not wait at the cache's limit */
#define UMEM_RESERVE 0x0400 /* may take from the cache's reserve */
#define UMEM_FLAGS   0xffff /* what a request may have; the rest is ignored */

/* What a umem_nofail_callback_t returns. */
#define UMEM_CALLBACK_RETRY        0
#define UMEM_CALLBACK_EXIT(status) (0x100 | ((status) & 0xff))

/* Kinds of cache, or-ed together. */
#define UMC_NOTOUCH    0x00010000 /* never write into free objects */
#define UMC_NODEBUG    0x00020000 /* ignore UMEM_DEBUG */
#define UMC_NOMAGAZINE 0x00040000 /* no per-CPU layer */
#define UMC_NOHASH     0x00080000 /* accepted: no cache here has a hash */
#define UMC_QCACHE     0x00100000 /* for the library's own use */
#define UMC_INTERNAL   0x80000000 /* for the library's own use */

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
 * the readers that umem_cache_rcu() of libumem_rcu named; before the first such
 * call it releases no slab.  umem_cache_destroy() does not wait: no reader may
 * hold a pointer to an object of the cache then.
 *
 * The object need not be the one that the reader looked for.  Therefore the
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
 * a new object holds anything, and the pattern is not valid.
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
 * umem_alloc - get memory
 *
 * size		of the block; 0 is no error and gives NULL, even with
 *		UMEM_NOFAIL, unless UMEM_OPTIONS=zero_size=block asks for a
 *		block of 0 bytes, for umem_free() with size 0
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block that holds anything, for umem_free() with the same size.
 * It is aligned to 8, to 16 from a size of 16 on, to 64 if size is a multiple
 * of 64, and to the page if size is a multiple of the page.  Returns NULL
 * with errno set, without UMEM_NOFAIL only:
 *	ENOMEM	there is no memory, or size exceeds PTRDIFF_MAX
 *
 * Source: umem_alloc(3MALLOC).
 */
void *umem_alloc(size_t size, int flags) UMEM_RETURNS_BLOCK(1);

/*
 * umem_zalloc - get memory that is all zeros
 *
 * Arguments, result and errors are those of umem_alloc().
 */
void *umem_zalloc(size_t size, int flags) UMEM_RETURNS_BLOCK(1);

/*
 * umem_free - give memory of umem_alloc() or umem_zalloc() back
 *
 * buf		the block; NULL is allowed and does nothing
 * size		exactly as it was asked for
 *
 * Never fails and leaves errno alone.  A size that belongs to another class
 * of sizes than the block is misuse, and is reported.
 */
void umem_free(const void *buf, size_t size);

/*
 * umem_alloc_align, umem_alloc_aligned - get aligned memory
 *
 * size		of the block; 0 gives what umem_alloc() gives for it
 * align	of the block: a power of two; less than 8 counts as 8
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * Returns a block that holds anything, for umem_free_align() with the same
 * size, or NULL with errno set:
 *	EINVAL	align is not a power of two, also with UMEM_NOFAIL
 *	ENOMEM	there is no memory, or size and align together exceed
 *		PTRDIFF_MAX; without UMEM_NOFAIL only
 *
 * Source: libumem's private interface; the second spelling is OpenZFS's.
 */
void *umem_alloc_align(size_t size, size_t align, int flags)
    UMEM_RETURNS_ALIGNED(1, 2);
void *umem_alloc_aligned(size_t size, size_t align, int flags)
    UMEM_RETURNS_ALIGNED(1, 2);

/*
 * umem_free_align, umem_free_aligned - give memory of umem_alloc_align() back
 *
 * buf		the block; NULL is allowed and does nothing
 * size		exactly as it was asked for
 *
 * Never fails and leaves errno alone.
 */
void umem_free_align(void *buf, size_t size);
void umem_free_aligned(void *buf, size_t size);

/*
 * umem_nofail_callback - say what happens when a UMEM_NOFAIL request fails
 *
 * callback	called for each failure; NULL takes the last one away
 *
 * The request that failed calls it with no lock held, and goes by its result:
 *	UMEM_CALLBACK_RETRY	the request is tried again
 *	UMEM_CALLBACK_EXIT(s)	exit(s) is called, once; other threads that
 *				fail meanwhile block for good, and a second
 *				exit from within an exit handler aborts
 *	anything else		a message, and exit(255)
 * Without a callback the program ends by exit(255).
 *
 * In a child that was forked while another thread was in such an exit(),
 * _exit() takes the place of exit(), because glibc's lock of exit() is never
 * released there.
 *
 * Source: umem_nofail_callback(3MALLOC).
 */
void umem_nofail_callback(umem_nofail_callback_t *callback);

/*
 * umem_setmtbf - make requests fail on purpose, to test the program
 *
 * mtbf		0 ends it; 1 makes every UMEM_DEFAULT request fail; n makes
 *		about one in n fail, at random
 *
 * Requests with UMEM_NOFAIL do not fail.  malloc() and its relatives fail, too,
 * where they are this library's (libumem_malloc).  Works at any time; the
 * original wants UMEM_DEBUG to be set.
 *
 * Source: umem_setmtbf(3MALLOC).
 */
void umem_setmtbf(uint32_t mtbf);

/* The mean of umem_sample() and UMEM_OPTIONS=sample, unless another is given. */
#define UMEM_SAMPLE_DEFAULT ((size_t)1024 * 1024)

/*
 * umem_sample - remember one allocation in about so many bytes, from now on
 *
 * bytes	asked for from one sample to the next, on average; 0 ends it.
 *		UMEM_SAMPLE_DEFAULT is a mean whose cost is hardly noticed, 1
 *		remembers every block
 *
 * A sample is a block of malloc() or umem_alloc(), or of one of their
 * relatives, whose stack, time and thread are kept until it is freed, for
 * umem samples and umem leaks; see umem(1).  One sample in 32, if it is smaller
 * than 60 KiB, ends where a page begins that is not there, and its pages
 * vanish when it is freed: who reads or writes past its end or after the free
 * faults.  A second free of such a block is reported with the stacks of its
 * allocation and of its first free.
 *
 * Objects of caches are not sampled.  Samples that there are stay so until
 * they are freed; threads heed another mean after 256 KiB of allocations at
 * the latest.  Returns 0, or -1 with errno set:
 *	ENOTSUP	every block is checked already: by UMEM_DEBUG, by
 *		UMEM_OPTIONS=hardened, or by a memory checker
 *	EAGAIN	there is no memory for the library itself
 *
 * Any thread may call it at any time; of two that do, one wins.  Source: our
 * own.
 */
int umem_sample(size_t bytes);

/*
 * umem_startup - start the library
 *
 * start	accepted without effect, as are the four others: memory comes
 * bytes	from the kernel
 * page
 * minstack
 * maxstack
 *
 * There is no need to call it, because the first call of any other function
 * starts the library.
 *
 * Source: libumem's interface for programs that start it themselves.
 */
void umem_startup(
    char *start, size_t bytes, size_t page, char *minstack, char *maxstack);

/*
 * _umem_options_init, _umem_debug_init, _umem_logging_init - a program's own
 * settings
 *
 * The library does not have these functions.  A program may define them, and
 * each returns the text that the library takes if the environment does not
 * have UMEM_OPTIONS, UMEM_DEBUG or UMEM_LOGGING.  They are called once, while
 * the library starts, and may allocate up to 1 MiB.  The program must export
 * them to shared libraries (-rdynamic).  See umem_debug(3).
 *
 * Source: umem_debug(3MALLOC).
 */
const char *_umem_options_init(void);
const char *_umem_debug_init(void);
const char *_umem_logging_init(void);

/*
 * umem_reap - give back memory that no object needs
 *
 * Asks every cache with a reclaim callback for objects, empties what the CPUs
 * and depots keep, and returns empty slabs.  Where the library has a thread
 * of its own, that does the work later and the call returns at once.  Calls
 * that come sooner than reap_interval after another may do nothing.
 *
 * Source: libumem's private interface.
 */
void umem_reap(void);

/*
 * umem_cache_create - make a cache of equal objects that stay constructed
 *
 * name		what reports call it; copied, cut to UMEM_CACHE_NAMELEN bytes
 * bufsize	of one object, at least 1
 * align	of every object: a power of two up to the quantum of source
 *		(the page size for the default heap); 0 asks for 16 if bufsize
 *		rounded up to 8 is at least 16, else 8; less than 8 counts as 8
 *		unless cflags has UMC_NOTOUCH
 * constructor	called once for a new object, when it is first handed out, and
 *		not again while the object stays in the cache.  May be NULL
 * destructor	called before the memory of an object that was handed out
 *		leaves the cache.  May be NULL
 * reclaim	called when memory is short, to have objects freed.  May be
 *		NULL
 * priv		handed to the three callbacks as it is
 * source	the arena that slabs come from; NULL for the default heap.  It
 *		must hand out memory that can be written, unless cflags has
 *		UMC_NOTOUCH, and must outlive the cache
 * cflags	UMC_* or-ed together, or 0
 *
 * If bufsize or align is a multiple of the cache line (64), no two objects
 * share a line.  Returns the cache, to be ended with umem_cache_destroy(), or
 * NULL with errno set:
 *	EINVAL	name is NULL; bufsize is 0; align is not a power of two or
 *		exceeds the quantum; UMC_NOHASH and UMC_NOTOUCH together;
 *		UMC_QCACHE and UMC_TYPESAFE_BY_RCU together; bits in cflags that
 *		are not UMC_*
 *	ENOMEM	bufsize is too large to compute with
 *	EAGAIN	there is no memory for the cache itself
 *
 * Source: umem_cache_create(3MALLOC); the order of arguments is kept.
 */
umem_cache_t *umem_cache_create(const char *name, size_t bufsize, size_t align,
    umem_constructor_t *constructor, umem_destructor_t *destructor,
    umem_reclaim_t *reclaim, void *priv, vmem_t *source, int cflags);

/*
 * umem_limit_callback_t - a cache is at its limit, or on the way there
 *
 * cache	the cache
 * priv		as given to umem_cache_create()
 *
 * It runs in the thread that makes the request, with no lock of the library
 * held, while the request holds nothing and does not count.  It may free objects
 * of the cache, change the limit, and leave by longjmp() or an exception.  It
 * must not allocate from this cache, because such a request would call it again.
 */
typedef void umem_limit_callback_t(umem_cache_t *cache, void *priv);

/*
 * The attributes of a cache, for umem_cache_create_args().  Each is as the
 * argument of umem_cache_create() of that name; size is its bufsize.  An
 * attribute that is 0 or NULL is the default, so a program sets what it needs:
 *
 *	struct umem_cache_args args = { .size = 96, .destructor = end_job };
 *
 * Limits and reserves are described in umem_cache_limits(3):
 *
 * limit		most objects that the program may hold; 0: no limit
 * limit_reached	called, once for each request, when a request finds no
 *			room below the limit, before it waits or fails.  May be
 *			NULL
 * warn_at		objects; when a request makes the objects in use as many
 *			as this, warning is called once, and again only after
 *			their number was less than 7/8 of it.  0: no warning
 * warning		see warn_at; NULL only if warn_at is 0
 * reserve		objects to keep constructed for requests with
 *			UMEM_RESERVE that find no memory; 0: none
 * limit_wait		milliseconds that a request waits at the limit before it
 *			fails; 0: none, -1: without end
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
	int reserved; /* 0 */
	size_t limit;
	umem_limit_callback_t *limit_reached;
	size_t warn_at;
	umem_limit_callback_t *warning;
	size_t reserve;
	int limit_wait;
	int reserved_2; /* 0 */
};

/*
 * umem_cache_create_args - make a cache from a structure of attributes
 *
 * name		as for umem_cache_create()
 * args		the attributes; read during the call only
 * args_size	sizeof(struct umem_cache_args), in bytes, so that the structure
 *		can grow: a program may be older or newer than the library
 *
 * Returns the cache, to be ended with umem_cache_destroy(), or NULL with errno
 * set as by umem_cache_create(), and also for:
 *	EINVAL	args is NULL; args_size is less than that of the first version;
 *		args has an attribute that this library does not know and that
 *		is not 0, or reserved or reserved_2 is not 0; limit_wait is less
 *		than -1; warn_at without warning
 *	ENOMEM	there is no memory for the reserve, or the constructor failed
 *
 * Any thread may call it; not for signal handlers.  Source: Linux's
 * struct kmem_cache_args.
 */
umem_cache_t *umem_cache_create_args(
    const char *name, const struct umem_cache_args *args, size_t args_size);

/*
 * UMEM_CACHE - make a cache of objects of a type, without callbacks
 *
 * type		of the objects: gives the cache's name, size and alignment
 * cflags	as for umem_cache_create()
 *
 * Result and errors are those of umem_cache_create().  Source: Linux's
 * KMEM_CACHE().
 */
#define UMEM_CACHE(type, cflags)                                               \
	umem_cache_create(#type, sizeof(type), __alignof__(type), NULL, NULL,  \
	    NULL, NULL, NULL, (cflags))

/*
 * umem_import_cache_create - make a cache of resources that are not memory
 *
 * name		what reports call it; copied, cut to UMEM_CACHE_NAMELEN bytes
 * import	gets resources
 * release	gives them up
 * arg		handed to the two functions as it is
 * max_idle	most resources that stay idle, as a number; 0: no limit, so that
 *		idle resources stay until they were not used for a while.  A
 *		call that is in progress may exceed the limit by what it moves
 * cflags	UMC_NOMAGAZINE and UMC_NODEBUG, or-ed together, or 0.
 *		UMC_NOTOUCH is implied
 *
 * A resource is any value of the size of a pointer except NULL: a descriptor
 * plus 1, an identifier, a buffer that the program has registered.  Idle
 * resources are kept in per-CPU stacks, and the library never uses them as
 * addresses.
 *
 * umem_cache_alloc() returns a resource that is idle or, if there is none, one
 * that import() has just delivered, and umem_cache_free() makes it idle.
 * umem_cache_alloc_bulk(), umem_cache_free_bulk(), umem_cache_reap_now(),
 * umem_cache_shrink(), umem_cache_name() and umem_cache_destroy() work as for
 * objects, with release() in place of the destructor, and so do reserves and
 * prefill handles, whose resources are in use, not idle.  There is no reclaim
 * callback and no limit of resources in use: import() may set one itself, and
 * umem_cache_set_limit() fails with ENOTSUP.  umem_cache_size() returns 0, and umem_cache_zalloc() fails with
 * EINVAL.  With UMEM_NOFAIL, a request calls the umem_nofail_callback() when
 * import() delivers nothing.
 *
 * A resource that is freed twice, or was never allocated, is misuse.  It is
 * noticed always under UMEM_DEBUG (unless cflags has UMC_NODEBUG),
 * UMEM_OPTIONS=hardened or checked, and otherwise if it is among those freed
 * last, or if more are freed than were allocated.
 *
 * The child of fork() has a copy of the cache with all its idle resources.  The
 * program must not use them there if they are not inherited.  Resources that
 * other threads were importing or releasing are lost to the child.
 *
 * Returns the cache, to be ended with umem_cache_destroy(), or NULL with errno
 * set:
 *	EINVAL	name, import or release is NULL; bits in cflags other than those
 *		above
 *	EAGAIN	there is no memory for the cache itself
 *
 * Any thread may call it; not for signal handlers.  Source: uma_zcache_create()
 * and uma_zone_set_maxcache() of FreeBSD.
 */
umem_cache_t *umem_import_cache_create(const char *name, umem_import_t *import,
    umem_release_t *release, void *arg, size_t max_idle, int cflags);

/*
 * umem_cache_size - the size of a cache's objects
 *
 * cache	from umem_cache_create() or umem_import_cache_create()
 *
 * Returns the bufsize that the cache was created with, in bytes, or 0 for an
 * import cache.  May be called from a signal handler.
 */
size_t umem_cache_size(const umem_cache_t *cache);

/*
 * umem_cache_name - the name of a cache
 *
 * cache	from umem_cache_create()
 *
 * Returns the name as reports show it, cut to UMEM_CACHE_NAMELEN bytes; it is
 * valid until umem_cache_destroy().  May be called from a signal handler.
 */
const char *umem_cache_name(const umem_cache_t *cache);

/*
 * umem_cache_set_limit, umem_cache_set_limit_wait, umem_cache_set_warning -
 * change the limits of a cache
 *
 * cache	from umem_cache_create_args()
 * n		as limit or warn_at of struct umem_cache_args.  A limit below
 *		the number of objects in use is allowed; requests then find room
 *		after enough frees
 * ms		as limit_wait of struct umem_cache_args; for requests that come
 *		later
 *
 * Requests that wait and fit the new limit are served; those that ask for more
 * objects than it fail.  Each returns 0, or -1 with errno set:
 *	EINVAL	ms is less than -1
 *	ENOTSUP	the cache does not count its objects, because it was created
 *		without limit, limit_wait, limit_reached and warning; or has no
 *		warning, for umem_cache_set_warning()
 *
 * Source: FreeBSD's uma_zone_set_max() and uma_zone_set_warning().
 */
int umem_cache_set_limit(umem_cache_t *cache, size_t n);
int umem_cache_set_limit_wait(umem_cache_t *cache, int ms);
int umem_cache_set_warning(umem_cache_t *cache, size_t n);

/*
 * umem_cache_set_reserve - change the number of objects kept in reserve
 *
 * cache	from umem_cache_create() or umem_cache_create_args(); one call for
 *		a cache at a time
 * n		number of objects, which are allocated and constructed now; those
 *		beyond it go back to the cache
 *
 * Returns 0, or -1 with errno set; the reserve is then as it was:
 *	ENOMEM	there is no memory for the objects, or the constructor failed
 *
 * Source: FreeBSD's uma_zone_reserve() and uma_prealloc().
 */
int umem_cache_set_reserve(umem_cache_t *cache, size_t n);

/* What umem_cache_limits() says; counts begin with the cache. */
struct umem_cache_limits {
	size_t limit;      /* in objects; 0: none */
	size_t in_use;     /* objects that count; 0 in a cache that does not */
	size_t waiting;    /* requests that wait now */
	uint64_t waits;    /* requests that have waited */
	uint64_t failures; /* requests that failed at the limit */
	size_t reserve;    /* objects that the reserve should have */
	size_t ready;      /* objects that it has */
	uint64_t used;     /* objects that requests took from it */
};

/*
 * umem_cache_limits - ask about the limit and the reserve of a cache
 *
 * cache	from umem_cache_create() or umem_cache_create_args()
 * out		filled in
 * bytes	sizeof(struct umem_cache_limits), so that the structure can grow
 *
 * Each figure is exact at some moment of the call.  Returns 0, or -1 with errno
 * set:
 *	EINVAL	out is NULL, or bytes is not a size this library knows
 *
 * May be called from a signal handler.  Source: FreeBSD's uma_zone_get_cur() and
 * uma_zone_get_max().
 */
int umem_cache_limits(
    const umem_cache_t *cache, struct umem_cache_limits *out, size_t bytes);

/*
 * umem_cache_destroy - end a cache
 *
 * cache	from umem_cache_create(); no other thread may be using it.  NULL
 *		is allowed and does nothing
 *
 * Every object should have been freed: the destructor runs for each, and the
 * memory goes back to the arena.  If objects are still out, the destructor
 * runs for all others, the library says so on standard error, the slabs of
 * those objects stay mapped for good, and a later umem_cache_free() of one is
 * reported.  Requests that wait at the cache's limit then fail with ECANCELED.
 *
 * Source: umem_cache_destroy(3MALLOC).
 */
void umem_cache_destroy(umem_cache_t *cache);

/*
 * umem_cache_alloc - get an object, constructed
 *
 * cache	from umem_cache_create()
 * flags	UMEM_DEFAULT, or UMEM_NOFAIL, UMEM_NOWAIT and UMEM_RESERVE or-ed
 *		together
 *
 * Returns an object in the state in which it was freed, or if none is free, a
 * new one that this call has constructed; or NULL with errno set, without
 * UMEM_NOFAIL only:
 *	ENOMEM	the arena has no memory, or the constructor failed
 * and of a cache with a limit (struct umem_cache_args):
 *	EAGAIN	the limit is reached, and the request may not wait
 *	ETIMEDOUT
 *		the limit was still reached when limit_wait was over
 *	ECANCELED
 *		the cache was destroyed during the wait
 *
 * Source: umem_cache_alloc(3MALLOC).
 */
/* Not a new block for the compiler: the constructor may have left pointers. */
void *umem_cache_alloc(umem_cache_t *cache, int flags) UMEM_RESULT_IS_USED;

/*
 * umem_cache_free - give an object back
 *
 * cache	the one it came from; another is misuse, noticed at once by a cache
 *		that is debugged, else when a slab gets it, if ever
 * buf		the object, in its constructed state; NULL is allowed and does
 *		nothing
 *
 * Never fails and leaves errno alone.
 *
 * Source: umem_cache_free(3MALLOC).
 */
void umem_cache_free(umem_cache_t *cache, void *buf);

/*
 * umem_cache_zalloc - get an object that is all zeros
 *
 * cache	from umem_cache_create(), without a constructor, UMC_NOTOUCH
 *		and UMC_TYPESAFE_BY_RCU
 * flags	as for umem_cache_alloc()
 *
 * Returns an object whose bufsize bytes are 0, for umem_cache_free(), or NULL
 * with errno set:
 *	EINVAL	the cache has a constructor, because zeros are not what it
 *		made, or UMC_NOTOUCH, or UMC_TYPESAFE_BY_RCU, because readers
 *		may look at the object; also with UMEM_NOFAIL
 *	ENOMEM, EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_alloc()
 *
 * Source: Linux's kmem_cache_zalloc().
 */
void *umem_cache_zalloc(umem_cache_t *cache, int flags);

/*
 * umem_cache_alloc_bulk - get many objects by one call, all or none
 *
 * cache	from umem_cache_create()
 * n		number of objects; 0 is no error and does nothing
 * objects	receives the n objects; holds anything after a failure
 * flags	as for umem_cache_alloc()
 *
 * The objects are as those of umem_cache_alloc(), and may be freed singly or in
 * bulk, in any groups.  Returns n, or 0 with errno set, without UMEM_NOFAIL
 * only:
 *	ENOMEM	the arena has no memory for n objects, or the constructor
 *		failed
 *	EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_alloc(); a request for more objects than the
 *		limit fails with EAGAIN at once
 * With UMEM_NOFAIL the callback runs while the call holds no object.  If the
 * constructor does not return (longjmp, a C++ exception), the objects that the
 * call had before stay allocated, and the caller cannot tell which they are: a
 * constructor that may do so is for single calls.
 *
 * One call takes the per-CPU stack once, not once per object: from 16 objects
 * on, the cost per object is less than half that of single calls.  Source:
 * kmem_cache_alloc_bulk() of Linux.
 */
size_t umem_cache_alloc_bulk(
    umem_cache_t *cache, size_t n, void **objects, int flags);

/*
 * umem_cache_free_bulk - free many objects by one call
 *
 * cache	the one that all objects came from
 * n		number of pointers in objects; may be 0
 * objects	the objects; NULL pointers in it are ignored.  It is not changed
 *
 * Never fails and leaves errno alone.  Misuse is noticed as by
 * umem_cache_free().  Source: kmem_cache_free_bulk() of Linux.
 */
void umem_cache_free_bulk(umem_cache_t *cache, size_t n, void *const *objects);

/* Objects that are allocated ahead; see umem_cache_prefill(). */
typedef struct umem_prefill umem_prefill_t;

/*
 * umem_cache_prefill - allocate objects ahead, for code that must not fail
 *
 * cache	from umem_cache_create(); it must outlive the handle
 * n		number of objects to hold ready; 0 makes an empty handle, for
 *		umem_prefill_refill()
 * flags	as for umem_cache_alloc()
 *
 * Returns a handle from which n calls of umem_prefill_alloc() cannot fail, to
 * be ended by umem_prefill_release(); or NULL with errno set, without
 * UMEM_NOFAIL only:
 *	ENOMEM	there is no memory for n objects or for the handle, or the
 *		constructor failed
 *	EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_alloc_bulk()
 *
 * The objects are constructed by this call.  They count as objects in use until
 * they are freed or the handle is released; a umem_cache_destroy() before that
 * reports them.  The handle and its objects belong to one thread at a time: the
 * program orders the calls if several threads use it.  umem leaks and memcheck
 * find the objects by the handle, so a handle to which nothing points any more
 * is reported with its objects.
 *
 * With UMEM_NOFAIL the callback runs while the call holds nothing.  What a
 * constructor that does not return leaves behind is as for
 * umem_cache_alloc_bulk().
 *
 * Source: Linux's kmem_cache_prefill_sheaf().
 */
umem_prefill_t *umem_cache_prefill(
    umem_cache_t *cache, size_t n, int flags) UMEM_RESULT_IS_USED;

/*
 * umem_prefill_alloc - take an object out of a handle
 *
 * prefill	from umem_cache_prefill(), not used by another thread meanwhile
 *
 * Returns an object, constructed, for umem_cache_free() or
 * umem_cache_free_bulk(), or NULL with errno set:
 *	ENOMEM	the handle has no object left
 *
 * Takes no lock and makes no system call.  Each object is handed out once.  With
 * UMEM_DEBUG the object is checked here, and its record names the caller of this
 * function; see umem_debug(3).  A use of a handle that was released is misuse,
 * and is reported if it is noticed.
 *
 * Source: Linux's kmem_cache_alloc_from_sheaf().
 */
void *umem_prefill_alloc(umem_prefill_t *prefill) UMEM_RESULT_IS_USED;

/*
 * umem_prefill_refill - have a handle hold n objects again
 *
 * prefill	from umem_cache_prefill(), not used by another thread meanwhile
 * n		number of objects that it should hold at least; may be more than
 *		it ever had.  A handle that has as many already is left alone
 * flags	as for umem_cache_alloc()
 *
 * Returns 0, or -1 with errno set, without UMEM_NOFAIL only; the handle then has
 * the objects that it had before:
 *	ENOMEM, EAGAIN, ETIMEDOUT, ECANCELED
 *		as for umem_cache_prefill()
 *
 * Source: Linux's kmem_cache_refill_sheaf().
 */
int umem_prefill_refill(
    umem_prefill_t *prefill, size_t n, int flags) UMEM_RESULT_IS_USED;

/*
 * umem_prefill_count - how many objects a handle has
 *
 * prefill	from umem_cache_prefill(), not used by another thread meanwhile
 *
 * Returns the number of calls of umem_prefill_alloc() that cannot fail.
 */
size_t umem_prefill_count(const umem_prefill_t *prefill);

/*
 * umem_prefill_release - free a handle, and the objects that it still has
 *
 * prefill	from umem_cache_prefill(), not used by another thread meanwhile
 *		or afterwards; NULL is allowed and does nothing
 *
 * The objects go back to the cache in bulk, constructed.  Objects that
 * umem_prefill_alloc() handed out are not concerned.  Never fails and leaves
 * errno alone.
 *
 * Source: Linux's kmem_cache_return_sheaf().
 */
void umem_prefill_release(umem_prefill_t *prefill);

/*
 * umem_alloc_bulk - get many blocks of one size by one call, all or none
 *
 * size		of each block, in bytes; 0 is no failure, and each block is then
 *		the result of umem_alloc(0)
 * n		number of blocks; 0 is no error and does nothing
 * blocks	receives the n blocks; holds anything after a failure
 * flags	UMEM_DEFAULT or UMEM_NOFAIL
 *
 * The blocks are those of umem_alloc(): each goes to umem_free() or
 * umem_free_bulk() with the same size.  Returns n, or 0 with errno set, without
 * UMEM_NOFAIL only:
 *	ENOMEM	there is no memory, or size exceeds PTRDIFF_MAX
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
 * size		exactly as each block was asked for, in bytes
 *
 * Never fails and leaves errno alone.  Misuse is noticed as by umem_free().
 */
void umem_free_bulk(size_t n, void *const *blocks, size_t size);

/*
 * umem_cache_reap_now - give back what one cache does not need, at once
 *
 * cache	from umem_cache_create()
 *
 * Calls the cache's reclaim callback, empties its per-CPU stacks and depot,
 * runs the destructor on what was in them, and returns empty slabs to the
 * arena; with UMC_TYPESAFE_BY_RCU, the last two follow after a grace period.
 *
 * Source: OpenZFS.
 */
void umem_cache_reap_now(umem_cache_t *cache);

/*
 * umem_cache_shrink - release the memory that a cache holds without need
 *
 * cache	from umem_cache_create()
 *
 * Does what umem_cache_reap_now() does, without the reclaim callback.  Returns
 * 0 if the cache holds no memory for objects now, 1 if objects that are in use
 * keep some.  Leaves errno alone, unless a destructor changes it.
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
 * Returns a copy, for umem_strfree() or for umem_free() with the bytes of the
 * string and its 0, or NULL with errno set:
 *	ENOMEM	there is no memory; without UMEM_NOFAIL only
 *
 * Source: kmem_strdup() of illumos and OpenZFS.
 */
char *umem_strdup(const char *string, int flags);

/*
 * umem_strfree - free a string of umem_strdup()
 *
 * string	the copy, which the program may have shortened meanwhile; NULL is
 *		allowed and does nothing
 *
 * Never fails and leaves errno alone.  Source: kmem_strfree() of illumos and
 * OpenZFS.
 */
void umem_strfree(char *string);

/* The version these declarations belong to; compare with umem_version(). */
#define UMEM_VERSION "0.1.0"

/* Which per-CPU operation this process runs on; see umem_mode(). */
enum umem_mode_kind {
	UMEM_MODE_RSEQ_LIBC, /* restartable, in the area libc registered */
	UMEM_MODE_RSEQ_OWN,  /* restartable, in an area of our own */
	UMEM_MODE_LOCKED     /* a lock a CPU; slower */
};

/* What chooses among the per-CPU stacks. */
enum umem_index_kind {
	UMEM_INDEX_MM_CID, /* dense number of a running thread */
	UMEM_INDEX_CPU_ID  /* the CPU number */
};

struct umem_mode {
	int mode;           /* enum umem_mode_kind */
	int index;          /* enum umem_index_kind */
	unsigned ncpus;     /* per-CPU stacks there can be */
	const char *reason; /* why the mode is not a better one, or "";
				   never to be freed */
};

/*
 * umem_mode - ask how the library runs
 *
 * out		filled in
 * bytes	sizeof(struct umem_mode), so that the structure can grow
 *
 * Returns 0, or -1 with errno set:
 *	EINVAL	out is NULL, or bytes is not a size this library knows
 *
 * The answer stays true until exit.  Source: our own.
 */
int umem_mode(struct umem_mode *out, size_t bytes);

/*
 * umem_version - the version of the library that runs, such as "0.1.0"
 *
 * Returns static text.  May be called from a signal handler.
 */
const char *umem_version(void);

#ifdef __cplusplus
}
#endif

#endif
