#!/bin/bash
# The commands on processes with import caches, with caches that have a limit or
# a reserve, and with type-stable caches whose slabs wait.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
build imports
build limited
build retired "-I$TOP/umem" -lumem_rcu -lurcu-memb

# number KEY CACHE - a figure of the cache from $TMP/json
number() {
	python3 - "$1" "$2" "$TMP/json" <<-'END'
	import json, sys
	for cache in json.load(open(sys.argv[3]))["caches"]:
	    if cache["name"] == sys.argv[2]:
	        print(cache[sys.argv[1]])
	END
}

# figure CACHE KEY VALUE
figure() {
	local value
	value=$(number "$2" "$1")
	if [ "$value" != "$3" ]; then
		echo "$words: $1 has $2 $value, not $3, in"
		cat "$TMP/json"
		exit 1
	fi
}

# umem stat counts the resources of import caches.  A block that is an idle
# resource is neither a leak nor free, and this also holds for the blocks that
# it points to.  This runs with magazines, and without them in hardened caches.
# Without upkeep, which would release idle resources.
for words in thread=no thread=no,hardened; do
	export UMEM_OPTIONS=$words
	start "$TMP/imports"
	unset UMEM_OPTIONS
	"$umem" stat --json "$pid" >"$TMP/json" || exit 1
	figure numbers in_use 500
	figure numbers memory 0
	figure numbers buffer_size 0
	figure buffers in_use 10
	if [ "$words" = thread=no ]; then
		cached=$(number in_magazines numbers)
		if [ "$cached" -lt 100 ] || [ "$cached" -gt 1500 ]; then
			echo "$cached numbers are in magazines"
			exit 1
		fi
	else
		figure numbers in_magazines 0
	fi
	total=$(number total numbers)
	if [ "$total" -lt 2000 ] || [ "$total" -gt 2063 ]; then
		echo "$total numbers in all"
		exit 1
	fi

	leaked "$pid"
	sed -n 's/^leak //p' "$TMP/told" | cmp - "$TMP/found" || exit 1
	idle=$(sed -n 's/^idle //p' "$TMP/told")
	"$umem" whatis "$pid" "$idle" >said
	if ! grep -q 'allocated from umem_alloc_' said; then
		echo "$words: an idle buffer is not allocated:"
		cat said
		exit 1
	fi
	if [ -n "$("$umem" walk "$pid" numbers)" ]; then
		echo "$words: numbers are walked as buffers"
		exit 1
	fi
	for command in stat status verify; do
		"$umem" $command "$pid" >said 2>&1 || {
			echo "$words: umem $command ended with $?"
			cat said
			exit 1
		}
	done
	"$umem" verify "$pid" numbers >said 2>&1 || exit 1
	finish 0
done

# has COMMAND REGEX - a line of the output of the command
has() {
	grep -Eq "$2" said && return
	echo "$1: no $2 in"
	cat said
	exit 1
}

# umem stat shows limits and reserves, and the objects of a reserve are neither
# in use nor leaked.
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

bad() {
	echo "$*"
	cat "$TMP/said"
	exit 1
}

# look WORDS... - umem WORDS... ends with 0 and says $TMP/said
look() {
	"$umem" "$@" >"$TMP/said" 2>&1 || bad "retired $of $debug: umem $*: status $?"
}

# umem knows the slabs of type-stable caches that wait for a grace period, of
# the heap and of a source, and finds nothing lost or damaged in them.
for debug in '' audit; do
	if [ -n "$debug" ]; then
		export UMEM_DEBUG=$debug
	fi
	for of in '' source; do
		# shellcheck disable=SC2086 # a word or none
		start "$TMP/retired" $of
		look whatis "$pid" "$(sed -n 's/^object //p' "$TMP/told")"
		grep -q 'freed from stable' "$TMP/said" ||
		    bad "retired $of $debug: not a free object"
		look verify "$pid"
		look leaks "$pid"
		finish 0
	done
done
