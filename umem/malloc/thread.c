/*
 * thread.c - vfork(), clone(), pthread_create(), prctl(), unshare() and setns()
 *	of the program
 *
 * Not in libumem.  The first three functions create the tasks that share the
 * memory of the process, and the library must know of two kinds of such tasks.
 * prctl() confines the process; unshare() and setns() need a process with one
 * task.
 *
 * Tasks that share thread-local storage
 *	The child of vfork(), and of clone() with CLONE_VM and without
 *	CLONE_SETTLS, has the rseq area of its parent in its thread-local
 *	storage, but the kernel has registered that area for the parent only.
 *	Because only the thread for which the kernel has registered an area may
 *	run restartable sequences (cpu.c), the parent unregisters its area
 *	before the child exists.  Both then see that there is no area, and
 *	bypass the magazines.  After a vfork the parent registers its area
 *	again.  A signal handler of the child, a vfork() of the child, and a
 *	failed exec change nothing in this.
 *
 *	Entry points that need nothing:
 *	- fork() and _Fork() copy memory, and the kernel keeps the area of the
 *	  copy for the child;
 *	- pthread_create(), thrd_create() and the helper threads of libc bring
 *	  thread-local storage, and libc registers its area;
 *	- posix_spawn(), system() and popen() make their child by a system call
 *	  of libc's own; it runs code of libc only, with all signals blocked,
 *	  which allocates nothing before the exec;
 *	- Go and Java start programs in the same manner: by clone as a system
 *	  call, whose child calls nothing of the C library, by posix_spawn(), by
 *	  fork() or by vfork().
 *	A program that makes such a child by a system call of its own must not
 *	allocate in it.
 *
 * Threads of the program
 *	They are counted, because the upkeep thread exists while the program has
 *	several (update_thread.c).
 *
 * Confinement
 *	A seccomp filter may kill the process for a system call that it does not
 *	know, and only another system call could tell the library that there is
 *	a filter.  So prctl() starts the library, which makes at its start all
 *	the system calls that it needs to set itself up.  Before the process
 *	gets a filter, prctl() also tells the library to make no more system
 *	calls than the malloc() of libc does: at PR_SET_SECCOMP, and at
 *	PR_SET_NO_NEW_PRIVS, which a program without privileges needs for
 *	seccomp() as a system call.  A program that confines itself only by
 *	system calls of its own can set the word "confined" in UMEM_OPTIONS.
 *
 *	Without membarrier a process with several threads cannot take the
 *	magazines of other CPUs; they stay there until those CPUs use them up.
 *	A process with one thread needs no membarrier.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>

#include "magazine/cpu.h"
#include "umem/base/ready.h"
#include "umem/malloc/alloc.h"
#include "umem/malloc/archive.h"
#include "umem/upkeep/update_thread.h"
#include "umem/malloc/vfork.h"
#include "vmem/meta.h"
#include "vmem/os.h"

const bool umem_is_malloc = true;

/*
 * ThreadSanitizer calls this function if a library before its own has it.  It
 * does not know the library's locks and sections, so it is told to believe
 * nothing of the memset() and memcpy() that it replaces and the library calls.
 */
public const char *__tsan_default_suppressions(void);

public const char *
__tsan_default_suppressions(void)
{
	return "called_from_lib:libumem_malloc";
}

/* How long the kernel may count the upkeep thread after its join. */
#define ROOM_NS (10 * POLL_NS)

/*
 * The next definitions of the two functions below, in libc or in a library of
 * the program.  The first call of either looks them up, usually a
 * pthread_create() in a process that still has one thread.  A later dlsym()
 * could deadlock: it waits for a thread that is in dlopen(), which may be
 * waiting for a thread that creates another.  A constructor could look them up,
 * but most processes never need them.
 *
 * In a static program dlsym() finds nothing; archive.c has the functions of its
 * libc.
 */
static clone_func *next_clone;   /* [a] */
static create_func *next_create; /* [a] */

/*
 * Looks both functions up.  This overwrites the result of dlerror(), once in a
 * process.
 */
