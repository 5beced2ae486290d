#!/bin/bash
# umem doctor: settings of the machine and of a process, as lines and as JSON.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build sampled

# line STATUS REGEX - a line of the report on $pid matches, in JSON, too
line() {
	"$umem" doctor "$pid" >said 2>err
	if [ $? -gt 1 ] || [ -s err ] || ! grep -Eq "$1" said; then
		echo "no line $1"
		cat said err
		exit 1
	fi
}

start "$TMP/sampled"
line '^ok +magazines +(rseq|locked: no restart)'
line '^(ok|cost) +huge pages +(always|madvise|never|none); 4 KiB take [0-9.]+ us, in huge pages [0-9.]+ us$'
if awk 'length > 80' said | grep .; then
	echo "doctor is beyond 80 columns"
	exit 1
fi
line '^ok +mappings +[1-9][0-9]* of [0-9]+$'
line '^ok +hard_limit +none; the process may have [0-9.]+[GM]$'
"$umem" doctor --json "$pid" >json
status=$?
python3 - "$status" <<'END' || exit 1
import json, sys
report = json.load(open("json"))
names = [setting["setting"] for setting in report]
assert names[:4] == ["magazines", "mappings", "soft_limit", "hard_limit"], names
assert "overcommit" in names and "mm_cid" in names, names
assert all(setting["state"] for setting in report), report
assert any(s["advice"] for s in report) == (sys.argv[1] == "1"), report
END
finish 0

UMEM_OPTIONS=mode=locked,hard_limit=100m start "$TMP/sampled"
line '^cost +magazines +locked'
line '^ +no mode=locked, valgrind, '
line '^ok +hard_limit +100M; '
expect 1 '' doctor "$pid"
finish 0

# The kernel marks the setting that is in force, which may be the first one.
pages=/sys/kernel/mm/transparent_hugepage/enabled
if [ -e $pages ] && unshare -m true 2>/dev/null; then
	for word in always madvise never; do
		echo 'always madvise never' | sed "s/$word/[&]/" >enabled
		# shellcheck disable=SC2016 # for the inner shell
		unshare -m bash -c 'mount --bind enabled "$1" && exec "$2" doctor' \
		    - $pages "$umem" >said
		grep -Eq "^(ok|cost) +huge pages +$word; " said ||
		    { cat enabled said; exit 1; }
	done
fi

expect 2 'no such process' doctor 999999999
expect 2 'does not run on umem' doctor $$
expect 2 'usage' doctor 1 2
