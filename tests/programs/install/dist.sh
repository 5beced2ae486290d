#!/bin/bash
# The source archive: its checksum is right, two of one commit are equal, and a
# library builds from it, which keeps its description if the linker leaves out
# the sections that nothing uses.
# test timeout: 600
set -eu
if ! [ -e "$TOP/.git" ] ||
    ! git -C "$TOP" rev-parse -q --verify HEAD >/dev/null 2>&1; then
	echo "no git repository"
	exit 77
fi
bad() {
	echo "$*"
	exit 1
}
# dist FOLDER - makes the archive in it
dist() {
	env -u MAKEFLAGS -u SAN -u DEBUG make -s -C "$TOP" dist B="$TMP/$1"
}
dist first
(
	cd first
	sha256sum -c --quiet ./*.sha256
	tar -xzf umem-*.tar.gz
)
# Another user's umask and another time change nothing.
(
	umask 077
	dist second
)
cmp first/umem-*.tar.gz second/umem-*.tar.gz
cd first/umem-*/
# The files for RPM and Alpine, which build from it, name its version.
version=$(sed -n 's/^.define UMEM_VERSION "\(.*\)"/\1/p' umem/umem.h)
grep -Eqx "Version: +$version" tools/packaging/umem.spec ||
    bad "umem.spec: not of version $version"
grep -qx "pkgver=$version" tools/packaging/APKBUILD ||
    bad "APKBUILD: not of version $version"
git -C "$TOP" ls-tree -r --name-only HEAD | LC_ALL=C sort >"$TMP/committed"
find . -type f -o -type l | sed 's,^\./,,' | LC_ALL=C sort >"$TMP/unpacked"
diff "$TMP/committed" "$TMP/unpacked"
env -u MAKEFLAGS -u SAN -u DEBUG make -s -j2 CC="$CC" \
    CFLAGS='-O1 -fdata-sections' LDFLAGS=-Wl,--gc-sections \
    build/libumem.so.1 build/libumem_rcu.so.1
# It has the name of a variable of the file snapshot.c.
grep -q '&snapshot' build/libumem.so.1 || bad "no library, or no description"
# An archive is not made from an archive.
! env -u MAKEFLAGS make dist >"$TMP/said" 2>&1 ||
    bad "make dist succeeded without git"
grep -q '^make dist: needs git' "$TMP/said" || bad "no reason: $(cat "$TMP/said")"
