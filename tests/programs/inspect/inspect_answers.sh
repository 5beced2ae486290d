#!/bin/bash
# Answers that must not mislead: about a number that is no process, about
# sampling where there is none, about a cache that could not allocate, and when
# the output is lost.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >some.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *kept[20001];

int
main(void)
{
	char c;

	for (int i = 0; i < 20000; i++)
		kept[i] = malloc(100);
	kept[20000] = malloc(8 << 20);
	if (kept[20000] != NULL)
		puts("8 MiB are there");
	puts("ready");
	fflush(stdout);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -fno-builtin -o some some.c || exit 1

export UMEM_OPTIONS=sample=4k,hard_limit=6m
start ./some
expect 2 ': no such process$' status $((pid + 4294967296))
expect 2 ': no such process$' ctl $((pid + 4294967296)) depot_bytes
expect 2 ': no such process$' status "0$pid"
expect 0 '^umem_alloc_8388608 .* 1 +0$' stat "$pid"
for words in "users --pprof" "users --html" status "top -n 1 -i 0.1" metrics; do
	# shellcheck disable=SC2086 # several words
	"$umem" $words "$pid" >/dev/full 2>err
	status=$?
	if [ $status -ne 2 ] || ! grep -q '^umem: standard output: ' err; then
		echo "umem $words on a full disk: status $status, $(cat err)"
		exit 1
	fi
done
"$umem" top -n 1 >/dev/full 2>err && { echo "top: a lost screen"; exit 1; }
# The reader ends; the second look must end the command.
timeout 60 "$umem" top -i 0.1 | head -1 >said
if [ "${PIPESTATUS[0]}" -eq 124 ]; then
	echo "umem top goes on without a reader"
	exit 1
fi
finish 0

export UMEM_OPTIONS=hardened
start ./some
expect 0 "^Next: umem verify $pid " status "$pid"
expect 2 '^umem: users: checked blocks are not sampled$' users "$pid"
expect 0 . leaks "$pid"
if grep -q 'sample=' said; then
	echo "leaks proposes to sample in a hardened process:"
	cat said
	exit 1
fi
finish 0
