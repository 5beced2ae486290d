#!/bin/bash
# libumem_malloc.so.1 exports each name that libumem.so.1 exports, each name of
# the two version scripts exists, and neither library exports anything else.
# The names that the libraries need from others are those that umem/README.md
# lists, each with its reason.
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
	readelf --dyn-syms -W "$B/$library.so.1" |
	    awk '$7 == "UND" && $8 != "" { sub(/@.*/, "", $8); print $8 }' >>needed
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

# A debug build needs a few names more, a sanitizer many.
[ -z "${DEBUG:-}${SAN:-}" ] || exit $bad
sort -u needed >needed.now
sed -n '/^| needed names/,/^$/s/^| \(\x60[^|]*\) |.*/\1/p' "$TOP/umem/README.md" |
    tr -cs '[:alnum:]_' '\n' | sed '/^$/d' | sort -u >needed.listed
[ "$(wc -l <needed.listed)" -ge 20 ] || { echo "umem/README.md: too few names"; exit 1; }
diff needed.listed needed.now || {
	echo "needed names: < only in umem/README.md, > only in the libraries"
	bad=1
}
exit $bad
