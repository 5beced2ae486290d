/*
 * hooks.h - functions of the library that a test may watch
 *
 * The linker sends every call of them from another file of the library to
 * hooks.c (--wrap, by the Makefile's list UNIT_WRAPS), which calls the true
 * function and, where a test has set one, the hook.
 */
#ifndef TESTS_UNIT_HOOKS_H
#define TESTS_UNIT_HOOKS_H

#include "vmem/base.h"

/* After heap_free(at, bytes), in the thread that called it. */
extern void (*hook_heap_freed)(void *at, size_t bytes);

/* Before os_purge(at, bytes). */
extern void (*hook_os_purge)(void *at, size_t bytes);

/* Before os_futex_wait(word, ...). */
extern void (*hook_os_futex_wait)(const uint32_t *word);

/* Before magazine_install(). */
extern void (*hook_magazine_install)(void);

/*
 * What os_page_size() returns; 0: the kernel's, which it must not be below.
 * os_resident() then fails, since the kernel has another number of pages.
 */
extern size_t hook_page_size;

/*
 * A hook_heap_freed that takes the span again at once, as a large block of
 * the address map, and stays for one call; the span is in hook_taken.
 */
extern void *hook_taken;
void hook_take_again(void *at, size_t bytes);

#endif
