/*
 * harmed.c - caches of many kinds, each with one changed byte
 *
 * For each size, alignment and set of flags, and for each place in and around a
 * buffer, the program creates one cache.  At the first line of its input it
 * changes that byte of one buffer of each cache, and prints for each cache its
 * name, the state of the buffer, and the address of the byte.  At the second
 * line it frees all buffers, and allocates and frees so many that the library
 * checks each chunk.  The library's messages then name the caches in which it
 * found the change.
 *
 * With the argument "firewall" no byte is changed that may be on a guard page.
 */
#include "tests/programs/check.h"

enum {
	BUFFERS = 6,
	AGAIN = 200 /* more than the chunks of a slab and of the quarantine */
};

struct subject {
	char name[32];
	umem_cache_t *cache; /* NULL: a size class */
	size_t size;
	long place; /* of the byte, from the end of the buffer */
	bool is_free;
	char *buffer[BUFFERS], *victim;
};

static struct subject subjects[2000];
static unsigned nsubjects;
static bool firewall;

static char *
get(const struct subject *s)
{
	char *p = s->cache ? umem_cache_alloc(s->cache, UMEM_NOFAIL)
			   : umem_alloc(s->size, UMEM_NOFAIL);

	memset(p, 'x', s->size);
	return p;
}

static void
put(const struct subject *s, char *p)
{
	if (s->cache != NULL)
		umem_cache_free(s->cache, p);
	else
		umem_free(p, s->size);
}

/* Chooses a buffer before an allocated one. */
static void
choose(struct subject *s, long *chunk)
{
	*chunk = 0;
	for (int i = 0; i < BUFFERS; i++)
		for (int j = 0; j < BUFFERS; j++) {
			long distance = s->buffer[j] - s->buffer[i];

			if (distance > 0 &&
			    (*chunk == 0 || distance < *chunk)) {
				*chunk = distance;
				s->victim = s->buffer[i];
			}
		}
}

static long
rounded(size_t size)
{
	return (long)(size + 7 & ~(size_t)7);
}

/* Allocates the buffers; false: this byte is outside the chunk. */
static bool
start(struct subject *s)
{
	long chunk, at = (long)s->size + s->place;

	for (int i = 0; i < BUFFERS; i++)
		s->buffer[i] = get(s);
	choose(s, &chunk);
	if (firewall)
		chunk = rounded(s->size);
	if (at < 0 || at >= chunk || (firewall && s->is_free)) {
		for (int i = 0; i < BUFFERS; i++)
			put(s, s->buffer[i]);
		return false;
	}
	if (s->is_free)
		put(s, s->victim);
	return true;
}

static void
add(size_t size, size_t align, int flags, long place, bool is_free)
{
	struct subject *s = &subjects[nsubjects];

	*s = (struct subject){.size = size, .place = place, .is_free = is_free};
	snprintf(s->name, sizeof(s->name), "harmed_%u", nsubjects);
	s->cache = umem_cache_create(
	    s->name, size, align, NULL, NULL, NULL, NULL, NULL, flags);
	check(s->cache != NULL);
	if (start(s))
		check(++nsubjects < sizeof(subjects) / sizeof(*subjects));
	else
		umem_cache_destroy(s->cache);
}

/* Uses a size class of its own for each place; a tag of 8 bytes has room. */
static void
add_class(size_t class, long place, bool is_free)
{
	struct subject *s = &subjects[nsubjects];

	*s = (struct subject){
	    .size = class - 13, .place = place, .is_free = is_free};
	snprintf(s->name, sizeof(s->name), "umem_alloc_%zu", class);
	if (start(s))
		nsubjects++;
}

static void
add_all(void)
{
	static const size_t sizes[] = {1, 8, 10, 100, 1000, 5000},
			    aligns[] = {0, 64, 1024},
			    classes[] = {96, 112, 128, 160, 192, 224, 256, 320,
				384, 448, 512, 640, 768, 896, 1024, 1280, 1536,
				1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144,
				7168, 8192};
	static const int flags[] = {
	    0, UMC_NOTOUCH, UMC_NODEBUG, UMC_TYPESAFE_BY_RCU};
	unsigned class = 0;

	for (int f = 0; f < 4; f++)
		for (int a = 0; a < 3; a++)
			for (int s = 0; s < 6; s++) {
				long tag = rounded(sizes[s]) - (long)sizes[s];
				/* In the buffer, the slack, the tag (redzone,
				   record, state), and the padding. */
				long places[] = {-1, 0, tag, tag + 5, tag + 9,
				    tag + 23, tag + 24, tag + 39, tag + 500};

				for (int p = 0; p < 9; p++) {
					add(sizes[s], aligns[a], flags[f],
					    places[p], (s + p) % 2);
					if (s % 3 == 0)
						add(sizes[s], aligns[a],
						    flags[f], places[p],
						    (s + p + 1) % 2);
				}
			}
	for (long place = -1; place < 5 + 24; place += 3)
		for (int is_free = 0; is_free < 2; is_free++)
			add_class(classes[class ++], place, is_free);
}

static void
harm(const struct subject *s)
{
	char *byte = s->victim + (long)s->size + s->place;

	*byte ^= 0x40;
	printf("%s %s %lx %lx\n", s->name, s->is_free ? "free" : "allocated",
	    (long)s->victim, (long)byte);
}

static void
release(const struct subject *s)
{
	static char *again[AGAIN];

	for (int i = 0; i < BUFFERS; i++)
		if (!s->is_free || s->buffer[i] != s->victim)
			put(s, s->buffer[i]);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < AGAIN; i++)
			again[i] = get(s);
		for (int i = 0; i < AGAIN; i++)
			put(s, again[i]);
		umem_reap();
	}
}

/* Tells the test that this step is done, and waits for its answer. */
static void
step(void)
{
	puts("ready");
	fflush(stdout);
	check(getchar() != EOF);
}

int
main(int argc, char **argv)
{
	firewall = argc > 1 && strcmp(argv[1], "firewall") == 0;
	add_all();
	step();
	for (unsigned i = 0; i < nsubjects; i++)
		harm(&subjects[i]);
	step();
	for (unsigned i = 0; i < nsubjects; i++)
		release(&subjects[i]);
	return 0;
}
