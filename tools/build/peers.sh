#!/bin/bash
# peers.sh - builds the newest of other allocators, to measure against
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
#
# An existing library is not built again.  The script names each library that
# cannot be built, with the end of its log, and goes on; the status is 1 if none
# could be built.
set -u

NAMES='snmalloc mimalloc2 mimalloc3 jemalloc5 tcgoogle rpmalloc'
CRATES='snmalloc-sys libmimalloc-sys tikv-jemalloc-sys tcmalloc-better
	rpmalloc-sys'
JOBS=$(nproc)
CC=${CC:-gcc}
CXX=${CXX:-g++}

say() {
	echo "peers.sh: $*" >&2
}

# The newest of each crate; a lock file of an earlier call would keep old ones.
fetch() {
	local crate

	[ -d src/vendor ] && return
	mkdir -p src/crates/src || return
	: >src/crates/src/lib.rs
	{
		printf '[package]\nname = "peers"\nversion = "0.0.0"\n'
		printf 'edition = "2021"\n[dependencies]\n'
		for crate in $CRATES; do
			printf '%s = "*"\n' "$crate"
		done
	} >src/crates/Cargo.toml
	rm -f src/crates/Cargo.lock
	cargo vendor -q --versioned-dirs \
	    --manifest-path src/crates/Cargo.toml src/vendor.new \
	    >src/log 2>&1 && mv src/vendor.new src/vendor
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

# The crate lacks the folder with the files for an installation.  An empty
# function and the number for the soname replace it, so that the project's own
# CMakeLists.txt works.
mimalloc() {
	cp -r "$(crate libmimalloc-sys)/c_src/mimalloc/$1" "$work/mimalloc" &&
		mkdir -p "$work/mimalloc/cmake" &&
		printf 'function(join_paths)\nendfunction()\n' \
		    >"$work/mimalloc/cmake/JoinPaths.cmake" &&
		printf 'set(mi_version%s)\n' ' 0' "_major ${1#v}" '_minor 0' \
		    >"$work/mimalloc/cmake/mimalloc-config-version.cmake" &&
		with_cmake "$work/mimalloc" mimalloc libmimalloc.so \
		    -DMI_BUILD_TESTS=OFF -DMI_BUILD_STATIC=OFF \
		    -DMI_BUILD_OBJECT=OFF
}

build_mimalloc2() {
	mimalloc v2
}

build_mimalloc3() {
	mimalloc v3
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
		at=$(crate libmimalloc-sys)/c_src/mimalloc/v${name#mimalloc}
		sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]*\).*/\1/p' \
		    "$at/include/mimalloc.h"
		basename "$(crate libmimalloc-sys)"
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

	[ -f "$name.so" ] && return
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
