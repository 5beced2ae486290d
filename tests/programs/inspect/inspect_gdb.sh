#!/bin/bash
# The commands inside gdb: loaded with the library, on a process and a core.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# Beside the library, as installed.
cp "$SHIM" libumem_malloc.so.1
cp "$TOP/tools/gdb/umem-gdb.py" libumem_malloc.so.1-gdb.py
build planted
SHIM=$TMP/libumem_malloc.so.1

in_gdb() {
	local text=$1

	shift
	gdb -batch -nx -iex "set auto-load safe-path /" \
	    -ex "set umem-command $umem" "$@" >said 2>&1
	if ! grep -Eq -e "$text" said; then
		echo "gdb $*: no '$text' in:"
		tail -30 said
		exit 1
	fi
}

export LD_LIBRARY_PATH=$TMP
start "$TMP/planted" 2
at=$(sed -n 's/^leak //p' "$TMP/told" | head -1)
in_gdb '^ +30M .* unknown: large blocks of 30M' -p "$pid" -ex 'umem leaks'
in_gdb "^$at is $at\\+0x0, allocated from umem_alloc_8$" -p "$pid" \
    -ex "umem whatis -a (char*)0x$at"
gcore -o core "$pid" >/dev/null 2>&1
in_gdb '^unknown: objects of planted' "$TMP/planted" "core.$pid" \
    -ex 'umem leaks -de'
in_gdb 'run is for the shell' -p "$pid" -ex 'umem run true'
leaked "$pid"
exactly_planted "after gdb"
finish 0
