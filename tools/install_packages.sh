#!/bin/sh
# install_packages.sh - installs the Debian packages that umem's targets need
#
#	tools/install_packages.sh [test|demo|bench|stress|all]
#
# test: to build, test and lint; demo: the programs that make demo runs; bench:
# the programs and other allocators of make bench, bench-scale and peers;
# stress: the programs of make stress.
# Quiet when nothing is missing; says what it installs when something is.
set -eu

test='gcc g++ make binutils pkg-config check gdb libdw-dev valgrind python3
	python3-venv perl procps file gcc-aarch64-linux-gnu
	libc6-dev-arm64-cross mandoc shellcheck git sqlite3 redis-server
	redis-tools nginx lua5.4'
demo='gcc g++ make binutils libdw-dev time python3 sqlite3 redis-server
	redis-tools'
bench="$demo libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libtbbmalloc2
	clang cmake lua5.4 perl z3 ghostscript nodejs"
stress='redis-server redis-tools sqlite3 git nginx nodejs gdb
	default-jdk-headless postgresql'

case ${1:-all} in
test) wanted=$test ;;
demo) wanted=$demo ;;
stress) wanted="$test $stress" ;;
bench) wanted=$bench ;;
all) wanted="$test $bench $stress" ;;
*)
	echo "usage: tools/install_packages.sh [test|demo|bench|stress|all]" >&2
	exit 2
	;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "tools/install_packages.sh: not a Debian system; needed are:" \
	    "$wanted" >&2
	exit 0
fi

# Names that are installed, one a line; "ii" and "hi" are the good states.
installed=$(
	# shellcheck disable=SC2016,SC2086 # a format; a list
	dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted \
	    2>/dev/null | sed -n 's/^installed //p'
) || true
missing=
for package in $wanted; do
	case "
$installed
" in
	*"
$package
"*) ;;
	*) missing="$missing $package" ;;
	esac
done
[ -n "$missing" ] || exit 0

echo "tools/install_packages.sh: installing$missing" >&2
root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "tools/install_packages.sh: needs root or sudo" >&2
		exit 1
	fi
	root=sudo
fi

install() {
	# shellcheck disable=SC2086 # a list
	$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
	    --no-install-recommends -o DPkg::Lock::Timeout=300 $missing
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The lists on the machine may be old or absent.
if install >"$log" 2>&1 ||
    { $root apt-get update -q >>"$log" 2>&1 && install >>"$log" 2>&1; }; then
	exit 0
fi
cat "$log" >&2
echo "tools/install_packages.sh: could not install$missing" >&2
exit 1
