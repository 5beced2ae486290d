#!/bin/bash
# The files of UMEM_OPTIONS=log and stats: a symbolic link at the end of the
# path is not followed, except in /dev and /proc/self/fd, and only regular
# files, character devices and FIFOs with a reader are written to.  Nothing
# waits.
# umem_dump() and a report wait for no FIFO in the place of a mapped file.  The
# statistics are written when a process exits.
# test timeout: 60
set -eu
cat >main.c <<'END'
#include <stdlib.h>
#include "umem/umem.h"

void outer(char *volatile *block) __attribute__((weak));

/* The argument is a command for a shell. */
int
main(int argc, char **argv)
{
	char *volatile block = malloc(3000);

	if (argc > 1) {
		if (system(argv[1]) != 0)
			return 9;
		umem_dump(1, UMEM_DUMP_STATS);
		outer(&block);
		outer(&block);
	}
	exit(block == NULL);
}
END
compile() {
	"$CC" -fno-builtin -w -I"$TOP" -O1 "$@" main.c -L"$B" -lumem_malloc \
	    -Wl,-rpath,"$(readlink -f "$B")"
}
compile -o main
fail() {
	echo "$*"
	exit 1
}
run() {
	env UMEM_OPTIONS="$1" timeout $((20 * TEST_TIME_FACTOR)) ./main \
	    >out 2>err || fail "$1: status $?"
}
wrong='^umem: UMEM_OPTIONS: stats: cannot write '

# A link, to a file that exists or that would be created, is not followed.
for target in existing created; do
	rm -f existing created link
	echo before >existing
	ln -s $target link
	run stats=link
	grep -q "$wrong" err || fail "followed a link to $target"
	run log=link,hardend
	grep -q hardend err || fail "no message, or in $target"
	if [ "$(cat existing)" != before ] || [ -e created ]; then
		fail "wrote to $target"
	fi
done
# A folder on the way may be a link.
mkdir folder
ln -s folder way
run stats=way/stats
grep -q '^process ' folder/stats || fail "no folder behind a link"

# Links of the system lead to the files that the process has open.
for path in /dev/stderr /dev/fd/2 /proc/self/fd/2; do
	run stats=$path
	grep -q '^process ' err || fail "$path is not written to"
done
run stats=/dev/stdout
grep -q '^process ' out || fail "/dev/stdout is not written to"
run stats=/dev/null
[ ! -s err ] || fail "/dev/null is not written to"
run log=/dev/null,hardend
[ ! -s err ] || fail "the log /dev/null is not written to"
# A pipe behind such a link, and a FIFO, with a reader and without.
env UMEM_OPTIONS=stats=/dev/stderr ./main 2>&1 >out | cat >piped
grep -q '^process ' piped || fail "a pipe is not written to"
mkfifo fifo
run stats=fifo
grep -q "$wrong" err || fail "a FIFO without a reader"
exec 7<>fifo
run stats=fifo
head -n 1 <&7 >got
exec 7<&-
grep -q '^heap profile: ' got || fail "a FIFO is not written to"
# Nothing else.
run stats=folder
grep -q "$wrong" err || fail "a folder"
if [ -b /dev/loop0 ]; then
	run stats=/dev/loop0
	grep -q "$wrong" err || fail "a device of blocks"
fi

# Another file, or a FIFO, in the place of a mapped one is not read.
cat >library.c <<'END'
#include <stdlib.h>

static __attribute__((noinline)) void
inner(char *volatile *block)
{
	free(*block);
	__asm__ volatile("");
}

void
outer(char *volatile *block)
{
	inner(block);
	__asm__ volatile("");
}
END
library() {
	"$CC" -fno-builtin -w -O1 -shared -fPIC "$@" library.c
}
library -o libhidden.so
compile -o main -Wl,--no-as-needed libhidden.so -Wl,-rpath,"$TMP"
for put in 'true' 'rm libhidden.so; mkfifo libhidden.so' \
    'mv other libhidden.so'; do
	rm -f libhidden.so
	library -o libhidden.so
	library -Dinner=false_name -o other
	status=0
	env UMEM_OPTIONS=sample=1 timeout $((20 * TEST_TIME_FACTOR)) \
	    ./main "$put" >out 2>err || status=$?
	[ "$status" -gt 128 ] || fail "$put: status $status"
	grep -q 'freed twice' err || fail "$put: no report"
	grep -q '^[0-9]*: .*@ 0x' out || fail "$put: no samples"
	if grep -q false_name err; then
		fail "$put: names of another file"
	fi
	# A glibc before 2.35 does not find the library.
	[ "$put" != true ] || [ "${GLIBC_MINOR:-35}" -lt 35 ] ||
	    grep -q 'libhidden.so`inner+' err ||
	    fail "no name of a static function"
done

# UMEM_OPTIONS=stats writes the statistics when a process exits, also from
# another thread's exit() and in a child; not after _exit().  A file that
# cannot be written is reported.
cat >exits.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	void *volatile block = malloc(3000);

	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() != 0)
		wait(NULL);
	if (argc > 1 && strcmp(argv[1], "_exit") == 0)
		_exit(block == NULL);
	exit(block == NULL);
}
END2
"$CC" -fno-builtin -o exits exits.c
exits() {
	env LD_PRELOAD="$SHIM" UMEM_OPTIONS="stats=$1" ./exits "${@:2}" 2>err
}

exits stats
[ ! -s err ]
grep -q '^process [0-9]*$' stats
grep -q '^umem_heap_bytes [0-9]' stats
grep -qx 'umem_cache_live_objects{cache="umem_alloc_3072"} 1' stats ||
    { cat stats; exit 1; }
grep -qx '# EOF' stats
head -n 1 stats | grep -q '^heap profile: '
# Another process appends.
exits stats
[ "$(grep -c '^process ' stats)" = 2 ]
exits 'of.%p' fork
[ "$(cat of.* | grep -c '^process ')" = 2 ]
[ "$(find . -name 'of.*' | wc -l)" = 2 ]
exits none _exit
[ ! -e none ]
exits /nosuch/stats
grep -qx 'umem: UMEM_OPTIONS: stats: cannot write /nosuch/stats' err
# A message that cannot be logged goes to standard error, like the list of
# options.
env LD_PRELOAD="$SHIM" UMEM_OPTIONS=log=/nosuch/log,hardend ./exits 2>err
grep -q 'hardend' err
env UMEM_OPTIONS=log=log,hardend "$B/umem" options >list
grep -q '^  log=path$' list
grep -q "; now $TMP/log$" list
grep -q 'hardend' log