static cold_path void
next_functions_find(void)
{
	void *clone_found, *create_found;

	if (archive_is_static()) {
		store_relaxed(&next_clone, archive_next.clone);
		store_release(&next_create, archive_next.create);
		return;
	}
	clone_found = dlsym(RTLD_NEXT, "clone");
	create_found = dlsym(RTLD_NEXT, "pthread_create");
	store_relaxed(&next_clone, (clone_func *)clone_found);
	store_release(&next_create, (create_func *)create_found);
}

/* Acquire: a thread that sees the second pointer also sees the first. */
static void
next_functions_find_once(void)
{
	if (unlikely(load_acquire(&next_create) == NULL))
		next_functions_find();
}

/*
 * Stops the sections of the calling thread for a child that shares its storage.
 * This also starts the library, if that is possible.  Otherwise a child would
 * start it, and choose by the child's registration how the parent finds its
 * area.
 */
enum rseq_stopped
vfork_begin(void)
{
	if (!umem_ready())
		return RSEQ_NOT_RUNNING;
	os_note_process();
	return rseq_thread_stop(&cpu_layer.rseq);
}

static int
result_of(long result)
{
	return result >= 0 ? (int)result : fail_int((int)-result);
}

pid_t
vfork_end(long result, enum rseq_stopped stopped)
{
	if (stopped == RSEQ_STOPPED)
		rseq_thread_resume(&cpu_layer.rseq);
	return result_of(result);
}

/* Looked up when it is called, since nearly no process does. */
pid_t
vfork_by_fork(void)
{
	pid_t (*next)(void);

	if (archive_is_static())
		return archive_next.fork();
	next = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "fork");
	return next();
}

/*
 * A child that shares the storage of a thread whose sections cannot be stopped
 * would run sections that the kernel does not restart.  So vfork() becomes
 * fork() then, and clone() fails.
 */
public int
clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
	bool shares_tls = (flags & (CLONE_VM | CLONE_SETTLS)) == CLONE_VM;
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list arguments;
	enum rseq_stopped stopped = RSEQ_NOT_RUNNING;
	int pid, saved = errno;

	va_start(arguments, arg);
	parent_tid = va_arg(arguments, pid_t *);
	tls = va_arg(arguments, void *);
	child_tid = va_arg(arguments, pid_t *);
	va_end(arguments);
	next_functions_find_once();
	if (next_clone == NULL)
		return fail_int(ENOSYS);
	if (shares_tls)
		stopped = vfork_begin();
	if (stopped == RSEQ_NOT_STOPPED)
		return fail_int(EAGAIN);
	if ((flags & (CLONE_VM | CLONE_THREAD)) == CLONE_VM)
		os_note_process();
	errno = 0;
	pid = next_clone(run, stack, flags, arg, parent_tid, tls, child_tid);
	/* That of musl's static library returns the kernel's result. */
	if (pid < 0 && archive_is_static() && errno == 0)
		errno = -pid;
	if (pid >= 0)
		errno = saved;
	/*
	 * After a vfork the child has ended or exec'd; otherwise it continues
	 * to share the area.
	 */
	if (stopped == RSEQ_STOPPED && (pid < 0 || (flags & CLONE_VFORK) != 0))
		rseq_thread_resume(&cpu_layer.rseq);
	return pid < 0 ? -1 : pid;
}

/*
 * A child of vfork() confines itself for its exec.  Because it shares the
 * parent's memory, it would mark the parent as confined; os_is_process()
 * excludes it.
 */
public int
prctl(int option, ...)
{
	unsigned long arg[4];
	va_list arguments;

	va_start(arguments, option);
	for (int i = 0; i < 4; i++)
		arg[i] = va_arg(arguments, unsigned long);
	va_end(arguments);
	if ((option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) &&
	    umem_ready() && !os_is_confined() && os_is_process()) {
		update_thread_end_now();
		update_thread_await();
		os_confine();
	}
	return result_of(os_prctl(option, arg));
}

/*
 * The kernel refuses some namespaces to a process with several tasks, and
 * counts the upkeep thread for a moment after its join.  A child of vfork() has
 * one task, but shares the memory of its parent.
 */
