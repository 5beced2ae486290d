#!/bin/bash
# With the option memory_pressure, the library releases idle memory and calls
# the reclaim callbacks while the kernel reports that threads wait for memory:
# in the file of the cgroup, or of the machine if there is none.  Without it, or
# without pressure, it does not.  Files of the kernel are replaced in a mount
# namespace.
set -u
export LC_ALL=C

if ! unshare -m true 2>/dev/null; then
	echo "unshare is not permitted"
	exit 77
fi
cat >main.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "umem/umem.h"

static void *blocks[40000];
static void *kept[64]; /* 1 MiB each, which the program can do without */
static unsigned ncalls;

static void
give(void *arg)
{
	(void)arg;
	if (__atomic_fetch_add(&ncalls, 1, __ATOMIC_RELAXED) == 0)
		for (int i = 0; i < 64; i++)
			free(kept[i]);
}

static void *
wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static size_t
heap_bytes(void)
{
	struct umem_stats stats;

	umem_stats(&stats, sizeof(stats));
	return stats.heap_bytes;
}

/*
 * Keeps the library busy for some seconds, with memory that no update finds
 * unused.  Prints the number of callbacks, and the least memory of the heap.
 */
int
main(int argc, char **argv)
{
	size_t least = SIZE_MAX;
	pthread_t thread;

	umem_cache_create("kept", 100, 0, NULL, NULL, give, NULL, NULL, 0);
	pthread_create(&thread, NULL, wait_for_ever, NULL);
	for (int i = 0; i < 64; i++)
		memset(kept[i] = malloc(1 << 20), 1, 1 << 20);
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < atoi(argv[argc - 1]) * 20; i++) {
		size_t bytes;

		for (int j = 0; j < 1000; j++)
			blocks[j] = malloc(1000);
		for (int j = 0; j < 1000; j++)
			free(blocks[j]);
		bytes = heap_bytes();
		if (bytes < least)
			least = bytes;
		if (__atomic_load_n(&ncalls, __ATOMIC_RELAXED) != 0 &&
		    least < 16 << 20)
			break;
		usleep(50000);
	}
	printf("%s, %zu MiB\n",
	    __atomic_load_n(&ncalls, __ATOMIC_RELAXED) ? "called" : "not called",
	    least >> 20);
	return 0;
}
END
"$CC" -O1 -fno-builtin -I"$TOP" -pthread -o main main.c -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B" || exit 1

# tell FILE PERCENT - the file says that threads wait for this part of the time
tell() {
	local began=${EPOCHREALTIME/./} total

	while sleep 0.05; do
		total=$((1000 + (${EPOCHREALTIME/./} - began) * $2 / 100))
		echo "some avg10=0.00 avg60=0.00 avg300=0.00 total=$total
full avg10=0.00 avg60=0.00 avg300=0.00 total=0" >"$1.new"
		cat "$1.new" >"$1"
	done
}

# run SECONDS OPTIONS - the program, with the files of the kernel replaced
run() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m bash -c '
		mount --bind groups /sys/fs/cgroup || exit
		mount --bind groups/list "/proc/$$/cgroup" || exit
		mount --bind machine /proc/pressure/memory || exit
		exec "$@"' run env UMEM_OPTIONS="$2" ./main "$1" >said 2>&1
}

# wants REGEX WHAT
wants() {
	grep -Eqx "$1" said && return
	echo "$2: wanted $1, found"
	cat said
	exit 1
}

mkdir -p groups/a/b
echo 0::/a/b >groups/list
calm='some avg10=0.00 avg60=0.00 avg300=0.00 total=7412483'
echo "$calm" >machine
tell groups/a/b/memory.pressure 50 &
telling=$!
trap 'kill $telling' EXIT
run 20 memory_pressure
wants 'called, ([0-9]|1[0-5]) MiB' "pressure on the group"
run 2 quiet
wants 'not called, [6-9][0-9] MiB' "pressure, but no option"
kill $telling

echo "$calm" >groups/a/b/memory.pressure
tell machine 50 &
telling=$!
run 2 memory_pressure
wants 'not called, [6-9][0-9] MiB' "no pressure on the group"
rm groups/a/b/memory.pressure
run 20 memory_pressure
wants 'called, ([0-9]|1[0-5]) MiB' "pressure on the machine"
kill $telling

# From 6 % on.  The part that the library reads varies, because the file is not
# written at regular intervals.
tell machine 10 &
telling=$!
run 20 memory_pressure
wants 'called, ([0-9]|1[0-5]) MiB' "10 % of the time"
kill $telling
tell machine 1 &
telling=$!
run 2 memory_pressure
wants 'not called, [6-9][0-9] MiB' "1 % of the time"
