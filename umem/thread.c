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
#include "umem/init.h"
#include "umem/update_thread.h"
#include "vmem/meta.h"

const bool umem_is_malloc = true;

typedef int clone_func(int (*)(void *), void *, int, void *, ...);
typedef int create_func(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/*
 * The functions behind the two below, in libc or in a library of the program.
 * They are looked up by the first call of either, mostly a pthread_create()
 * in a process that has one thread yet: dlsym() waits for a thread that is in
 * dlopen(), which may be waiting for a thread that creates another.  A
 * constructor could do it, but most processes never need them.
 */
static clone_func *next_clone;   /* [a] */
static create_func *next_create; /* [a] */

/* What this overwrites is what dlerror() would say, once in a process. */
static cold_path void
look_up(void)
{
	void *at = dlsym(RTLD_NEXT, "clone");

	__atomic_store_n(&next_clone, (clone_func *)at, __ATOMIC_RELAXED);
	at = dlsym(RTLD_NEXT, "pthread_create");
	__atomic_store_n(&next_create, (create_func *)at, __ATOMIC_RELEASE);
}

/* Acquire: who sees the second sees the first. */
static void
look_up_once(void)
{
	if (unlikely(__atomic_load_n(&next_create, __ATOMIC_ACQUIRE) == NULL))
		look_up();
}

static int
create_next(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
    void *arg)
{
	look_up_once();
	return next_create == NULL ? EAGAIN
				   : next_create(thread, attr, run, arg);
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
	look_up_once();
	if (next_clone == NULL) {
		errno = ENOSYS;
		return -1;
	}
	stopped = shares && rseq_thread_stop(&cpu_layer.rseq);
	pid = next_clone(run, stack, flags, arg, parent_tid, tls, child_tid);
	/* After a vfork the child is gone; else it is here to stay. */
	if (stopped && (pid < 0 || (flags & CLONE_VFORK) != 0))
		rseq_thread_resume(&cpu_layer.rseq);
	return pid;
}

/*
 * The program's threads are counted from here (update_thread.c), and this is a
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
	struct beginning *begin;
	int error = EAGAIN;

	umem_ready();
	begin = meta_alloc(sizeof(*begin));
	if (begin == NULL)
		return error;
	*begin = (struct beginning){run, arg};
	update_thread_begins();
	error = create_next(thread, attr, thread_run, begin);
	if (error == 0) {
		update_thread_offer(/* threads */ true);
		return 0;
	}
	update_thread_ends();
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
	update_thread_create = create_next;
	update_thread_counted = thread_is_counted;
	update_thread_offer(/* threads */ false);
}
