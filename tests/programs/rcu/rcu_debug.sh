#!/bin/bash
# test timeout: 120
# Misuse of deferred frees in each debugging mode: the first line of the report,
# the stack of the first free, and the exit status of the program.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <malloc.h>
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <umem_rcu.h>

#include "tests/programs/check.h"

#define KEPT 300

static const char *kind;
static size_t size;
static umem_cache_t *cache, *other;

/* Named in reports. */
__attribute__((noinline)) char *
maker(void)
{
	void *p = strcmp(kind, "malloc") == 0 ? malloc(size)
		  : strcmp(kind, "umem") == 0
		      ? umem_alloc(size, UMEM_DEFAULT)
		      : umem_cache_alloc(cache, UMEM_DEFAULT);

	check(p != NULL);
	return memset(p, 7, size);
}

__attribute__((noinline)) void
deferrer(char *p)
{
	int error = strcmp(kind, "malloc") == 0 ? free_rcu(p)
		    : strcmp(kind, "umem") == 0 ? umem_free_rcu(p, size)
						: umem_cache_free_rcu(cache, p);

	check(error == 0);
}

__attribute__((noinline)) void
giver(char *p)
{
	if (strcmp(kind, "malloc") == 0)
		free(p);
	else if (strcmp(kind, "umem") == 0)
		umem_free(p, size);
	else
		umem_cache_free(cache, p);
	__asm__ volatile("" ::: "memory");
}

static pthread_barrier_t turn;

/* Keeps every grace period from its end between two turns. */
static void *
reader(void *unused)
{
	rcu_register_thread();
	rcu_read_lock();
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	rcu_read_unlock();
	rcu_unregister_thread();
	return unused;
}

static void
release(void)
{
	pthread_barrier_wait(&turn);
	check(umem_rcu_barrier() == 0);
}

static char *volatile kept[KEPT];

__attribute__((noinline)) void
misuse(const char *what, char *p)
{
	if (strcmp(what, "defer_defer") == 0) {
		deferrer(p);
		deferrer(p);
	} else if (strcmp(what, "defer_free") == 0) {
		deferrer(p);
		giver(p);
	} else if (strcmp(what, "free_defer") == 0) {
		giver(p);
		deferrer(p);
	} else if (strcmp(what, "read") == 0) {
		deferrer(p);
		check(p[0] == 7 && p[size - 1] == 7);
	} else if (strcmp(what, "write") == 0) {
		deferrer(p);
		p[size > 100000 ? 100000 : size / 2] ^= 1;
	} else if (strcmp(what, "past") == 0) {
		deferrer(p);
		p[size] ^= 1;
	} else if (strcmp(what, "later") == 0) {
		deferrer(p);
		release();
		p[0] ^= 1;
		for (int i = 0; i < KEPT; i++)
			kept[i] = maker();
		return;
	} else if (strcmp(what, "size") == 0) {
		umem_free_rcu(p, size + 1);
	} else if (strcmp(what, "cache") == 0) {
		umem_cache_free_rcu(other, p);
	} else if (strcmp(what, "inside") == 0) {
		deferrer(p + 8);
	} else if (strcmp(what, "stack") == 0) {
		char here[64];

		deferrer(here);
	} else if (strcmp(what, "free_rcu") == 0) {
		free_rcu(p);
	} else if (strcmp(what, "umem_free_rcu") == 0) {
		umem_free_rcu(p, size);
	} else if (strcmp(what, "resize") == 0) {
		free_rcu(p);
		check(realloc(p, 3 * size) == NULL);
	}
	release();
}

