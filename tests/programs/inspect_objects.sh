#!/bin/bash
# Objects of caches are sampled: umem users, samples and leaks name the caller
# of umem_cache_alloc(), and their estimates are near the truth.
# timeout: 60
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build objects

for mode in rseq locked; do
	UMEM_OPTIONS=mode=$mode,sample=4k start "$TMP/objects"
	for command in users samples leaks; do
		"$umem" "$command" --json "$pid" >"$command.json"
	done
	python3 - <<-'END' || exit 1
	import json
	true = {"grow_widgets": (5000, 300, "widget"),
	        "lose_widgets": (5000, 300, "widget"),
	        "grow_jobs": (10000, 96, "job"),
	        "lose_bulk": (4096, 200, "bulk")}
	lost = {name for name in true if name.startswith("lose")}

	def check(rows, key, names, label):
	    left = set(names)
	    for row in rows:
	        name = row[key].split("`")[-1].split("+")[0].split(" ")[0]
	        if name not in true:
	            continue
	        assert name in left, (label, row)
	        left.discard(name)
	        n, size, cache = true[name]
	        blocks = row.get("about_buffers", row.get("blocks"))
	        # Five times the deviation of as many samples as there are.
	        near = 5 / (n * size / 4096) ** 0.5
	        assert abs(blocks / n - 1) < near, (label, row)
	        if "newest" in row:
	            assert row["newest"]["cache"] == cache, row
	            assert row["newest"]["size"] == size, row
	    assert not left, (label, left, rows)

	check(json.load(open("samples.json"))["sites"], "caller", true, "samples")
	check(json.load(open("users.json"))["users"], "call_site", true, "users")
	check(json.load(open("leaks.json"))["leaks"], "call_site", lost, "leaks")
	END
	expect 0 ' grow_widgets \(objects\.c:[0-9]+\) < main$' users "$pid"
	expect 0 ' lose_widgets \(objects\.c:[0-9]+\) < main$' users "$pid" widget
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
expect 0 ': one sample in about 1000 bytes$' sample "$pid" 1000
expect 0 ': sampling is off$' sample "$pid" off
finish 0
