#!/bin/bash
# zig.sh - the tests on the musl of Alpine, x86-64 and aarch64
#
#	tools/build/zig.sh FOLDER
#
# The compiler is zig cc of PyPI's ziglang, which brings musl's headers and
# archives; the dynamic loader is the one of Debian's musl in RELEASE.  On
# x86-64 all unit suites run, and the programs in FOLDERS: preloaded and, for
# libumem_malloc.a, static.  On aarch64 the suites that concern the C library
# and one program run by QEMU's emulation of a process.  FOLDER keeps the
# builds.  The last line is "N passed, N failed"; exit 77 means that a tool is
# missing.
set -uo pipefail

RELEASE=forky
FOLDERS=${FOLDERS:-malloc objects rcu threads start}
ARM_SUITES='alloc ctl debug exit_check fork rseq sample_stack stack stats update'
ARM_PROGRAM=threads/tls_destructors

self=$(readlink -f "$0")
tree=${self%/*/*/*}
# shellcheck source=tools/build/roots.sh
. "$tree/tools/build/roots.sh"

skip() {
	echo "zig.sh: skipped: $*"
	exit 77
}

[ $# -eq 1 ] || { echo "usage: tools/build/zig.sh FOLDER" >&2; exit 2; }
python3 -c 'import ziglang' 2>/dev/null ||
    skip "there is no zig; 'pip install ziglang' installs it"
mkdir -p "$1" || exit
top=$(readlink -f "$1")
cd "$tree" || exit
passed=0 failed=0

# variant ARCH DEBIAN - Check, liburcu and a loader for it, and the make command
variant() {
	folder=$top/$1/outside
	mkdir -p "$folder"
	root root $RELEASE "$2" musl >"$folder/log" 2>&1 ||
	    skip "$(tail -n 1 "$folder/log")"
	CC="python3 -m ziglang cc -target $1-linux-musl -dynamic"
	CC+=" -Wl,--dynamic-linker=$folder/root/usr/lib/ld-musl-$1.so.1"
	CC=$CC tools/build/musl_libraries.sh "$folder" || exit
	# zig cc refuses the other options of SHIM_FLAGS, which save time only.
	make=(make CC="$CC" B="$top/$1" "SHIM_FLAGS=-Wl,--undefined-version")
}

# check NAME COMMAND... - counts a command that must succeed
check() {
	if "${@:2}" >"$top/said" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1"
		tail -n 40 "$top/said" | sed 's/^/    /'
		return 1
	fi
}

variant x86_64 amd64
"${make[@]}" FOLDERS="$FOLDERS" TESTS='unit programs' test 2>&1 |
    tee "$top/said"
read -r passed failed < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*/\1 \2/p' \
    "$top/said" | tail -n 1) || failed=1

if command -v aarch64-linux-gnu-ld qemu-aarch64-static >/dev/null; then
	variant aarch64 arm64
	b=$top/aarch64
	emulate=(qemu-aarch64-static -L "$folder/root")
	check "build for aarch64" "${make[@]}" CROSS=aarch64-linux-gnu- all \
	    "$b/unit" "$b/programs/$ARM_PROGRAM"
	for suite in $ARM_SUITES; do
		check "unit $suite" "${emulate[@]}" "$b/unit" "$suite"
	done
	check preloaded "${emulate[@]}" -E LD_PRELOAD="$b/libumem_malloc.so.1" \
	    "$b/programs/$ARM_PROGRAM"
	# shellcheck disable=SC2086 # a command and its options
	check "linked statically" $CC -static -I. -D_GNU_SOURCE \
	    -idirafter /usr/include -o "$b/static" \
	    "tests/programs/$ARM_PROGRAM.c" "$b/libumem_malloc.a" &&
	    check "static program" "${emulate[@]}" "$b/static"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
