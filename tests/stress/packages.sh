#!/bin/bash
# The packages for Debian and RPM build from this tree, have their files, and
# lintian and rpmlint find nothing in them.  Two builds of those for Debian are
# equal, with another tree, folder, umask, time zone and home.
# tools/build/fresh.sh installs them.
# test timeout: 1800
set -eu
unset MAKEFLAGS SAN DEBUG
export LC_ALL=C.UTF-8 DEB_BUILD_OPTIONS=nocheck
built=
bad() {
	echo "$*"
	exit 1
}
# has PACKAGE COUNT PATTERN - of the lines "PACKAGE PATH" in "listed"
has() {
	[ "$(grep -cE "^$1 .*/$3\$" listed)" -eq "$2" ] ||
	    { cat listed; bad "$1: not $2 files $3"; }
}
check_files() {
	has libumem1 2 'libumem\.so\.1(\.0\.0)?'
	has libumem-malloc1 2 'libumem_malloc\.so\.1(\.0\.0)?'
	has libumem-rcu1 2 'libumem_rcu\.so\.1(\.0\.0)?'
	has "$1" 6 'libumem(_malloc|_rcu)?\.(a|so)'
	has "$1" 5 'include/(umem\.hpp|(umem|umem_rcu|vmem|sys/vmem)\.h)'
	has "$1" 5 '(umem(-malloc|-rcu)?\.pc|umem-config(-version)?\.cmake)'
	has "$1" 2 'man3/(umem_alloc|vmem_xalloc)\.3(\.gz)?'
	has umem 4 '(bin/umem|umem\.1(\.gz)?|umem_options\.7(\.gz)?|completions/umem)'
	has umem 3 'share/umem/umem-(grafana\.json|metrics\.(service|timer))'
	has umem 3 '(_umem|libumem(_malloc)?\.so\.1\.0\.0-gdb\.py)'
}

if command -v dh >/dev/null && command -v dpkg-buildpackage >/dev/null; then
	make -s -C "$TOP" deb B="$TMP/one" >said 2>&1 || { cat said; exit 1; }
	(
		umask 027
		export HOME=/nonexistent TZ=Pacific/Auckland LC_ALL=C
		mkdir -p a/second
		tar -C "$TOP" -c --exclude='./build*' . | tar -x -C a/second
		a/second/tools/packaging/make_deb.sh a/second/deb >said 2>&1 ||
		    { cat said; exit 1; }
	)
	for file in one/deb/*.deb; do
		cmp "$file" "a/second/deb/${file##*/}"
		[[ $file != *-dbgsym_* ]] || continue
		dpkg-deb --fsys-tarfile "$file" | tar -t |
		    sed "s|^\.|$(dpkg-deb -f "$file" Package) |"
	done >listed
	check_files libumem-dev
	if command -v lintian >/dev/null; then
		said=$(lintian --allow-root -I --pedantic one/deb/*.changes)
		[ -z "$said" ] || bad "$said"
	fi
	built+=' deb'
fi

if command -v rpmbuild >/dev/null && [ -e "$TOP/.git" ]; then
	make -s -C "$TOP" dist B="$TMP/dist"
	rpmbuild --define "_topdir $TMP/rpm" --nodeps --nocheck \
	    -tb dist/*.tar.gz >said 2>&1 || { cat said; exit 1; }
	for file in rpm/RPMS/*/*.rpm; do
		rpm -qp --qf '[%{=name} %{filenames}\n]' "$file"
	done >listed
	check_files umem-devel
	if command -v rpmlint >/dev/null; then
		rpmlint -c "$TOP/tools/packaging/rpmlint.toml" \
		    "$TOP/tools/packaging/umem.spec" rpm/RPMS/*/*.rpm >said ||
		    bad "$(cat said)"
		grep -q ' 0 errors, 0 warnings' said || bad "$(cat said)"
	fi
	built+=' rpm'
fi
[ -n "$built" ] || { echo "no dpkg-buildpackage, no rpmbuild"; exit 77; }
