#!/bin/bash
# make_deb.sh - builds the Debian packages
#
#	tools/packaging/make_deb.sh FOLDER
#
# Copies the tree into FOLDER/umem-VERSION, adds debian/ to the copy, and leaves
# the packages in FOLDER.  debian/ is the folder beside this script and the
# files that follow from the tree: changelog, symbols, the maintainer's name.
#
# DEB_BUILD_OPTIONS=nocheck leaves out the unit tests.  DEB_HOST_ARCH=arm64
# builds for another architecture than this machine's.  DEBFULLNAME and DEBEMAIL
# name the maintainer.  The time in the packages is that of the commit, or
# without git that of a file, so that two builds are equal.
set -euo pipefail

fail() {
	echo "make deb: $*" >&2
	exit 1
}

[ $# -eq 1 ] || fail "usage: tools/packaging/make_deb.sh FOLDER"
missing=()
command -v dpkg-buildpackage >/dev/null || missing+=(dpkg-dev)
command -v dh >/dev/null || missing+=(debhelper)
[ ${#missing[@]} -eq 0 ] ||
    fail "missing: ${missing[*]}. 'apt-get install ${missing[*]}' installs them."

mkdir -p "$1"
folder=$(readlink -f "$1")
tree=$(readlink -f "$0")
tree=${tree%/*/*/*}
cd "$tree"
version=$(sed -n 's/^.define UMEM_VERSION "\(.*\)"/\1/p' umem/umem.h)
maintainer="${DEBFULLNAME:-umem authors} <${DEBEMAIL:-umem@packages.invalid}>"
# git may be missing, and refuses the clone of another user.
SOURCE_DATE_EPOCH=$({ [ -e .git ] && git log -1 --format=%ct; } 2>/dev/null ||
    stat -c %Y umem/umem.h)
export SOURCE_DATE_EPOCH
copy=$folder/umem-$version
rm -rf "$copy"
mkdir "$copy"
tar -c --exclude=./build --exclude='./build-*' --exclude=./.git \
    --exclude=./tools/rust/target --exclude="${folder/#"$tree"/.}" . |
    tar -x -C "$copy"
cp -r tools/packaging/debian "$copy"
cd "$copy/debian"

literal=$(printf '%s\n' "$maintainer" | sed 's/[\\&/]/\\&/g')
sed -i "s/@MAINTAINER@/$literal/" control
cat >changelog <<END
umem ($version) unstable; urgency=medium

  * Version $version.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# versioned LIBRARY PACKAGE MAP - its symbols: the version and the names of its
# version script, all of which are in the first version of the package
versioned() {
	echo "$1.so.1 $2 #MINVER#"
	echo '* Build-Depends-Package: libumem-dev'
	sed -nE -e 's/^(UMEM_[0-9.]+) [{]$/ \1@\1 0.1.0/p' \
	    -e 's/^\t(\w+);$/ \1@UMEM_0.1 0.1.0/p' "$tree/umem/$3"
}
versioned libumem libumem1 libumem.map >libumem1.symbols
versioned libumem_rcu libumem-rcu1 libumem_rcu.map >libumem-rcu1.symbols
{
	versioned libumem_malloc libumem-malloc1 libumem.map
	sed -nE 's/^\t(\w+);$/ \1@Base 0.1.0/p' "$tree/umem/unversioned.list"
} >libumem-malloc1.symbols

cd "$copy"
cross=()
[ -z "${DEB_HOST_ARCH-}" ] || cross=("-a$DEB_HOST_ARCH" '-Pcross,nocheck')
needs=$(dpkg-checkbuilddeps "${cross[@]}" 2>&1) ||
    fail "missing: ${needs##*dependencies: }. 'apt-get install' installs them."
# The copy's make has no variable of this one's.
env -u MAKEFLAGS -u MFLAGS -u CC -u CXX -u CFLAGS -u CPPFLAGS -u LDFLAGS \
    dpkg-buildpackage -us -uc -b "${cross[@]}" >"$folder/log" 2>&1 || {
	tail -n 30 "$folder/log"
	fail "dpkg-buildpackage failed; $folder/log has its output"
}
cd "$folder"
ls ./*.deb
