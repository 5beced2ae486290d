#!/bin/bash
# umem grep finds the words that the kernel holds for a process, and those in
# registers; --json has them, too, and -q only addresses.  It searches memory on
# both sides of a part that is not touched.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build handed
start "$TMP/handed"
read -r fd polled timed read_into far <"$TMP/told"

# has KIND KEY VALUE WORD - does umem grep --json find the word there?
has() {
	"$umem" grep --json "$pid" "$4" | python3 -c '
import json, sys
kind, key, value = sys.argv[1:]
found = json.load(sys.stdin)
sys.exit(not any(row.get("kind") == kind and str(row.get(key)) == value
                 for row in found))' "$1" "$2" "$3" || {
		echo "umem grep --json: no $1 with $2 $3"
		"$umem" grep --json "$pid" "$4"
		exit 1
	}
}

expect 0 "^in the kernel, for epoll descriptor $fd$" grep "$pid" "$polled"
has kernel what "the kernel, for epoll descriptor $fd" "$polled"
expect 0 "^in the kernel, for a timer's signal$" grep "$pid" "$timed"
has kernel what "the kernel, for a timer's signal" "$timed"
expect 0 "^register [0-9]+ of thread $pid$" grep "$pid" "$read_into"
has register thread "$pid" "$read_into"
for word in "$polled" "$timed" "$read_into"; do
	"$umem" grep -q "$pid" "$word" >said || exit 1
	if grep -Evq '^[0-9a-f]+$' said; then
		echo "grep -q prints more than addresses:"
		cat said
		exit 1
	fi
done
"$umem" grep -q "$pid" "$far" | grep -qx "$far" ||
	{ echo "not found behind a gap"; exit 1; }
for word in '' -10 +10 ' 10' 10x 10000000000000000; do
	expect 2 "^umem: grep: ${word/+/\\+} is no address\$" grep "$pid" -- "$word"
done
# A search for an address 16 bytes below finds it only with the distance.
expect 0 "^in the kernel, for a timer's signal$" grep -d 16 "$pid" \
    "$(printf %x $((0x$timed - 16)))"
"$umem" grep "$pid" "$(printf %x $((0x$timed - 16)))" >said 2>err
if grep -q "in the kernel" said; then
	echo "found $timed as a word that is 16 bytes below it"
	exit 1
fi
finish 0
