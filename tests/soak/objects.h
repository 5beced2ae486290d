/*
 * objects.h - caches: constructed states, limits, reserves, bulk, imports
 *
 * A constructed object is filled, like a block, with contents that follow from
 * its address alone.  An actor that allocates one checks these, fills the
 * object as a block of its own, and restores them before the free.
 */
#ifndef TESTS_SOAK_OBJECTS_H
#define TESTS_SOAK_OBJECTS_H

#include "tests/soak/blocks.h"

enum {
	PARCELS, /* blocks on their way to another actor */
	SMALL,
	LINES,
	PLAIN,
	LIMITED,
	WAITING,
	BARE,
	TYPESAFE, /* its first word is constructed at all times */
	ARENA,
	LARGE,
	NCACHES
};

static struct cache {
	const char *name;
	size_t size, align;
	bool constructs;
	int cflags;
	int limit_wait;
	size_t limit, reserve;
	umem_cache_t *cache;
	unsigned index;                   /* for the state of its objects */
	uint64_t constructed, destructed; /* [atomic] */
	uint64_t in_use;                  /* [atomic] at most, by objects */
} caches[NCACHES] = {
    [PARCELS] = {"soak_parcels", .size = 40, .constructs = true},
    [SMALL] = {"soak_small", .size = 24, .constructs = true},
    [LINES] = {"soak_lines", .size = 192, .align = 64, .constructs = true},
    [PLAIN] = {"soak_plain", .size = 300},
    [LIMITED] = {"soak_limited", .size = 1000, .constructs = true, .limit = 230,
	.reserve = 8},
    [WAITING] = {"soak_waiting", .size = 80, .constructs = true, .limit = 220,
	.limit_wait = 1},
    [BARE] = {"soak_bare", .size = 72, .constructs = true,
	.cflags = UMC_NOMAGAZINE},
    [TYPESAFE] = {"soak_typesafe", .size = 96, .constructs = true,
	.cflags = UMC_TYPESAFE_BY_RCU},
    [ARENA] = {"soak_arena", .size = 520, .constructs = true},
    [LARGE] = {"soak_large", .size = 20000, .constructs = true,
	.cflags = UMC_NOTOUCH},
};

static unsigned constructors_fail; /* [atomic] */

/* A constructed object, as a block; cache is its index. */
static inline struct block
constructed_state(const void *at, size_t size, unsigned cache)
{
	return (struct block){(unsigned char *)(uintptr_t)at, size,
	    mix((uintptr_t)at + cache) * GOLD, OBJECT, cache};
}

static int
object_construct(void *at, void *arg, int flags)
{
	struct cache *c = arg;
	struct block state = constructed_state(at, c->size, c->index);

	must(flags == UMEM_DEFAULT);
	if (__atomic_load_n(&constructors_fail, __ATOMIC_RELAXED) != 0 &&
	    (uintptr_t)at / 64 % 4 == 0)
		return 1;
	fill_from(&state, 0);
	__atomic_add_fetch(&c->constructed, 1, __ATOMIC_RELAXED);
	return 0;
}

static void
object_destruct(void *at, void *arg)
{
	struct cache *c = arg;
	struct block state = constructed_state(at, c->size, c->index);

	check_block(&state, "destructor");
	memset(at, 0xdd, 8);
	__atomic_add_fetch(&c->destructed, 1, __ATOMIC_RELAXED);
}

/* The first byte of an object that an actor may change. */
static inline size_t
object_own(unsigned cache)
{
	return cache == TYPESAFE ? 8 : 0;
}

/* Of a new object, the state; then it is the actor's. */
static inline void
object_take(struct actor *a, struct block *b, unsigned cache, void *at)
{
	struct cache *c = &caches[cache];
	struct block state = constructed_state(at, c->size, cache);

	if (c->constructs)
		check_block(&state, "new object");
	block_take(a, b, OBJECT, at, c->size,
	    c->align ? c->align : least_align(c->size));
	b->cache = cache;
	fill_from(b, object_own(cache));
	if (c->limit != 0 &&
	    __atomic_add_fetch(&c->in_use, 1, __ATOMIC_RELAXED) > c->limit)
		differs("%s: more objects than its limit", c->name);
}

