#!/bin/bash
# umem_dump() and the file of UMEM_OPTIONS=stats have the samples, in a process
# whose threads allocate at full speed, while sampling is switched on and off,
# and in its children.  addr2line names the functions with the most memory, by
# the mappings in the file.
# test timeout: 120
set -u
cat >main.c <<'END2'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int umem_ctl(const char *, const char *, char *, size_t);
int umem_dump(int, int);
#pragma weak umem_ctl
#pragma weak umem_dump

static void *volatile many[20000];
static void *volatile few[50];
static volatile int ended;

static __attribute__((noinline)) void
keep_many(void)
{
	for (int i = 0; i < 20000; i++)
		many[i] = malloc(200);
}

static __attribute__((noinline)) void
keep_few(void)
{
	for (int i = 0; i < 50; i++)
		few[i] = malloc(20000);
}

static void *
churn(void *arg)
{
	unsigned seed = (unsigned)(size_t)arg;

	while (!ended) {
		void *p[8] = {NULL};

		for (int i = 0; i < 200; i++) {
			void *volatile *at = &p[rand_r(&seed) % 8];
			size_t n = (size_t)1 << rand_r(&seed) % 17;

			if (rand_r(&seed) % 100 == 0)
				n *= 40;
			*at = realloc(*at, n + rand_r(&seed) % n);
		}
		for (int i = 0; i < 8; i++)
			free(p[i]);
	}
	return NULL;
}

static void *
turn(void *unused)
{
	static const char *const means[] = {"0", "100", "4k", "1m"};

	for (unsigned i = 0; !ended; i++) {
		umem_ctl("sample", means[i % 4], NULL, 0);
		usleep(500);
	}
	return unused;
}

/* Appends a report to the file to which the end of the process appends one. */
static void
dump(void)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "stats.%d", (int)getpid());
	fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
	if (umem_dump(fd, 0) != 0)
		abort();
	close(fd);
}

int
main(void)
{
	void *(*const work[])(void *) = {churn, churn, churn, turn};
	pthread_t thread[4];
	int status, nforks = 0, c;

	keep_many();
	keep_few();
	for (size_t i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, work[i], (void *)i);
	puts("ready");
	fflush(stdout);
	/* Each child writes at its start, and at its end. */
	while ((c = getchar()) != EOF || nforks < 20) {
		pid_t pid;

		if (c != EOF)
			dump();
		pid = fork();
		if (pid == 0) {
			dump();
			for (int i = 0; i < 1000; i++)
				free(malloc(3000));
			exit(0);
		}
		nforks += waitpid(pid, &status, 0) == pid && status == 0;
	}
	ended = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	printf("%d\n", nforks);
	return 0;
}
END2
"$CC" -g -O1 -fno-builtin -w -Wl,--build-id=sha1 -o main \
    main.c -pthread || exit 1
umem_pid=
trap '[ -z "$umem_pid" ] || kill -9 "$umem_pid"' EXIT

bad() {
	tail -60 "${file-out}"
	tail -5 err
	echo "$*"
	exit 1
}

mkfifo in
env LD_PRELOAD="$SHIM" UMEM_OPTIONS=stats=stats.%p,sample=4k \
    ./main <in >out 2>err &
umem_pid=$!
exec 9>in
until grep -q ready out; do
	kill -0 $umem_pid || bad "the program has ended"
	sleep 0.05
done
file=stats.$umem_pid
for ((i = 1; i <= 20; i++)); do
	echo >&9
	for ((j = 0; j < 600 * ${TEST_TIME_FACTOR:-1}; j++)); do
		n=$(grep -csx '# EOF' "$file")
		[ "${n:-0}" -lt $i ] || break
		sleep 0.05
	done
done
exec 9>&-
wait $umem_pid || bad "the program ended with status $?"
umem_pid=
[ ! -s err ] || bad "a message"
[ "$(tail -1 out)" -ge 20 ] || bad "children failed"

# All dumps are whole: 20 in the midst and one at the end; two of each child.
for each in stats.*; do
	n=$(grep -c '^process ' "$each")
	[ "$each" != "$file" ] || [ "$n" = 21 ] || bad "$n dumps"
	[ "$each" = "$file" ] || [ "$n" = 2 ] || bad "$each has $n dumps"
	for line in '^# EOF$' '^MAPPED_LIBRARIES:$' \
	    '^heap profile: [0-9]*: [0-9]* [[].*[]] @ heapprofile$'; do
		[ "$(grep -c "$line" "$each")" = "$n" ] ||
		    bad "$each has not $n lines '$line'"
	done
done

# The blocks that are kept are the largest at the end.
python3 - "$file" <<'END2' || bad "$file"
import re, subprocess, sys

rows, mappings = {}, []
for line in open(sys.argv[1]):
    # The sums of all that was allocated have begun anew since.
    row = re.match(
        r"(\d+): (\d+) \[\d+: \d+\] @((?: 0x[0-9a-f]+)*)$", line)
    mapping = re.match(
        "([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) [^/]*(/.*)", line)
    if line.startswith("heap profile: "):
        rows, mappings = {}, []
    elif row:
        stack = [int(word, 16) for word in row[3].split()]
        sums = rows.setdefault(stack[0], [0, 0, 0])
        for i, n in enumerate((int(row[2]), int(row[1]), 1)):
            sums[i] += n
    elif mapping:
        mappings.append([int(mapping[i], 16) for i in (1, 2, 3)] + [mapping[4]])
largest = sorted(rows, key=rows.get, reverse=True)
assert len(largest) >= 2, rows
for at, n, size, name in zip(
        largest, (20000, 50), (200, 20000), ("keep_many", "keep_few")):
    # The address is that behind the call.
    start, end, offset, path = [m for m in mappings if m[0] < at <= m[1]][0]
    named = subprocess.run(
        ["addr2line", "-f", "-e", path, hex(at - 1 - start + offset)],
        stdout=subprocess.PIPE, text=True).stdout
    assert named.split("\n")[0] == name, (path, named)
    bytes, blocks, nsamples = rows[at]
    # Five times the deviation of so many samples, and of the rounding.
    near = 5 / nsamples ** 0.5
    assert abs(bytes / (n * size) - 1) < near, rows[at]
    assert abs(blocks / n - 1) < near + 0.5 * nsamples / blocks, rows[at]
END2
