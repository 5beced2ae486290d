/*
 * thread.c - clone() and pthread_create() of the program
 *
 * Only in libumem_malloc.so.  The library has to know of threads that share
 * their thread-local storage, which rseq cannot serve, and of the last thread
 * of the program, for which the updater's has to make way.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>

#include "magazine/cpu.h"
#include "umem/update.h"
#include "vmem/meta.h"

typedef int clone_func(int (*)(void *), void *, int, void *, ...);
typedef int create_func(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/*
 * libc's functions behind the two below.  Each is looked up once and, if no
 * other constructor is earlier, in ours: dlsym() waits for a thread that is
 * in dlopen(), which may be waiting for a thread that creates another; and it
 * overwrites what dlerror() would say.
 */
static clone_func *next_clone;   /* [a] */
static create_func *next_create; /* [a] */

static void *
next_function(void *place, const char *name)
{
	void **known = place;
	void *at = __atomic_load_n(known, __ATOMIC_RELAXED);

	if (unlikely(at == NULL)) {
		at = dlsym(RTLD_NEXT, name);
		__atomic_store_n(known, at, __ATOMIC_RELAXED);
	}
	return at;
}

/*
 * clone() with CLONE_VM and no thread-local storage for the child: the two
 * share one rseq area, which the kernel keeps for one of them only.  So they
 * do without sections, for as long as that can be.
 */
public int
clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
	bool shares = (flags & (CLONE_VM | CLONE_SETTLS)) == CLONE_VM;
	clone_func *next;
	pid_t *parent_tid, *child_tid;
	void *tls;
	va_list more;
	bool stopped;
	int pid;

	va_start(more, arg);
	parent_tid = va_arg(more, pid_t *);
	tls = va_arg(more, void *);
	child_tid = va_arg(more, pid_t *);
	va_end(more);
	*(void **)&next = next_function(&next_clone, "clone");
	if (next == NULL) {
		errno = ENOSYS;
		return -1;
	}
	stopped = shares && rseq_thread_stop(&cpu_layer.rseq);
	pid = next(run, stack, flags, arg, parent_tid, tls, child_tid);
	/* After a vfork the child is gone; else it is here to stay. */
	if (stopped && (pid < 0 || (flags & CLONE_VFORK) != 0))
		rseq_thread_resume(&cpu_layer.rseq);
	return pid;
}

/*
 * The program's threads are counted from here (see update.c), and this is a
 * good place for the updater to create its own, since no lock of libc is held.
 */
struct beginning {
	void *(*run)(void *);
	void *arg;
};

/*
 * A thread that is counted has a value for this key, whose destructor runs
 * however the thread ends: by return, pthread_exit(), thrd_exit() or cancel.
 */
static pthread_key_t counted_key;
static bool counts; /* the key could be had */

static void
thread_ended(void *value)
{
	(void)value;
	update_thread_ends();
}

static void *
thread_run(void *p)
{
	struct beginning begin = *(struct beginning *)p;

	meta_free(p, sizeof(begin));
	if (!counts || pthread_setspecific(counted_key, &counted_key) != 0)
		update_thread_ends();
	return begin.run(begin.arg);
}

static bool
thread_is_counted(void)
{
	return counts && pthread_getspecific(counted_key) != NULL;
}

public int
pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*run)(void *), void *arg)
{
	struct beginning *begin = meta_alloc(sizeof(*begin));
	create_func *next;
	int error = EAGAIN;

	*(void **)&next = next_function(&next_create, "pthread_create");
	if (begin == NULL || next == NULL)
		goto undo;
	*begin = (struct beginning){run, arg};
	update_thread_begins();
	error = next(thread, attr, thread_run, begin);
	if (error == 0) {
		update_thread_offer(/* threads */ true);
		return 0;
	}
	update_thread_ends();
undo:
	if (begin != NULL)
		meta_free(begin, sizeof(*begin));
	return error;
}

/* In the initial thread, unless the library came by dlopen(). */
static __attribute__((constructor)) void
offer_thread(void)
{
	counts = pthread_key_create(&counted_key, thread_ended) == 0 &&
		 pthread_setspecific(counted_key, &counted_key) == 0;
	if (!counts)
		update_thread_ends();
	next_function(&next_clone, "clone");
	*(void **)&update_thread_create =
	    next_function(&next_create, "pthread_create");
	update_thread_counted = thread_is_counted;
	update_thread_offer(/* threads */ false);
}
