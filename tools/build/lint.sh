#!/bin/bash
# lint.sh - checks layers, symbols, style, size, format, products of 32 bits,
# man pages and scripts
#
#	tools/build/lint.sh BUILD	BUILD has the objects, and may keep
#					clang-format
#
# Runs in the tree's root, goes on after a failure, and says at the end what
# failed.
set -u

FORMAT_VERSION=18.1.8
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

# A product of two counts of 32 bits wraps before it becomes a size of 64 bits.
check_products() {
	local files output

	mapfile -t files < <(find vmem magazine umem tools/inspect -name '*.c')
	output=$(clang-tidy --quiet --header-filter=. --warnings-as-errors='*' \
	    --checks=-*,bugprone-implicit-widening-of-multiplication-result \
	    "${files[@]}" -- -std=gnu11 -I. -Iumem -D_GNU_SOURCE \
	    -DUMEM_DEBUG 2>&1) && return
	grep -v " generated\.$" <<<"$output"
	return 1
}

mapfile -t sources < <(find vmem magazine umem tests tools -name '*.[ch]' -o \
    -name '*.hpp')
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
check products check_products
check pages mandoc -T lint -W warning "${pages[@]}"
check scripts shellcheck "${scripts[@]}"

if [ ${#failed[@]} -gt 0 ]; then
	echo "lint: failed: ${failed[*]}" >&2
	exit 1
fi
