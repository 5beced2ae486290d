#!/bin/bash
# portable.sh - one archive for every distribution of an architecture
#
#	tools/packaging/portable.sh FOLDER [PREFIX]
#
# PREFIX is that of a cross compiler, aarch64-linux-gnu- for instance; without
# it the archive is for this machine's architecture.
# FOLDER/umem-VERSION-ARCH.tar.xz and its sha256 sum contain
#
#	bin/umem		the command, linked statically
#	lib/libumem*.so.1	libraries for glibc, GLIBC or later
#	lib/musl/libumem*.so.1	libraries for musl
#	include/, share/man/	headers and man pages
#
# The libraries are linked with the glibc of Debian RELEASE, from packages that
# are unpacked in FOLDER.  The script then checks that no symbol of theirs has a
# later version than GLIBC: a function of later ones is weak, and found when the
# library is loaded.  For another architecture, the archives for the command are
# unpacked packages, too, of the release of the cross compiler, and those for
# musl come with zig cc (PyPI's ziglang).  Exit 77 means that a tool or the
# packages are missing.
set -uo pipefail

GLIBC=2.28
RELEASE=bullseye
# Of the release whose cross compiler this machine has.
ARCHIVES_RELEASE=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
ARCHIVES='libc6-dev libdw-dev libelf-dev libiberty-dev liblzma-dev libbz2-dev
	zlib1g-dev liburcu-dev valgrind systemtap-sdt-dev'
PACKAGES='libc6-dev liburcu-dev valgrind systemtap-sdt-dev libdw-dev libiberty-dev'

fail() {
	echo "make portable: $*" >&2
	exit "${code:-1}"
}

[ $# -eq 1 ] || [ $# -eq 2 ] ||
    fail "usage: tools/packaging/portable.sh FOLDER [PREFIX]"
cross=${2-}
compiler=${cross}gcc
for tool in apt-get "$compiler" pkg-config readelf xz $([ -n "$cross" ] || echo musl-gcc); do
	command -v "$tool" >/dev/null || code=77 fail "there is no $tool"
done
[ -z "$cross" ] || python3 -c 'import ziglang' 2>/dev/null ||
    code=77 fail "there is no zig; 'pip install ziglang' installs it"
mkdir -p "$1" || exit
folder=$(readlink -f "$1")
tree=$(readlink -f "$0")
tree=${tree%/*/*/*}
cd "$tree" || exit
# shellcheck source=tools/build/roots.sh
. tools/build/roots.sh
multiarch=$("$compiler" -dumpmachine)
case $multiarch in
x86_64-*) architecture=amd64 ;;
aarch64-*) architecture=arm64 ;;
*) code=77 fail "the command does not know $multiarch" ;;
esac
version=$(sed -n 's/^.define UMEM_VERSION "\(.*\)"/\1/p' umem/umem.h)
name=umem-$version-${multiarch%%-*}

# shellcheck disable=SC2086 # a list
root root $RELEASE $architecture $PACKAGES >"$folder/log" 2>&1 ||
    code=77 fail "$(tail -n 1 "$folder/log")"

# build FOLDER MAKE'S WORDS...
build() {
	make CROSS="$cross" B="$folder/$1" "${@:2}"
}

# The headers of a cross compiler's own glibc would come first.
of_root() {
	include=$folder/$1/usr/include
	CC="$compiler --sysroot=$folder/$1 -isystem $include/$multiarch -isystem $include"
	LDFLAGS="-B$folder/$1/usr/lib/$multiarch -L$folder/$1/usr/lib/$multiarch"
}

libraries=(libumem.so.1 libumem_malloc.so.1 libumem_rcu.so.1)
musl=(CC=musl-gcc)
static=(LDFLAGS=-static)
if [ -n "$cross" ]; then
	# zig cc refuses the other options of SHIM_FLAGS, which save time only.
	musl=(CC="python3 -m ziglang cc -target ${multiarch%%-*}-linux-musl -dynamic"
	    "SHIM_FLAGS=-Wl,--undefined-version")
	# shellcheck disable=SC2086 # a list
	root archives "$ARCHIVES_RELEASE" $architecture $ARCHIVES >"$folder/log" 2>&1 ||
	    code=77 fail "$(tail -n 1 "$folder/log")"
	of_root archives
	static=(CC="$CC" LDFLAGS="-static $LDFLAGS")
fi
of_root root
# APART: with the parts that need libraries of glibc.
if ! build glibc APART= CC="$CC" LDFLAGS="$LDFLAGS" \
    "${libraries[@]/#/$folder/glibc/}" ||
    ! build musl "${musl[@]}" "${libraries[@]/#/$folder/musl/}"; then
	fail "no libraries"
fi
# The linker warns that elfutils opens libdebuginfod, which is not there then.
if ! build static APART= "${static[@]}" "$folder/static/umem" TOOL_LIBS="$(pkg-config \
    --static --libs libdw libelf) -liberty -lm" 2>"$folder/log"; then
	fail "$(cat "$folder/log")"
fi

rm -rf "${folder:?}/$name"
to=$folder/$name
install -d "$to"/{bin,lib/musl,include/sys,share/man/man{1,3,7}}
install -m 755 -s --strip-program="${cross}strip" "$folder/static/umem" "$to/bin"
install -m 644 LICENSE README.md CHANGELOG.md "$to"
install -m 644 umem/umem{.h,.hpp,_rcu.h} vmem/vmem.h "$to/include"
install -m 644 vmem/sys/vmem.h "$to/include/sys"
for section in 1 3 7; do
	install -m 644 man/*.$section "$to/share/man/man$section"
done
for library in "${libraries[@]}"; do
	install -m 755 "$folder/glibc/$library" "$to/lib"
	install -m 755 "$folder/musl/$library" "$to/lib/musl"
done

later=$(readelf -W --dyn-syms "$to"/lib/*.so.1 |
    sed -n 's/.*@GLIBC_\([0-9.]*\).*/\1/p' | cat - <(echo $GLIBC) |
    sort -V | tail -n 1)
[ "$later" = $GLIBC ] || fail "a symbol needs glibc $later"
if readelf -lW "$to/bin/umem" | grep -q INTERP; then
	fail "the command is not static"
fi
tar -c --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct 2>/dev/null || stat -c %Y umem/umem.h)" \
    -C "$folder" "$name" | xz >"$folder/$name.tar.xz" || exit
(cd "$folder" && sha256sum "$name.tar.xz" >"$name.tar.xz.sha256")
echo "$folder/$name.tar.xz"
