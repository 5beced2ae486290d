/* sample_guarded.h - a block that is a sample and ends where pages end */
#ifndef TESTS_PROGRAMS_SAMPLE_GUARDED_H
#define TESTS_PROGRAMS_SAMPLE_GUARDED_H

#include "tests/programs/check.h"

/* 96 bytes at the end of a unit of 64 KiB but one page of 4. */
static __attribute__((noinline)) char *
guarded_block(void)
{
	for (int i = 0; i < 100000; i++) {
		char *p = malloc(96);

		if (((uintptr_t)p + 96) % (64 * KIB) == 60 * KIB)
			return p;
		free(p);
	}
	check(!"a guarded block in so many");
	return NULL;
}

static inline void
write_text(const char *text)
{
	check(write(2, text, strlen(text)) == (ssize_t)strlen(text));
}

#endif
