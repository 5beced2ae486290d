/*
 * realloc(): the contents of a block, and its memory.
 *
 * test run: content
 * test args: content
 * test run: memory
 * test args: memory
 * test modes: rseq locked own
 * test run: large
 * test args: large
 * test env: UMEM_OPTIONS=thread=no
 */
#include <dlfcn.h>

#include "tests/programs/check.h"

static const size_t size[] = {1, 8, 9, 16, 17, 100, 128, 500, 1000, 2048, 2049,
    4000, 5000, 8192, 16000, 32768, 40000, 65536, 65537, 100000, 131072, 262144,
    300000, 524289, 1000000, 4194304, 8388608, 8388609, 20000000};
enum {
	NSIZES = sizeof(size) / sizeof(size[0])
};

static void
write_words(char *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i + 4 <= n; i += n > 100000 ? 1024 : 4) {
		uint32_t word = (uint32_t)i * 2654435761u ^ seed;

		memcpy(p + i, &word, 4);
	}
	p[n - 1] = (char)seed;
}

static void
check_words(const char *p, size_t n, size_t written, uint32_t seed)
{
	for (size_t i = 0; i + 4 <= n && i + 4 < written;
	     i += written > 100000 ? 1024 : 4) {
		uint32_t word;

		memcpy(&word, p + i, 4);
		check(word == ((uint32_t)i * 2654435761u ^ seed));
	}
	check(n < written || p[written - 1] == (char)seed);
}

static char *
change(char *p, size_t from, size_t to, uint32_t seed)
{
	write_words(p, from, seed);
	check((p = realloc(p, to)) != NULL);
	check_words(p, from < to ? from : to, from, seed);
	return p;
}

/*
 * A block keeps its content, from every size to every other, up to more than
 * 100 MiB, whether the block moves or not.
 */
static void
content(void)
{
	char *p, *fence, *behind;
	uint32_t seed = 1;

	/* Behind a block is free space, then another block. */
	for (int fenced = 0; fenced < 2; fenced++)
		for (int i = 0; i < NSIZES; i++)
			for (int k = 0; k < NSIZES; k++) {
				check((p = malloc(size[i])) != NULL);
				fence = fenced ? malloc(size[i]) : NULL;
				if (fence != NULL)
					memset(fence, 1, 1);
				p = change(p, size[i], size[k], ++seed);
				free(p);
				free(fence);
			}

	/* Growing bit by bit, and back. */
	check((p = malloc(1)) != NULL);
	size_t n = 1;
	for (; n < 150 * MIB; n += n / 2 + 1)
		p = change(p, n, n + n / 2 + 1, ++seed);
	check((behind = malloc(n)) != NULL);
	p = change(p, n, 2 * n, ++seed);
	free(behind);
	for (n = 2 * n; n > 1; n = n / 3 + 1) {
		p = change(p, n, n / 3 + 1, ++seed);
		if (n <= 3)
			break;
	}
	free(p);

	/* The new part can be written and is the caller's alone. */
	char *a = calloc(1, 110 * MIB), *b = calloc(1, 110 * MIB);
	check(a != NULL && b != NULL);
	a[110 * MIB - 1] = 'a';
	b[110 * MIB - 1] = 'b';
	check((a = realloc(a, 220 * MIB)) != NULL);
	check((b = realloc(b, 330 * MIB)) != NULL);
	a[220 * MIB - 1] = 'c';
	b[330 * MIB - 1] = 'd';
	b[220 * MIB - 1] = 'e';
	check(a[110 * MIB - 1] == 'a' && b[110 * MIB - 1] == 'b');
	check(a[220 * MIB - 1] == 'c' && b[330 * MIB - 1] == 'd');
	check(is_zero(a, 1000) && is_zero(b, 1000));
	free(a);
	free(b);
}

enum {
	NBLOCKS = 20000,
	BYTES = 4096,
	CUT = 64,
	NCALLS = 500000,
	/* Cached memory, and partly used slabs, beside the live bytes. */
	PERCENT = 150
};

