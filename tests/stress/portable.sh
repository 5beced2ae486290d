#!/bin/bash
# test timeout: 3600
# The archive of "make portable" beside the programs of Debian 11, 12, 13 and
# forky, and in a folder with musl alone.  The static command starts perl on the
# library, and finds the leak of a program of musl.
set -u
export LC_ALL=C

# shellcheck source=tools/build/roots.sh
. "$TOP/tools/build/roots.sh"
folder=$TOP/build/portable
"$TOP/tools/packaging/portable.sh" "$folder" >log 2>&1 || {
	code=$?
	tail -n 20 log
	exit $code
}
archive=$(tail -n 1 log)
name=$(basename "$archive" .tar.xz)
(cd "$folder" && sha256sum --quiet -c "$archive.sha256") || exit 1
architecture=$(dpkg --print-architecture)
status=0

# inside ROOT COMMAND... - runs it there, with the archive in /umem
inside() {
	# shellcheck disable=SC2016 # for sh
	unshare --map-root-user --mount sh -c '
		mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$@"
}

# unpack_in ROOT - the archive, in place of an older one
unpack_in() {
	mkdir -p "$1/proc" "$1/dev"
	: >"$1/dev/null"
	rm -rf "$1/umem"
	tar -x -J -C "$1" -f "$archive" && mv "$1/$name" "$1/umem"
}

for release in bullseye bookworm trixie forky; do
	root=$folder/$release
	if ! root $release $release "$architecture" perl-base dash >log 2>&1; then
		tail -n 1 log
		exit 77
	fi
	unpack_in "$root" || exit 1
	# shellcheck disable=SC2016 # for perl
	inside "$root" /umem/bin/umem run --debug --leaks -- /usr/bin/perl -e '
		my %h = map { $_ => "x" x ($_ % 300) } 1 .. 20000;
		print scalar(keys %h), "\n"' >said 2>&1
	if ! grep -q '^20000$' said || ! grep -q 'leaked' said ||
	    grep -q 'LD_PRELOAD\|ld.so' said; then
		echo "$release:"
		cat said
		status=1
	fi
done

root=$folder/with_musl
if ! root with_musl forky "$architecture" musl >log 2>&1 ||
    ! unpack_in "$root" >log 2>&1 || ! musl-gcc -g -o "$root/roots" \
    "$TOP/tests/stress/parts/musl_roots.c" 2>log; then
	tail -n 1 log
	exit 1
fi
mkfifo ready
# One user namespace for both, since the command may read processes of its own.
# shellcheck disable=SC2016 # for sh
unshare --map-root-user --mount sh -c '
	mount --rbind /proc "$0/proc" || exit
	UMEM_DEBUG=default chroot "$0" "$@" >ready &
	read -r _ <ready
	chroot "$0" /umem/bin/umem leaks -d $!
	kill -KILL $!' "$root" "/lib/ld-musl-$(uname -m).so.1" \
    --preload /umem/lib/musl/libumem_malloc.so.1 /roots >said 2>&1
if ! grep -q '^5.8K leaked in 1 block$' said || ! grep -q '`leak' said; then
	echo "musl:"
	cat said
	status=1
fi
exit $status
