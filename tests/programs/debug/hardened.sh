#!/bin/bash
# test timeout: 120
# UMEM_OPTIONS=hardened: each kind of misuse is reported, a new owner cannot
# read earlier data, addresses are reused late and in random order, and the
# rest works.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#include "tests/programs/check.h"

static const char *what;
static size_t n;

static bool
is(const char *name)
{
	return strcmp(what, name) == 0;
}

/* The compiler does not know what it points to. */
static char *
block(void)
{
	char *volatile p = malloc(n);

	check(p != NULL);
	return p;
}

static void
use_up(void)
{
	for (int i = 0; i < 100000; i++)
		free(block());
}

static void
misuse(void)
{
	char *p = block(), *q = block();

	if (is("twice")) {
		free(p);
		free(q);
		free(p);
	} else if (is("twice late")) {
		free(p);
		for (int i = 0; i < 10; i++)
			free(block());
		free(p);
	} else if (is("behind")) {
		p[n] ^= 1;
		free(p);
	} else if (is("written")) {
		free(p);
		p[n - 1] ^= 1;
		use_up();
	} else if (is("inside")) {
		free(p + 16);
	} else if (is("size")) {
		void (*free_sized)(void *, size_t);

		*(void **)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
		free_sized(p, n - 1);
	} else if (is("realloc")) {
		free(p);
		keep(realloc(p, n + 1));
	}
	fprintf(stderr, "reached\n");
}

static void
nothing_is_told(void)
{
	for (int i = 0; i < 50; i++) {
		char *p = block();

		check(is_zero(p, n));
		memset(p, 's', n);
		free(p);
		/* The pages of a large block are gone. */
		if (n <= 64 * KIB)
			check(is_zero(p, n));
	}
}

/* How soon an address comes back. */
static void
addresses_return_late(void)
{
	unsigned nsoon = 0, nlate = 0;

	for (int i = 0; i < 1000; i++) {
		char *p = block(), *q;
		int k = 0;

		free(p);
		for (q = NULL; q != p && k < 300; k++) {
			q = block();
			free(q);
		}
		nsoon += k <= 10;
		nlate += k > 50;
	}
	check(nsoon < 150);
	check(nlate > 500);
}

static void *
stir(void *arg)
{
	static char *shared[64];
	unsigned seed = (unsigned)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		size_t bytes = (size_t)rand_r(&seed) % 5000;
		char *p = rand_r(&seed) % 4 != 0 ? malloc(bytes)
						 : memalign(256, bytes);

		check(p != NULL && is_zero(p, bytes));
		memset(p, 1, bytes);
		if (rand_r(&seed) % 4 == 0) {
			p = realloc(p, bytes + 100);
			check(p != NULL && (bytes == 0 || p[bytes - 1] == 1));
		}
		free(__atomic_exchange_n(&shared[rand_r(&seed) % 64], p,
		    __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static int
construct(void *p, void *priv, int flags)
{
	(void)priv;
	(void)flags;
	strcpy(p, "constructed");
	return 0;
}

static void
objects(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "hard", 100, 0, construct, NULL, NULL, NULL, NULL, 0);

	check(cache != NULL);
	for (int i = 0; i < 1000; i++) {
		char *p = umem_cache_alloc(cache, 0);

		check(p != NULL && strcmp(p, "constructed") == 0);
		umem_cache_free(cache, p);
	}
	umem_cache_destroy(cache);
}

static void
nothing(void)
{
	static char *none[10000];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 10000; i++) {
			none[i] = i % 2 == 0 ? malloc(0) : memalign(16, 0);
			check(none[i] != NULL);
			check((uintptr_t)none[i] % 16 == 0);
			check(i == 0 || none[i] != none[i - 1]);
			check(malloc_usable_size(none[i]) == 0);
		}
		for (int i = 0; i < 10000; i++) {
			if (i % 3 == 0) {
				none[i] = realloc(none[i], 100);
				check(is_zero(none[i], 100));
			}
			free(none[i]);
		}
		malloc_trim(0);
	}
}

