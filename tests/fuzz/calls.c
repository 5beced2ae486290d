/*
 * calls.c - sequences of calls of the library, against an oracle
 *
 * Each operation has a kind (1 byte) and arguments.  The oracle is a table of
 * blocks: the size that was asked for, and the pattern in the block.  A block
 * must be aligned, must not overlap another, must keep its pattern, and
 * malloc_usable_size() must be at least its size.  Caches count their objects;
 * arenas must report the segments that the oracle knows.  Some operations make
 * the next requests to the kernel fail; then any call may fail, but nothing may
 * change.  Some fork: the child checks and frees all and exits.  Others free
 * after a grace period.
 *
 * The functions of malloc() have other names here (library.syms), so that the
 * fuzzer itself does not use them.
 *
 * test link: library
 */
#define URCU_API_MAP
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>

#include "tests/fuzz/fuzz.h"
#include "umem/umem.h"
#include "umem/umem_rcu.h"
#include "vmem/os.h"
#include "vmem/vmem.h"

void *shim_malloc(size_t size);
void shim_free(void *p);
void *shim_calloc(size_t n, size_t size);
void *shim_realloc(void *p, size_t size);
void *shim_memalign(size_t align, size_t size);
size_t shim_malloc_usable_size(void *p);
int shim_malloc_trim(size_t pad);

#define NBLOCKS 64
#define NCACHES 4
#define NARENAS 3

/* Sums of sizes stay below this, so that the kernel has enough memory. */
#define BYTES_MAX ((size_t)64 << 20)

enum origin {
	NOTHING,
	MALLOC,
	ALLOC, /* umem_alloc() */
	ALIGN, /* umem_alloc_align() */
	OBJECT
};

static struct block {
	enum origin origin;
	unsigned cache;
	unsigned char *at;
	size_t size;
	unsigned char pattern;
} blocks[NBLOCKS];

static struct cache {
	umem_cache_t *cache;
	size_t size, align;
	size_t n;     /* objects in use */
	size_t limit; /* 0: none */
	bool constructs;
	long alive; /* objects that are constructed */
} caches[NCACHES];

/* An arena, and the segments that the oracle knows. */
static struct arena {
	vmem_t *arena;
	size_t quantum;
	bool imports;
	unsigned nspans;
	struct segment {
		uintptr_t at;
		size_t size;
		bool by_xalloc;
	} segment[NBLOCKS];
	unsigned n;
} arenas[NARENAS];

static size_t total;       /* bytes of all blocks */
static unsigned char mark; /* the next pattern */
static bool may_fail;      /* requests to the kernel fail */
static bool is_waiting;    /* objects may wait for a grace period */

const char *_umem_options_init(void);

const char *
_umem_options_init(void)
{
	return "thread=no";
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	umem_startup(NULL, 0, 0, NULL, NULL);
	return 0;
}

/* Large blocks are written to and checked at both ends. */
#define END_BYTES 4096

static void
fill(struct block *b)
{
	size_t n = b->size < END_BYTES ? b->size : END_BYTES;

	b->pattern = ++mark | 1;
	memset(b->at, b->pattern, n);
	memset(b->at + b->size - n, b->pattern, n);
}

static void
check_bytes(const unsigned char *at, size_t n, unsigned char value)
{
	for (size_t i = 0; i < n; i++)
		fuzz_check(at[i] == value);
}

/* Does the block hold its pattern in its first bytes? */
static void
check_start(const struct block *b, size_t bytes)
{
	check_bytes(b->at, bytes < END_BYTES ? bytes : END_BYTES, b->pattern);
}

static void
check_block(const struct block *b)
{
	size_t n = b->size < END_BYTES ? b->size : END_BYTES;

	check_start(b, b->size);
	check_bytes(b->at + b->size - n, n, b->pattern);
}

static void
check_apart(const struct block *b)
{
	for (unsigned i = 0; i < NBLOCKS; i++)
		if (blocks[i].origin != NOTHING && &blocks[i] != b)
			fuzz_check(blocks[i].at + blocks[i].size <= b->at ||
				   b->at + b->size <= blocks[i].at);
}

