#!/bin/bash
# The commands on a program that is also linked with libumem.so.1: it runs on
# the preloaded library, and the commands report on that library.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

"$CC" -O1 -g -I"$TOP" -o "$TMP/linked" \
    "$TOP/tests/programs/inspect/parts/linked.c" -L"$B" -l:libumem.so.1 \
    -Wl,-rpath,"$B" || exit 1
export UMEM_DEBUG=audit UMEM_LOGGING=fail
start "$TMP/linked"
unset UMEM_DEBUG UMEM_LOGGING

# is NAME LINES COMMAND... - the command must print LINES lines, and nothing on
# standard error
is() {
	local got
	got=$("${@:3}" 2>said | wc -l)
	if [ "$got" -ne "$2" ] || [ -s said ]; then
		echo "$1: $got lines, not $2"
		cat said
		exit 1
	fi
}

is "objects" 6 sh -c "'$umem' walk $pid mine; '$umem' walk $pid other"
is "leaks of one cache" 5 "$umem" walk "$pid" leak mine
is "leaks of another" 1 "$umem" walk "$pid" leak other
"$umem" log -l fail "$pid" | awk '$2 == "failed" { print $6 }' >failed
printf '%s\n' umem_oversize umem_alloc_1024 mine >wanted
if ! diff wanted failed; then
	echo "not the failures that there were"
	exit 1
fi
if ! "$umem" log -l slab "$pid" | grep -q 'UMEM_LOGGING=slab'; then
	echo "an empty log of slabs is not told how to have one"
	exit 1
fi
if "$umem" walk --json "$pid" nosuch >out 2>/dev/null || [ -s out ]; then
	echo "a walk of nothing says something"
	exit 1
fi
finish 0
