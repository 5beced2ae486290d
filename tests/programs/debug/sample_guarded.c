/*
 * A block that is a sample and ends where pages end: the program cannot write
 * behind its end or read it after it was freed, and the report of a second free
 * has both stacks.
 *
 * test env: UMEM_OPTIONS=sample=1
 *
 * test run: overrun
 * test args: overrun
 * test signal: 11
 * test stderr: ^inside is fine$
 * test run: after_free
 * test args: after_free
 * test signal: 11
 * test stderr: ^freed$
 * test run: free_twice
 * test args: free_twice
 * test signal: 6
 * test stderr: ^umem: free\(0x[0-9a-f]+\): block freed twice$
 * test stderr: ^umem: allocated by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample_guarded`guarded_block\+0x[0-9a-f]+$
 * test stderr: ^umem: freed by thread [0-9]+, [0-9]+\.[0-9] s ago:$
 * test stderr: ^umem:     sample_guarded`first_free\+0x[0-9a-f]+$
 */
#include "tests/programs/check.h"

/* 96 bytes at the end of a unit of 64 KiB but one page of 4. */
__attribute__((noinline)) char *
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

static void
write_text(const char *text)
{
	check(write(2, text, strlen(text)) == (ssize_t)strlen(text));
}

static void
overrun(volatile char *p)
{
	p[95] = 1;
	write_text("inside is fine\n");
	p[96] = 1;
}

static int
read_after_free(volatile char *p)
{
	p[0] = 1;
	free((char *)p);
	write_text("freed\n");
	return p[0];
}

__attribute__((noinline)) void
first_free(char *p)
{
	free(p);
	__asm__ volatile("");
}

int
main(int argc, char **argv)
{
	char *p = guarded_block();

	check(argc == 2);
	if (strcmp(argv[1], "overrun") == 0)
		overrun(p);
	if (strcmp(argv[1], "after_free") == 0)
		return read_after_free(p);
	first_free(p);
	free(p);
	return 0;
}
