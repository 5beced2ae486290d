#!/bin/bash
# test timeout: 200
# umem's commands know objects that wait for a grace period: they are no leaks,
# whatis names the flavour, stat and status count them, and verify checks them;
# in a process and in its core.
set -u
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build waiting -I"$TOP/umem" -lumem_rcu -lurcu-memb

bad() {
	echo "$how, $1:"
	head -40 said
	exit 1
}
of() {
	"$umem" "$@" >said 2>&1
	status=$?
	[ $status -lt 2 ] || bad "umem $*: status $status"
}
has() {
	grep -Eq -e "$1" said || bad "no $1"
}

# look TARGET - all but leaks
look() {
	local at kind cache

	while read -r _ at kind; do
		cache=plain
		case $kind in
		owner) cache=owners ;;
		malloc | umem) cache='umem_alloc_[0-9]+' ;;
		large) cache='umem_oversize, [0-9]+ bytes' ;;
		esac
		of whatis "$1" "$at"
		has "^$at is $at\+0x0, (bufctl [0-9a-f]+ )?freed from $cache \(waits for a grace period of urcu_memb_flavor\)$"
		of whatis --json "$1" "$at"
		has '"state": "freed, waits for a grace period"'
		has '"flavour": "urcu_memb_flavor"'
	done < <(grep '^waits' told)
	of status "$1"
	# A long line is continued on the next.
	sed -i -z 's/,\n */, /g' said
	has '^RCU: +urcu_memb_flavor: 6440 objects \([0-9.]+M\) wait, [0-9]+ grace periods, [0-9]+ released'
	of stat "$1"
	has '^urcu_memb_flavor +6440 +[0-9.]+M +[0-9]+ +[0-9]+$'
	has '^  plain +6200 '
	has '^  owners +200 '
	has '^  \[large, malloc\(\)\] +10 '
	has '^  \[large, umem_alloc\(\)\] +10 '
	# In use is nothing of these caches.
	has '^plain +120 +0 '
	of stat --json "$1"
	python3 - <<-'END' || bad "JSON"
	import json
	stat = json.load(open("said"))
	rcu, = stat["rcu"]
	assert rcu["flavour"] == "urcu_memb_flavor", rcu
	assert rcu["waiting"] == 6440 and not rcu["broken"], rcu
	assert rcu["memory"] == sum(c["memory"] for c in rcu["caches"]), rcu
	layers = {layer["name"]: layer["waiting"] for layer in rcu["caches"]}
	deferred = {c["name"]: c["deferred"] for c in stat["caches"]}
	assert deferred["plain"] == layers["plain"] == 6200, deferred
	END
	of walk "$1" allocated
	grep '^waits' told | while read -r _ at _; do
		! grep -qx "$at" said || echo "$at"
	done >wrong
	[ ! -s wrong ] || bad "umem walk allocated has $(cat wrong)"
	of walk "$1" free
	while read -r _ at _; do
		grep -qx "$at" said || bad "umem walk free lacks $at"
	done < <(grep '^waits' told)
}

for mode in rseq locked; do
	how=$mode
	UMEM_OPTIONS=rcu_budget=1g,mode=$mode start "$TMP/waiting"
	leaked "$pid"
	exactly_planted "process, $mode"
	look "$pid"
	gcore -o core "$pid" >/dev/null 2>&1
	leaked "core.$pid"
	exactly_planted "core, $mode"
	how="$mode, core"
	look "core.$pid"
	finish 0
	[ $mode = rseq ] || break
	gdb -batch -nx -ex "source $TOP/tools/gdb/umem-gdb.py" \
	    -ex "set umem-command $umem" -ex 'umem stat' "$TMP/waiting" \
	    "core.$pid" >said 2>&1
	has '^  plain +6200 '
	rm -f "core.$pid"
done

# Debugged: the record has the stack of the deferred free; a change is found.
for words in UMEM_DEBUG=default UMEM_OPTIONS=rcu_budget=1g,hardened; do
	how=$words
	export UMEM_OPTIONS=rcu_budget=1g "${words?}"
	start "$TMP/waiting"
	unset UMEM_DEBUG UMEM_OPTIONS
	leaked "$pid"
	exactly_planted "$words"
	of verify "$pid"
	[ $status = 0 ] || bad "not clean"
	has '^[0-9]* caches are clean$'
	if [ $words = UMEM_DEBUG=default ]; then
		of whatis "$pid" "$(sed -n 's/^waits \(.*\) object/\1/p' told |
		    head -1)"
		has '^    freed by thread'
		has "\`free_many\+"
	fi
	finish 0
done
how=changed
UMEM_OPTIONS=rcu_budget=1g UMEM_DEBUG=default,noabort start "$TMP/waiting" change
of verify "$pid" changed
[ $status = 1 ] || bad "clean"
has "^  buffer $(sed -n 's/^changed //p' told) \(waits for a grace period\) was changed since it was freed$"
finish 0

# A thread that is stopped with a magazine of released objects in hand.
for words in UMEM_DEBUG= UMEM_DEBUG=audit; do
	where=cache_take_back
	[ $words = UMEM_DEBUG= ] || where=debug_free_deferred
	how="stopped in $where"
	export "${words?}" UMEM_OPTIONS=rcu_budget=1g
	start "$TMP/waiting"
	unset UMEM_DEBUG UMEM_OPTIONS
	gdb -batch -nx -p "$pid" -ex 'handle SIGUSR1 nostop noprint' \
	    -ex "tbreak $where" -ex "shell kill -USR1 $pid" -ex continue \
	    -ex backtrace -ex 'gcore core.hand' >said 2>&1
	if ! grep -q "^#0 .*$where (" said || [ ! -s core.hand ]; then
		bad "gdb did not stop the process there"
	fi
	leaked core.hand
	sed -n 's/^leak //p' told | sort >lost
	comm -13 lost found >said
	[ ! -s said ] || bad "found in vain"
	rm -f core.hand
	finish 0
done

# Samples.
how=samples
UMEM_OPTIONS=rcu_budget=1g,sample=1 start "$TMP/waiting"
at=$(sed -n 's/^waits \(.*\) malloc/\1/p' told)
leaked "$pid"
exactly_planted "samples"
of whatis "$pid" "$at"
has "in a freed sample of 200 bytes .*, waits for a grace period of urcu_memb_flavor$"
of users "$pid"
# shellcheck disable=SC2016 # for gdb
gdb -batch -nx -p "$pid" -ex 'set $first = domains' \
    -ex 'set variable domains = 16' -ex 'gcore core.damaged' \
    -ex 'set variable domains = $first' >said 2>&1
[ -s core.damaged ] || bad "no core"
of stat core.damaged
rm -f core.damaged
finish 0
