/*
 * musl.h - functions of glibc that the library has on musl, too, for programs
 * that musl's headers leave without them
 *
 * The Makefile includes it in each program that it builds by musl-gcc.
 */
#ifndef TESTS_MUSL_H
#define TESTS_MUSL_H

#include <malloc.h>
#include <stdio.h>

#define M_TRIM_THRESHOLD (-1)
#define M_TOP_PAD        (-2)
#define M_MMAP_THRESHOLD (-3)
#define M_MMAP_MAX       (-4)
#define M_CHECK_ACTION   (-5)
#define M_PERTURB        (-6)
#define M_ARENA_TEST     (-7)
#define M_ARENA_MAX      (-8)
#define M_MXFAST         1

struct mallinfo {
	int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks,
	    fordblks, keepcost;
};
struct mallinfo2 {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks,
	    uordblks, fordblks, keepcost;
};

struct mallinfo mallinfo(void);
struct mallinfo2 mallinfo2(void);
int malloc_info(int options, FILE *file);
void malloc_stats(void);
int malloc_trim(size_t pad);
int mallopt(int param, int value);
void *pvalloc(size_t size);

#endif
