/* archive.h - functions of libc that a static program has; see archive.c */
#ifndef UMEM_ARCHIVE_H
#define UMEM_ARCHIVE_H

#include <pthread.h>
#include <threads.h>

#include "vmem/base.h"

typedef int clone_func(int (*)(void *), void *, int, void *, ...);
typedef int create_func(
    pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/* Of libumem_malloc.a; all are NULL elsewhere. */
extern hidden const struct archive_next {
	/* NULL if libc is a shared library. */
	clone_func *clone;
	create_func *create;
	pid_t (*fork)(void);
	/* Of the C++ library; NULL if nothing else links them. */
	void (*(*get_new_handler)(void))(void);
	void (*throw_bad_alloc)(void);
	/* Not called. */
	int (*keeps)(thrd_t *, thrd_start_t, void *);
} archive_next;

/* Then dlsym() finds nothing, and is not called. */
static inline bool
archive_is_static(void)
{
	return archive_next.create != NULL;
}

#endif
