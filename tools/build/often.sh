#!/bin/bash
# often.sh - writes umem/often.ld, which puts the functions of the library that
# common programs call on pages of their own
#
#	tools/build/often.sh
#
# Builds the library with calls that note each function (often.c), runs the
# programs below under it, and takes the functions that they call.  Run it after
# functions that most programs call have been added or renamed.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

B=build/often
PROGRAMS=(
	"true"
	"cat /dev/null"
	"ls -l /usr/bin"
	"sort -r Makefile"
	"find umem"
	"awk '{ n[\$1]++ } END { print length(n) }' Makefile"
	"xz -0 -T2 -c build/libumem_malloc.so.1"
	"perl -e 'my @a = map { [\$_, \"x\$_\"] } 1 .. 20000'"
	"python3 -c 'print(sum(len(str(i)) for i in range(100000)))'"
	"git log --stat -n 100"
	"bash -c 'for i in {1..20000}; do a[i]=\$i; done'"
	"gcc -O1 -I. -D_GNU_SOURCE -c -o $B/some.o umem/base/size_class.c"
	"apt list --installed" # C++
	"build/bench/larson 0.2"
	"build/bench/latency 0.1 2"
	"build/bench/churn 0.1"
	"build/bench/cubes 0.1"
)

mkdir -p $B
cc -O2 -fPIC -c -o $B/hook.o tools/build/often.c
make -s all build/bench/larson build/bench/churn build/bench/cubes build/bench/latency
make -s "B=$B" 'CFLAGS=-O2 -g -finstrument-functions' "LDFLAGS=$B/hook.o" \
    $B/libumem_malloc.so.1
nm $B/libumem_malloc.so.1 | sed -nE 's/^0*([0-9a-f]+) [tT] /\1 /p' | sort >$B/names

: >$B/called
for program in "${PROGRAMS[@]}"; do
	env LC_ALL=C.UTF-8 OFTEN="$PWD/$B/called" LD_PRELOAD="$PWD/$B/libumem_malloc.so.1" \
	    bash -c "exec $program" >$B/output 2>&1 || {
		cat $B/output
		echo "often.sh: failed: $program" >&2
		exit 1
	}
done
sort -u $B/called | join - $B/names | cut -d' ' -f2 | sed 's/\..*//' | sort -u >$B/often

{
	cat <<'END'
/*
 * The functions that common programs call; tools/build/often.sh writes this
 * file.  They precede the other functions, because on a fault in a mapped file
 * the kernel maps the 64 KiB around it, as far as the page cache has them:
 * functions that no program calls would be resident beside those that are
 * called.
 */
SECTIONS
{
	.text.often :
	{
END
	# Without the functions that the compiler inlines everywhere.
	nm -A build/obj/vmem/*.o build/obj/magazine/*.o build/obj/umem/*.o \
	    build/obj/umem/*/*.o |
	    sed -nE 's|^build/obj/(.*)\.o:[0-9a-f]+ [tT] (\w+)(\..*)?$|\2 \1|p' |
	    sort -u | join - $B/often | awk '{ print $2, $1 }' | sort |
	    awk '{ printf "\t\t*%s.o(.text.%s .text.%s.*)\n", $1, $2, $2 }'
	printf '\t}\n}\nINSERT BEFORE .text;\n'
} >$B/often.ld
mv $B/often.ld umem/often.ld
wc -l umem/often.ld
