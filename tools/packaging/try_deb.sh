#!/bin/bash
# try_deb.sh - builds the Debian packages, installs them, runs their tests and
# removes them; nothing of them may be left
#
#	tools/packaging/try_deb.sh FOLDER
#
# For a system that may be thrown away (tools/build/fresh.sh), as root.  The
# packages come to FOLDER.  The last line counts the tests.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive DEB_BUILD_OPTIONS=nocheck
tree=$(readlink -f "$0")
tree=${tree%/*/*/*}

# get PACKAGE... - installs these
get() {
	apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# system - all files but those of the package manager, and all packages
system() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o \
	    -path "$tree" -o -path /var/cache -o -path /var/log -o \
	    -path /var/lib/apt -o -path /var/lib/dpkg \) -prune -o -print | sort
	# shellcheck disable=SC2016 # a format
	dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sort
}

get build-essential debhelper pkg-config
# A name with characters that sed knows.
DEBFULLNAME='A & B/C' "$tree/tools/packaging/make_deb.sh" "$1"
system >/tmp/before
get "$(readlink -f "$1")"/*.deb
passed=0
for name in "$tree"/tools/packaging/debian/tests/*; do
	[ -x "$name" ] || continue
	AUTOPKGTEST_TMP=$(mktemp -d)
	export AUTOPKGTEST_TMP
	(cd "$tree" && "$name")
	passed=$((passed + 1))
done
# shellcheck disable=SC2046 # words
apt-get purge -y -qq $(dpkg-query -W | sed -nE 's/^((lib)?umem[^[:space:]]*).*/\1/p') >/dev/null
system >/tmp/after
diff /tmp/before /tmp/after
echo "$((passed + 1)) passed, 0 failed"