/* The block is new: it came from a call that wants this alignment. */
static void
take_block(
    struct block *b, enum origin origin, void *at, size_t size, size_t align)
{
	if (at == NULL) {
		fuzz_check(may_fail || size == 0 || size > BYTES_MAX ||
			   (origin == OBJECT && caches[b->cache].limit != 0));
		return;
	}
	b->origin = origin;
	b->at = at;
	b->size = size;
	total += size;
	fuzz_check((uintptr_t)at % align == 0);
	if (origin == MALLOC)
		fuzz_check(shim_malloc_usable_size(at) >= size);
	if (origin == OBJECT)
		caches[b->cache].n++;
	check_apart(b);
	fill(b);
}

/* Without a block any more; the caller frees it. */
static void
drop_block(struct block *b)
{
	check_block(b);
	total -= b->size;
	if (b->origin == OBJECT)
		caches[b->cache].n--;
	b->origin = NOTHING;
}

static void
free_block(struct block *b)
{
	enum origin origin = b->origin;

	if (origin == NOTHING)
		return;
	drop_block(b);
	if (origin == MALLOC)
		shim_free(b->at);
	else if (origin == ALLOC)
		umem_free(b->at, b->size);
	else if (origin == ALIGN)
		umem_free_align(b->at, b->size);
	else
		umem_cache_free(caches[b->cache].cache, b->at);
}

/* Frees a block after a grace period, of which no reader is in the way. */
static void
defer_block(struct block *b)
{
	struct block was = *b;
	int result;

	if (b->origin != ALLOC && b->origin != OBJECT)
		return;
	drop_block(b);
	result = was.origin == ALLOC
		     ? umem_free_rcu(was.at, was.size)
		     : umem_cache_free_rcu(caches[was.cache].cache, was.at);
	fuzz_check(result == 0);
	is_waiting = true;
}

static void
wait_for_readers(void)
{
	if (umem_rcu_barrier() == 0)
		is_waiting = false;
	else
		fuzz_check(may_fail);
}

/* Mostly small sizes, of all magnitudes up to some MiB. */
static size_t
take_size(struct input *input)
{
	unsigned bits = (unsigned)take(input, 1) % 24;
	size_t size = take(input, 3) & (((size_t)2 << bits) - 1);

	return total + size > BYTES_MAX ? size % 256 : size;
}

static size_t
least_align(size_t size)
{
	return size >= 16 ? 16 : 8;
}

static void
get_malloc(struct block *b, struct input *input, unsigned kind)
{
	size_t size = take_size(input), align;
	void *at;

	switch (kind) {
	case 0:
		/* Without bytes, a block of its own. */
		take_block(
		    b, MALLOC, shim_malloc(size), size, least_align(size));
		break;
	case 1:
		at = shim_calloc(1 + size / 16, 16);
		size = (1 + size / 16) * 16;
		if (at != NULL)
			check_bytes(at, size, 0);
		take_block(b, MALLOC, at, size, 16);
		break;
	default:
		align = (size_t)1 << take(input, 1) % 22;
		at = shim_memalign(align, size);
		take_block(b, MALLOC, at, size, align < 8 ? 8 : align);
	}
}

static void
get_umem(struct block *b, struct input *input, unsigned kind)
{
	size_t size = take_size(input), align;
	void *at;

	if (size == 0)
		size = 1;
	switch (kind) {
	case 0:
		take_block(b, ALLOC, umem_alloc(size, UMEM_DEFAULT), size,
		    least_align(size));
		break;
	case 1:
		at = umem_zalloc(size, UMEM_DEFAULT);
		if (at != NULL)
			check_bytes(at, size, 0);
		take_block(b, ALLOC, at, size, least_align(size));
		break;
	default:
		align = (size_t)1 << take(input, 1) % 22;
		at = umem_alloc_align(size, align, UMEM_DEFAULT);
		take_block(b, ALIGN, at, size, align < 8 ? 8 : align);
	}
}

