#!/bin/bash
# lint.sh - checks layers, symbols, style, size, format, man pages, scripts, and
# the code by clang-tidy, by gcc's analyser and by cppcheck
#
#	tools/build/lint.sh BUILD	BUILD has the objects, and may keep
#					clang-format
#
# Runs in the tree's root, goes on after a failure, and says at the end what
# failed.
set -u

FORMAT_VERSION=18.1.8
# With assertions, which are facts for the analysers.
FLAGS="-std=gnu11 -I. -Iumem -I$1/obj -D_GNU_SOURCE -DUMEM_DEBUG"
venv=$1/lint
failed=()

check() {
	echo "lint: $1"
	"${@:2}" && return
	failed+=("$1")
	return 1
}

# The version matters: others break lines elsewhere.
find_clang_format() {
	local candidate

	for candidate in clang-format clang-format-18 "$venv/bin/clang-format"; do
		if "$candidate" --version 2>/dev/null |
		    grep -qF "version $FORMAT_VERSION"; then
			clang_format=$candidate
			return
		fi
	done
	clang_format=$venv/bin/clang-format
	mkdir -p "$1" && python3 -m venv "$venv" >/dev/null 2>&1 &&
	    "$venv/bin/pip" install -q "clang-format==$FORMAT_VERSION" \
		>"$venv/log" 2>&1
}

# each N FILES... - runs the command in $command with N files at a time, on all
# CPUs
each() {
	printf '%s\n' "${@:2}" | xargs -P "$(nproc)" -n "$1" "${command[@]}"
}

# The checks of .clang-tidy, those of clang-analyzer only with DEEP=1, and
# conversions that may lose bits: a size is no longer one when a variable of 32
# bits has it.
check_tidy() {
	local checks=${DEEP:+--quiet}
	# shellcheck disable=SC2016 # for the inner shell
	local -a command=(sh -c 'output=$(clang-tidy-19 --quiet \
	    '"${checks:---checks=-clang-analyzer-*}"' "$@" -- '"$FLAGS"' \
	    -Wconversion -Wno-sign-conversion -Wno-string-conversion 2>&1) ||
	    { grep -v " generated\.$" <<END
$output
END
	    exit 1; }' sh)

	each 8 "$@"
}

# The library defines malloc(): in its sources gcc takes each block that
# realloc() returns for a leak.
check_analyzer() {
	local -a command=(gcc -O2 -fanalyzer -Werror -Wno-analyzer-malloc-leak
		-S -o /dev/null)

	# shellcheck disable=SC2206 # a list
	command+=($FLAGS)
	each 1 "$@"
}

# cppcheck goes on behind functions that do not return.  clang-tidy and gcc,
# which know these functions, look for the errors that are suppressed here.
check_cppcheck() {
	local id
	# shellcheck disable=SC2054 # commas of one argument
	local -a command=(cppcheck -q -j "$(nproc)" --language=c --std=c11
		--enable=warning,performance,portability --error-exitcode=1
		--inline-suppr '-D__attribute__(x)=' -D__x86_64__)

	for id in nullPointer nullPointerArithmetic nullPointerRedundantCheck \
	    nullPointerArithmeticRedundantCheck va_end_missing; do
		command+=(--suppress="$id")
	done
	# shellcheck disable=SC2206 # a list
	command+=(${FLAGS#* })
	"${command[@]}" "$@"
}

mapfile -t sources < <(find vmem magazine umem tests tools -name '*.[ch]' -o \
    -name '*.hpp')
mapfile -t code < <(find vmem magazine umem tools/inspect -name '*.c')
mapfile -t scripts < <(find tools tests -name '*.sh' -o -name '*.bash'
    echo .ci/run)
mapfile -t pages < <(find man -name '*.[1-9]')

check layers tools/build/check_layers.sh
check symbols tools/build/check_symbols.py "$1"
check style tools/build/check_style.py
check size tools/build/code_lines.py
check constants tools/build/check_constants.py
check models tests/models/run.py --check
if find_clang_format "$1"; then
	check format "$clang_format" --dry-run -Werror "${sources[@]}" ||
	    echo "lint: to format a file: $clang_format -i FILE"
else
	echo "lint: format skipped: no clang-format $FORMAT_VERSION, and PyPI" \
	    "cannot be reached"
fi
check tidy check_tidy "${code[@]}"
check analyzer check_analyzer "${code[@]}"
check cppcheck check_cppcheck "${code[@]}"
check pages mandoc -T lint -W warning "${pages[@]}"
check scripts shellcheck "${scripts[@]}"

if [ ${#failed[@]} -gt 0 ]; then
	echo "lint: failed: ${failed[*]}" >&2
	exit 1
fi
