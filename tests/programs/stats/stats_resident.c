/*
 * stats_resident.c - mallinfo2(), malloc_info() and malloc_stats() count memory
 * that the process has, not the addresses of the heap
 *
 * The program allocates and touches much more than it keeps, and gives the rest
 * back.  The three figures must follow the resident set, up and down.
 *
 * test modes: default
 * test env: UMEM_OPTIONS=huge_pages=no
 */
#include <malloc.h>
#include <sys/mman.h>

#include "tests/programs/check.h"

enum {
	BLOCKS = 200000,
	LARGE = 8
};

static char *block[BLOCKS], *large[LARGE];

static size_t
resident(void)
{
	static char text[4096];
	int fd = open("/proc/self/smaps_rollup", O_RDONLY);
	const char *at;
	ssize_t n;

	check(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	check(n > 0);
	close(fd);
	text[n] = '\0';
	at = strstr(text, "Rss:");
	check(at != NULL);
	return strtoul(at + 4, NULL, 10) * 1024;
}

/* Returns the number after a word that f writes to standard error. */
static size_t
reported(void (*f)(void), const char *word)
{
	static char text[1 << 16];
	int old = dup(2), file = memfd_create("report", 0);
	const char *at;
	ssize_t n;

	check(old >= 0 && file >= 0 && dup2(file, 2) == 2);
	f();
	check(dup2(old, 2) == 2);
	n = pread(file, text, sizeof(text) - 1, 0);
	close(old);
	close(file);
	check(n > 0);
	text[n] = '\0';
	at = strstr(text, word);
	check(at != NULL);
	return strtoul(at + strlen(word), NULL, 10);
}

static void
write_info(void)
{
	check(malloc_info(0, stderr) == 0);
	fflush(stderr);
}

/* The figures less those before, and the resident set less that before. */
static void
look(const char *when)
{
	static size_t rss, heap, stats, info;
	struct mallinfo2 m = mallinfo2();
	size_t now[4] = {resident(), m.arena + m.hblkhd,
	    reported(malloc_stats, "mmap):\nsystem bytes     ="),
	    reported(write_info, "<system type=\"current\" size=\"") +
		m.hblkhd};
	/* QEMU, where it runs the program, has memory in the set, too. */
	long other = getenv("EMULATED") != NULL ? 8 << 20 : 2 << 20;

	if (rss == 0) {
		rss = now[0];
		heap = now[1];
		stats = now[2];
		info = now[3];
		return;
	}
	now[0] -= rss;
	now[1] -= heap;
	now[2] -= stats;
	now[3] -= info;
	printf("%s: resident %zu, mallinfo2 %zu, malloc_stats %zu, "
	       "malloc_info %zu\n",
	    when, now[0], now[1], now[2], now[3]);
	fflush(stdout);
	for (int i = 1; i < 4; i++) {
		long wrong = (long)(now[i] - now[0]);

		check(labs(wrong) <= (long)(now[0] / 20) + other);
	}
}

int
main(void)
{
	/* Memory of the program itself. */
	memset(block, 1, sizeof(block));
	look("at first");
	for (int i = 0; i < BLOCKS; i++) {
		size_t n = (size_t)i % 1200 + 1;

		check((block[i] = malloc(n)) != NULL);
		memset(block[i], i, n);
	}
	for (int i = 0; i < LARGE; i++) {
		check((large[i] = malloc(10 << 20)) != NULL);
		memset(large[i], i, 10 << 20);
	}
	look("allocated");
	for (int i = 0; i < BLOCKS; i++)
		if (i % 50 != 0)
			free(block[i]);
	for (int i = 1; i < LARGE; i++)
		free(large[i]);
	look("freed");
	malloc_trim(0);
	look("trimmed");
	check(resident() < 100 << 20);
	return 0;
}
