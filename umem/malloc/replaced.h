/*
 * replaced.h - the functions that a name of this library stands for
 *
 * A program may have an allocator of its own, or replace some operators of
 * C++.  A block that it has from its own malloc() may then come to a function
 * of this library that the program does not have, for example reallocarray().
 * Such a function calls malloc(), realloc() or free() by its public name, as
 * the C library does.  umem/preempted.list permits that a name stands for
 * another function in the process; own_NAME always is the library's.
 */
#ifndef UMEM_REPLACED_H
#define UMEM_REPLACED_H

#include "vmem/base.h"

/* Declares a function whose name may stand for another one. */
#define REPLACEABLE(result, name, ...)                                         \
	public result name(__VA_ARGS__);                                       \
	extern hidden result own##name(__VA_ARGS__)

/* Copies the attributes of libc's headers, as gcc demands of an alias. */
#if __has_attribute(copy)
#define LIKE(name) copy(name)
#else
#define LIKE(name)
#endif

/* In the file that defines the function. */
#define REPLACEABLE_HERE(name)                                                 \
	extern __typeof__(name) own##name                                      \
	    __attribute__((alias(#name), LIKE(name)))

REPLACEABLE(void *, malloc, size_t size);
REPLACEABLE(void *, realloc, void *p, size_t size);
REPLACEABLE(void, free, void *p);
REPLACEABLE(void *, aligned_alloc, size_t align, size_t size);
REPLACEABLE(size_t, malloc_usable_size, void *p);

/*
 * Returns a pointer of which the compiler does not know the symbol.  Otherwise
 * clang takes a function and its alias for different addresses.
 */
static inline uintptr_t
address_of_own(uintptr_t address)
{
	__asm__("" : "+r"(address));
	return address;
}

#define is_replaced(name)                                                      \
	unlikely((uintptr_t)(name) != address_of_own((uintptr_t)own##name))

#endif
