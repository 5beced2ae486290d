#!/bin/bash
# test timeout: 3600
# The archive of "make portable CROSS=aarch64-linux-gnu-": its libraries beside
# perl of Debian 11, 12, 13 and forky, and beside a program of musl, by QEMU's
# emulation of a process; the static command starts.  The emulation has no
# ptrace(), so the command inspects nothing there.
set -u
export LC_ALL=C

# shellcheck source=tools/build/roots.sh
. "$TOP/tools/build/roots.sh"
command -v qemu-aarch64-static >/dev/null || { echo "no qemu-aarch64-static"; exit 77; }
folder=$TOP/build-aarch64/portable
"$TOP/tools/packaging/portable.sh" "$folder" aarch64-linux-gnu- >log 2>&1 || {
	code=$?
	tail -n 20 log
	exit $code
}
archive=$(tail -n 1 log)
name=$(basename "$archive" .tar.xz)
(cd "$folder" && sha256sum --quiet -c "$archive.sha256") || exit 1
tar -x -J -f "$archive" || exit 1
version=$(sed -n 's/^.define UMEM_VERSION "\(.*\)"/\1/p' "$TOP/umem/umem.h")
status=0

# says REGEX ROOT LIBRARY COMMAND... - a program in a root, on the library
says() {
	qemu-aarch64-static -L "$2" -E UMEM_OPTIONS=verbose \
	    -E LD_PRELOAD="$PWD/$name/lib/$3" "${@:4}" >said 2>&1
	if ! grep -q "$1" said || ! grep -q "^umem: $version mode locked" said; then
		echo "$2, $3:"
		cat said
		status=1
	fi
}

qemu-aarch64-static "$name/bin/umem" --version >said 2>&1
if [ "$(cat said)" != "umem $version" ]; then
	cat said
	status=1
fi
for release in bullseye bookworm trixie forky; do
	if ! root $release $release arm64 perl-base dash >log 2>&1; then
		tail -n 1 log
		exit 77
	fi
	# shellcheck disable=SC2016 # for perl
	says '^20000$' "$folder/$release" libumem_malloc.so.1 \
	    "$folder/$release/usr/bin/perl" -e '
		my %h = map { $_ => "x" x ($_ % 300) } 1 .. 20000;
		print scalar(keys %h), "\n"'
done

if ! root with_musl forky arm64 musl >log 2>&1; then
	tail -n 1 log
	exit 77
fi
python3 -m ziglang cc -target aarch64-linux-musl -dynamic -I"$TOP" -D_GNU_SOURCE \
    -idirafter /usr/include -o tls "$TOP/tests/programs/threads/tls_destructors.c" \
    >log 2>&1 || { cat log; exit 1; }
says . "$folder/with_musl" musl/libumem_malloc.so.1 ./tls
exit $status
