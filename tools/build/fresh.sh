#!/bin/bash
# fresh.sh - README's commands on freshly installed Debian releases
#
#	tools/build/fresh.sh FOLDER [RELEASE...]
#
# For each release (bullseye, bookworm, trixie and forky by default),
# debootstrap installs a minimal system with make and git below FOLDER.  The
# committed tree is cloned into it, and the commands of README.md's section "Try
# it" run there in the same order.  Each must succeed without a compiler's
# warning; the tests must count no failure.  Then, but not on bullseye,
# tools/packaging/try_deb.sh builds, installs, tests and removes the Debian
# packages.
#
# FOLDER keeps the packages of the minimal systems for the next run
# (RELEASE.tar.gz) and the output of the commands (RELEASE.log).  The systems
# themselves are always removed at the end.  A killed run's mounts
# and processes do not outlive it, because each system runs in its own mount
# and process namespace; the next run removes its files.
#
# The packages come from MIRROR, by default the first Debian archive that this
# machine's apt knows.  Exit 77 means that the test was skipped: the caller is
# not root, the machine allows no namespaces, or the mirror cannot be reached.
set -uo pipefail

self=$(readlink -f "$0")
tree=${self%/*/*/*}

# inside ROOT COMMAND - in the minimal system; process 1 of a new namespace
if [ "${1-}" = --inside ]; then
	root=$2
	mount -t proc proc "$root/proc" &&
	    mount -t sysfs sys "$root/sys" &&
	    mount --rbind /dev "$root/dev" || exit
	exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	    TERM=dumb TEST_TIME_FACTOR="${TEST_TIME_FACTOR:-1}" \
	    sh -c "cd /root/umem && $3"
fi

say() {
	echo "fresh.sh: $*"
}

skip() {
	say "skipped: $*"
	exit 77
}

[ $# -ge 1 ] || { echo "usage: tools/build/fresh.sh FOLDER [RELEASE...]" >&2; exit 2; }
mkdir -p "$1" || exit
folder=$(readlink -f "$1")
shift
[ $# -gt 0 ] || set -- bullseye bookworm trixie forky
[ "$(id -u)" = 0 ] || skip "only root can install a Debian system"
command -v debootstrap >/dev/null || skip "no debootstrap"
isolated=(unshare --mount --pid --fork --kill-child)
"${isolated[@]}" true 2>/dev/null || skip "this machine allows no namespaces"

mirror() {
	# shellcheck disable=SC2016 # a format
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' \
	    'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1
}
MIRROR=${MIRROR:-$(mirror || true)}
MIRROR=${MIRROR:-http://deb.debian.org/debian}
eval "$(apt-config shell proxy Acquire::http::Proxy)"
MIRROR=${MIRROR%/}
export http_proxy=${http_proxy:-${proxy:-}}
for release in "$@"; do
	wget -q --tries=2 --timeout=60 -O /dev/null \
	    "$MIRROR/dists/$release/Release" ||
	    skip "$MIRROR does not give $release"
done

# The commands of README.md, one a line.
mapfile -t commands < <(sed -n \
    '/^## Try it/,/^## Is it/s/^\(make [a-z]*\)  *#.*/\1/p' "$tree/README.md")
[ ${#commands[@]} -eq 2 ] || {
	say "README.md's section 'Try it' does not have two commands"
	exit 1
}
commands+=('tools/packaging/try_deb.sh build/deb')

root=
remove() {
	[ -z "$root" ] || rm -rf "$root" "$root.packages"
	root=
}
trap remove EXIT
trap 'exit 1' HUP INT TERM

# bootstrap RELEASE - a minimal system with make and git in $root
bootstrap() {
	local tarball=$folder/$1.tar.gz script=
	local -a options=(--variant=minbase '--include=make,git')

	# An older debootstrap does not know a newer release, which is like sid.
	[ -e "/usr/share/debootstrap/scripts/$1" ] || script=sid

	# Fails if the mirror has replaced a package meanwhile.
	if [ -f "$tarball" ]; then
		debootstrap "${options[@]}" --unpack-tarball="$tarball" \
		    "$1" "$root" "$MIRROR" $script && return
		rm -rf "$tarball" "$root"
	fi
	debootstrap "${options[@]}" --make-tarball="$tarball.new" \
	    "$1" "$root.packages" "$MIRROR" $script &&
	    mv "$tarball.new" "$tarball" &&
	    debootstrap "${options[@]}" --unpack-tarball="$tarball" \
		"$1" "$root" "$MIRROR" $script
}

# prepare - two settings of this machine's owner, as in Debian's containers
# (how apt reaches the mirror; no package starts a service), and the tree
prepare() {
	{ apt-config dump | grep -E '^Acquire::(https?::|Check-)' || true; } \
	    >"$root/etc/apt/apt.conf.d/00machine" &&
	    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" &&
	    chmod +x "$root/usr/sbin/policy-rc.d" || return
	# The tree may belong to another user than root.
	printf '[safe]\n\tdirectory = *\n' >"$root/root/.gitconfig" &&
	    GIT_CONFIG_GLOBAL=$root/root/.gitconfig \
		git clone -q --no-hardlinks "$tree" "$root/root/umem"
}

# try RELEASE - README's commands in it
try() {
	local command started status log old

	for old in "$folder/$1".[0-9]*; do
		# The number is the process of the run that made it.
		[ ! -d "$old" ] || kill -0 "$(tr -dc 0-9 <<<"${old#"$folder/$1"}")" \
		    2>/dev/null || rm -rf "$old"
	done
	root=$folder/$1.$$
	log=$folder/$1.log
	say "$1: minimal system from $MIRROR"
	{ bootstrap "$1" && prepare; } >"$log" 2>&1 || {
		tail -n 20 "$log"
		say "$1: could not be installed"
		return 1
	}
	: >"$log"
	for command in "${commands[@]}"; do
		[[ $1 != bullseye || $command != *try_deb.sh* ]] || continue
		say "$1: $command"
		started=$SECONDS
		status=0
		"${isolated[@]}" "$self" --inside "$root" "$command" \
		    >"$log.new" 2>&1 </dev/null || status=$?
		cat "$log.new" >>"$log"
		[ $status -eq 0 ] || {
			tail -n 200 "$log.new"
			say "$1: $command: status $status; see $log"
			return 1
		}
		! grep 'warning:' "$log.new" || {
			say "$1: $command: warnings; see $log"
			return 1
		}
		tail -n 1 "$log.new"
		say "$1: $command: passed in $((SECONDS - started)) s"
	done
}

git -C "$tree" diff --quiet HEAD 2>/dev/null ||
    say "changes that are not committed are left out"
failed=()
for release in "$@"; do
	try "$release" || failed+=("$release")
	remove
done
[ ${#failed[@]} -eq 0 ] || {
	say "failed: ${failed[*]}"
	exit 1
}
say "passed: $*"
