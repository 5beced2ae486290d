/*
 * dlopen.c - dlopen() and dlmopen() of the program, without RTLD_DEEPBIND
 *
 * Only in libumem_malloc.so.  A library that is opened with RTLD_DEEPBIND finds
 * a function first in the libraries that it needs itself, so that its free() is
 * that of libc.  But the functions of libc, strdup() for example, call the
 * malloc() of the process, which is umem's.  The library would pass blocks of
 * the one to the other.  Therefore the flag is cleared, and the library finds
 * functions in the same order as the program.
 *
 * In a namespace of dlmopen() other than the base there is no umem.  All of its
 * libraries use the malloc() of its own libc, and the flag remains.
 *
 * libc finds the calling library by the return address: it searches that
 * library's RUNPATH, and opens into its namespace.  Therefore the entries
 * (dlopen.h) do not call libc's functions, but jump to them.
 *
 * A libc without the flag (musl) has no such libraries, and needs none of this.
 *
 * The functions start nothing and allocate nothing.  They may be called before
 * the constructor of umem, and in any thread.
 */
#include "umem/malloc/archive.h"
#include "umem/malloc/dlopen.h"
#include "vmem/base.h"

/* This file is not in the archive. */
const struct archive_next archive_next = {.create = NULL};

#ifdef RTLD_DEEPBIND

/*
 * The next definitions, in a library of the program or in libc, which this
 * library needs, so that there is one.  The first calls look them up.  dlsym()
 * waits there for no other lock than the function that is called next.
 */
static void *
next_find(void **known, const char *name)
{
	void *next = load_relaxed(known);

	if (unlikely(next == NULL)) {
		next = dlsym(RTLD_NEXT, name);
		store_relaxed(known, next);
	}
	return next;
}

void *
dlopen_next(void)
{
	static void *known; /* [a] */

	return next_find(&known, "dlopen");
}

void *
dlmopen_next(void)
{
	static void *known; /* [a] */

	return next_find(&known, "dlmopen");
}

#endif
