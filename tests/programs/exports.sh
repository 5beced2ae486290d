#!/bin/bash
# libumem_malloc.so.1 exports each name that libumem.so.1 exports, each name of
# the two version scripts exists, and neither library exports anything else.
set -eu
export LC_ALL=C
bad=0
# names MAP - the names that a version script makes global
names() {
	sed -e 's|/\*.*\*/||; /\/\*/,/\*\//d' -e '/^local:/,$d' "$1" |
	    sed -n 's/^[[:space:]]*\([A-Za-z_][A-Za-z0-9_]*\);$/\1/p' | sort
}
for library in libumem libumem_malloc; do
	names "$TOP/umem/$library.map" >$library.map
	[ "$(wc -l <$library.map)" -ge 50 ] || { echo "$library.map: too few names"; exit 1; }
	readelf --dyn-syms -W "$B/$library.so.1" |
	    awk '$7 != "UND" && $5 ~ /GLOBAL|WEAK/ && $1 ~ /:$/ { sub(/@.*/, "", $8); print $8 }' |
	    sort >$library.exports
	diff $library.map $library.exports || {
		echo "$library: < only in the version script, > only exported"
		bad=1
	}
done
missing=$(comm -23 libumem.exports libumem_malloc.exports)
[ -z "$missing" ] || { echo "only libumem.so.1 exports: $missing"; bad=1; }
exit $bad