static void
resize(struct block *b, struct input *input)
{
	struct block was = *b;
	size_t size = take_size(input) + 1;
	size_t kept = size < was.size ? size : was.size;
	void *at;

	if (b->origin != MALLOC && b->origin != ALLOC)
		return;
	check_block(b);
	at = b->origin == MALLOC
		 ? shim_realloc(b->at, size)
		 : umem_realloc(b->at, b->size, size, UMEM_DEFAULT);
	if (at == NULL) {
		fuzz_check(may_fail);
		check_block(b);
		return;
	}
	b->at = at;
	check_start(b, kept);
	total -= b->size;
	b->origin = NOTHING;
	take_block(b, was.origin, at, size, least_align(size));
}

/* The pattern of a constructed object is in its last byte. */
static int
construct(void *buf, void *priv, int flags)
{
	struct cache *c = priv;

	fuzz_check(flags == UMEM_DEFAULT);
	fuzz_check((uintptr_t)buf % (c->align ? c->align : 8) == 0);
	c->alive++;
	return 0;
}

static void
destruct(void *buf, void *priv)
{
	struct cache *c = priv;

	(void)buf;
	c->alive--;
	fuzz_check(c->alive >= (long)c->n);
}

static void
create_cache(struct cache *c, struct input *input)
{
	static const int flags[] = {
	    0, UMC_NOMAGAZINE, UMC_NOHASH, UMC_NOTOUCH, UMC_NODEBUG};
	struct umem_cache_args args = {.priv = c};

	*c = (struct cache){0};
	args.size = c->size = take(input, 2) % 20000 + 1;
	args.align = c->align = (size_t)(1u << take(input, 1) % 13) & ~7u;
	args.cflags = flags[take(input, 1) % 5];
	args.limit = c->limit = take(input, 1) % 40;
	args.reserve = take(input, 1) % 8;
	c->constructs = take(input, 1) % 2;
	if (c->constructs) {
		args.constructor = construct;
		args.destructor = destruct;
	}
	c->cache = umem_cache_create_args("fuzz", &args, sizeof(args));
	fuzz_check(c->cache != NULL || may_fail);
	fuzz_check(c->cache == NULL || umem_cache_size(c->cache) == c->size);
}

static void
destroy_cache(struct cache *c)
{
	for (unsigned i = 0; i < NBLOCKS; i++)
		if (blocks[i].origin == OBJECT && &caches[blocks[i].cache] == c)
			free_block(&blocks[i]);
	umem_cache_destroy(c->cache);
	c->cache = NULL;
	/* Objects in magazines stay if the kernel refuses membarrier(2). */
	fuzz_check(c->alive == 0 || may_fail);
}

/* Without an alignment of its own, an object has that of its size. */
static size_t
object_align(const struct cache *c)
{
	return c->align != 0 ? c->align : least_align(c->size);
}

static void
get_object(struct block *b, struct input *input)
{
	struct cache *c = &caches[take(input, 1) % NCACHES];
	int flags = take(input, 1) % 4 == 0 ? UMEM_RESERVE : UMEM_DEFAULT;
	void *at;

	if (c->cache == NULL) {
		create_cache(c, input);
		return;
	}
	b->cache = (unsigned)(c - caches);
	at = umem_cache_alloc(c->cache, flags);
	if (at == NULL && !may_fail)
		fuzz_check(errno == EAGAIN && c->limit != 0);
	take_block(b, OBJECT, at, c->size, object_align(c));
	fuzz_check(c->limit == 0 || at == NULL || c->n <= c->limit);
	fuzz_check(!c->constructs || c->alive >= (long)c->n);
}

static void
check_limits(struct cache *c)
{
	struct umem_cache_limits limits;

	if (c->cache == NULL)
		return;
	fuzz_check(umem_cache_limits(c->cache, &limits, sizeof(limits)) == 0);
	fuzz_check(limits.limit == c->limit && limits.waiting == 0);
	fuzz_check(c->limit == 0 || limits.in_use == c->n ||
		   (is_waiting && limits.in_use > c->n));
	fuzz_check(limits.ready <= limits.reserve);
}

