#!/bin/bash
# warnings.sh - compiles the tree by newer compilers, and takes no warning
#
#	tools/build/warnings.sh FOLDER
#
# gcc 14 and clang 19, of Debian trixie, compile the libraries, the command and
# the unit tests with -Werror and the warnings of _FORTIFY_SOURCE.  FOLDER keeps
# the unpacked packages and the build folders.  The last line is "N passed, N
# failed"; exit 77 means that the packages cannot be had, or that this machine
# allows no chroot.
set -uo pipefail

RELEASE=trixie
PACKAGES='make gcc-14 clang-19 libc6-dev binutils check libsubunit-dev libdw-dev
	libelf-dev libiberty-dev liburcu-dev valgrind zlib1g-dev
	systemtap-sdt-dev pkgconf dash coreutils diffutils findutils sed grep mawk'

self=$(readlink -f "$0")
tree=${self%/*/*/*}
# shellcheck source=tools/build/roots.sh
. "$tree/tools/build/roots.sh"

[ $# -eq 1 ] || { echo "usage: tools/build/warnings.sh FOLDER" >&2; exit 2; }
mkdir -p "$1" || exit
folder=$(readlink -f "$1")
inside=(unshare --map-root-user chroot "$folder/root" env -i
    PATH=/usr/bin:/bin sh -c)

# shellcheck disable=SC2086 # a list
if ! root root $RELEASE "$(dpkg --print-architecture)" $PACKAGES \
    >"$folder/log" 2>&1 || ! "${inside[@]}" true >>"$folder/log" 2>&1; then
	echo "warnings.sh: skipped: $(tail -n 1 "$folder/log")"
	exit 77
fi
mkdir -p "$folder/root"/{umem,tmp,dev}
: >"$folder/root/dev/null"
# Files that the tree has no more would be built, too.
rm -rf "$folder/root/umem"/{magazine,umem,vmem,tests,tools}
(cd "$tree" && tar -c Makefile magazine umem vmem tests/unit tests/*.h \
    tests/programs tools) | tar -x -C "$folder/root/umem" || exit
passed=0 failed=0
for compiler in gcc-14 clang-19; do
	if "${inside[@]}" "cd /umem && make -s -j${JOBS:-$(nproc)} \
	    B=build-$compiler CC=$compiler \
	    CFLAGS='-O2 -g -D_FORTIFY_SOURCE=3 -Werror' all build-$compiler/unit"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $compiler: warnings, or no build"
	fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
