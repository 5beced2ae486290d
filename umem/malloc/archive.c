/*
 * archive.c - what libumem_malloc.a has beyond the shared library
 *
 * In a static program, the library's clone() and pthread_create() stand for
 * those of libc, and dlsym() finds nothing.  The archives of glibc and musl
 * have them under a second name, each in the file that defines the first,
 * weak, name.  thrd_create() calls the second name, so its address makes the
 * linker include the file of pthread_create(), which calls __clone().
 */
#include <unistd.h>

#include "umem/malloc/archive.h"

extern clone_func __clone __attribute__((weak));
extern create_func __pthread_create __attribute__((weak));

/* std::get_new_handler() and std::__throw_bad_alloc(). */
extern void (*_ZSt15get_new_handlerv(void))(void) __attribute__((weak));
extern void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

const struct archive_next archive_next = {.clone = __clone,
    .create = __pthread_create,
    .fork = fork,
    .get_new_handler = _ZSt15get_new_handlerv,
    .throw_bad_alloc = _ZSt17__throw_bad_allocv,
    .keeps = thrd_create};
