/*
 * archive.c - what libumem_malloc.a has beyond the shared library
 *
 * In a static program, the library's clone() and pthread_create() stand for
 * those of libc, and dlsym() finds nothing.  The archives of glibc and musl
 * have them under a second name, each in the file that defines the first,
 * weak, name.  thrd_create() calls the second name, so its address makes the
 * linker include the file of pthread_create(), which calls __clone().
 *
 * glibc's second name is __pthread_create_2_1.  Other files of glibc 2.31 ask
 * for a __pthread_create, which none defines: no use of it may be left.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "umem/malloc/archive.h"

extern clone_func __clone __attribute__((weak));
/* glibc has the flag, musl does not. */
#ifdef RTLD_DEEPBIND
extern create_func create __asm__("__pthread_create_2_1") __attribute__((weak));
#else
extern create_func create __asm__("__pthread_create") __attribute__((weak));
#endif

/* std::get_new_handler() and std::__throw_bad_alloc(). */
extern void (*_ZSt15get_new_handlerv(void))(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

const struct archive_next archive_next = {.clone = __clone,
    .create = create,
    .fork = fork,
    .get_new_handler = _ZSt15get_new_handlerv,
    .throw_bad_alloc = _ZSt17__throw_bad_allocv,
    .keeps = thrd_create};
