#!/bin/bash
# Answers that must not mislead: about a number that is no process, about
# sampling where there is none, about a cache that could not allocate, about the
# records of logs, about contradictory options, and when the output is lost or a
# standard descriptor closed.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >some.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *kept[20002];

int
main(void)
{
	char c;

	for (int i = 0; i < 20000; i++)
		kept[i] = malloc(100);
	kept[20000] = malloc(8 << 20);
	if (kept[20000] != NULL)
		puts("8 MiB are there");
	free(malloc(50));
	kept[20001] = malloc(1);
	printf("byte %p\n", kept[20001]);
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
expect 0 '^umem_cache_failures_total\{cache="umem_alloc_8388608"\} 1$' \
    metrics "$pid"
# Options of which only one can be meant.
expect 2 '^umem: users: --folded or --html, not both$' \
    users --folded --html "$pid"
expect 2 '^umem: leaks: --folded or --pprof, not both$' \
    leaks --folded --folded --pprof "$pid"
expect 2 '^umem: users: --allocated or --peak, not both$' \
    users --allocated --peak "$pid"
expect 2 '^umem: users: --json is another form of the output$' \
    users --json --pprof "$pid"
expect 2 '^umem: diff: --html or --json, not both$' \
    diff --json --html -t 1 "$pid"
expect 2 '^umem: walk: umem_alloc_112 is not allocated, free or leak$' \
    walk "$pid" umem_alloc_112 umem_alloc_96
[ ! -s said ] || { cat said; exit 1; }
echo nothing >patterns
expect 0 ' by 0 of 1 pattern$' leaks --suppressions=patterns "$pid"
for words in "users --pprof" "users --html" status "top -n 1 -i 0.1" metrics; do
	# shellcheck disable=SC2086 # several words
	"$umem" $words "$pid" >/dev/full 2>err
	status=$?
	if [ $status -ne 2 ] || ! grep -q '^umem: standard output: ' err; then
		echo "umem $words on a full disk: status $status, $(cat err)"
		exit 1
	fi
done
for words in options help version ''; do
	# shellcheck disable=SC2086 # one word or none
	"$umem" $words >/dev/full 2>err
	status=$?
	if [ $status -ne 2 ] || [ "$(wc -l <err)" -ne 1 ] ||
	    ! grep -q '^umem: standard output: ' err; then
		echo "umem $words on a full disk: status $status, $(cat err)"
		exit 1
	fi
done
"$umem" top -n 1 >/dev/full 2>err && { echo "top: a lost screen"; exit 1; }
timeout 60 "$umem" top -i 0.1 "$pid" >/dev/full 2>err
[ $? -eq 2 ] || { echo "top: all screens are lost"; exit 1; }
# A write that has failed, and none after it, for which there is a reason.
cat >lost.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
static __attribute__((constructor)) void
lose(void)
{
	int kept = dup(1);

	dup2(open("/dev/full", O_WRONLY), 1);
	setvbuf(stdout, NULL, _IONBF, 0);
	putchar('.');
	dup2(kept, 1);
	close(kept);
}
END
"$CC" -shared -fPIC -o lost.so lost.c || exit 1
LD_PRELOAD=$PWD/lost.so "$umem" status "$pid" >said 2>err
if [ $? -ne 2 ] || ! grep -qx 'umem: standard output: a write failed' err; then
	cat err
	exit 1
fi
# The child that writes the list of options: its end is not lost if SIGCHLD is
# ignored, and not taken for success if a signal ends it.
python3 - "$umem" >said <<'END' || exit 1
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], [sys.argv[1], "options"])
END
grep -q '^ *hard_limit' said || { cat said; exit 1; }
cat >ended.c <<'END'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
static __attribute__((constructor)) void
end(void)
{
	if (strstr(getenv("UMEM_OPTIONS"), "help") != NULL)
		raise(SIGTERM);
}
END
"$CC" -shared -fPIC -o ended.so ended.c || exit 1
LD_PRELOAD=$PWD/ended.so "$umem" options
[ $? -eq 125 ] || { echo "options: the child was killed"; exit 1; }
# No file of the command gets the number of a descriptor that is closed.
"$umem" stat "$pid" <&- >said 2>&- || { echo "stat: no input"; exit 1; }
grep -q '^umem_alloc_112 ' said || { cat said; exit 1; }
for words in "status $pid" "leaks $pid" "walk $pid allocated" "ctl $pid" \
    options; do
	# shellcheck disable=SC2086 # several words
	"$umem" $words >&- 2>err
	status=$?
	if [ $status -ne 2 ] ||
	    ! grep -qx 'umem: standard output: Bad file descriptor' err; then
		echo "umem $words without an output: $status, $(cat err)"
		exit 1
	fi
done
"$umem" metrics -o text "$pid" >&- <&- || exit 1
grep -q umem_live text || { echo "metrics -o without an output"; exit 1; }
"$umem" run sh -c '[ ! -e /dev/fd/0 ]' <&- || { echo "run: an input"; exit 1; }
# The reader ends; the second look must end the command.
timeout 60 "$umem" top -i 0.1 | head -1 >said
if [ "${PIPESTATUS[0]}" -eq 124 ]; then
	echo "umem top goes on without a reader"
	exit 1
fi
for words in "" "$pid"; do
	# shellcheck disable=SC2086 # one word or none
	(
		trap '' PIPE
		exec timeout 60 "$umem" top -i 0.1 $words
	) | head -1 >said
	if [ "${PIPESTATUS[0]}" -eq 124 ]; then
		echo "umem top $words goes on without a reader, with SIGPIPE ignored"
		exit 1
	fi
done
finish 0

# One of a kind has no plural.
export UMEM_OPTIONS=sample=1 UMEM_DEBUG=guards:umem_alloc_96
start ./some
expect 0 '^1 cache is clean$' verify "$pid"
finish 0
unset UMEM_DEBUG
start ./some
expect 0 ' sample of 1 byte \(' whatis "$pid" "$(sed -n 's/^byte 0x//p' told)"
finish 0

export UMEM_OPTIONS=hardened
start ./some
expect 0 "^Next: umem verify $pid " status "$pid"
expect 2 '^umem: users: checked blocks are not sampled$' users "$pid"
proposes_no_sampling() {
	grep -q 'sample=' said || return 0
	echo "leaks proposes to sample in a hardened process:"
	cat said
	exit 1
}
expect 0 . leaks "$pid"
proposes_no_sampling
finish 0
build linked
start "$TMP/linked"
expect 1 'unknown' leaks "$pid"
proposes_no_sampling
finish 0

# A record of a log is of the transaction that it says.
export UMEM_DEBUG=audit UMEM_LOGGING=transaction,fail,slab
export UMEM_OPTIONS=hard_limit=9m
start ./some
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
for log in transaction fail slab; do
	expect 0 ' (allocated|free|failed|slab) ' log -v -l $log "$pid"
	awk '$2 ~ /^(allocated|free|failed|slab)$/ { state = $2 }
	    / by thread / { print state ": " $0 }' said |
	    sed 's/ by thread.*//' | sort -u >verbs.$log
done
printf '%s\n' 'allocated:     allocated' 'free:     freed' 'failed:     failed' \
    'slab:     slab created' >want
cat verbs.transaction verbs.fail verbs.slab | diff want - || exit 1
finish 0
