#!/bin/bash
# Import caches, as the commands see them: umem stat counts their resources.  A
# block that is an idle resource is neither a leak nor free, and this also holds
# for the blocks that it points to.  The test runs with magazines, and without
# them in hardened caches.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build imports

# number KEY CACHE - a figure of the cache from $TMP/json
number() {
	python3 - "$1" "$2" "$TMP/json" <<-'END'
	import json, sys
	for cache in json.load(open(sys.argv[3]))["caches"]:
	    if cache["name"] == sys.argv[2]:
	        print(cache[sys.argv[1]])
	END
}

# has CACHE KEY VALUE
has() {
	local value
	value=$(number "$2" "$1")
	if [ "$value" != "$3" ]; then
		echo "$words: $1 has $2 $value, not $3, in"
		cat "$TMP/json"
		exit 1
	fi
}

# Without upkeep, which would release idle resources.
for words in thread=no thread=no,hardened; do
	export UMEM_OPTIONS=$words
	start "$TMP/imports"
	unset UMEM_OPTIONS
	"$umem" stat --json "$pid" >"$TMP/json" || exit 1
	has numbers in_use 500
	has numbers memory 0
	has numbers buffer_size 0
	has buffers in_use 10
	if [ "$words" = thread=no ]; then
		cached=$(number in_magazines numbers)
		if [ "$cached" -lt 100 ] || [ "$cached" -gt 1500 ]; then
			echo "$cached numbers are in magazines"
			exit 1
		fi
	else
		has numbers in_magazines 0
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