/* Several objects at once, into free places of the table. */
static void
get_bulk(struct input *input)
{
	struct cache *c = &caches[take(input, 1) % NCACHES];
	size_t n = take(input, 1) % 24, nfree = 0, got;
	struct block *place[NBLOCKS];
	void *objects[24];

	for (unsigned i = 0; i < NBLOCKS; i++)
		if (blocks[i].origin == NOTHING)
			place[nfree++] = &blocks[i];
	if (c->cache == NULL || n > nfree)
		return;
	got = umem_cache_alloc_bulk(c->cache, n, objects, UMEM_DEFAULT);
	fuzz_check(got == n || (got == 0 && (may_fail || c->limit != 0)));
	for (size_t i = 0; i < got; i++) {
		place[i]->cache = (unsigned)(c - caches);
		take_block(
		    place[i], OBJECT, objects[i], c->size, object_align(c));
	}
}

static void
free_bulk(struct input *input)
{
	unsigned number = (unsigned)take(input, 1) % NCACHES;
	size_t n = 0, most = take(input, 1) % 24;
	void *objects[24];

	for (unsigned i = 0; i < NBLOCKS && n < most; i++)
		if (blocks[i].origin == OBJECT && blocks[i].cache == number) {
			objects[n++] = blocks[i].at;
			drop_block(&blocks[i]);
		}
	if (caches[number].cache != NULL)
		umem_cache_free_bulk(caches[number].cache, n, objects);
}

static void
change_cache(struct input *input)
{
	struct cache *c = &caches[take(input, 1) % NCACHES];
	size_t n;

	if (c->cache == NULL)
		return;
	switch (take(input, 1) % 5) {
	case 0:
		destroy_cache(c);
		break;
	case 1:
		umem_cache_reap_now(c->cache);
		break;
	case 2:
		fuzz_check(umem_cache_shrink(c->cache) == 1 || c->n == 0);
		break;
	case 3:
		n = take(input, 1) % 16;
		fuzz_check(
		    umem_cache_set_reserve(c->cache, n) == 0 || may_fail);
		break;
	default:
		/* Only a cache with a limit counts its objects. */
		n = take(input, 1) % 40 + 1;
		if (umem_cache_set_limit(c->cache, n) == 0)
			c->limit = n;
		else
			fuzz_check(errno == ENOTSUP && c->limit == 0);
	}
}

/* The source of the arenas that import. */
static void *
import(vmem_t *source, size_t size, int flags)
{
	static uintptr_t next = (uintptr_t)1 << 40;
	uintptr_t at = next;

	(void)source;
	(void)flags;
	if (size > (size_t)1 << 30)
		return NULL;
	next += (size + 0xffff) & ~(size_t)0xffff;
	return (void *)at;
}

static void
release(vmem_t *source, void *at, size_t size)
{
	(void)source;
	fuzz_check((uintptr_t)at >= (uintptr_t)1 << 40 && size > 0);
}

static void
create_arena(struct arena *a, struct input *input)
{
	static const int policy[] = {0, VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT};
	int flags = VM_NOSLEEP | VMC_IDENTIFIER | policy[take(input, 1) % 4];
	size_t qcache;

	*a = (struct arena){0};
	a->quantum = (size_t)1 << take(input, 1) % 13;
	a->imports = take(input, 1) % 2;
	qcache = a->quantum * (take(input, 1) % 5);
	a->arena = vmem_create("fuzz", (void *)(a->quantum * 16),
	    a->imports ? 0 : a->quantum * (1 + take(input, 1)), a->quantum,
	    a->imports ? import : NULL, a->imports ? release : NULL, NULL,
	    qcache, flags);
	fuzz_check(a->arena != NULL || may_fail);
}

static void
free_segment(struct arena *a, unsigned i)
{
	struct segment s = a->segment[i];

	a->segment[i] = a->segment[--a->n];
	if (s.by_xalloc)
		vmem_xfree(a->arena, (void *)s.at, s.size);
	else
		vmem_free(a->arena, (void *)s.at, s.size);
}

