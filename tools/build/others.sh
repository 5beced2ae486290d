#!/bin/bash
# others.sh - the unit tests and programs on other 64-bit architectures
#
#	tools/build/others.sh FOLDER [ARCHITECTURE...]
#
# Builds for riscv64, ppc64el and s390x (big endian), or those that are named,
# by the cross compilers of Debian trixie, and runs the unit tests and the
# programs in C of FOLDERS by QEMU's user mode, in the locked mode, in which the
# library works there.  For loong64 the files are compiled: the
# linker of Debian trixie ends by a signal.  The compilers, QEMU and the
# libraries of the architectures are unpacked packages (roots.sh).
#
# The kernel starts QEMU for a file of another architecture, also for the
# programs that a test starts: binfmt_misc belongs to a user namespace from
# Linux 6.7 on, so this machine's own is left alone.
#
# FOLDER keeps the unpacked packages and the builds.  The last line is "N
# passed, N failed, N skipped"; exit 77 means that the packages cannot be had,
# or that this machine allows no such namespace.
set -uo pipefail

RELEASE=trixie
TOOLS='make gcc-riscv64-linux-gnu gcc-powerpc64le-linux-gnu gcc-s390x-linux-gnu
	gcc-loongarch64-linux-gnu libc6-dev-loong64-cross qemu-user-static binutils pkgconf dash
	coreutils diffutils findutils sed grep mawk valgrind'
# The mirrors keep no older packages of the ports.
LIBRARY_RELEASE=forky
FOLDERS='limits malloc objects start stats'
LIBRARIES='libc6-dev check libsubunit-dev liburcu-dev libgcc-s1 valgrind'

# of WHAT ARCHITECTURE - the compiler's name for it, that of QEMU, or the bytes
# of the header of its files from the class to the machine
declare -A OF=(
	[triplet-riscv64]=riscv64-linux-gnu [qemu-riscv64]=riscv64
	[magic-riscv64]='\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xf3\x00'
	[triplet-ppc64el]=powerpc64le-linux-gnu [qemu-ppc64el]=ppc64le
	[magic-ppc64el]='\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x15\x00'
	[triplet-s390x]=s390x-linux-gnu [qemu-s390x]=s390x
	[magic-s390x]='\x02\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16'
	[triplet-loong64]=loongarch64-linux-gnu
)
# The type of the file is 2 or 3, a program or a shared object.
LITTLE='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
BIG='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff'

self=$(readlink -f "$0")
tree=${self%/*/*/*}

# A process in a namespace of its own, see start():
# others.sh --inside FOLDER ARCHITECTURE COMMAND...
if [ "${1-}" = --inside ]; then
	folder=$2 arch=$3
	shift 3
	mask=$LITTLE
	[ "$arch" != s390x ] || mask=$BIG
	mount -t binfmt_misc binfmt "$folder/binfmt" || exit
	# F: QEMU is opened now, and found in each root.
	printf '%s\n' ":umem:M::\\x7fELF${OF[magic-$arch]}:$mask:$folder/tools/usr/bin/qemu-${OF[qemu-$arch]}-static:F" \
	    >"$folder/binfmt/register" || exit
	export QEMU_LD_PREFIX=$folder/$arch EMULATED=qemu CXX=none
	exec "$@"
fi

# shellcheck source=tools/build/roots.sh
. "$tree/tools/build/roots.sh"

[ $# -ge 1 ] || { echo "usage: tools/build/others.sh FOLDER [ARCHITECTURE...]" >&2; exit 2; }
mkdir -p "$1/binfmt" || exit
folder=$(readlink -f "$1")
shift
[ $# -gt 0 ] || set -- riscv64 ppc64el s390x loong64
passed=0 failed=0 skipped=0

skip() {
	echo "others.sh: skipped: $1"
	exit 77
}

# start ARCHITECTURE COMMAND...
start() {
	unshare --map-root-user --mount "$self" --inside "$folder" "$@"
}

# build ARCHITECTURE TARGET... - in the root of the compilers, where the tree is
# in /umem and the root of the libraries in /ARCHITECTURE
build() {
	local arch=$1 triplet=${OF[triplet-$1]} root=$folder/tools cc
	local -a words=()

	cc="$triplet-gcc --sysroot=/$arch"
	if [ "$arch" = loong64 ]; then
		# valgrind does not know it: its macros use no argument.
		cc=$triplet-gcc
		words=(CPPFLAGS=-idirafter/usr/include
		    CFLAGS='-O2 -Wno-unused-parameter -Wno-unused-but-set-variable')
	fi
	mkdir -p "$root"/{umem,out,tmp,dev,"$arch"} "$folder/out" \
	    "$folder/$arch"
	: >"$root/dev/null"
	# shellcheck disable=SC2016 # for sh
	unshare --map-root-user --mount sh -c '
		mount --bind "$1" "$2/umem" && mount --bind "$3/out" "$2/out" &&
		    mount --bind "$3/$4" "$2/$4" &&
		    mount --bind /dev/null "$2/dev/null" || exit
		root=$2
		shift 4
		exec chroot "$root" env -i PATH=/usr/bin:/bin "$@"' sh \
	    "$tree" "$root" "$folder" "$arch" \
	    PKG_CONFIG_LIBDIR="/$arch/usr/lib/$triplet/pkgconfig" \
	    PKG_CONFIG_SYSROOT_DIR="/$arch" \
	    make -s -C /umem "-j${JOBS:-$(nproc)}" CROSS="$triplet-" \
	    CC="$cc" B="/out/$arch" "${words[@]}" "${@:2}"
}

# programs ARCHITECTURE - those in C, as targets
programs() {
	(cd "$tree/tests" && for name in $FOLDERS; do
		ls programs/"$name"/*.c
	done) | sed "s|.*|/out/$1/&|; s|\\.c\$||"
}

# row ARCHITECTURE
row() {
	local arch=$1 began=$SECONDS counts
	local -a targets=("/out/$1/libumem_malloc.a") folders

	if [ "$arch" != loong64 ]; then
		mapfile -t targets < <(printf '%s\n' all "/out/$arch/unit"
		    programs "$arch")
	fi
	if ! build "$arch" "${targets[@]}" >"$folder/log" 2>&1 ||
	    grep warning: "$folder/log"; then
		tail -n 20 "$folder/log"
		echo "FAIL $arch: no build, or warnings"
		counts='0 1 0'
	elif [ "$arch" = loong64 ]; then
		counts='1 0 0'
	else
		read -ra folders <<<"$FOLDERS"
		TESTS='unit programs' TEST_TIME_FACTOR=${TEST_TIME_FACTOR:-10} \
		    start "$arch" "$tree/tests/run_tests.sh" \
		    "$folder/out/$arch" unit "${folders[@]/#/programs/}" |
		    tee "$folder/log"
		counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$folder/log")
	fi
	# shellcheck disable=SC2086 # three numbers
	set -- ${counts:-0 1 0}
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
	echo "others.sh: $arch: $1 passed, $2 failed, ${3:-0} skipped, $((SECONDS - began)) s"
}

{
	# shellcheck disable=SC2086 # lists
	root tools $RELEASE "$(dpkg --print-architecture)" $TOOLS && for arch in "$@"; do
		# shellcheck disable=SC2086
		[ "$arch" = loong64 ] ||
		    root "$arch" $LIBRARY_RELEASE "$arch" $LIBRARIES || exit
	done
} >"$folder/log" 2>&1 || skip "$(tail -n 1 "$folder/log")"
start riscv64 true 2>"$folder/log" || skip "$(tail -n 1 "$folder/log")"
for arch in "$@"; do
	row "$arch"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