/* umem_alloc() promises more alignment for some sizes than malloc() does. */
static void
sizes_are_aligned(void)
{
	for (size_t size = 1; size <= 100000; size += size < 8200 ? 1 : 4096) {
		size_t align = size % 4096 == 0 ? 4096
			       : size % 64 == 0 ? 64
			       : size >= 16	? 16
						: 8;
		char *p[5];

		for (int i = 0; i < 5; i++) {
			p[i] = i % 2 == 0 ? umem_alloc(size, 0)
					  : umem_zalloc(size, 0);
			check((uintptr_t)p[i] % align == 0);
			check(i % 2 == 0 || is_zero(p[i], size));
			memset(p[i], 1, size);
		}
		for (int i = 0; i < 5; i++)
			umem_free(p[i], size);
	}
}

/* Their pages are not written to. */
static void
large_zeros_take_no_memory(void)
{
	char *p[20];
	long before = rss_kib();

	for (int i = 0; i < 20; i++) {
		p[i] = umem_zalloc(4 * MIB, 0);
		check(p[i] != NULL);
	}
	check(rss_kib() < before + 4096);
	for (int i = 0; i < 20; i++)
		umem_free(p[i], 4 * MIB);
}

static void
works(void)
{
	pthread_t thread[4];
	struct mallinfo2 info;
	int status;

	for (uintptr_t i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, stir, (void *)i) == 0);
	for (int i = 0; i < 4; i++)
		check(pthread_join(thread[i], NULL) == 0);
	if (fork() == 0) {
		stir((void *)9);
		_exit(0);
	}
	check(wait(&status) > 0 && status == 0);
	for (int i = 0; i < 500; i++) {
		char *p = malloc((8 + (size_t)i % 5) * MIB);

		check(p != NULL && is_zero(p, 100));
		p[0] = p[8 * MIB - 1] = 1;
		free(p);
	}
	objects();
	nothing();
	sizes_are_aligned();
	large_zeros_take_no_memory();
	malloc_trim(0);
	info = mallinfo2();
	check(info.uordblks < 4 * MIB);
	check(rss_kib() < 64 * 1024);
}

int
main(int argc, char **argv)
{
	what = argv[1];
	n = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	if (is("zero"))
		nothing_is_told();
	else if (is("late"))
		addresses_return_late();
	else if (is("aligned"))
		sizes_are_aligned();
	else if (is("works"))
		works();
	else
		misuse();
	return 0;
}
END
$CC -O1 -fno-builtin -w -I"$TOP" -D_GNU_SOURCE -pthread -o main main.c -ldl \
    -L"$B" -lumem -Wl,-rpath,"$(readlink -f "$B")"

run() {
	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="$options" ./main "$@" 2>err
}

# misuse NAME SIZE MESSAGE
misuse() {
	local status=0

	run "$1" "$2" || status=$?
	if [ "$status" != 134 ] || ! grep -qF "umem allocator: $3" err ||
	    grep -q reached err; then
		echo "$options: $1 of $2 bytes: status $status"
		cat err
		exit 1
	fi
}

ulimit -c 0
for options in hardened hardened,mode=locked; do
	for n in 24 100 1000 4096 100000 10000000; do
		misuse twice $n "duplicate free: buffer freed twice"
		misuse "twice late" $n "duplicate free: buffer freed twice"
		misuse behind $n "redzone violation: write past end of buffer"
		misuse size $n "bad free: free size"
		misuse inside $n "bad free: free address"
		misuse realloc $n "duplicate free: buffer freed twice"
		if [ $n -le 65536 ]; then
			misuse written $n "buffer modified after being freed"
		elif run written $n; then
			echo "a large block that was freed can be written to"
			exit 1
		fi
		run zero $n
	done
	run late 100
	run works
done
# UMEM_DEBUG has the word where it says one.
options=hardened
UMEM_DEBUG='guards:umem_alloc_128' run aligned
status=0
UMEM_DEBUG='audit:umem_alloc_112' run twice 100 || status=$?
if [ $status != 134 ] || ! grep -q 'previous transaction' err; then
	cat err
	exit 1
fi
