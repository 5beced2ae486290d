#!/bin/bash
# A thread is stopped after it took chunks from a slab and before it put them
# into a magazine: umem leaks finds that the chunks belong to this thread.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build planted

# break_in LOCATION... - makes a core at the first release of a lock behind it.
# gdb ends at the first command that fails.
break_in() {
	rm -f core.claims
	cat >commands <<-END
		tbreak $*
		continue
		set \$taker = \$_thread
		break lock_release if \$_thread == \$taker
		continue
		backtrace
		gcore core.claims
	END
	# shellcheck disable=SC2154 # by start
	timeout 60 gdb -batch -nx -p "$pid" -x commands >said.gdb 2>&1
}

# With one thread at work, the first lock that slab_take() lets go of is that
# of the slabs: bits are cleared, and no chunk is anywhere else.  The upkeep
# thread may call slab_give() for no chunk, which gdb cannot tell if the
# compiler has removed the variable.
stop_in() {
	break_in "$1" if 'n > 0'
	! grep -q 'No symbol "n"' said.gdb || break_in "$1"
	if ! grep -q "^#.* $1 (" said.gdb || [ ! -s core.claims ]; then
		echo "gdb did not stop the process in $1:"
		tail -30 said.gdb
		exit 1
	fi
}

# A magazine in hand may hide a leak.
nothing_in_vain() {
	sed -n 's/^leak //p' told | sort >lost
	if [ -n "$(comm -13 lost found)" ]; then
		echo "$1: found in vain:"
		comm -13 lost found | head -20
		exit 1
	fi
}

start "$TMP/planted" 2 1
for ((n = 0; n < 3; n++)); do
	for where in slab_take slab_give; do
		stop_in $where
		leaked core.claims
		nothing_in_vain "stopped in $where, time $n"
	done
done
rm -f core.claims
finish 0
