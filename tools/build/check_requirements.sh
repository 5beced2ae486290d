#!/bin/sh
# check_requirements.sh - names the missing requirements before a compiler fails
#
#	CC="cc -I..." tools/build/check_requirements.sh HEADER...
#
# Fails with one message if the compiler, or a header that it must find, is
# missing.
set -u

# The package that has a header, on Debian.
package() {
	case $1 in
	stdlib.h) echo libc6-dev ;;
	valgrind/*) echo valgrind ;;
	elfutils/*) echo libdw-dev ;;
	libiberty/*) echo libiberty-dev ;;
	urcu/*) echo liburcu-dev ;;
	check.h) echo check ;;
	esac
}

# preprocess HEADER...
preprocess() {
	# shellcheck disable=SC2086 # a command and its options
	printf '#include <%s>\n' "$@" | $CC -E -o /dev/null -x c - 2>/dev/null
}

preprocess "$@" && exit
set='build'
missing=
if ! command -v "${CC%% *}" >/dev/null; then
	missing="a C compiler (${CC%% *})"
else
	for header in "$@"; do
		preprocess "$header" && continue
		missing="$missing${missing:+, }$header ($(package "$header"))"
		[ "$header" != check.h ] || set='test'
	done
fi
echo "tools/build/check_requirements.sh: missing: $missing." \
    "'tools/build/install_packages.sh $set' installs what is missing on Debian." >&2
exit 1