static void
destroy_arena(struct arena *a)
{
	while (a->n > 0)
		free_segment(a, a->n - 1);
	vmem_destroy(a->arena);
	a->arena = NULL;
}

static void
take_segment(struct arena *a, void *at, size_t size, bool by_xalloc)
{
	struct segment s = {(uintptr_t)at, size, by_xalloc};
	size_t rounded = (size + a->quantum - 1) & ~(a->quantum - 1);

	if (at == NULL) {
		fuzz_check(errno == ENOMEM || errno == EINVAL);
		return;
	}
	fuzz_check(s.at % a->quantum == 0);
	fuzz_check(vmem_contains(a->arena, at, rounded));
	for (unsigned i = 0; i < a->n; i++) {
		const struct segment *o = &a->segment[i];
		size_t its = (o->size + a->quantum - 1) & ~(a->quantum - 1);

		fuzz_check(o->at + its <= s.at || s.at + rounded <= o->at);
	}
	a->segment[a->n++] = s;
}

static void
get_constrained(struct arena *a, size_t size, struct input *input)
{
	size_t align = a->quantum << take(input, 1) % 8;
	size_t phase = (take(input, 1) * a->quantum) & (align - 1);
	size_t nocross =
	    take(input, 1) % 2 ? a->quantum << take(input, 1) % 12 : 0;
	uintptr_t least = take(input, 1) % 2 ? take(input, 2) * a->quantum : 0;
	uintptr_t most =
	    take(input, 1) % 2 ? least + take(input, 2) * a->quantum : 0;
	size_t rounded = (size + a->quantum - 1) & ~(a->quantum - 1);
	uintptr_t at;

	at = (uintptr_t)vmem_xalloc(a->arena, size, align, phase, nocross,
	    (void *)least, (void *)most, VM_NOSLEEP);
	if (at != 0) {
		fuzz_check((at - phase) % align == 0);
		fuzz_check(nocross == 0 ||
			   at / nocross == (at + rounded - 1) / nocross);
		fuzz_check(at >= least);
		fuzz_check(most == 0 || at + rounded <= most);
	}
	take_segment(a, (void *)at, size, true);
}

/* A sum of the reports of vmem_walk(). */
struct walked {
	const struct arena *arena;
	uintptr_t last;
	size_t sum;
};

static void
walk(void *arg, void *start, size_t size)
{
	struct walked *w = arg;

	fuzz_check((uintptr_t)start >= w->last && size > 0);
	w->last = (uintptr_t)start + size;
	w->sum += size;
}

static void
check_arena(const struct arena *a)
{
	struct walked used = {a, 0, 0}, idle = {a, 0, 0};
	size_t known = 0;

	if (a->arena == NULL)
		return;
	vmem_walk(a->arena, VMEM_ALLOC, walk, &used);
	vmem_walk(a->arena, VMEM_FREE, walk, &idle);
	fuzz_check(used.sum == vmem_size(a->arena, VMEM_ALLOC));
	fuzz_check(idle.sum == vmem_size(a->arena, VMEM_FREE));
	for (unsigned i = 0; i < a->n; i++)
		known +=
		    (a->segment[i].size + a->quantum - 1) & ~(a->quantum - 1);
	fuzz_check(known <= used.sum);
}

static void
use_arena(struct input *input)
{
	static const int policy[] = {0, VM_BESTFIT, VM_FIRSTFIT, VM_NEXTFIT};
	struct arena *a = &arenas[take(input, 1) % NARENAS];
	unsigned kind = (unsigned)take(input, 1) % 8;
	size_t size = take(input, 2);
	int flags = VM_NOSLEEP | policy[size % 4];

	if (a->arena == NULL) {
		create_arena(a, input);
		return;
	}
	if (size == 0)
		size = 1;
	if (kind < 3 && a->n < NBLOCKS)
		take_segment(a, vmem_alloc(a->arena, size, flags), size, false);
	else if (kind == 3 && a->n < NBLOCKS)
		get_constrained(a, size, input);
	else if (kind == 4 && a->nspans < 200)
		/* Spans behind the first ones, with a gap or without. */
		vmem_add(a->arena,
		    (void *)(a->quantum * (300 + 300 * ++a->nspans)),
		    a->quantum * (1 + size % 300), VM_NOSLEEP);
	else if (kind == 5 && take(input, 1) == 0)
		destroy_arena(a);
	else if (a->n > 0)
		free_segment(a, (unsigned)size % a->n);
}

