#!/bin/bash
# The libraries need from the program that loads them at most 64 bytes of static
# TLS (a debug build also keeps the locks of a thread there) and no other TLS,
# and no library but libc.  They are marked never to be unloaded.  The files
# that umem/sections.ld names exist, and each library keeps a section .text,
# without which gdb reports an internal error.
set -eu
export LC_ALL=C
bad() {
	echo "$*"
	exit 1
}
for library in libumem.so.1 libumem_malloc.so.1; do
	file=$B/$library
	tls=$(readelf -lW "$file" | awk '$1 == "TLS" { print $6 }')
	[ -n "$tls" ] || tls=0
	[ $((tls)) -le $((${DEBUG:-0} ? 256 : 64)) ] || bad "$library: $((tls)) bytes of TLS"
	! readelf -sW "$file" | grep -q __tls_get_addr ||
	    bad "$library: dynamic TLS"
	! readelf -rW "$file" | grep -Eq 'TLSDESC|DTPMOD|DTPOFF' ||
	    bad "$library: relocations of dynamic TLS"
	needed=$(readelf -dW "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
	for name in $needed; do
		case $name in
		libc.so.6 | ld-linux*) ;;
		# Parts of libc from 2.34 on.
		libpthread.so.0 | libdl.so.2) [ "${GLIBC_MINOR:-34}" -lt 34 ] ||
		    bad "$library: needs $name" ;;
		*) bad "$library: needs $name" ;;
		esac
	done
	readelf -dW "$file" | grep -q NODELETE || bad "$library: no NODELETE"
	readelf -dW "$file" | grep -q BIND_NOW || bad "$library: lazy binding"
	! readelf -dW "$file" | grep -q TEXTREL || bad "$library: TEXTREL"
	! readelf -lW "$file" | grep GNU_STACK | grep -q E ||
	    bad "$library: executable stack"
done

for library in libumem.so.1 libumem_malloc.so.1 libumem_rcu.so.1; do
	[ ! -e "$B/$library" ] || readelf -SW "$B/$library" | grep -q ' \.text ' ||
	    bad "$library: no section .text"
done
# The compiler may inline a function, or a macro define it.  If many names are
# unknown, the list is old.
n=0 unknown=
while read -r file function; do
	[ -e "$TOP/$file.c" ] || bad "often.ld names $file.c, which does not exist"
	n=$((n + 1))
	grep -Eq "\<$function\(" "$TOP/$file.c" || unknown+=" $function"
done < <(sed -nE 's/^\t\t\*(.*)\.o\(\.text\.(\w+) .*/\1 \2/p' "$TOP/umem/often.ld")
[ "$n" -ge 200 ] || bad "often.ld: only $n functions found"
[ "$(wc -w <<<"$unknown")" -le $((n / 10)) ] ||
    bad "often.ld is old, see tools/build/often.sh: it names$unknown"

# A C program on our malloc gets no C++ library.
echo 'int main(void) { return 0; }' >plain.c
"$CC" -o plain plain.c
! LD_PRELOAD=$SHIM LD_TRACE_LOADED_OBJECTS=1 ./plain |
    grep -E 'libstdc\+\+|libgcc' || bad "a C program gets a C++ library"
