#!/bin/bash
# The Rust crates of tools/rust pass their tests, examples of the documents
# included, from a static library that their own build makes.  A package of
# umem-sys has the sources.  The command reads a program on the allocator.
# test timeout: 120
set -u
for tool in cargo rustc; do
	command -v $tool >/dev/null || {
		echo "there is no $tool"
		exit 77
	}
done
minor=$(rustc --version | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p')
[ "${minor:-0}" -ge 63 ] || {
	echo "needs Rust 1.63"
	exit 77
}
export CARGO_TARGET_DIR=$TMP/target CARGO_BUILD_JOBS=2
# For a short build.
export CARGO_PROFILE_DEV_DEBUG=0 UMEM_SYS_CFLAGS=-O1
# The build stands in for this header of valgrind alone.
if grep -rn '#include <valgrind/' "$TOP"/{magazine,umem,vmem} |
    grep -v '<valgrind/memcheck.h>'; then
	echo "umem-sys does not build without valgrind"
	exit 1
fi
# run ARG... - a command of cargo, without the network
run() {
	(cd "$TOP/tools/rust" && cargo "$1" --locked --offline "${@:2}") \
	    >out 2>&1 || {
		cat out
		echo "cargo $* fails"
		exit 1
	}
}

features=()
[ ! -e /usr/include/urcu/urcu-memb.h ] || features=(--all-features)
run test "${features[@]}"
ntests=$(grep -c '^test .* ok$' out)
[ "$ntests" -ge 44 ] || {
	cat out
	echo "only $ntests tests"
	exit 1
}
# Other global names than the library's could be a program's own.
nm -g --defined-only "$B"/libumem.a "$B"/libumem_rcu.a | awk 'NF == 3 { print $3 }' |
    sort -u >names
nm -g --defined-only "$TMP"/target/debug/build/umem-sys-*/out/libumem.a |
    awk 'NF == 3 { print $3 }' | sort -u >crate_names
if [ ! -s crate_names ] || comm -13 names crate_names | grep .; then
	echo "names of the crate's library alone, or no library"
	exit 1
fi
! cargo clippy --version >/dev/null 2>&1 ||
    run clippy "${features[@]}" --all-targets -- -D warnings

# The allocator in other modes, by the tests that do not count constructors.
nruns=0
for options in UMEM_DEBUG=default UMEM_OPTIONS=hardened UMEM_OPTIONS=mode=locked; do
	for program in "$TMP"/target/debug/deps/global-*[0-9a-f]; do
		[ -x "$program" ] || continue
		nruns=$((nruns + 1))
		env "$options" "$program" >out 2>&1 || {
			cat out
			echo "$options: $program fails"
			exit 1
		}
	done
done

[ $nruns -ge 3 ] || { echo "$nruns runs of the allocator"; exit 1; }

# The unsafe code of caches and arenas, under memcheck's eyes.
if command -v valgrind >/dev/null; then
	for program in "$TMP"/target/debug/deps/cache-*[0-9a-f]; do
		[ ! -x "$program" ] || valgrind -q --error-exitcode=9 \
		    "$program" >out 2>&1 || {
			cat out
			echo "memcheck finds errors"
			exit 1
		}
	done
fi

run package --list --allow-dirty -p umem-sys
for source in vmem/arena.c magazine/magazine.c umem/slab/slab.c umem/umem.h; do
	grep -qx "c/$source" out || {
		echo "the package lacks $source"
		exit 1
	}
done

# A crate that needs another one of crates.io, if cargo has that.
api2=(--manifest-path umem-allocator-api2/Cargo.toml)
if (cd "$TOP/tools/rust" && cargo fetch --locked --offline "${api2[@]}") \
    >out 2>&1; then
	run test "${api2[@]}"
	! cargo clippy --version >/dev/null 2>&1 ||
	    run clippy "${api2[@]}" --all-targets -- -D warnings
else
	echo "the tests of umem-allocator-api2 are left out"
fi

run build --example look
mkfifo input
"$TMP/target/debug/examples/look" <input >ready &
exec 3>input
until grep -q ready ready; do
	kill -0 $! || exit 1
	sleep 0.05
done
"$B/umem" stat $! >out 2>&1
exec 3>&-
wait $!
grep -q connection out || {
	cat out
	echo "umem does not see the cache of a Rust program"
	exit 1
}
