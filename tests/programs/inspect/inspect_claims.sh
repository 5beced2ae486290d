#!/bin/bash
# A thread is stopped after it took chunks from a slab and before it put them
# into a magazine: umem leaks finds that the chunks belong to this thread.  The
# command waits until no thread has claimed a header.
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
# compiler has removed the variable; then it tries again.
stop_in() {
	local try

	for ((try = 0; try < 5; try++)); do
		break_in "$1" if 'n > 0'
		! grep -q 'No symbol "n"' said.gdb || break_in "$1"
		if grep -q "^#.* $1 (" said.gdb && [ -s core.claims ]; then
			return
		fi
	done
	echo "gdb did not stop the process in $1:"
	tail -30 said.gdb
	exit 1
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

# A header is claimed until the command has waited three times, each time for
# twice as long.  Then it reads the magazine as if there had been no claim.
build linked
UMEM_OPTIONS=thread=no start "$TMP/linked"
cat >commands <<'END'
set $at = (char *)mine->mag.cold
while ((struct cpu_cold *)$at)->loaded == 0
	set $at += 65536
end
set $at += (char *)mine->mag.hot - (char *)mine->mag.cold
set $hot = (struct cpu_hot *)$at
printf "header %lu %lu\n", &$hot->top, $hot->top
set variable $hot->top = 1ul << 63
END
gdb -batch -nx -p "$pid" -x commands >said.gdb 2>&1
read -r _ at value < <(grep '^header ' said.gdb)
cat >release.c <<'END'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int
usleep(useconds_t usec)
{
	static int n;
	unsigned long top = strtoul(getenv("VALUE"), NULL, 10);
	/* Waits for a stop are shorter. */
	if (usec == 100u << n && ++n == 3 &&
	    pwrite(open(getenv("MEMORY"), O_WRONLY), &top, sizeof(top),
		strtol(getenv("AT"), NULL, 10)) != sizeof(top))
		exit(9);
	return 0;
}
END
"$CC" -shared -fPIC -w -o release.so release.c || exit 1
expect 0 '^mine +100 +([6-9]|[0-9]{2,}) ' stat "$pid"
LD_PRELOAD=$PWD/release.so MEMORY=/proc/$pid/mem AT=$at VALUE=$value \
    expect 0 '^mine +100 +5 ' stat "$pid"
finish 0

# Headers that have no magazine may be claimed, too, beside one that has.
UMEM_OPTIONS=thread=no start "$TMP/linked"
cat >commands <<'END'
set $n = 0
set $i = 0
while $i < 80
	set $c = class_cache[$i++]
	if $c != 0 && $c->mag.cold != 0
		if ((struct cpu_cold *)$c->mag.cold)->loaded == 0
			set variable ((struct cpu_hot *)$c->mag.hot)->top = 1ul << 63
			set $n += 1
		end
	end
end
set $at = (char *)mine->mag.cold
while ((struct cpu_cold *)$at)->loaded == 0
	set $at += 65536
end
set $at += (char *)mine->mag.hot - (char *)mine->mag.cold
set variable ((struct cpu_hot *)$at)->top = 1ul << 63
printf "empty %d\n", $n
END
gdb -batch -nx -p "$pid" -x commands >said.gdb 2>&1
grep -q '^empty [1-9]' said.gdb || {
	cat said.gdb
	exit 1
}
expect 0 '^mine +100 ' stat "$pid"
kill "$pid"
