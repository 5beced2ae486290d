#!/bin/bash
# Objects of caches are sampled: umem users and leaks name the caller of
# umem_cache_alloc(), and their estimates are near the truth.
# test timeout: 60
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build objects

for mode in rseq locked; do
	UMEM_OPTIONS=mode=$mode,sample=4k start "$TMP/objects"
	for command in users leaks; do
		"$umem" "$command" --json "$pid" >"$command.json"
	done
	python3 - <<-'END' || exit 1
	import json
	true = {"grow_widgets": (5000, 300), "lose_widgets": (5000, 300),
	        "grow_jobs": (10000, 96), "lose_bulk": (4096, 200)}
	lost = {name for name in true if name.startswith("lose")}

	def check(rows, names, label):
	    left = set(names)
	    for row in rows:
	        name = row["call_site"].split(" ")[0]
	        if name not in true:
	            continue
	        assert name in left, (label, row)
	        left.discard(name)
	        n, size = true[name]
	        # Five times the deviation of as many samples as there are.
	        near = 5 / (n * size / 4096) ** 0.5
	        assert abs(row["blocks"] / n - 1) < near, (label, row)
	    assert not left, (label, left, rows)

	check(json.load(open("users.json"))["users"], true, "users")
	check(json.load(open("leaks.json"))["leaks"], lost, "leaks")
	END
	expect 0 ' grow_widgets \(objects\.c:[0-9]+\) < main$' users "$pid"
	expect 0 ' lose_widgets \(objects\.c:[0-9]+\) < main$' users "$pid" widget
	expect 0 ' grow_jobs \(objects\.c:[0-9]+\) < main$' users "$pid" job
	if grep widgets said; then
		echo "the objects of another cache"
		exit 1
	fi
	expect 1 ' lose_bulk \(objects\.c:[0-9]+\) < main$' leaks "$pid"
	if grep grow_ said; then
		echo "what is kept is no leak"
		exit 1
	fi
	finish 0
done

# Every object is a sample; whatis knows its cache.
UMEM_OPTIONS=sample=1 start "$TMP/objects"
object=$(sed -n 's/^object //p' told)
expect 0 "^$object is $object\+0x0, in an allocated sample of 300 bytes .*, of cache widget" \
    whatis "$pid" "$object"
expect 1 ' 5000 .* lose_widgets \(objects\.c:[0-9]+\) < main$' leaks "$pid"
finish 0

# Sampling begins and ends in a running process.
start "$TMP/objects"
expect 0 '^sample=1000 ' ctl "$pid" sample=1000
expect 0 '^sample=off ' ctl "$pid" sample=off
finish 0
