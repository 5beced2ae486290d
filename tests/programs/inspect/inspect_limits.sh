#!/bin/bash
# umem stat shows limits and reserves, and the objects of a reserve are neither
# in use nor leaked.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build limited

# has COMMAND LINE - a line of the output of the command
has() {
	grep -Eq "$2" said && return
	echo "$1: no $2 in"
	cat said
	exit 1
}

for words in '' guards audit; do
	export UMEM_DEBUG=$words
	start "$TMP/limited"
	unset UMEM_DEBUG
	"$umem" stat "$pid" >said
	has stat '^CACHE WITH LIMIT +LIMIT +IN USE +WAITING +WAITS +FAILED +RESERVE +READY +USED$'
	has stat '^calls +8 +8 +1 +1 +1 +0 +0 +0$'
	has stat '^notes +- +0 +0 +0 +0 +20 +20 +0$'
	# Size, in use, in magazines.
	has stat '^calls +500 +8 '
	has stat '^notes +300 +0 +20 '
	"$umem" stat --json "$pid" | python3 -c '
import json, sys
caches = {c["name"]: c for c in json.load(sys.stdin)["caches"]}
assert caches["calls"]["limits"] == {"limit": 8, "in_use": 8, "waiting": 1,
    "waits": 1, "failures": 1, "reserve": 0, "ready": 0, "used": 0}
assert caches["notes"]["limits"]["ready"] == 20
assert sum("limits" in c for c in caches.values()) == 2' >said 2>&1 || {
		echo "stat --json"
		cat said
		exit 1
	}
	leaked "$pid"
	if [ -s found ]; then
		echo "$words: leaks:"
		cat json
		exit 1
	fi
	"$umem" verify "$pid" >said 2>&1 || {
		echo "$words: verify"
		cat said
		exit 1
	}
	finish 0
done
