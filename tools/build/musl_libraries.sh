#!/bin/bash
# musl_libraries.sh - Check and liburcu for musl, from Debian's sources
#
#	CC=musl-gcc tools/build/musl_libraries.sh FOLDER
#
# Installs them in FOLDER/include and FOLDER/lib, where the Makefile looks if
# FOLDER is $B/outside.  Exit 77 means that the sources cannot be had.
set -uo pipefail

RELEASE=bookworm

self=$(readlink -f "$0")
tree=${self%/*/*/*}
# shellcheck source=tools/build/roots.sh
. "$tree/tools/build/roots.sh"

[ $# -eq 1 ] || { echo "usage: tools/build/musl_libraries.sh FOLDER" >&2; exit 2; }
mkdir -p "$1" || exit
folder=$(readlink -f "$1")

if ! sources $RELEASE check liburcu >"$folder/log" 2>&1; then
	echo "musl_libraries.sh: skipped: $(tail -n 1 "$folder/log")"
	exit 77
fi

# library NAME FILE OPTION... - configures and installs the parts that are used
library() {
	[ ! -e "$folder/lib/$2" ] || return 0
	echo "musl_libraries.sh: building $1"
	(cd "$folder/$1" && CC="${CC:-musl-gcc}" \
	    CFLAGS="-O2 -g -idirafter /usr/include" \
	    ./configure --prefix="$folder" --host="$(uname -m)-linux-musl" \
	    --disable-shared "${@:3}" && for part in lib include src; do
		[ ! -e $part ] || make -C $part install || exit
	done) >"$folder/log" 2>&1 && return
	tail -n 20 "$folder/log"
	exit 1
}

library check libcheck.a --disable-subunit
cp "$folder/check/check_stdint.h" "$folder/include" || exit
library liburcu liburcu-memb.a
