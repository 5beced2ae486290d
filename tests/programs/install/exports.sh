#!/bin/bash
# Each library exports the names of its version script in the version UMEM_0.1,
# libumem_malloc.so.1 also those of umem/unversioned.list without a version, and
# no library exports anything else.
# The names that the libraries need from others are those that umem/README.md
# lists, each with its reason.
# test not with: coverage exports the variables of the counters
set -eu
export LC_ALL=C
bad=0
# names FILE - the names that a version script makes global, or that a list has
names() {
	sed -e 's|/\*.*\*/||; /\/\*/,/\*\//d' -e '/^local:/,$d' "$1" |
	    sed -n 's/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*\);$/\1/p'
}
# compare LIBRARY - its exports and the names in the file "listed"
compare() {
	sort listed >listed.sorted
	readelf --dyn-syms -W "$B/$1.so.1" |
	    awk '$7 !~ /UND|ABS/ && $5 ~ /GLOBAL|WEAK/ && $1 ~ /:$/ { print $8 }' |
	    sort >exports
	diff listed.sorted exports || {
		echo "$1: < only in its lists, > only exported"
		bad=1
	}
}
for library in libumem libumem_malloc; do
	names "$TOP/umem/libumem.map" | sed 's/$/@@UMEM_0.1/' >listed
	[ "$(wc -l <listed)" -ge 50 ] || { echo "libumem.map: too few names"; exit 1; }
	[ $library = libumem ] || names "$TOP/umem/unversioned.list" >>listed
	compare $library
	readelf --dyn-syms -W "$B/$library.so.1" |
	    awk '$7 == "UND" && $8 != "" { sub(/@.*/, "", $8); print $8 }' >>needed
done
[ "$(wc -l <listed)" -ge 120 ] || { echo "unversioned.list: too few names"; exit 1; }
names "$TOP/umem/libumem_rcu.map" | sed 's/$/@@UMEM_0.1/' >listed
[ ! -e "$B/libumem_rcu.so.1" ] || compare libumem_rcu

# A debug build needs a few names more, a sanitizer many.  So do other linkers
# and flags; tools/build/links.sh sets LINKS.
[ -z "${DEBUG:-}${SAN:-}${LINKS:-}" ] || exit $bad
sort -u needed >needed.now
sed -n '/^| needed names/,/^$/s/^| \(\x60[^|]*\) |.*/\1/p' "$TOP/umem/README.md" |
    tr -cs '[:alnum:]_' '\n' | sed '/^$/d' | sort -u >needed.listed
[ "$(wc -l <needed.listed)" -ge 20 ] || { echo "umem/README.md: too few names"; exit 1; }
diff needed.listed needed.now || {
	echo "needed names: < only in umem/README.md, > only in the libraries"
	bad=1
}
exit $bad
