/*
 * planted.c - a program with known leaks, for the command umem to look at
 *
 *	planted [THREADS [BUSY]]
 *
 * Prints "leak ADDRESS" for each block that nothing points to any more and
 * "kept ADDRESS" for each that something does, then "ready", and waits until
 * its standard input ends.  Addresses are printed as text and forgotten.  The
 * planting is done by a thread that ends, so that no stack and no register
 * has an address by chance; libc keeps that stack, with all it had.
 *
 * BUSY threads allocate and free all the time.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "umem/umem.h"
#include "vmem/vmem.h"

/* The busy threads write this; it is no address. */
#define MARK 0x5a5a5a5a5a5a0000ull

struct node {
	struct node *left, *right;
	char text[72];
};

void *volatile global;
void *volatile inside[64];
static __thread void *volatile own;
static pthread_key_t key;
static pthread_barrier_t planted;
static volatile int stop;
static void **volatile mapped;

static void
tell(const char *what, void *p)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%s %lx\n", what, (long)p);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static void *
lose(void *p, size_t bytes)
{
	memset(p, 0x5a, bytes);
	tell("leak", p);
	return p;
}

/* Overwrites the pointers that were there. */
static void *
keep(void *p, size_t bytes)
{
	memset(p, 0x5a, bytes);
	tell("kept", p);
	return p;
}

static struct node *
tree(unsigned depth)
{
	struct node *node = lose(malloc(sizeof(*node)), sizeof(*node));

	node->left = depth ? tree(depth - 1) : NULL;
	node->right = depth ? tree(depth - 1) : NULL;
	return node;
}

static void
plant_ring(void)
{
	struct node *a = lose(malloc(sizeof(*a)), sizeof(*a));
	struct node *b = lose(malloc(sizeof(*b)), sizeof(*b));
	struct node *c = lose(malloc(5000), 5000);

	a->left = b->right = c;
	b->left = c->right = a;
	c->left = a->right = b;
}

static void
plant_sizes(void)
{
	for (size_t n = 1; n < 3000000; n += n / 3 + 1)
		lose(malloc(n), n);
	for (size_t align = 32; align <= 65536; align *= 2)
		lose(aligned_alloc(align, align), align);
	lose(malloc(12 << 20), 12 << 20);
	lose(malloc(30 << 20), 30 << 20);
	lose(calloc(100, 100), 10000);
	lose(realloc(malloc(10), 40000), 40000);
	lose(umem_alloc(123, UMEM_DEFAULT), 123);
}

static int
construct(void *p, void *arg, int flags)
{
	(void)arg;
	(void)flags;
	memset(p, 1, 200);
	return 0;
}

static void
plant_objects(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "planted", 200, 64, construct, NULL, NULL, NULL, NULL, 0);
	void *back[20];

	for (int i = 0; i < 7; i++)
		lose(umem_cache_alloc(cache, UMEM_DEFAULT), 200);
	for (int i = 0; i < 20; i++)
		back[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < 20; i++)
		umem_cache_free(cache, back[i]);
}

struct part {
	long number;
	void *piece; /* of its own, while it is constructed */
};

static int
construct_part(void *p, void *arg, int flags)
{
	struct part *part = p;

	(void)arg;
	(void)flags;
	part->number = 0;
	part->piece = malloc(333);
	return part->piece == NULL;
}

static void
destruct_part(void *p, void *arg)
{
	(void)arg;
	free(((struct part *)p)->piece);
}

