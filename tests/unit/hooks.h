/*
 * hooks.h - library functions with a hook for tests
 *
 * The linker redirects every call of these functions from another file of the
 * library to hooks.c (--wrap, by the Makefile's list UNIT_WRAPS).  hooks.c
 * calls the hook, if a test has set one, and the real function; and it makes
 * Check's assertions cheap.
 */
#ifndef TESTS_UNIT_HOOKS_H
#define TESTS_UNIT_HOOKS_H

#include "vmem/lock.h"

/* Called after heap_free(at, bytes), in the calling thread. */
extern void (*hook_heap_freed)(void *at, size_t bytes);

/* Called after meta_free(at, bytes). */
extern void (*hook_meta_freed)(void *at, size_t bytes);

/* Called after lock_release(lock). */
extern void (*hook_lock_released)(struct lock *lock);

/* Called before os_purge(at, bytes). */
extern void (*hook_os_purge)(void *at, size_t bytes);

/* Called before os_futex_wait(word, ...). */
extern void (*hook_os_futex_wait)(const uint32_t *word);

/* Called after pthread_create() has created a thread, in its creator. */
extern void (*hook_pthread_created)(void);

/* Called before magazine_install(). */
extern void (*hook_magazine_install)(void);

/* The result of os_now_ns(); 0 means the kernel's clock. */
extern uint64_t hook_now_ns;

/* os_charges_all() returns true, whatever the kernel's mode is. */
extern bool hook_charges_all;

/* The result of os_kernel_version(); 0 means the kernel's. */
extern uint32_t hook_kernel_version;

/*
 * The result of os_page_size(), at least the kernel's page size; 0 means the
 * kernel's page size.  While it is set, os_resident() fails, because the kernel
 * counts pages of another size.
 */
extern size_t hook_page_size;

/*
 * A hook for hook_heap_freed.  It allocates the freed span again at once,
 * registers the span as a large block in the page map, stores it in
 * hook_taken and removes itself.  It therefore runs for a single call.
 */
extern void *hook_taken;
void hook_take_again(void *at, size_t bytes);

#endif
