#!/bin/bash
# matrix.sh - lint, and the tests in each variant of the build
#
#	tools/build/matrix.sh [ROW...]
#
# Runs the rows below, or those that are named, in the tree's root; with SHORT=1
# and no name, all but links, zig and analysis:
#
#	lint		make lint, counted as one test
#	release		all tests, as `make test`
#	undefined	the unit tests, and the programs in mode rseq, with
#			SAN=undefined and DEBUG=1: the assertions are on; and
#			the real programs of the machine, on this library
#	debug		the scripts with DEBUG=1, since the row "undefined" has
#			the other tests; without those of real programs, and
#			without cxx and install, which test no code that has
#			assertions
#	address		the unit tests, and the programs that link libumem, with
#			SAN=address.  The other programs run on the malloc() of
#			umem, which is preloaded, but the sanitizer has its own;
#			so does that of the next row
#	thread		the unit tests and the programs that link libumem, of
#			these the ones with threads, with SAN=thread: the
#			programs in all their modes, the suites in the locked
#			mode, some in mode rseq, too; the lists that threads
#			follow without a lock have their tests here, among
#			others in the suites grace, defer_order and typesafe
#	clang		the unit tests, and the programs in FOLDERS below,
#			limits and process, of a build by clang (in Debian 12,
#			clang 14), which may warn of nothing in the library and
#			the unit tests.  These tests must execute so much of the
#			library as tools/build/coverage.py says; the other
#			folders, and the scripts, take minutes
#	lto		the unit tests of a build with -flto=auto
#	links		some tests of builds by other linkers and in other modes
#			of the compilers, and a program that links
#			libumem_malloc.a in each of them; see links.sh
#	fuzz		the fuzzers of tests/fuzz, each for a minute
#	musl		the unit tests, and the programs in FOLDERS, limits,
#			process and start in mode rseq, of a build by musl-gcc
#			and the functions of APKBUILD; without Debian's sources
#			(see musl_libraries.sh), only programs without liburcu
#	zig		the same by zig cc, which has Alpine's musl, and some
#			tests of aarch64; see zig.sh
#	warnings	a build without tests by gcc 14 and clang 19, which may
#			warn of nothing, like the row "release" by this
#			machine's compiler; see warnings.sh
#	analysis	make lint with clang-analyzer, which takes minutes
#	aarch64		the unit tests of aarch64, in QEMU's user mode
#	models		make models; without herd7 (see herd.sh), the models of
#			Spin
#
# Prints the output of each row, then one line for each row and the sums as
# "N passed, N failed".  A row is skipped if its tools are missing.  The status
# is 0 if every row ran or was skipped, and no test failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

ROWS='lint release undefined debug address thread clang lto fuzz musl warnings aarch64 models'
LONG='links zig analysis'
FOLDERS='cxx malloc objects rcu threads'
passed=0 failed=0 skipped=0 status=0
table=
output=$(mktemp)
trap 'rm -f "$output"' EXIT

run_row() {
	case $1 in
	analysis) DEEP=1 make lint && echo '1 passed, 0 failed' ;;
	lint) make lint && echo '1 passed, 0 failed' ;;
	release) make CFLAGS='-O2 -g -Werror' test ;;
	undefined) MODES=rseq make SAN=undefined DEBUG=1 test ;;
	debug) make DEBUG=1 TESTS=scripts FOLDERS="$(find tests/programs \
	    -mindepth 1 -maxdepth 1 -type d ! -name cxx ! -name install \
	    ! -name real -printf '%f ')" test ;;
	address | thread) make "SAN=$1" TESTS='unit programs' test ;;
	clang) FOLDERS="$FOLDERS limits process" TESTS='unit programs' \
	    make PART=1 coverage ;;
	lto) make B=build-lto CFLAGS='-O2 -g -flto=auto' all unit-test ;;
	# Without AFL++, which the package set has.
	fuzz) make NEEDS= TIME=60 fuzz && echo '1 passed, 0 failed' ;;
	links) tools/build/links.sh build/links ;;
	musl)
		tools/build/musl_libraries.sh build-musl/outside
		CHOST=musl FOLDERS="$FOLDERS limits process start" \
		    MODES=rseq TESTS='unit programs' \
		    sh -ec '. tools/packaging/APKBUILD; build; check'
		;;
	zig) FOLDERS="$FOLDERS start" tools/build/zig.sh build-zig ;;
	warnings) tools/build/warnings.sh build/warnings ;;
	aarch64) make all && tests/run_tests.sh build stress -- aarch64 ;;
	models) make models ;;
	esac
}

# missing ROW - its tools, without those of the machine
missing() {
	local tool
	local -a tools=()

	case $1 in
	clang) tools=(clang clang++ llvm-cov llvm-profdata) ;;
	fuzz) tools=(clang) ;;
	musl) tools=(musl-gcc) ;;
	aarch64) tools=(aarch64-linux-gnu-gcc qemu-aarch64-static) ;;
	models) tools=(spin) ;;
	esac
	for tool in "${tools[@]}"; do
		command -v "$tool" >/dev/null || echo "$tool"
	done
}

# row NAME - runs it and adds its counts
row() {
	local began=$SECONDS code counts

	echo "matrix: $1"
	run_row "$1" 2>&1 | tee "$output"
	code=${PIPESTATUS[0]}
	if [ "$code" -eq 77 ]; then
		skipped=$((skipped + 1))
		table+=$(printf '%-10s %s' "$1" "$(tail -n 1 "$output")")$'\n'
		return
	fi
	counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' \
	    "$output" | tail -n 1)
	# shellcheck disable=SC2086 # numbers
	set -- "$1" $counts
	if [ $# -eq 1 ] || { [ "$code" -ne 0 ] && [ "$3" -eq 0 ]; }; then
		# It did not build, or ended early.
		set -- "$1" "${2-0}" $((${3-0} + 1)) "${4-0}"
	fi
	[ "$code" -eq 0 ] && [ "$3" -eq 0 ] || status=1
	passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + ${4:-0}))
	table+=$(printf '%-10s %5d passed %3d failed %3d skipped %5d s' \
	    "$1" "$2" "$3" "${4:-0}" $((SECONDS - began)))$'\n'
}

# shellcheck disable=SC2046,SC2086 # lists
[ $# -gt 0 ] || set -- $ROWS $([ -n "${SHORT-}" ] || echo $LONG)
for name in "$@"; do
	if [[ " $ROWS $LONG " != *" $name "* ]]; then
		echo "matrix.sh: no row $name; the rows are: $ROWS $LONG" >&2
		exit 2
	fi
done
for name in "$@"; do
	without=$(missing "$name")
	if [ -n "$without" ]; then
		skipped=$((skipped + 1))
		table+=$(printf '%-10s skipped: there is no %s' "$name" \
		    "${without//$'\n'/, no }")$'\n'
		continue
	fi
	row "$name"
done
printf '%s' "$table"
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] || echo ", $skipped skipped")"
exit $status
