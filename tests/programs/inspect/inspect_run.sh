#!/bin/bash
# umem run --leaks and --stat: umem prints the report in whichever way the
# program ends, and the exit status shows the result.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build ends

# ends STATUS STATUS_WITH_LEAK HOW
ends() {
	"$umem" run --leaks -- "$TMP/ends" "$3" 2>said
	status=$?
	if [ $status -ne "$1" ] ||
	    ! grep -qx 'no leaks found' said; then
		echo "$3: status $status instead of $1, or a leak:"
		cat said
		exit 1
	fi
	"$umem" run --leaks -- "$TMP/ends" "$3" leak 2>said
	status=$?
	if [ $status -ne "$2" ] ||
	    ! grep -Eq '^4K leaked in 1 block$' said ||
	    ! grep -qx 'unknown: nothing recorded the caller, as "umem run --debug" does.' \
		said; then
		echo "$3 leak: status $status instead of $2, or not the leak:"
		cat said
		exit 1
	fi
}

ends 0 1 0
ends 3 3 3
ends 0 1 _exit
ends 0 1 thread_exit
ends 139 139 thread_segv
ends 137 137 kill

# After an exec it is the new program that is looked at.
"$umem" run --leaks -- "$TMP/ends" thread_exec leak 2>said
status=$?
if [ $status -ne 0 ]; then
	echo "exec: status $status"
	cat said
	exit 1
fi

expect() {
	local want=$1 text=$2

	shift 2
	"$@" >said 2>&1
	status=$?
	if [ $status -ne "$want" ] || ! grep -Eq -e "$text" said; then
		echo "$*: status $status instead of $want, or no '$text' in:"
		cat said
		exit 1
	fi
}

# Corrupt buffers of which the library has no occasion to report are found.
cat >harm.c <<'END2'
#include <stdlib.h>
static char *volatile kept, *volatile gone;
__attribute__((noinline)) static void
make(void)
{
	kept = malloc(100);
	gone = malloc(200);
}
int
main(int argc, char **argv)
{
	make();
	free(gone);
	if (argc > 1) {
		kept[100] = 1;
		gone[8] = 1;
	}
	return 0;
}
END2
"$CC" -O1 -g -fno-builtin -w -o harm harm.c
expect 0 'no leaks found' "$umem" run --debug --leaks -- ./harm
if grep -q corrupt said; then
	echo "corrupt without a reason:"
	cat said
	exit 1
fi
expect 1 '^  buffer [0-9a-f]+ \(allocated\) has a corrupt redzone' \
    "$umem" run --debug --leaks -- ./harm now
for text in '^  buffer [0-9a-f]+ \(free\) seems corrupted, at ' \
    '^    allocated by thread [0-9]+, ' '^ +harm`make\+0x.* \(harm.c:6\)$' \
    '^    freed by thread [0-9]+, ' '^ +harm`main\+0x.* \(harm.c:13\)$'; do
	if ! grep -Eq -e "$text" said; then
		echo "no $text in:"
		cat said
		exit 1
	fi
done
expect 127 'nosuch: No such file' "$umem" run --leaks nosuch
expect 0 '^umem_heap ' "$umem" run --stat -- "$TMP/ends" 0
expect 0 '^UMEM_DEBUG=guards,audit$' "$umem" run --debug=guards,audit env
expect 0 '^UMEM_DEBUG=default$' "$umem" run --debug env
expect 1 '^ +ends`(main|lose)\+0x[0-9a-f]+ \(ends.c:[0-9]+\)$' \
    "$umem" run --debug --leaks -- "$TMP/ends" 0 leak

# A program of musl gets the library for musl, or one message.
command -v musl-gcc >/dev/null || exit 0
cat >show.c <<'END3'
#include <stdio.h>
#include <stdlib.h>
int
main(void)
{
	return puts(getenv("LD_PRELOAD")) < 0;
}
END3
musl-gcc -o show show.c
mkdir -p own/bin own/lib
cp "$B/umem" own/bin
cp "$SHIM" own/lib
expect 125 '^umem: show is of musl, and there is no musl/libumem_malloc.so.1' \
    env PATH=".:$PATH" own/bin/umem run show
mkdir own/lib/musl
echo 'int none;' | musl-gcc -shared -fPIC -x c \
    -o own/lib/musl/libumem_malloc.so.1 -
expect 0 '/own/lib/musl/libumem_malloc.so.1$' own/bin/umem run ./show
expect 0 '^LD_PRELOAD=.*/own/lib/libumem_malloc.so.1$' own/bin/umem run env
