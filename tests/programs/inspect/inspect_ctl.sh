#!/bin/bash
# umem ctl reads and changes the options of a running process, and umem status
# names those that differ from their defaults.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

fail() {
	echo "$*"
	cat said 2>/dev/null
	exit 1
}

# says STATUS TEXT ARGUMENT... - umem ends with the status and prints the text
says() {
	local want=$1 text=$2 status

	shift 2
	"$umem" "$@" >said 2>&1
	status=$?
	if [ $status != "$want" ] || ! grep -qxF -e "$text" said; then
		fail "umem $*: status $status, or no '$text' in:"
	fi
}

UMEM_OPTIONS=depot_bytes=4m,nomagazines,log=/nosuch/%p \
    LD_PRELOAD=$SHIM sleep 600 &
pid=$!
trap 'kill $pid' EXIT
until "$umem" status $pid >said 2>&1; do
	kill -0 $pid || fail "ended"
	sleep 0.1
done
text='Options:        depot_bytes=4m,log=/nosuch/%p,nomagazines'
grep -qxF "$text" said || fail "not the options:"
! grep -q 'limits\?:' said || fail "no limits:"

# A core may lack the table of options; then no option is known.
gcore -o core $pid >/dev/null 2>&1 || fail "no core"
"$umem" status core.$pid >said 2>&1 || fail "status of a core:"
grep -qxF -e "$text" -e 'Options:        unknown' said || fail "of a core:"
says 2 "umem: core.$pid: is a core file" ctl core.$pid depot_bytes=1m

says 0 depot_bytes=4m ctl $pid depot_bytes
says 0 nomagazines=yes ctl $pid nomagazines
says 0 mode=rseq ctl $pid mode
says 0 log=/nosuch/%p ctl $pid log
says 0 stats=none ctl $pid stats
says 0 'depot_bytes=1m (before: 4m)' ctl $pid depot_bytes=1m
says 0 'depot_bytes=1m (before: 1m)' ctl $pid depot_bytes=1024k
says 0 'huge_pages=no (before: auto)' ctl $pid huge_pages=no
says 0 hard_limit=none ctl $pid hard_limit
says 0 'hard_limit=3g (before: none)' ctl $pid hard_limit=3g
says 0 'Hard limit:     3G, 0% used, reached 0 times' status $pid
! grep 'Soft limit' said || fail "a soft limit:"
says 0 'hard_limit=none (before: 3g)' ctl $pid hard_limit=none
says 0 'noabort=yes (before: no)' ctl $pid noabort=yes
says 0 'reap_interval=5 (before: 0.25)' ctl $pid reap_interval=5
says 0 'reap_interval=0.25 (before: 5)' ctl $pid reap_interval=0.25
says 0 'sample=512k (before: off)' ctl $pid sample=512k
says 0 'Sampling:       one in 512K bytes; 0 samples are in use' status $pid
says 0 'sample=1m (before: 512k)' ctl $pid sample=default
says 0 'sample=off (before: 1m)' ctl $pid sample=off
# Two at once, of which the neighbours in memory stay as they are.
says 0 'checknull=yes (before: no)' ctl $pid checknull=yes rcu_delay=11
says 0 'rcu_delay=11' ctl $pid rcu_delay
says 0 'noabort=yes' ctl $pid noabort
says 0 'checknull=no (before: yes)' ctl $pid checknull=no
says 0 'noabort=yes' ctl $pid noabort
says 0 'Debugging:      noabort' status $pid

"$umem" ctl $pid >all || fail "ctl"
[ "$(wc -l <all)" = 11 ] || fail "$(cat all)"
grep -qx 'depot_bytes  *1m  *16m' all || fail "$(cat all)"
"$umem" ctl --json $pid | python3 -c 'import json, sys
assert json.load(sys.stdin)["huge_pages"] == "no"' || fail "json"

says 2 "umem: no option depot_byts; did you mean depot_bytes?" \
    ctl $pid depot_byts=1
says 2 "umem: no option nonsense; see umem options" ctl $pid nonsense
says 2 "umem: mode cannot change while the program runs" ctl $pid mode=own
says 2 "umem: depot_bytes: '2g' is not from 0 to 1g" ctl $pid depot_bytes=2g
says 2 "umem: depot_bytes: 'x' is not a size" ctl $pid depot_bytes=x
says 2 "umem: hard_limit: '1k' is less than 1m" ctl $pid hard_limit=1k
says 2 "umem: sample: '16777216t' is too large" ctl $pid sample=16777216t
says 2 "umem: reap_interval: '0' is not from 1 to 1000000" \
    ctl $pid reap_interval=0
says 2 "umem: huge_pages: 'on' is not auto or no or always" ctl $pid huge_pages=on
says 2 "umem: noabort: '1' is not yes or no" ctl $pid noabort=1
# A wrong argument changes nothing, nor do those before it.
says 2 "umem: no option x; see umem options" ctl $pid depot_bytes=3m x=1
says 0 depot_bytes=1m ctl $pid depot_bytes
kill -0 $pid || fail "the process has ended"
