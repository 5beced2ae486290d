#!/bin/bash
# test timeout: 600
# umem leaks two hundred times in a row on a process at work, with one thread
# of its own and with two hundred: no report has anything in vain, together
# they have all, and the process, which checks its memory, is none the worse.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build planted

look_often() {
	start "$TMP/planted" "$1" "$2"
	for ((n = 0; n < 200; n++)); do
		"$umem" walk --json "$pid" leak >"json.$n" 2>said
		status=$?
		if [ $status -ne 0 ] || [ -s said ]; then
			echo "$1 threads, look $n: status $status"
			cat said
			exit 1
		fi
	done
	finish 0
	python3 - told json.* <<-'END' || exit 1
	import json, sys
	told = open(sys.argv[1]).read().split("\n")
	lost = {line[5:] for line in told if line.startswith("leak ")}
	seen = set()
	for name in sys.argv[2:]:
	    found = {at[2:] for at in json.load(open(name))}
	    if found - lost:
	        sys.exit(f"{name}: found in vain: {sorted(found - lost)[:20]}")
	    seen |= found
	if lost != seen:
	    sys.exit(f"never found: {sorted(lost - seen)[:20]}")
	END
}

look_often 1 2
look_often 200 4
