/*
 * prodcons.c - one thread allocates, another frees, a ring between them
 *
 *	prodcons.SIZE		the producer writes the first byte
 *	prodcons.SIZE.read	the consumer reads it, too
 *
 * in millions of blocks a second.  SIZE mix is 16 to 1023 bytes at random.
 * The ring holds 4096 blocks.  To keep the cost of the ring itself low, each
 * thread publishes its position every 64 blocks only, and reads the other's
 * position only when it cannot go on.  The program pins the two threads to
 * different CPUs.  Otherwise a busy machine would put both on one CPU, where no
 * block moves between CPUs.
 *
 * Source: Berger and others, "Hoard", ASPLOS 2000: with a producer and a
 * consumer the memory of private heaps grows without bound.
 *
 * Usage: prodcons [scale]
 */
#include "tests/bench/bench.h"

#define RING  4096
#define TOLD  64 /* divides RING */
#define SPINS 200

struct ring {
	_Atomic size_t nput BENCH_ALIGNED;
	_Atomic size_t ntaken BENCH_ALIGNED;
	atomic_bool closed;
	size_t bytes; /* 0: mixed */
	bool read;
	char *slot[RING] BENCH_ALIGNED;
};

/* Waits a little for *position to differ from value; the new position. */
static size_t
await_change(_Atomic size_t *position, size_t value, atomic_bool *give_up)
{
	for (unsigned spins = 0;; spins++) {
		/* acquire; pairs with the release where it is advanced */
		size_t now =
		    atomic_load_explicit(position, memory_order_acquire);

		if (now != value || atomic_load(give_up))
			return atomic_load(position);
		if (spins >= SPINS)
			sched_yield();
	}
}

static void
produce(struct bench_thread *thread, struct ring *ring)
{
	size_t put = 0, limit = RING;

	while (!bench_stopped(thread)) {
		if (put == limit) {
			limit = RING + await_change(&ring->ntaken, put - RING,
					   &thread->group->stop);
			continue;
		}
		for (size_t i = 0; i < TOLD; i++) {
			size_t bytes =
			    ring->bytes > 0
				? ring->bytes
				: bench_between(&thread->seed, 16, 1023);

			ring->slot[put++ % RING] = bench_alloc(bytes);
		}
		/* release; pairs with the acquire in await_change() */
		atomic_store_explicit(&ring->nput, put, memory_order_release);
	}
	atomic_store(&ring->closed, true);
}

static void
consume(struct bench_thread *thread, struct ring *ring)
{
	size_t taken = 0, limit = 0;

	for (;;) {
		if (taken == limit) {
			limit = await_change(&ring->nput, taken, &ring->closed);
			if (taken == limit)
				break;
		}
		for (size_t i = 0; i < TOLD; i++) {
			char *block = ring->slot[taken++ % RING];

			if (ring->read && *(volatile char *)block != 1)
				bench_die("prodcons: block changed");
			free(block);
		}
		/* release; pairs with the acquire in await_change() */
		atomic_store_explicit(
		    &ring->ntaken, taken, memory_order_release);
		bench_did(thread, TOLD);
	}
}

static void
side(struct bench_thread *thread)
{
	bench_pin(thread->number);
	if (thread->number == 0)
		produce(thread, thread->shared);
	else
		consume(thread, thread->shared);
}

static void
measure(size_t bytes, bool read, double scale)
{
	struct ring *ring = bench_pages(sizeof(*ring));
	double mops[BENCH_NSLICES];
	char size[32] = "mix";

	ring->bytes = bytes;
	ring->read = read;
	if (bytes > 0)
		snprintf(size, sizeof(size), "%zu", bytes);
	for (int i = 0; i < BENCH_NSLICES; i++) {
		struct bench_group group;

		ring->closed = false;
		ring->nput = ring->ntaken = 0;
		group = bench_threads(2, side, ring, 100e6 * scale);
		mops[i] = bench_mops(&group);
	}
	bench_print(bench_median(mops, BENCH_NSLICES), "Mops/s",
	    "prodcons.%s%s", size, read ? ".read" : "");
}

int
main(int argc, char **argv)
{
	double scale = bench_start(argc, argv);

	measure(64, /* read */ false, scale);
	measure(64, /* read */ true, scale);
	measure(0, /* read */ false, scale);
	measure(0, /* read */ true, scale);
	return 0;
}
