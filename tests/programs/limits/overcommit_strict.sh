#!/bin/bash
# With vm.overcommit_memory=2 the kernel charges writable private memory.  The
# charge of a program that has freed its memory falls, also if the memory is
# below a block in use.  If the kernel then refuses the memory, the request
# fails.
set -eu
echo 2 >mode
chmod 644 mode
fake='mount --bind mode /proc/sys/vm/overcommit_memory'
$UNSHARE sh -c "$fake" 2>/dev/null || {
	echo "no mount namespaces here"
	exit 77
}
cat >main.c <<'END'
#include <malloc.h>
#include <sys/resource.h>

#include "tests/programs/check.h"

enum {
	NBLOCKS = 300000,
	MOST_KIB = 8 << 10
};

static long
writable_kib(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	static char line[1000];
	unsigned long from, to;
	char right[8];
	long total = 0;

	check(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %7s", &from, &to, right) == 3 &&
		    strcmp(right, "rw-p") == 0)
			total += (long)((to - from) / 1024);
	fclose(maps);
	return total;
}

/* Blocks above the freed ones, which stay in use. */
static char *pin[4];

static void
fill_and_free(char **above)
{
	static char *block[NBLOCKS];
	long before = writable_kib();

	for (int i = 0; i < NBLOCKS; i++) {
		check((block[i] = malloc(984)) != NULL);
		memset(block[i], 1, 984);
	}
	check(writable_kib() > before + 250 * 1024);
	check((*above = malloc(2 * MIB)) != NULL);
	memset(*above, 1, 2 * MIB);
	for (int i = 0; i < NBLOCKS; i++)
		free(block[i]);
}

/* The kernel refuses the memory that the heap has returned. */
static void
be_refused(void)
{
	struct rlimit limit;
	size_t n = 0, bytes = 200 * MIB;
	char *small[64], *large;

	check(getrlimit(RLIMIT_DATA, &limit) == 0);
	rlim_t before = limit.rlim_cur;
	limit.rlim_cur = 8 * MIB;
	check(setrlimit(RLIMIT_DATA, &limit) == 0);
	errno = 0;
	check(malloc(bytes) == NULL && errno == ENOMEM);
	while (n < 64 && (small[n] = malloc(MIB)) != NULL)
		memset(small[n++], 2, MIB);
	check(n < 64);
	limit.rlim_cur = before;
	check(setrlimit(RLIMIT_DATA, &limit) == 0);
	check((large = calloc(1, bytes)) != NULL);
	check(large[0] == 0 && memcmp(large, large + 1, bytes - 1) == 0);
	memset(large, 3, bytes);
	for (size_t i = 0; i < n; i++) {
		check(small[i][0] == 2 && small[i][MIB - 1] == 2);
		free(small[i]);
	}
	free(large);
	for (int i = 0; i < 3; i++)
		check(pin[i][0] == 1 && pin[i][2 * MIB - 1] == 1);
}

static void *
wait_for_end(void *arg)
{
	pause();
	return arg;
}

int
main(void)
{
	long start;

	churn(1, 1000, 10000);
	start = writable_kib();
	for (int i = 0; i < 3; i++) {
		fill_and_free(&pin[i]);
		malloc_trim(0);
		fprintf(stderr, "%ld\n", writable_kib() - start);
		check(writable_kib() < start + MOST_KIB);
	}
	be_refused();
	malloc_trim(0);
	thread_start(wait_for_end, NULL);
	start = writable_kib();
	fill_and_free(&pin[3]);
	for (int i = 0; i < 200 && writable_kib() > start + MOST_KIB; i++)
		usleep(50000);
	fprintf(stderr, "with a thread %ld\n", writable_kib() - start);
	check(writable_kib() < start + MOST_KIB);
	churn(2, 10000, 100000);
	return 0;
}
END
"$CC" -D_GNU_SOURCE -fno-builtin -I"$TOP" -o main main.c -pthread
for mode in rseq locked; do
	export UMEM_OPTIONS=mode=$mode
	$UNSHARE sh -c "$fake && LD_PRELOAD=$SHIM ./main"
done
