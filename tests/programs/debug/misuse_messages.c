/*
 * misuse_messages.c - the message of each kind of misuse that the library ends
 * the program for, by default
 *
 * Each case runs in a new process, in which nothing was allocated before.
 *
 * test not with: musl its messages come by malloc_trim() of a linked libumem
 * test link: umem
 * test preload: yes
 */
#include <malloc.h>
#include <regex.h>
#include <sys/mman.h>

#include "tests/programs/check.h"

static umem_cache_t *
cache_make(const char *name, int flags)
{
	umem_cache_t *cache = umem_cache_create(
	    name, 100, 0, NULL, NULL, NULL, NULL, NULL, flags);

	check(cache != NULL);
	return cache;
}

/* A cache used after it was destroyed with objects in use. */
static void
cache_destroyed(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);

	check(umem_cache_alloc(cache, UMEM_DEFAULT) != NULL);
	umem_cache_destroy(cache);
	keep(umem_cache_alloc(cache, UMEM_DEFAULT));
}

/* An object freed to a cache that was destroyed while it was in use. */
static void
cache_destroyed_free(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);
	void *object;

	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_destroy(cache);
	umem_cache_free(cache, object);
}

/* umem_cache_free() of an address that is no memory of the library's. */
static void
cache_free_foreign(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);
	static char variable[100] __attribute__((aligned(16)));

	umem_cache_free(cache, variable);
	umem_cache_reap_now(cache);
}

/* umem_cache_free() of an address inside an object. */
static void
cache_free_inside(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);
	char *object;

	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_free(cache, object + 16);
	umem_cache_reap_now(cache);
}

/* An object freed to another cache is reported when its slab gets it. */
static void
cache_free_other(void)
{
	umem_cache_t *kettles = cache_make("kettles", 0);
	umem_cache_t *spoons = cache_make("spoons", 0);

	umem_cache_free(spoons, umem_cache_alloc(kettles, UMEM_DEFAULT));
	umem_cache_reap_now(spoons);
}

/* A cache without magazines reports an object of another cache at once. */
static void
cache_free_other_slab(void)
{
	umem_cache_t *kettles = cache_make("kettles", 0);
	umem_cache_t *spoons = cache_make("spoons", UMC_NOMAGAZINE);

	umem_cache_free(spoons, umem_cache_alloc(kettles, UMEM_DEFAULT));
}

/* An object freed twice in a row. */
static void
cache_free_twice(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);
	void *object;

	check((object = umem_cache_alloc(cache, UMEM_DEFAULT)) != NULL);
	umem_cache_free(cache, object);
	umem_cache_free(cache, object);
}

/* free() of an address inside a small block. */
static void
free_inside(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(p + 16);
}

/* free() of an address inside a large block, at the start of a page. */
static void
free_inside_large(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p + 20 * MIB);
}

/* free() of an address one byte into a block of 8 bytes. */
static void
free_inside_odd(void)
{
	char *p = malloc(8);

	check(p != NULL);
	free(p + 1);
}

/*
 * free() of an address inside a block that is several units of 64 KiB long: the
 * address is the start of a unit after the first unit of the block.
 */
static void
free_inside_slab(void)
{
	uintptr_t p = (uintptr_t)malloc(300000);

	check(p != 0);
	free((void *)((p + 0x20000) & ~(uintptr_t)0xffff));
}

/* free() of a mapping of the program, which is never looked into. */
static void
free_mapped(void)
{
	void *p =
	    mmap(NULL, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED);
	free(p);
}

/* free() of a place where a block could be, but never was. */
static void
free_never(void)
{
	uintptr_t p = (uintptr_t)malloc(1024);

	/* The last whole KiB of the 64 KiB that p lies in. */
	check(p != 0);
	free((void *)((p | 0xffff) - 1023 - 1024 + (p & 1023)));
	malloc_trim(0);
}

/* free() of an object of a cache. */
static void
free_object(void)
{
	umem_cache_t *cache = cache_make("kettles", 0);

	free(umem_cache_alloc(cache, UMEM_DEFAULT));
}

/* free() of an address on the stack. */
static void
free_stack(void)
{
	char local[64] __attribute__((aligned(16)));

	free(malloc(32));
	free(keep(local));
}