/* The caller frees the object. */
static inline void
object_drop(struct actor *a, struct block *b)
{
	struct cache *c = &caches[b->cache];
	struct block state = constructed_state(b->at, b->size, b->cache);

	check_part(b, object_own(b->cache), b->size, "before its free");
	starts_set(b->at, 0, "is freed twice");
	a->ops++;
	a->bytes -= b->size;
	b->origin = NOTHING;
	if (c->constructs)
		fill_from(&state, object_own(b->cache));
	else
		memset(b->at, 0xdc, 32);
	if (c->limit != 0)
		__atomic_sub_fetch(&c->in_use, 1, __ATOMIC_RELAXED);
}

static void
object_get(struct actor *a, struct block *b, unsigned cache)
{
	struct cache *c = &caches[cache];
	unsigned mark = scarce_mark();
	int flags = draw(a, 4) ? UMEM_DEFAULT : UMEM_RESERVE;
	void *at = umem_cache_alloc(c->cache, flags);

	if (at != NULL)
		object_take(a, b, cache, at);
	else if (c->limit == 0 || (errno != EAGAIN && errno != ETIMEDOUT))
		failed(mark, c->name, c->size);
}

static void
object_free(struct actor *a, struct block *b)
{
	object_drop(a, b);
	umem_cache_free(caches[b->cache].cache, b->at);
}

static inline void
any_free(struct actor *a, struct block *b)
{
	if (b->origin == OBJECT)
		object_free(a, b);
	else
		block_free(a, b);
}

static inline unsigned
draw_cache(struct actor *a)
{
	unsigned cache = 1 + draw(a, NCACHES - 1);

	return cache == LARGE && draw(a, 8) ? (unsigned)SMALL : cache;
}

/* One call on a random block of a table that only the actor uses. */
static inline void
table_step(struct actor *a, struct block *table, size_t n)
{
	struct block *b = &table[draw(a, n)];
	size_t r = draw(a, 16);

	if (b->origin == NOTHING) {
		if (r < 8)
			get_malloc(a, b);
		else if (r < 11)
			get_umem(a, b);
		else
			object_get(a, b, draw_cache(a));
	} else if (r < 2) {
		block_resize(a, b);
	} else {
		any_free(a, b);
	}
}

static inline void
table_free(struct actor *a, struct block *table, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].origin != NOTHING)
			any_free(a, &table[i]);
}

static inline void
table_check(const struct block *table, size_t n, const char *when)
{
	for (size_t i = 0; i < n; i++)
		if (table[i].origin != NOTHING)
			check_part(&table[i],
			    table[i].origin == OBJECT
				? object_own(table[i].cache)
				: 0,
			    table[i].size, when);
}

/*
 * Blocks travel in parcels, which are objects: the first words are the block,
 * the last one is a sum of them.
 */
enum {
	NSLOTS = 512
};
static uint64_t *slots[NSLOTS]; /* [atomic] */

static inline uint64_t
parcel_sum(const uint64_t *parcel)
{
	return mix(parcel[0] + mix(parcel[1] + mix(parcel[2] + parcel[3])));
}

/* Takes the block out of a parcel, which it frees. */
static void
parcel_open(struct actor *a, uint64_t *parcel, struct block *b)
{
	struct block state =
	    constructed_state(parcel, caches[PARCELS].size, PARCELS);

	if (parcel[4] != parcel_sum(parcel))
		differs("parcel %p has changed", (void *)parcel);
	memcpy(b, parcel, sizeof(*b));
	starts_set(parcel, 0, "is freed twice");
	a->ops++;
	a->bytes -= state.size;
	fill_from(&state, 0);
	umem_cache_free(caches[PARCELS].cache, parcel);
	table_check(b, 1, "hand-over");
}

/* Puts the block in a slot, and takes the one that was there, if any. */
static void
exchange(struct actor *a, struct block *b)
{
	struct block wrap = {0};
	uint64_t *parcel;

	static_assert(sizeof(*b) == 32, "parcels have 32 bytes for a block");
	object_get(a, &wrap, PARCELS);
	if (wrap.origin == NOTHING)
		return;
	parcel = (uint64_t *)wrap.at;
	memcpy(parcel, b, sizeof(*b));
	parcel[4] = parcel_sum(parcel);
	b->origin = NOTHING;
	parcel = __atomic_exchange_n(
	    &slots[draw(a, NSLOTS)], parcel, __ATOMIC_ACQ_REL);
	if (parcel != NULL)
		parcel_open(a, parcel, b);
}