static int
as_one_task(long (*call)(int, int), int first, int second)
{
	bool ended = umem_ready() && os_is_process() && update_thread_end_now();
	uint32_t nothing = 0;
	long result = call(first, second);

	for (uint64_t ns = 0; ns < ROOM_NS && ended && result == -EINVAL;
	     ns += POLL_NS) {
		os_futex_wait(&nothing, 0, POLL_NS);
		result = call(first, second);
	}
	return result_of(result);
}

public int
unshare(int flags)
{
	return as_one_task(os_unshare, flags, 0);
}

public int
setns(int fd, int type)
{
	return as_one_task(os_setns, fd, type);
}

/*
 * The argument of thread_run(), in which a counted thread starts
 * (update_thread.c).  Because no lock of libc is held in pthread_create(), the
 * upkeep thread is created there, too.
 */
struct thread_start {
	void *(*run)(void *);
	void *arg;
};

/*
 * A counted thread has a value for this key.  The key's destructor runs however
 * the thread ends: by return, pthread_exit(), thrd_exit() or cancellation.
 *
 * The creator of the first thread, be it the library's, makes the key and is
 * counted itself.  A process that stays with one thread needs no key.
 */
static pthread_key_t counted_key;
static uint32_t key_state; /* [a] */
enum {
	KEY_NONE,
	KEY_PENDING,
	KEY_MADE,
	KEY_REFUSED
};

static void
thread_ended(void *value)
{
	(void)value;
	update_thread_ends();
}

/* Makes the calling thread a counted one; false if that is not possible. */
static bool
thread_mark(void)
{
	return load_acquire(&key_state) == KEY_MADE &&
	       pthread_setspecific(counted_key, &counted_key) == 0;
}

static void *
thread_run(void *p)
{
	struct thread_start start = *(struct thread_start *)p;

	meta_free(p, sizeof(start));
	if (!thread_mark())
		update_thread_ends();
	return start.run(start.arg);
}

static bool
thread_is_counted(void)
{
	uint32_t state = load_acquire(&key_state);

	/* Without a key, the thread is the only one that is counted. */
	return state != KEY_MADE ? state != KEY_REFUSED
				 : pthread_getspecific(counted_key) != NULL;
}

/*
 * Makes the key once.  A thread that comes here meanwhile does not wait; the
 * thread that it creates may then find no key, and is not counted.
 */
static void
counted_key_make(void)
{
	uint32_t none = KEY_NONE;
	bool made;

	if (likely(load_relaxed(&key_state) != KEY_NONE) ||
	    !__atomic_compare_exchange_n(&key_state, &none, KEY_PENDING, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	made = pthread_key_create(&counted_key, thread_ended) == 0;
	/* Release; pairs with the loads of a state that allows its use. */
	store_release(&key_state, made ? KEY_MADE : KEY_REFUSED);
	if (!thread_mark())
		update_thread_ends();
}

static int
thread_create_next(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg)
{
	counted_key_make();
	next_functions_find_once();
	return next_create == NULL ? EAGAIN
				   : next_create(thread, attr, run, arg);
}

const struct update_threads update_threads = {
    .is_counted = thread_is_counted, .create_next = thread_create_next};

/*
 * Creates a thread.  If there is no room for it, the upkeep thread makes room.
 * The kernel counts that thread for a moment after its join.
 */
static int
create_with_room(
    pthread_t *thread, const pthread_attr_t *attr, struct thread_start *start)
{
	uint32_t nothing = 0;
	int error = thread_create_next(thread, attr, thread_run, start);

	if (error != EAGAIN || !update_thread_give_way())
		return error;
	for (uint64_t ns = 0; ns < ROOM_NS; ns += POLL_NS) {
		error = thread_create_next(thread, attr, thread_run, start);
		if (error != EAGAIN)
			break;
		os_futex_wait(&nothing, 0, POLL_NS);
		/* Another thread may have created it again. */
		update_thread_give_way();
	}
	return error;
}

public int
pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg)
{
	struct thread_start *start;
	int error = EAGAIN;

	umem_ready();
	start = meta_alloc(sizeof(*start));
	if (start == NULL)
		return error;
	*start = (struct thread_start){run, arg};
	update_thread_begins();
	error = create_with_room(thread, attr, start);
	if (error == 0) {
		update_thread_offer(/* created */ true);
		return 0;
	}
	update_thread_ends();
	meta_free(start, sizeof(*start));
	return error;
}