/* free() of a variable of the program, before anything was allocated. */
static void
free_static(void)
{
	static char variable[64] __attribute__((aligned(16)));

	free(keep(variable));
}

/* A block freed twice in a row. */
static void
free_twice(void)
{
	char *p = malloc(100);

	check(p != NULL);
	free(malloc(100));
	free(p);
	free(p);
}

/* A block freed twice with another between: one of the newest rounds. */
static void
free_twice_between(void)
{
	char *p, *q;

	for (int i = 0; i < 100; i++)
		free(malloc(100));
	p = malloc(100);
	q = malloc(100);
	check(p != NULL);
	free(p);
	free(q);
	free(p);
	check(!"reached");
}

/* The only block of its size freed twice: nothing else is in the magazine. */
static void
free_twice_first(void)
{
	char *p = malloc(5000);

	check(p != NULL);
	free(p);
	free(p);
}

/* A block freed again after its slab was returned to the heap. */
static void
free_twice_gone(void)
{
	static char *block[10000];

	for (int i = 0; i < 10000; i++)
		check((block[i] = malloc(1000)) != NULL);
	for (int i = 0; i < 10000; i++)
		free(block[i]);
	malloc_trim(0);
	free(block[10000 / 2]);
	malloc_trim(0);
}

/* A large block freed twice. */
static void
free_twice_large(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p);
	free(p);
}

/* A block freed twice with others between: its slab finds the second free. */
static void
free_twice_late(void)
{
	char *p = malloc(100), *q = malloc(100);

	check(p != NULL && q != NULL);
	free(p);
	free(q);
	free(p);
	malloc_trim(0);
}

/* The frees that follow a second free find it. */
static void
free_twice_many(void)
{
	static char *block[1000000];

	for (int i = 0; i < 1000000; i++)
		check((block[i] = malloc(100)) != NULL);
	for (int i = 0; i < 1000000; i++) {
		free(block[i]);
		if (i == 1000000 / 2)
			free(block[i - 100]);
	}
}

/* free() of an address far beyond the used part of the heap. */
static void
free_wild(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	free(keep(p + 1024 * MIB));
}

/* realloc() of a large block that was freed. */
static void
realloc_freed(void)
{
	char *p = malloc(50 * MIB);

	check(p != NULL);
	free(p);
	keep(realloc(p, 100 * MIB));
}

/* realloc() of an address inside a block. */
static void
realloc_inside(void)
{
	char *p = malloc(1000);

	check(p != NULL);
	keep(realloc(p + 8, 100));
}

/* realloc() of an address on the stack. */
static void
realloc_stack(void)
{
	char local[64] __attribute__((aligned(16)));

	keep(realloc(keep(local), 100));
}

/* umem_free_align() with a size beyond the block. */
static void
umem_free_align_size(void)
{
	void *p = umem_alloc_align(1000, 256, UMEM_DEFAULT);

	check(p != NULL);
	umem_free_align(p, 5000);
}

/* umem_free() with a size that is another class's. */
static void
umem_free_size(void)
{
	void *p = umem_alloc(100, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 1000);
}