static void
slots_free(struct actor *a)
{
	struct block b;

	for (int i = 0; i < NSLOTS; i++)
		if (slots[i] != NULL) {
			parcel_open(a, slots[i], &b);
			any_free(a, &b);
			slots[i] = NULL;
		}
}

static void
objects_bulk(struct actor *a)
{
	enum {
		MOST = 30
	};
	unsigned cache = draw_cache(a), mark = scarce_mark();
	struct cache *c = &caches[cache];
	size_t n = 1 + draw(a, MOST), nsingle = draw(a, n + 1);
	struct block table[MOST];
	void *at[MOST];

	if (umem_cache_alloc_bulk(c->cache, n, at, UMEM_DEFAULT) != n) {
		if (c->limit == 0 || (errno != EAGAIN && errno != ETIMEDOUT))
			failed(mark, c->name, c->size);
		return;
	}
	for (size_t i = 0; i < n; i++)
		object_take(a, &table[i], cache, at[i]);
	for (; nsingle > 0; nsingle--)
		object_free(a, &table[--n]);
	for (size_t i = 0; i < n; i++)
		object_drop(a, &table[i]);
	umem_cache_free_bulk(c->cache, n, at);
}

/* An import cache, of numbers that this table knows. */
enum {
	NRESOURCES = 4096,
	AWAY = 0, /* not imported */
	IDLE,
	USED
};
static uint8_t resources[NRESOURCES]; /* [atomic] */
static umem_cache_t *resource_cache;

