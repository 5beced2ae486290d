#!/bin/bash
# Every command prints an estimate from samples in one form: "~", two digits of
# significance, and a unit for bytes.  With an interval of 1 nothing is
# estimated.  A page has one row for a call site, with all callers.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build figures

# estimates NAME - every figure of the rows in said must be one
estimates() {
	python3 - said "$1" <<-'END' || exit 1
	import re, sys
	text = open(sys.argv[1]).read()
	figures = re.findall(r"~[^\s<,(]+", text.replace("&minus;", "-"))
	bytes = r"~[+-]?(\d\.\d|\d\d?|[1-9]\d0)([KMGT]?)"
	blocks = r"~[+-]?\d\d?0*"
	assert len(figures) >= 4, (sys.argv[2], text)
	for figure in figures:
	    assert re.fullmatch(bytes, figure) or re.fullmatch(blocks, figure), \
	        (sys.argv[2], figure)
	END
}

# has REGEX - a line of said must match
has() {
	if ! grep -Eq -e "$1" said; then
		echo "no $1 in"
		cat said
		exit 1
	fi
}

UMEM_OPTIONS=sample=4k start "$TMP/figures"
for command in users leaks; do
	"$umem" $command "$pid" >said
	estimates $command
	has '^~[0-9.]+M (allocated|leaked) in ~[0-9]{2}0+ blocks'
	has '^ +~[0-9.]+M +[0-9]+% +~[0-9]{2}0+ '
	if grep -E '<1 ' said; then
		echo "a row of nothing"
		exit 1
	fi
done
"$umem" top -n 1 "$pid" >said
has '^ +~[0-9.]+M +[-0] +~[0-9]{2}0+ +keep '
estimates top
"$umem" users --html "$pid" >said
has '^<p>~[0-9.]+ MiB allocated, estimated from samples; '
has '^<tr><td>~[0-9.]+ MiB</td><td>[0-9]+%</td><td>~[0-9]{2}0+</td><td>keep '
has '>keep \(figures.c:[0-9]+\)( &#60; descend)+ &#60; main; 7 more stacks<'
if [ "$(grep -c '<td>keep ' said)" -ne 1 ]; then
	echo "a call site has several rows"
	grep '<td>keep ' said
	exit 1
fi
finish 0

UMEM_OPTIONS=sample=1 start "$TMP/figures"
for command in users leaks; do
	"$umem" $command "$pid" >said
	if grep '~' said; then
		echo "an estimate although every block is a sample:"
		exit 1
	fi
done
has '^4\.2M leaked in 15001 blocks'
finish 0