/* umem_free() of a large block with a size that is too small. */
static void
umem_free_size_large(void)
{
	void *p = umem_alloc(50 * MIB, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(p, 49 * MIB);
}

/* umem_free() of a block with a size of 0. */
static void
umem_free_zero(void)
{
	void *p = umem_alloc(16, UMEM_DEFAULT);

	check(p != NULL);
	umem_free(NULL, 0);
	umem_free(p, 0);
}

/* In the messages, @ is an address. */
static const struct {
	const char *name;
	void (*run)(void);
	const char *message;
} cases[] = {
    {"cache_destroyed", cache_destroyed,
	"umem_cache_alloc(kettles): cache was destroyed"},
    {"cache_destroyed_free", cache_destroyed_free,
	"umem_cache_free(kettles): cache was destroyed"},
    {"cache_free_foreign", cache_free_foreign,
	"umem_cache_free(kettles, @): object of another cache"},
    {"cache_free_inside", cache_free_inside,
	"umem_cache_free(kettles, @): not the start of a block"},
    {"cache_free_other", cache_free_other,
	"umem_cache_free(spoons, @): object of another cache"},
    {"cache_free_other_slab", cache_free_other_slab,
	"umem_cache_free(spoons, @): object of another cache"},
    {"cache_free_twice", cache_free_twice,
	"umem_cache_free(kettles, @): block freed twice"},
    {"free_inside", free_inside, "free(@): not the start of a block"},
    {"free_inside_large", free_inside_large,
	"free(@): not the start of a block"},
    {"free_inside_odd", free_inside_odd, "free(@): not the start of a block"},
    {"free_inside_slab", free_inside_slab, "free(@): not the start of a block"},
    {"free_mapped", free_mapped, "free(@): not an address of the heap"},
    {"free_never", free_never, "free(@): block was never allocated"},
    {"free_object", free_object, "free(@): object of a cache, not a block"},
    {"free_stack", free_stack, "free(@): not an address of the heap"},
    {"free_static", free_static, "free(@): not an address of the heap"},
    {"free_twice", free_twice, "free(@): block freed twice"},
    {"free_twice_between", free_twice_between, "free(@): block freed twice"},
    {"free_twice_first", free_twice_first, "free(@): block freed twice"},
    {"free_twice_gone", free_twice_gone, "free(@): block freed twice"},
    {"free_twice_large", free_twice_large, "free(@): block freed twice"},
    {"free_twice_late", free_twice_late, "free(@): block freed twice"},
    {"free_twice_many", free_twice_many, "free(@): block freed twice"},
    {"free_wild", free_wild, "free(@): not an address of the heap"},
    {"realloc_freed", realloc_freed, "realloc(@): block freed twice"},
    {"realloc_inside", realloc_inside, "realloc(@): not the start of a block"},
    {"realloc_stack", realloc_stack, "realloc(@): not an address of the heap"},
    {"umem_free_align_size", umem_free_align_size,
	"umem_free_align(@): size 5000 does not fit the block"},
    {"umem_free_size", umem_free_size,
	"umem_free(@): size 1000 does not fit the block"},
    {"umem_free_size_large", umem_free_size_large,
	"umem_free(@): size 51380224 does not fit the block"},
    {"umem_free_zero", umem_free_zero,
	"umem_free(@): size 0 does not fit the block"},
};
#define NCASES (sizeof(cases) / sizeof(cases[0]))

/* Compiles the expression of a whole line with a message. */
static void
message_compile(regex_t *to, const char *message)
{
	char text[512], *end = text;

	end += sprintf(end, "^umem: ");
	for (const char *c = message; *c != '\0'; c++) {
		if (*c == '@')
			end += sprintf(end, "0x[0-9a-f]+");
		else if (strchr("().", *c) != NULL)
			end += sprintf(end, "\\%c", *c);
		else
			*end++ = *c;
	}
	strcpy(end, "$");
	check(regcomp(to, text, REG_EXTENDED | REG_NEWLINE | REG_NOSUB) == 0);
}

/* Runs a case in a new process, and returns the length of its message. */
static size_t
case_run(unsigned i, char *said, size_t bytes, int *status)
{
	char number[16];
	size_t n = 0;
	ssize_t got;
	int end[2];
	pid_t pid;

	check(pipe(end) == 0);
	sprintf(number, "%u", i);
	pid = fork();
	check(pid >= 0);
	if (pid == 0) {
		check(dup2(end[1], 2) == 2 && close(end[0]) == 0);
		execl("/proc/self/exe", "misuse_messages", number, NULL);
		_exit(127);
	}
	close(end[1]);
	while ((got = read(end[0], said + n, bytes - 1 - n)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	close(end[0]);
	check(waitpid(pid, status, 0) == pid);
	return n;
}

int
main(int argc, char **argv)
{
	int nbad = 0;

	if (argc > 1) {
		cases[atoi(argv[1])].run();
		_exit(0);
	}
	for (unsigned i = 0; i < NCASES; i++) {
		static char said[64 * KIB];
		regex_t expected;
		int status;

		case_run(i, said, sizeof(said), &status);
		message_compile(&expected, cases[i].message);
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
		    regexec(&expected, said, 0, NULL, 0) == 0) {
			regfree(&expected);
			continue;
		}
		fprintf(stderr, "%s: status %#x, not \"%s\":\n%s",
		    cases[i].name, status, cases[i].message, said);
		nbad++;
	}
	return nbad != 0;
}
