#!/bin/bash
# peers.sh - builds new versions of other allocators, to measure against
#
#	tools/build/peers.sh FOLDER [NAME...]
#
# Leaves FOLDER/NAME.so, to be preloaded, for each of
#
#	snmalloc	mimalloc2	mimalloc3	jemalloc5
#	tcgoogle	rpmalloc
#
# and its version in FOLDER/NAME.version.  The sources are those that crates
# of crates.io carry along for their own builds; "cargo vendor" brings them
# into FOLDER/src, and each is then built from C or C++ as its own project
# builds a library to preload: its CMakeLists.txt or configure where the crate
# has them, else the compiler with the options that these would give.  No Rust
# is compiled, and nothing is patched.  All are built with their defaults.
# CRATES names the version and the checksum of each crate; nothing else is
# built.  A newer version is used by changing both there.
#
# By November 2026 the crates of mimalloc, jemalloc and snmalloc have the newest
# releases.  No crate has rpmalloc 2; this one has 1.4.3 with later commits of
# April 2022.  Google's tcmalloc has no releases; this crate has it as of June
# 2025.  PEERS="NAME=PATH" of "make bench" adds libraries from elsewhere.
#
# An existing library of the same version is not built again.  The script names
# each library that cannot be built, with the end of its log, and goes on; the
# status is 1 if none could be built.
set -u

NAMES='snmalloc mimalloc2 mimalloc3 jemalloc5 tcgoogle rpmalloc'
# Name, version, SHA-256 of the file that crates.io has.
CRATES='
snmalloc-sys 0.7.6
	f09c93c55f9a2b8dab75738a83c771231c5f408af65b8657433fe5bc93cc76cb
libmimalloc-sys2 0.1.65
	6c68ecbf07017a81a170a98fd1486d340dd304bc1099d2ca9aceff310fc42e9d
tikv-jemalloc-sys 0.7.1+5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8
	1a2825c78386b4ae0314074867860ba9577875de945f05992c38815cbec327f0
libtcmalloc-sys 0.1.14
	33e204268a3b09862788a2894346c768b95b2cb29cba42c5e2bb9ea7f48fa317
rpmalloc-sys 0.2.3+b097fd0
	8d4b7d5e225a53887ee57fcec492eaf114b8e290f7072d035adc6ddd6810b67b
'
JOBS=$(nproc)
CC=${CC:-gcc}
CXX=${CXX:-g++}

say() {
	echo "peers.sh: $*" >&2
}

