#!/bin/sh
# install_packages.sh - installs the Debian packages that umem's targets need
#
#	tools/build/install_packages.sh SET...
#
# The sets are
#
#	build	make, make install
#	test	make test
#	lint	make lint
#	matrix	make matrix, .ci/run
#	demo	make demo
#	bench	make bench, make bench-scale, make peers
#	stress	make stress
#	fresh	make fresh
#	models	make models
#	fuzz	make fuzz
#	soak	make soak
#	coverage	make coverage, make mutants
#	vm	make test-vm
#	all	every set
#
# Each set but "fresh" contains "build".  The Makefile calls this script
# for the goals that are named here, except for the goals of "build": these
# only check that the packages are there.  Quiet if no package is missing;
# otherwise it names the packages that it installs.  A user who may not install
# them gets the command for an administrator, and goes on without them.
set -eu

build='gcc libc6-dev make binutils libdw-dev libiberty-dev liburcu-dev valgrind
	systemtap-sdt-dev'
test="$build g++ pkg-config check gdb python3 python3-venv perl procps file zsh
	gcc-aarch64-linux-gnu libc6-dev-arm64-cross mandoc git sqlite3
	redis-server redis-tools nginx lua5.4 abigail-tools"
# Debian 12 and 13 have this version of clang-tidy.
lint="$build check python3 python3-venv mandoc shellcheck clang-tidy-19 cppcheck"
demo="$build time python3 redis-server redis-tools"
bench="$demo g++ libboost-dev sqlite3 libjemalloc2 libmimalloc2.0
	libtcmalloc-minimal4 libtbbmalloc2 clang cmake lua5.4 perl z3 ghostscript nodejs"
fresh='debootstrap git'
models="$build python3 spin"
fuzz="$build afl++ clang libclang-rt-dev python3"
soak="$build gdb python3"
coverage="$test clang llvm libclang-rt-dev"
vm="$build pkg-config gcc-aarch64-linux-gnu cpio"
matrix="$lint $coverage $models lld mold musl-tools qemu-user-static"
stress="$matrix $fresh debhelper dpkg-dev lintian rpm rpmlint nodejs
	default-jdk-headless postgresql libucx-dev php-cli php-bcmath php-bz2
	php-curl php-gd php-gmp php-intl php-mbstring php-mysql php-readline
	php-soap php-sqlite3 php-xml php-zip redis-server gunicorn python3-dev
	curl"

usage() {
	echo "usage: tools/build/install_packages.sh" \
	    "[build|test|lint|demo|bench|matrix|stress|fresh|models|fuzz|soak|coverage|vm|all]..." >&2
	exit 2
}

[ $# -gt 0 ] || usage
wanted=
for set in "$@"; do
	case $set in
	build) wanted="$wanted $build" ;;
	test) wanted="$wanted $test" ;;
	lint) wanted="$wanted $lint" ;;
	demo) wanted="$wanted $demo" ;;
	bench) wanted="$wanted $bench" ;;
	stress) wanted="$wanted $stress" ;;
	fresh) wanted="$wanted $fresh" ;;
	models) wanted="$wanted $models" ;;
	fuzz) wanted="$wanted $fuzz" ;;
	soak) wanted="$wanted $soak" ;;
	coverage) wanted="$wanted $coverage" ;;
	vm) wanted="$wanted $vm" ;;
	matrix) wanted="$wanted $matrix" ;;
	all) wanted="$wanted $bench $stress $models $fuzz $soak $coverage $vm" ;;
	*) usage ;;
	esac
done
# Each once.
# shellcheck disable=SC2086 # a list
wanted=$(printf '%s\n' $wanted | sort -u)

if ! command -v dpkg-query >/dev/null; then
	echo "tools/build/install_packages.sh: not a Debian system; needed are:" \
	    "$(printf '%s' "$wanted" | tr '\n' ' ')" >&2
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

root=
[ "$(id -u)" -eq 0 ] || root=sudo

# go_on - names the command that installs
go_on() {
	cat >&2 <<END
tools/build/install_packages.sh: going on without$missing
This command, run by root, installs them:
    apt-get install --no-install-recommends$missing
END
	exit 0
}

[ "$root" = '' ] || command -v sudo >/dev/null || go_on
echo "tools/build/install_packages.sh: installing$missing" >&2

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
[ "$root" = '' ] || go_on
echo "tools/build/install_packages.sh: could not install$missing" >&2
exit 1
