#!/bin/bash
# umem knows the slabs of type-stable caches that wait for a grace period, of
# the heap and of a source, and finds nothing lost or damaged in them.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
build retired "-I$TOP/umem" -lumem_rcu -lurcu-memb

bad() {
	echo "$*"
	cat "$TMP/said"
	exit 1
}

# look WORDS... - umem WORDS... ends with 0 and says $TMP/said
look() {
	"$umem" "$@" >"$TMP/said" 2>&1 || bad "umem $*: status $?"
}

for debug in '' audit; do
	if [ -n "$debug" ]; then
		export UMEM_DEBUG=$debug
	fi
	for of in '' source; do
		# shellcheck disable=SC2086 # a word or none
		start "$TMP/retired" $of
		look whatis "$pid" "$(sed -n 's/^object //p' "$TMP/told")"
		grep -q 'freed from stable' "$TMP/said" ||
		    bad "$of $debug: not a free object"
		look verify "$pid"
		look leaks "$pid"
		finish 0
	done
done