static void
check_statistics(void)
{
	struct umem_stats stats;

	fuzz_check(umem_stats(&stats, sizeof(stats)) == 0);
	fuzz_check(stats.mapped_bytes == stats.heap_bytes + stats.own_bytes);
	fuzz_check(stats.heap_bytes ==
		   stats.live_bytes + stats.cached_bytes + stats.waiting_bytes +
		       stats.dirty_bytes + stats.sampled_bytes);
	fuzz_check(stats.live_bytes + stats.sampled_bytes >= total);
}

static void
check_all(void)
{
	for (unsigned i = 0; i < NBLOCKS; i++)
		if (blocks[i].origin != NOTHING)
			check_block(&blocks[i]);
	for (unsigned i = 0; i < NCACHES; i++)
		check_limits(&caches[i]);
	for (unsigned i = 0; i < NARENAS; i++)
		check_arena(&arenas[i]);
	/* The thread of libumem_rcu changes figures meanwhile. */
	if (!is_waiting)
		check_statistics();
}

static void
free_all(void)
{
	for (unsigned i = 0; i < NBLOCKS; i++)
		free_block(&blocks[i]);
	for (unsigned i = 0; i < NCACHES; i++)
		if (caches[i].cache != NULL)
			destroy_cache(&caches[i]);
	for (unsigned i = 0; i < NARENAS; i++)
		if (arenas[i].arena != NULL)
			destroy_arena(&arenas[i]);
	fuzz_check(total == 0);
}

static void
fork_and_check(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		os_fail_nth(0, 0);
		check_all();
		free_all();
		shim_free(shim_malloc(100));
		_exit(0);
	}
	if (pid < 0)
		return;
	/* The timer of the fuzzer interrupts it. */
	while (waitpid(pid, &status, 0) != pid)
		fuzz_check(errno == EINTR);
	fuzz_check(status == 0);
}

static void
operate(struct input *input, unsigned *nforks)
{
	unsigned kind = (unsigned)take(input, 1) % 33;
	struct block *b = &blocks[take(input, 1) % NBLOCKS];

	if (kind < 16 && kind != 8 && b->origin != NOTHING) {
		free_block(b);
		return;
	}
	if (kind < 4)
		get_malloc(b, input, kind % 3);
	else if (kind < 8)
		get_umem(b, input, kind % 3);
	else if (kind == 8)
		resize(b, input);
	else if (kind < 16)
		get_object(b, input);
	else if (kind < 18)
		get_bulk(input);
	else if (kind < 20)
		free_bulk(input);
	else if (kind < 22)
		change_cache(input);
	else if (kind < 26)
		use_arena(input);
	else if (kind == 26)
		resize(b, input);
	else if (kind == 27)
		shim_malloc_trim(0);
	else if (kind == 28)
		umem_reap();
	else if (kind == 29 && !is_waiting && (*nforks)++ == 0)
		fork_and_check();
	else if (kind == 30)
		defer_block(b);
	else if (kind == 31)
		wait_for_readers();
	else
		check_all();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct input input = {data, data + n};
	unsigned nforks = 0;

	while (!is_over(&input)) {
		unsigned burst = 0;

		/* 0xff: the kernel refuses some of the next requests. */
		if (*input.at == 0xff) {
			input.at++;
			burst = (unsigned)take(&input, 1) % 8 + 1;
			os_fail_nth((unsigned)take(&input, 1) % 8 + 1, burst);
		}
		may_fail = burst != 0;
		operate(&input, &nforks);
		os_fail_nth(0, 0);
	}
	may_fail = false;
	wait_for_readers();
	check_all();
	free_all();
	return 0;
}