/* Free ones keep their pieces; the piece of a lost one is lost. */
static void
plant_parts(void)
{
	umem_cache_t *cache =
	    umem_cache_create("parts", sizeof(struct part), 0, construct_part,
		destruct_part, NULL, keep(malloc(444), 444), NULL, 0);
	struct part *part[2000];

	for (int i = 0; i < 2000; i++)
		part[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	tell("leak", part[7]);
	tell("leak", part[7]->piece);
	for (int i = 0; i < 2000; i++)
		if (i != 7)
			umem_cache_free(cache, part[i]);
}

/* Only the arena knows where its span is. */
static void
plant_span(void)
{
	void *span = aligned_alloc(4096, 65536);

	vmem_create("planted", keep(span, 65536), 65536, 4096, NULL, NULL, NULL,
	    0, VM_NOSLEEP);
}

static void
plant_freed(void)
{
	void *p[500];

	for (int i = 0; i < 500; i++)
		p[i] = malloc((size_t)i * 37 + 1);
	for (int i = 0; i < 500; i++)
		free(p[i]);
}

static void
plant_kept(void)
{
	struct node *list = NULL;

	for (int i = 0; i < 64; i++) {
		size_t n = (size_t)1 << (i / 3);

		inside[i] = (char *)keep(malloc(n), n) + n / 2;
	}
	for (int i = 0; i < 1000; i++) {
		struct node *node = keep(malloc(sizeof(*node)), sizeof(*node));

		node->left = list;
		list = node;
	}
	global = list;
	mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mapped[5000] = keep(malloc(64), 64);
}

static void
plant_all(void)
{
	plant_freed();
	plant_kept();
	plant_sizes();
	plant_ring();
	tree(5);
	plant_objects();
	plant_parts();
	plant_span();
}

/* Far below where another thread's frames will be on this stack. */
static void *
planter(void *arg)
{
	volatile char deep[65536];

	deep[0] = 0;
	plant_all();
	deep[1] = 0;
	return arg;
}

static void
in_a_register(void)
{
	/* The pointer is in a callee-saved register alone; pause() waits. */
#if defined(__x86_64__)
	__asm__ volatile("mov %[p], %%r15\n\txor %[p], %[p]\n"
			 "1:\tmov $34, %%eax\n\tsyscall\n\tjmp 1b"
			 :
			 : [p] "r"(keep(malloc(432), 432))
			 : "r15", "rax", "rcx", "r11", "memory");
#else
	void *volatile p = keep(malloc(432), 432);

	for (;;)
		pause();
	(void)p;
#endif
}

static void *
holder(void *arg)
{
	void *volatile on_stack = keep(malloc(321), 321);

	own = keep(malloc(654), 654);
	pthread_setspecific(key, keep(malloc(77), 77));
	pthread_barrier_wait(&planted);
	if (arg != NULL)
		in_a_register();
	for (;;)
		pause();
	(void)on_stack;
}

/*
 * Frames of the library leave addresses of slabs behind, and a slab may begin
 * with a lost block.  On a stack that is itself a block, all words count.
 */
static __attribute__((noinline)) void
wipe_below(void)
{
	volatile char frames[8192];

	memset((void *)frames, 0, sizeof(frames));
}

static void
work(unsigned seed)
{
	uint64_t *p[100] = {0};

	for (unsigned n = 0; !stop; n++) {
		if (n % 64 == 0)
			wipe_below();
		int i = rand_r(&seed) % 100;

		if (p[i] != NULL && p[i][0] != MARK + (unsigned)i)
			_exit(7);
		free(p[i]);
		p[i] = malloc((size_t)rand_r(&seed) % 5000 + 8);
		p[i][0] = MARK + (unsigned)i;
	}
	for (int i = 0; i < 100; i++)
		free(p[i]);
}

/* Every other one works on a stack that is a block itself. */
static void *
busy(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;
	ucontext_t here, there;

	if (seed % 2 == 0) {
		work(seed);
		return NULL;
	}
	getcontext(&there);
	there.uc_stack.ss_size = 131072;
	there.uc_stack.ss_sp = malloc(there.uc_stack.ss_size);
	there.uc_link = &here;
	makecontext(&there, (void (*)(void))work, 1, seed);
	swapcontext(&here, &there);
	free(there.uc_stack.ss_sp);
	return NULL;
}

/* Not in main(), where no register or word needs to have it. */
static pthread_t *runs;

int
main(int argc, char **argv)
{
	int nthreads = argc > 1 ? atoi(argv[1]) : 1;
	int nbusy = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t thread;
	char c;

	runs = calloc((size_t)nbusy + 1, sizeof(*runs));
	pthread_key_create(&key, NULL);
	pthread_barrier_init(&planted, NULL, (unsigned)nthreads + 1);
	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	for (int i = 0; i < nthreads; i++)
		pthread_create(&thread, NULL, holder, i == 0 ? &thread : NULL);
	pthread_barrier_wait(&planted);
	for (int i = 0; i < nbusy; i++)
		pthread_create(&runs[i], NULL, busy, (void *)(size_t)(i + 1));
	if (write(1, "ready\n", 6) != 6)
		return 9;
	while (read(0, &c, 1) == 1)
		;
	stop = 1;
	for (int i = 0; i < nbusy; i++)
		pthread_join(runs[i], NULL);
	return 0;
}
