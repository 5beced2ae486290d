#!/bin/bash
# herd.sh - prints the command that runs herd7, a word in each line
#
#	tests/models/herd.sh FOLDER
#
# A Debian without herdtools7 gets it from sid, in FOLDER, with its libraries.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck disable=SC2034 # for roots.sh
folder=$1
root=$folder/herd

if command -v herd7; then
	exit
fi
# shellcheck source=tools/build/roots.sh
. "$here/../../tools/build/roots.sh"
[ -e "$root.list" ] || root herd sid amd64 herdtools7 >&2
lib=$root/usr/lib/x86_64-linux-gnu
printf '%s\n' "$lib/ld-linux-x86-64.so.2" --library-path "$lib" \
    "$root/usr/bin/herd7" -set-libdir "$root/usr/share/herdtools7/herd"