# each_crate COMMAND - calls it with the name, version and checksum of each
each_crate() {
	local name version sum

	# shellcheck disable=SC2086 # words
	set -- "$1" $CRATES
	while [ $# -gt 1 ]; do
		name=$2 version=$3 sum=$4
		"$1" "$name" "$version" "$sum" || return
		set -- "$1" "${@:5}"
	done
}

# The number after "+" names the contents; cargo does not compare it.
require() {
	printf '%s = "=%s"\n' "$1" "${2%%+*}"
}

# cargo compares the files of the crate with its checksum, and leaves both here.
verify() {
	local is="src/vendor/$1-$2/.cargo-checksum.json"

	grep -q "\"package\":\"$3\"" "$is" 2>/dev/null || {
		echo "$1 $2 is absent or not the one with SHA-256 $3" >>src/log
		return 1
	}
}

fetch() {
	each_crate verify 2>/dev/null && return
	rm -rf src/vendor src/vendor.new
	mkdir -p src/crates/src || return
	: >src/crates/src/lib.rs
	{
		printf '[package]\nname = "peers"\nversion = "0.0.0"\n'
		printf 'edition = "2021"\n[dependencies]\n'
		each_crate require
	} >src/crates/Cargo.toml
	rm -f src/crates/Cargo.lock
	cargo vendor -q --versioned-dirs \
	    --manifest-path src/crates/Cargo.toml src/vendor.new \
	    >src/log 2>&1 && mv src/vendor.new src/vendor &&
		each_crate verify
}

# crate NAME - the folder of a crate
crate() {
	find "$PWD/src/vendor" -maxdepth 1 -name "$1-[0-9]*" | head -1
}

# with_cmake SOURCE TARGET LIBRARY OPTION... - builds LIBRARY
with_cmake() {
	cmake -S "$1" -B "$work" -DCMAKE_BUILD_TYPE=Release \
	    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" "${@:4}" &&
		cmake --build "$work" --target "$2" -j "$JOBS" &&
		cp -L "$work/$3" "$name.so"
}

build_snmalloc() {
	with_cmake "$(crate snmalloc-sys)/upstream" snmallocshim \
	    libsnmallocshim.so -DSNMALLOC_BUILD_TESTING=OFF
}

mimalloc() {
	with_cmake "$(crate libmimalloc-sys2)/c_src/$1" mimalloc libmimalloc.so \
	    -DMI_BUILD_TESTS=OFF -DMI_BUILD_STATIC=OFF -DMI_BUILD_OBJECT=OFF
}

build_mimalloc2() {
	mimalloc mimalloc
}

build_mimalloc3() {
	mimalloc mimalloc3
}

# The crate keeps configure, which is generated, outside of the project.
build_jemalloc5() {
	local at

	at=$(crate tikv-jemalloc-sys)
	cp -r "$at/jemalloc/." "$work" &&
		cp "$at/configure/configure" "$at/jemalloc/VERSION" "$work" \
		    2>/dev/null
	(
		cd "$work" && chmod +x configure build-aux/* &&
			CC=$CC CXX=$CXX ./configure --with-version="$(
				basename "$at" | sed 's/.*+//')" &&
			make -j "$JOBS" build_lib_shared
	) && cp -L "$work/lib/libjemalloc.so" "$name.so"
}

# Google's has Bazel files only.  The crate's list of files leaves out the one
# that defines malloc, for which it has a file of its own.
build_tcgoogle() {
	local at

	at=$(crate libtcmalloc-sys)
	sed -n 's/^ *"\(c_src\/.*\)",$/\1/p' "$at/build.rs" |
		grep '\.\(cc\|S\)$' | grep -v '_bridge' >"$work/files"
	echo c_src/tcmalloc/tcmalloc/tcmalloc.cc >>"$work/files"
	# shellcheck disable=SC2016 # for the shells that xargs starts
	WORK=$work CXX=$CXX AT=$at xargs -a "$work/files" -P "$JOBS" -I{} \
	    sh -c '"$CXX" -std=c++17 -O2 -DNDEBUG -DNOMINMAX -fPIC -w \
		-fno-omit-frame-pointer -fno-canonical-system-headers \
		-I"$AT/c_src/abseil-cpp" -I"$AT/c_src/tcmalloc" -c "$AT/{}" \
		-o "$WORK/$(echo "{}" | tr / _).o"' &&
		"$CXX" -shared -o "$name.so" "$work"/*.o -pthread -lrt
}

# Its configure.py sets ENABLE_PRELOAD and ENABLE_OVERRIDE.
build_rpmalloc() {
	local at

	at=$(crate rpmalloc-sys)/rpmalloc/rpmalloc
	"$CC" -std=gnu11 -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 \
	    -DENABLE_OVERRIDE=1 -fPIC -ftls-model=initial-exec -w \
	    -fno-builtin-malloc -shared -o "$name.so" "$at/rpmalloc.c" -pthread
}

# The version in the library's own headers.
version() {
	local at

	case $name in
	snmalloc) basename "$(crate snmalloc-sys)" ;;
	mimalloc?)
		at=$(crate libmimalloc-sys2)/c_src/mimalloc
		[ "$name" = mimalloc3 ] && at=${at}3
		# Such as 20502 for 2.5.2.
		awk '/define MI_MALLOC_VERSION/ {
			printf "%d.%d.%d\n", $3 / 10000, $3 / 100 % 100,
			    $3 % 100
		}' "$at/include/mimalloc.h"
		basename "$(crate libmimalloc-sys2)"
		;;
	jemalloc5) basename "$(crate tikv-jemalloc-sys)" ;;
	tcgoogle) basename "$(crate libtcmalloc-sys)" ;;
	rpmalloc) basename "$(crate rpmalloc-sys)" ;;
	esac
}

# A program must be able to live on it.
check() {
	[ -f "$name.so" ] && LD_PRELOAD=$PWD/$name.so timeout 60 \
	    python3 -c 'print(sum(len(str(i)) for i in range(100000)))'
}

build() {
	local name=$1 work=$PWD/work/$1

	[ -f "$name.so" ] && version | cmp -s - "$name.version" && return
	rm -f "$name.so"
	say "building $name"
	rm -rf "$work"
	mkdir -p "$work" || return
	if "build_$name" >"$name.log" 2>&1 && check >>"$name.log" 2>&1; then
		version >"$name.version"
		rm -rf "$work"
		return
	fi
	rm -f "$name.so"
	say "$name left out; the end of $PWD/$name.log is:"
	tail -5 "$name.log" >&2
	return 1
}

[ $# -ge 1 ] || {
	echo "usage: tools/build/peers.sh FOLDER [NAME...]" >&2
	exit 2
}
mkdir -p "$1" && cd "$1" || exit
shift
command -v cargo >/dev/null || {
	say "there is no cargo: none of $NAMES"
	exit 1
}
fetch || {
	say "cannot fetch the sources:"
	tail -5 src/log >&2
	exit 1
}
built=
# shellcheck disable=SC2048,SC2086 # names
for name in ${*:-$NAMES}; do
	case " $NAMES " in
	*" $name "*) build "$name" && built="$built $name" ;;
	*) say "$name is none of: $NAMES" ;;
	esac
done
say "in $PWD:${built:- none}"
[ -n "$built" ]
