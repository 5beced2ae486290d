/*
 * depot.c - the depot: magazines that no CPU has loaded
 *
 * This file implements one shard.  A cache may have several (shards.c).
 *
 * A CPU without rounds trades an empty magazine here for a full one.  A CPU
 * without free space in its magazines trades a full magazine for an empty one.
 * The depot's lock is therefore taken once for each magazine instead of once
 * for each object.  Because a CPU keeps two magazines (cpu.c), n operations
 * need at most n/M + 1 exchanges with magazines of M rounds, however
 * allocations and frees are mixed.
 *
 * Contents
 *	full	magazines with at least one round.  Nearly all are completely
 *		full.  A magazine may have fewer rounds if the slabs had few
 *		when it was refilled, or if it was drained from a CPU
 *	empty	magazines without a round
 *
 * Working set
 *	low is the least length of a list since the last update.  The low oldest
 *	magazines were unused in that period; removing them would have caused no
 *	miss.  A list that was empty once in the period therefore
 *	keeps all its magazines.
 *
 * Locking
 *	depot->lock guards everything here.  No function here allocates or calls
 *	another module while the lock is held.
 *
 * Always true (depot_check())
 *	n is the length of the list;  low <= n
 *
 * Source: Bonwick and Adams, "Magazines and Vmem", USENIX 2001, section 3.
 */
#include "magazine/depot.h"
#include "vmem/panic.h"

void
depot_init(struct depot *depot)
{
	lock_init(&depot->lock, LOCK_DEPOT);
}

static void
depot_lock(struct depot *depot)
{
	if (likely(lock_try(&depot->lock)))
		return;
	/* Relaxed: the count is for tools. */
	add_relaxed(&depot->ncontended, 1);
	lock_take(&depot->lock);
}

static void
depot_unlock(struct depot *depot)
{
	lock_release(&depot->lock);
}

/* Relaxed stores: threads also read head and n without the lock, as hints. */
static void
set_locked(struct depot *depot, struct maglist *list, struct magazine *head,
    uint32_t n)
{
	lock_assert_held(&depot->lock);
	store_relaxed(&list->head, head);
	store_relaxed(&list->n, n);
}

/*
 * Checks a list: its length and its working-set minimum, and whether each
 * magazine has rounds or none, as the list requires.
 */
static bool
list_check_locked(
    const struct depot *depot, const struct maglist *list, bool has_rounds)
{
	uint32_t n = 0;

	lock_assert_held(&depot->lock);
	for (const struct magazine *mag = list->head; mag != NULL;
	     mag = mag->next)
		if (n++ == list->n || (mag->nrounds != 0) != has_rounds ||
		    mag->nrounds > mag->capacity)
			return false;
	return n == list->n && list->low <= n;
}

static bool
depot_check_locked(const struct depot *depot)
{
	return list_check_locked(depot, &depot->full, true) &&
	       list_check_locked(depot, &depot->empty, false);
}

/* Called after changes of the lists; debug builds check them at some. */
static void
check_sometimes_locked(const struct depot *depot)
{
	lock_assert_held(&depot->lock);
	/* The lists may be long: at the first changes, then at each 256th. */
	umem_assert((depot->nmoved > 16 && depot->nmoved % 256 != 0) ||
		    depot_check_locked(depot));
}

static void
moved_locked(struct depot *depot)
{
	lock_assert_held(&depot->lock);
	store_relaxed(&depot->nmoved, depot->nmoved + 1);
}

static void
push_locked(struct depot *depot, struct maglist *list, struct magazine *mag)
{
	lock_assert_held(&depot->lock);
	umem_assert(list == &depot->full || list == &depot->empty);
	umem_assert(mag != list->head);
	umem_assert(mag->nrounds <= mag->capacity);
	umem_assert(mag->capacity <= MAGAZINE_ROUNDS_MAX);
	mag->next = list->head;
	set_locked(depot, list, mag, list->n + 1);
	moved_locked(depot);
}

static struct magazine *
pop_locked(struct depot *depot, struct maglist *list)
{
	struct magazine *mag = list->head;

	lock_assert_held(&depot->lock);
	umem_assert((mag == NULL) == (list->n == 0));
	if (mag == NULL)
		return NULL;
	umem_assert(list != &depot->full || mag->nrounds > 0);
	umem_assert(list != &depot->empty || mag->nrounds == 0);
	set_locked(depot, list, mag->next, list->n - 1);
	if (list->low > list->n)
		list->low = list->n;
	moved_locked(depot);
	return mag;
}

struct magazine *
depot_trade(struct depot *depot, bool for_full, struct magazine *in)
{
	struct maglist *from = for_full ? &depot->full : &depot->empty;
	struct maglist *to = for_full ? &depot->empty : &depot->full;
	struct magazine *out;

	/*
	 * Avoids the lock while the program only allocates or only frees.  The
	 * load is a hint: a magazine that is put in meanwhile may be missed.
	 */
	if (load_relaxed(&from->head) == NULL)
		return NULL;
	depot_lock(depot);
	out = pop_locked(depot, from);
	if (out != NULL && in != NULL)
		push_locked(depot, to, in);
	depot_unlock(depot);
	return out;
}

bool
depot_put(struct depot *depot, struct magazine *mag)
{
	bool is_over;

	depot_lock(depot);
	push_locked(
	    depot, mag->nrounds != 0 ? &depot->full : &depot->empty, mag);
	check_sometimes_locked(depot);
	is_over = depot_is_over(depot);
	depot_unlock(depot);
	return is_over;
}

/* Remove the n oldest magazines of a list, as a chain. */
static struct magazine *
cut_tail_locked(struct depot *depot, struct maglist *list, uint32_t n)
{
	struct magazine **at = &list->head;
	struct magazine *chain;

	lock_assert_held(&depot->lock);
	umem_assert(n <= list->n);
	for (uint32_t i = list->n; i > n; i--)
		at = &(*at)->next;
	chain = *at;
	if (at != &list->head)
		*at = NULL;
	set_locked(depot, list, n < list->n ? list->head : NULL, list->n - n);
	list->low = list->n;
	return chain;
}

void
depot_take_surplus(
    struct depot *depot, struct magazine **full, struct magazine **empty)
{
	depot_lock(depot);
	*full = cut_tail_locked(depot, &depot->full, depot->full.low);
	*empty = cut_tail_locked(depot, &depot->empty, depot->empty.low);
	check_sometimes_locked(depot);
	depot_unlock(depot);
}

void
depot_take_all(
    struct depot *depot, struct magazine **full, struct magazine **empty)
{
	depot_lock(depot);
	*full = cut_tail_locked(depot, &depot->full, depot->full.n);
	*empty = cut_tail_locked(depot, &depot->empty, depot->empty.n);
	depot_unlock(depot);
}

size_t
depot_rounds(struct depot *depot)
{
	size_t n = 0;

	depot_lock(depot);
	for (struct magazine *m = depot->full.head; m != NULL; m = m->next)
		n += m->nrounds;
	depot_unlock(depot);
	return n;
}

bool
depot_check(struct depot *depot)
{
	bool right;

	depot_lock(depot);
	right = depot_check_locked(depot);
	depot_unlock(depot);
	return right;
}
