/* fuzz.h - for all fuzzers: a check, and a reader of the input */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AFL++ forks here, so that each process has descriptors of its own. */
void __afl_manual_init(void) __attribute__((weak));

__attribute__((constructor)) static void
start_server(void)
{
	if (__afl_manual_init != NULL)
		__afl_manual_init();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A finding: the fuzzer writes the input to a file. */
#define fuzz_check(condition)                                                  \
	((condition) ? (void)0                                                 \
		     : (fprintf(stderr, "%s:%d: not true: %s\n", __FILE__,     \
			    __LINE__, #condition),                             \
			   abort()))

/* The rest of the input.  Behind its end, it has zeros. */
struct input {
	const uint8_t *at, *end;
};

static inline uint64_t
take(struct input *input, unsigned bytes)
{
	uint64_t value = 0;
	size_t left = (size_t)(input->end - input->at);
	size_t n = bytes < left ? bytes : left;

	memcpy(&value, input->at, n);
	input->at += n;
	return value;
}

static inline bool
is_over(const struct input *input)
{
	return input->at == input->end;
}

#endif
