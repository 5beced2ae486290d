/*
 * malloc_stats() and malloc_info() are no cancellation points: a thread that is
 * to be cancelled writes its whole report, and is cancelled afterwards.  The
 * memory that the report was put together in does not stay mapped.
 */
#include <malloc.h>

#include "tests/programs/check.h"

static pthread_barrier_t barrier;
static FILE *file;

/*
 * Bytes of address space that the process has.  QEMU's own memory counts in
 * /proc/self/statm, but not here.
 */
static unsigned long
mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end, bytes = 0;
	char line[512];

	check(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			bytes += end - start;
	fclose(maps);
	check(bytes > 0);
	return bytes;
}

static void *
with_stats(void *reached)
{
	pthread_barrier_wait(&barrier);
	malloc_stats();
	*(bool *)reached = true;
	pthread_testcancel();
	return NULL;
}

static void *
with_info(void *reached)
{
	pthread_barrier_wait(&barrier);
	check(malloc_info(0, file) == 0);
	*(bool *)reached = true;
	pthread_testcancel();
	return NULL;
}

/* Is a thread cancelled after its report, not within it? */
static bool
cancelled(void *(*run)(void *))
{
	bool reached = false;
	pthread_t thread = thread_start(run, &reached);
	void *result;

	check(pthread_cancel(thread) == 0);
	pthread_barrier_wait(&barrier);
	check(pthread_join(thread, &result) == 0);
	return result == PTHREAD_CANCELED && reached;
}

int
main(void)
{
	int old = dup(2), nright = 0;
	unsigned long before = 0, after;
	char tail[11] = "";

	file = tmpfile();
	check(file != NULL && old > 2);
	check(setvbuf(file, NULL, _IONBF, 0) == 0);
	check(pthread_barrier_init(&barrier, NULL, 2) == 0);
	keep(malloc(1000));
	check(dup2(fileno(file), 2) == 2);
	for (int i = 0; i < 60; i++) {
		nright += cancelled(with_stats);
		nright += cancelled(with_info);
		if (i == 20)
			before = mapped();
	}
	after = mapped();
	check(dup2(old, 2) == 2);
	check(nright == 120);
	check(after < before + 2 * MIB);

	/* The last report is whole. */
	check(fseek(file, -10, SEEK_END) == 0);
	check(fread(tail, 1, 10, file) == 10);
	check(strcmp(tail, "</malloc>\n") == 0);
	return 0;
}