static void *block[NBLOCKS];
static size_t bytes_of[NBLOCKS];
static size_t live;
static unsigned seed = 1;

static void
resize(int i, size_t bytes)
{
	void *p = realloc(block[i], bytes);

	check(p != NULL);
	memset(p, 1, bytes);
	block[i] = p;
	live += bytes - bytes_of[i];
	bytes_of[i] = bytes;
}

static void
at_random(void)
{
	for (int i = 0; i < NCALLS; i++)
		resize(rand_r(&seed) % NBLOCKS, 1 + rand_r(&seed) % BYTES);
}

static void
up_and_down(void)
{
	for (int i = 0; i < NCALLS; i++)
		resize(rand_r(&seed) % NBLOCKS,
		    rand_r(&seed) % 2 == 0 ? CUT : BYTES);
}

/* Half of the blocks shrink, and their memory is enough for the others. */
static void
once(void)
{
	for (int i = 0; i < NBLOCKS / 2; i++)
		resize(i, BYTES);
	for (int i = 0; i < NBLOCKS / 2; i++)
		resize(i, CUT);
	for (int i = NBLOCKS / 2; i < NBLOCKS; i++)
		resize(i, BYTES);
}

static void
takes_what_it_holds(void (*resize_all)(void))
{
	long before = rss_kib(), kib, live_kib;
	pid_t child = fork();

	check(child != -1);
	if (child != 0) {
		child_end(child);
		return;
	}
	resize_all();
	kib = rss_kib() - before;
	live_kib = (long)(live >> 10);
	if (kib * 100 > live_kib * PERCENT) {
		fprintf(stderr, "%ld KiB for %ld KiB\n", kib, live_kib);
		_exit(1);
	}
	_exit(0);
}

/*
 * A program that only resizes its blocks, at random or up and down, takes at
 * most 1.5 times the memory of their bytes.  The memory of a block that shrinks
 * serves other blocks.
 */
static void
memory(void)
{
	takes_what_it_holds(at_random);
	takes_what_it_holds(up_and_down);
	takes_what_it_holds(once);
}

enum {
	NLARGE = 8,
	LARGE = 16 * MIB,
	NSHORT = 60,
	MOST_KIB = 2 * LARGE / KIB,
};

static void *
resize_unsized(void *p, size_t old, size_t size, int flags)
{
	(void)old;
	(void)flags;
	return realloc(p, size);
}

/*
 * A program with one thread that makes no other call than realloc() or
 * umem_realloc() of large blocks returns the memory that they release, within
 * some seconds.
 */
static void
returns_memory(void *(*resize_to)(void *, size_t, size_t, int))
{
	long before = rss_kib();
	char *p[NLARGE] = {NULL};

	check(resize_to != NULL);
	for (int i = 0; i < NLARGE; i++) {
		check((p[i] = resize_to(NULL, 0, LARGE, 0)) != NULL);
		memset(p[i], 1, LARGE);
	}
	for (int i = 0; i < NLARGE; i++)
		check((p[i] = resize_to(p[i], LARGE, LARGE / 16, 0)) != NULL);
	for (int i = 0; i < NSHORT && rss_kib() - before > MOST_KIB; i++) {
		usleep(50000);
		p[0] = resize_to(p[0], LARGE / 16, LARGE / 8, 0);
		p[0] = resize_to(p[0], LARGE / 8, LARGE / 16, 0);
	}
	check(rss_kib() - before <= MOST_KIB);
	for (int i = 0; i < NLARGE; i++)
		free(p[i]);
}

static void
large(void)
{
	void *(*umem_resize)(void *, size_t, size_t, int);

	*(void **)&umem_resize = dlsym(RTLD_DEFAULT, "umem_realloc");
	returns_memory(resize_unsized);
	returns_memory(umem_resize);
}

static const struct test_case cases[] = {
    {"content", content}, {"memory", memory}, {"large", large}, {NULL, NULL}};

int
main(int argc, char **argv)
{
	return run_case(argc, argv, cases);
}