int
main(int argc, char **argv)
{
	pthread_t thread;

	check(argc == 4);
	kind = argv[2];
	size = strtoul(argv[3], NULL, 10);
	cache = umem_cache_create("objects", size, 0, NULL, NULL, NULL, NULL,
	    NULL, 0);
	other = umem_cache_create("others", size, 0, NULL, NULL, NULL, NULL,
	    NULL, 0);
	check(cache != NULL && other != NULL);
	pthread_barrier_init(&turn, NULL, 2);
	thread = thread_start(reader, NULL);
	pthread_barrier_wait(&turn);
	misuse(argv[1], maker());
	thread_end(thread);
	fprintf(stderr, "went on\n");
	return 0;
}
END
"$CC" -g -D_GNU_SOURCE -O1 -fno-builtin -Wno-use-after-free -I"$TOP" \
    -I"$TOP/umem" -o main main.c -pthread -L"$B" -lumem_rcu -lumem_malloc \
    -lurcu-memb "-Wl,-rpath,$B"

nruns=0
# run MODE MISUSE KIND SIZE - its first line is in $said, its end in $status
run() {
	mode=$1
	status=0
	# The shell tells of signals; nobody wants to know.
	{ env ${mode:+"$mode"} ./main "$2" "$3" "$4" 2>said; } 2>/dev/null ||
	    status=$?
	said=$(<said)
	what="$*"
	nruns=$((nruns + 1))
}
bad() {
	echo "$what: $*"
	echo "status $status"
	echo "$said"
	exit 1
}
# reported TEXT [FUNCTION] - the first line must begin with TEXT; if the mode
# records transactions, the last one must be by FUNCTION
reported() {
	[[ $said == "umem allocator: "$1* ]] || bad "not reported: $1"
	case $mode in
	*noabort*)
		[[ $said == *$'\nwent on' && $status = 0 ]] ||
		    bad "did not go on"
		;;
	*) [[ $status = 134 ]] || bad "did not abort" ;;
	esac
	case $mode in
	*default*)
		[ -z "${2:-}" ] ||
		    [[ $said =~ "previous transaction on buffer "[0-9a-f]+:.thread=[0-9]+"  time=T-"[0-9]+\.[0-9]{9}"  slab="[0-9a-f]+"  cache: "[a-z0-9_]+(.libumem_rcu\.so\.1\`[a-z_]+\+0x[0-9a-f]+)*.main\`"$2"\+0x ]] ||
		    bad "not the last transaction, or not by $2"
		;;
	esac
}
# ended TEXT - by this one message of the library
ended() {
	[[ ${said%%$'\n'*} =~ ^umem:\ $1$ && $status = 134 ]] || bad "not: $1"
}
fine() {
	[[ $status = 0 && $said == "went on" ]] || bad "not fine"
}

waits="duplicate free: buffer was freed and waits for a grace period"
twice="duplicate free: buffer freed twice"
changed="buffer modified while it waited for a grace period"
redzone="redzone violation: write past end of buffer"

for mode in UMEM_DEBUG=default UMEM_DEBUG=guards UMEM_DEBUG=audit \
    UMEM_DEBUG=default,noabort UMEM_OPTIONS=hardened; do
	for kind in object malloc umem; do
		sizes="24 5000"
		[ $kind = object ] || sizes+=" 9000000"
		for size in $sizes; do
			run $mode read $kind "$size"
			fine
			run $mode defer_defer $kind "$size"
			reported "$waits" deferrer
			run $mode defer_free $kind "$size"
			reported "$waits" deferrer
			run $mode past $kind "$size"
			if [ "$status" != 139 ]; then
				reported "$redzone" deferrer
			fi
			run $mode write $kind "$size"
			case $mode in
			*default* | *guards) reported "$changed" deferrer ;;
			*) fine ;;
			esac
		done
		run $mode free_defer $kind 100
		reported "$twice" giver
		run $mode inside $kind 100
		reported "bad free: free address (0x" maker
		run $mode stack $kind 100
		reported "invalid free: buffer not in cache"
	done
	case $mode in
	*default* | *guards)
		for kind in object malloc umem; do
			run $mode later $kind 100
			reported "buffer modified after being freed" deferrer
		done
		;;
	esac
	for size in 60 9000000; do
		run $mode size umem $size
		reported "bad free: free size ($((size + 1))) != alloc size ($size)" maker
		run $mode free_rcu umem $size
		reported "free_rcu(0x" maker
		run $mode umem_free_rcu malloc $size
		reported "umem_free_rcu(0x" maker
	done
	run $mode cache object 100
	reported "buffer freed to wrong cache" maker
	run $mode resize malloc 100
	reported "$waits" misuse
done

# Behind a firewall a reader finds the object until its grace period is over.
for kind in object malloc umem; do
	run UMEM_DEBUG=firewall=1,audit read $kind 100
	fine
	run UMEM_DEBUG=firewall=1,audit defer_defer $kind 100
	reported "$waits" deferrer
	run UMEM_DEBUG=firewall=1,audit later $kind 100
	[[ $status = 139 ]] || bad "no fault"
done

# Readers may write, to all objects or to those of one cache.
for words in default,rcu_writes 'default;default,rcu_writes:objects'; do
	for size in 24 5000; do
		run "UMEM_DEBUG=$words" write object $size
		fine
		run "UMEM_DEBUG=$words" past object $size
		reported "$redzone"
		run "UMEM_DEBUG=$words" defer_defer object $size
		reported "$waits"
	done
done
run "UMEM_DEBUG=default;default,rcu_writes:objects" write malloc 100
reported "$changed"
run UMEM_DEBUG=guards,rcu_writes write malloc 9000000
fine
# Only bytes that are looked at.
run UMEM_DEBUG=guards,maxverify=40 write malloc 100
fine
# By itself the word debugs nothing.
run UMEM_DEBUG=rcu_writes defer_defer malloc 100
ended 'free_rcu\(0x[0-9a-f]+\): block freed twice: it waits for a grace period'

# Without debugging, one message names the function.
at='0x[0-9a-f]+'
waits='block freed twice: it waits for a grace period'
for mode in UMEM_OPTIONS=mode=locked UMEM_OPTIONS=nomagazines; do
	run $mode size umem 60
	fine
	run $mode size umem 64
	ended "umem_free_rcu\($at\): size 65 does not fit the block"
	run $mode stack malloc 100
	ended "free_rcu\($at\): not an address of the heap"
	run $mode stack umem 100
	ended "umem_free_rcu\($at\): not an address of the heap"
	run $mode inside malloc 100
	ended "free_rcu\($at\): not the start of a block"
	run $mode inside umem 9000000
	ended "umem_free_rcu\($at\): not the start of a block"
	run $mode inside object 100
	ended "umem_cache_free_rcu\(objects, $at\): not the start of a block"
	run $mode cache object 100
	ended "umem_cache_free_rcu\(others, $at\): object of another cache"
	run $mode free_rcu object 100
	ended "free_rcu\($at\): object of a cache, not a block"
done
for kind in malloc umem; do
	name=free_rcu
	[ $kind = malloc ] || name=umem_free_rcu
	run UMEM_OPTIONS=mode=locked defer_defer $kind 100
	ended "$name\($at\): $waits"
	run UMEM_OPTIONS=mode=locked defer_defer $kind 9000000
	ended "$name\($at\): $waits"
done
run UMEM_OPTIONS=mode=locked defer_defer object 100
ended "umem_cache_free_rcu\(objects, $at\): $waits"

# Each block is a sample.
for kind in malloc umem; do
	name=free
	[ $kind = malloc ] || name=umem_free
	for size in 100 9000000; do
		run UMEM_OPTIONS=sample=1 read $kind $size
		fine
		run UMEM_OPTIONS=sample=1 defer_defer $kind $size
		want="^umem: ${name}_rcu\($at\): $waits"
		[[ $said =~ $want && $said == *'`maker+'* &&
			$status = 134 ]] || bad "sample"
		run UMEM_OPTIONS=sample=1 defer_free $kind $size
		want="^umem: $name\($at\): $waits"
		[[ $said =~ $want ]] || bad "sample"
	done
	run UMEM_OPTIONS=sample=1 free_rcu $kind 100
	fine
done
[ "$nruns" -gt 200 ] || bad "only $nruns runs"
