#!/bin/sh
# check_requirements.sh - names the missing requirements before a compiler fails
#
#	CC="cc -I..." tools/build/check_requirements.sh HEADER...
#
# Fails with one message if the compiler is missing, is too old, or lacks a
# header that it must find.
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
	printf '#include <%s>\n' "$@" | $CC -E -x c - >/dev/null 2>&1
}

# old - prints a text if the compiler, its libc or its target is too old
old() {
	# shellcheck disable=SC2086 # a command and its options
	$CC -E -P -x c - 2>/dev/null <<-'END' | grep '^needs'
	#include <stdlib.h>
	#if __SIZEOF_POINTER__ != 8
	needs a 64-bit target
	#elif defined(__clang__) ? __clang_major__ < 11 : __GNUC__ < 8
	needs gcc 8 or clang 11, or later; found __VERSION__
	#elif defined(__GLIBC__)
	#if !__GLIBC_PREREQ(2, 28)
	needs glibc 2.28 or later; found version __GLIBC__ __GLIBC_MINOR__
	#endif
	#endif
	END
}

if too_old=$(old); then
	echo "tools/build/check_requirements.sh: umem $too_old" >&2
	exit 1
fi
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
