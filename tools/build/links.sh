#!/bin/bash
# links.sh - the libraries and programs of other linkers and compilers' modes
#
#	tools/build/links.sh FOLDER
#
# Builds the libraries, the command and the unit tests by each way of VARIANTS
# below, and runs SUITES and PROGRAMS on each.  Then links PROGRAM, which has
# libumem_malloc.a, in each way of MODES by each of COMPILERS and LINKERS, and
# runs it in three modes of the library.  FOLDER keeps the builds.  Prints one
# line for each failure, and for each part that cannot be run; the last line is
# "N passed, N failed, N skipped".
set -uo pipefail

# NAME|COMPILER|its words|CFLAGS|LDFLAGS
#
# cfi is not among them: with -fsanitize=cfi, a call through a pointer to a
# function must find it among those of the same link, and the library calls
# functions of the program: constructors, and functions that dlsym() returns.
# The library can be linked with a program that is built so; see MODES.
VARIANTS='
gold|gcc|-fuse-ld=gold||
lld|gcc|-fuse-ld=lld||
mold|gcc|-fuse-ld=mold||
gc-sections|gcc||-O2 -g -fdata-sections|-Wl,--gc-sections
lto|gcc||-O2 -g -flto=auto|
lto-clang|clang|-fuse-ld=lld -Wno-unused-command-line-argument|-O2 -g -flto=thin|
hardened|gcc||-O2 -g -fstack-protector-strong -D_FORTIFY_SOURCE=3 -fcf-protection=full|
v3|gcc||-O2 -g -march=x86-64-v3|
'
SUITES='describe snapshot stack unwind slab malloc cpu rseq option_table'
PROGRAMS='archive archive_cxx libc_names one_heap deepbind static_stacks probes
	exports elf inspect_leaks inspect_static real_python'

COMPILERS='gcc clang'
LINKERS='bfd gold lld mold'
PROGRAM=tests/programs/start/archive.c
# The words for the compiler, one way a line.
MODES='
-Wl,--gc-sections -ffunction-sections -fdata-sections
-static
-static -Wl,--gc-sections
-static-pie -Wl,--gc-sections
-flto -Wl,--gc-sections
-static -fstack-protector-strong -D_FORTIFY_SOURCE=3 -fcf-protection=full
-flto -fvisibility=hidden -fsanitize=cfi
'

self=$(readlink -f "$0")
cd "${self%/*/*/*}" || exit
[ $# -eq 1 ] || { echo "usage: tools/build/links.sh FOLDER" >&2; exit 2; }
mkdir -p "$1/bin" || exit
folder=$(readlink -f "$1")
log=$folder/log
passed=0 failed=0 skipped=0

# add PASSED FAILED SKIPPED
add() {
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
}

skip() {
	echo "links.sh: skipped: $*"
	add 0 0 1
}

# fail WHAT - with the end of the log
fail() {
	echo "FAIL $1"
	tail -n 20 "$log" | cut -c 1-300
	add 0 1 0
}

# compiler NAME WORDS - writes commands, since $CC and $CXX are a word each in
# the tests
compiler() {
	local -A plus=([gcc]=g++ [clang]=clang++)
	local tool

	cc=$folder/bin/$1-$(tr -dc '[:alnum:]' <<<"$2")
	cxx=$cc++
	for tool in "$cc $1" "$cxx ${plus[$1]}"; do
		printf '#!/bin/sh\nexec %s %s "$@"\n' "${tool#* }" "$2" >"${tool% *}"
		chmod +x "${tool% *}"
	done
}

# works COMPILER WORD... - can a program be linked so, and does it run?
works() {
	cat >"$folder/try.c" <<-'END'
	#include <stdio.h>
	int
	main(void)
	{
	#ifdef __AVX2__
		if (!__builtin_cpu_supports("avx2"))
			return puts("the CPU has no AVX2");
	#endif
		return puts("works") < 0;
	}
	END
	"$@" -o "$folder/try" "$folder/try.c" >"$log" 2>&1 &&
	    "$folder/try" >>"$log" 2>&1
}

# variant NAME COMPILER WORDS CFLAGS LDFLAGS
variant() {
	local build=$folder/$1 counts began=$SECONDS
	local -a make targets=() flags

	mkdir -p "$build"
	compiler "$2" "$3"
	read -ra flags <<<"$4 $5"
	if ! works "$cc" "${flags[@]}"; then
		skip "$1: $2 $3 ${flags[*]}"
		return
	fi
	make=(make -s "-j${JOBS:-$(nproc)}" B="$build" CC="$cc" CXX="$cxx"
	    LDFLAGS="$5")
	# Of another linker only.
	if [ -n "$4" ]; then make+=(CFLAGS="$4"); else make+=(O=build/obj); fi
	# shellcheck disable=SC2086 # a list
	mapfile -t targets < <(cd tests && for name in $PROGRAMS; do
		find programs -name "$name.c" -o -name "$name.cc"
	done)
	targets=("${targets[@]%.*}")
	if ! "${make[@]}" all "$build/unit" "${targets[@]/#/$build/}" >"$log" 2>&1 ||
	    grep 'warning:' "$log"; then
		fail "$1: no build, or warnings"
		return
	fi
	# shellcheck disable=SC2086 # lists
	LINKS=yes CC=$cc CXX=$cxx tests/run_tests.sh "$build" unit programs -- \
	    $SUITES $PROGRAMS >"$log" 2>/dev/null
	sed '$d' "$log"
	counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$log")
	# shellcheck disable=SC2086 # three numbers
	add ${counts:-0 1 0}
	echo "links.sh: $1: $(tail -n 1 "$log"), $((SECONDS - began)) s"
}

# link COMPILER LINKER WORD...
link() {
	local mode

	if ! works "$1" "-fuse-ld=$2" "${@:3}"; then
		skip "$*: $(grep -m 1 . "$log" | cut -c 1-100)"
		return
	fi
	"$1" "-fuse-ld=$2" "${@:3}" -O2 -g -fno-builtin -w -I. -D_GNU_SOURCE \
	    -o "$folder/program" $PROGRAM build/libumem_malloc.a -pthread -ldl \
	    >"$log" 2>&1 || {
		fail "$*: not linked"
		return
	}
	for mode in rseq own locked; do
		UMEM_OPTIONS=mode=$mode timeout 60 "$folder/program" \
		    >"$log" 2>&1 || {
			fail "$*: status $? in mode $mode"
			return
		}
	done
	add 1 0 0
}

make -s "-j${JOBS:-$(nproc)}" all || exit
while IFS='|' read -r name words; do
	IFS='|' read -r cc words cflags ldflags <<<"$words"
	[ -z "$name" ] || variant "$name" "$cc" "$words" "$cflags" "$ldflags"
done <<<"$VARIANTS"
for cc in $COMPILERS; do
	for linker in $LINKERS; do
		while read -ra words; do
			[ ${#words[@]} -eq 0 ] ||
			    link "$cc" "$linker" "${words[@]}"
		done <<<"$MODES"
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