static inline void
resource_becomes(uintptr_t number, uint8_t from, uint8_t to)
{
	uint8_t was = from;

	must(number > 0 && number < NRESOURCES);
	if (!__atomic_compare_exchange_n(&resources[number], &was, to, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		differs("resource %zu is in state %u instead of %u",
		    (size_t)number, was, from);
}

static size_t
resource_import(void *arg, void **store, size_t n, int flags)
{
	static uintptr_t next; /* [atomic] */
	size_t got = 0;

	(void)arg;
	(void)flags;
	for (int tries = 0; got < n && tries < NRESOURCES; tries++) {
		uintptr_t i =
		    __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED) % NRESOURCES;
		uint8_t was = AWAY;

		if (i != 0 &&
		    __atomic_compare_exchange_n(&resources[i], &was, IDLE,
			false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			store[got++] = (void *)i;
	}
	return got;
}

static void
resource_release(void *arg, void *const *store, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		resource_becomes((uintptr_t)store[i], IDLE, AWAY);
}

static void
resources_step(struct actor *a)
{
	enum {
		MOST = 20
	};
	size_t n = 1 + draw(a, MOST), i = 0;
	void *number[MOST];

	if (draw(a, 2))
		n = umem_cache_alloc_bulk(
		    resource_cache, n, number, UMEM_DEFAULT);
	else
		for (; i < n; i++)
			if ((number[i] = umem_cache_alloc(
				 resource_cache, UMEM_DEFAULT)) == NULL)
				n = i;
	/* Each actor has few, so all fail only while memory is scarce. */
	for (i = 0; i < n; i++)
		resource_becomes((uintptr_t)number[i], IDLE, USED);
	a->ops += 2 * n;
	for (i = 0; i < n; i++)
		resource_becomes((uintptr_t)number[i], USED, IDLE);
	umem_cache_free_bulk(resource_cache, n, number);
}

/*
 * A cache of its own, from its creation to its destruction.  A child of fork()
 * inherits it without the thread, so its data are not on the thread's stack.
 */
static void
season(struct actor *a)
{
	static const int flags[] = {0, UMC_NOMAGAZINE, UMC_NOTOUCH, 0};
	static struct cache data[NACTORS];
	enum {
		NSLOTS = 60
	};
	struct cache *own = &data[a->number];
	struct umem_cache_args args = {.size = 16 + draw(a, 900),
	    .constructor = object_construct,
	    .destructor = object_destruct,
	    .priv = own,
	    .cflags = flags[draw(a, 4)],
	    .reserve = draw(a, 8) ? 0 : draw(a, 10)};
	void *at[NSLOTS] = {0};
	unsigned mark = scarce_mark();

	*own = (struct cache){.name = "soak_season",
	    .size = args.size,
	    .constructs = true,
	    .index = NCACHES,
	    .cflags = args.cflags};
	own->cache = umem_cache_create_args(own->name, &args, sizeof(args));
	if (own->cache == NULL) {
		if (!may_fail(mark) || (errno != EAGAIN && errno != ENOMEM))
			differs("no cache, errno %d", errno);
		return;
	}
	for (size_t n = draw(a, 3000); n > 0; n--) {
		void **slot = &at[draw(a, NSLOTS)];
		struct block state;

		if (*slot == NULL) {
			mark = scarce_mark();
			*slot = umem_cache_alloc(own->cache, UMEM_DEFAULT);
			if (*slot == NULL) {
				failed(mark, own->name, own->size);
				continue;
			}
			state = constructed_state(*slot, own->size, NCACHES);
			check_block(&state, "object of a season");
			starts_set(*slot, 1, "is allocated twice");
		} else {
			starts_set(*slot, 0, "is freed twice");
			umem_cache_free(own->cache, *slot);
			*slot = NULL;
		}
		a->ops++;
		if (n % 1000 == 0)
			umem_cache_reap_now(own->cache);
	}
	for (size_t i = 0; i < NSLOTS; i++)
		if (at[i] != NULL)
			starts_set(at[i], 0, "is freed twice");
	umem_cache_free_bulk(own->cache, NSLOTS, at);
	umem_cache_destroy(own->cache);
	if (own->constructed != own->destructed)
		differs("a destroyed cache has constructed %llu objects and "
			"destructed %llu",
		    (unsigned long long)own->constructed,
		    (unsigned long long)own->destructed);
}

static vmem_t *memory_arena;

static void
caches_make(void)
{
	for (size_t i = 0; i < NCACHES; i++) {
		struct cache *c = &caches[i];
		struct umem_cache_args args = {.size = c->size,
		    .align = c->align,
		    .constructor = c->constructs ? object_construct : NULL,
		    .destructor = c->constructs ? object_destruct : NULL,
		    .priv = c,
		    .source = i == ARENA ? memory_arena : NULL,
		    .cflags = c->cflags,
		    .limit_wait = c->limit_wait,
		    .limit = c->limit,
		    .reserve = c->reserve};

		c->index = (unsigned)i;
		c->cache = umem_cache_create_args(c->name, &args, sizeof(args));
		must(c->cache != NULL);
	}
	must(umem_cache_rcu(caches[TYPESAFE].cache) == 0);
	resource_cache = umem_import_cache_create(
	    "soak_resources", resource_import, resource_release, NULL, 200, 0);
	must(resource_cache != NULL);
}

/* While no actor is at work, the library counts what is in use as we do. */
static void
caches_check(void)
{
	for (size_t i = 0; i < NCACHES; i++) {
		struct cache *c = &caches[i];
		struct umem_cache_limits l;

		must(umem_cache_limits(c->cache, &l, sizeof(l)) == 0);
		if (l.limit != c->limit ||
		    (l.limit != 0 && l.in_use != c->in_use))
			differs("%s: %zu objects of %zu count, but %llu are in "
				"use",
			    c->name, l.in_use, l.limit,
			    (unsigned long long)c->in_use);
	}
}

/* All objects were freed. */
static void
caches_end(void)
{
	for (size_t i = 0; i < NCACHES; i++) {
		struct cache *c = &caches[i];

		umem_cache_destroy(c->cache);
		if (c->constructed != c->destructed)
			differs("%s: constructed %llu, destructed %llu",
			    c->name, (unsigned long long)c->constructed,
			    (unsigned long long)c->destructed);
	}
	umem_cache_destroy(resource_cache);
	for (size_t i = 0; i < NRESOURCES; i++)
		must(resources[i] == AWAY);
}

#endif
