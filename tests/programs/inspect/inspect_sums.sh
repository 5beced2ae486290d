#!/bin/bash
# Sums of samples: all that call sites have allocated, the part of it that
# lived for a short time, and the state at the peak, of a process and its core.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build brief

# check JSON SITE=BLOCKS*SIZE:PART ... - these call sites have such sums, and no
# others have any; five times the deviation of so many samples is near
check() {
	python3 - "$@" <<'END' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
want = dict(text.split("=") for text in sys.argv[2:])
for site in report["users"]:
    name = site["call_site"].split(" ")[0]
    if name not in want:
        assert site["bytes"] < 100000, site
        continue
    total, part = want.pop(name).split(":")
    blocks, size = map(int, total.split("*"))
    near = 5 / (blocks * size / report["sample_bytes"]) ** 0.5
    assert abs(site["blocks"] / blocks - 1) < near, (name, site)
    assert abs(site["bytes"] / (blocks * size) - 1) < near, (name, site)
    got = site.get("bytes_in_use", site.get("bytes_below_1_ms", 0)) / site["bytes"]
    assert abs(got - float(part)) < 0.1, (name, site)
    assert site["estimated"] and site["stacks"][0]["frames"], site
assert not want, want
END
}

export UMEM_OPTIONS=sample=8k
start "$TMP/brief"
gcore -o core "$pid" >/dev/null 2>&1
for target in "$pid" "core.$pid"; do
	"$umem" users --allocated --json "$target" >json || exit 1
	check json 'churn=200000*200:0' 'rise=40000*1000:0' 'hold=10000*500:1'
	"$umem" users --temporary --json "$target" >json || exit 1
	check json 'churn=200000*200:1'
	"$umem" users --peak --json "$target" >json || exit 1
	check json 'rise=40000*1000:0'
done
# A sum of a damaged core may be below 0.
"$umem" users --allocated --json "core.$pid" >json || exit 1
python3 - "core.$pid" <<'END' || exit 1
import json, struct, sys
sums = [site["bytes"] for site in json.load(open("json"))["users"]]
core = open(sys.argv[1], "rb").read()
for n in sums:
    core = core.replace(struct.pack("<q", n), struct.pack("<q", -n))
open("damaged", "wb").write(core)
END
"$umem" users --allocated --json damaged >json || exit 1
grep -q '"bytes": 0,' json && ! grep -E '[0-9]{12}' json || exit 1

"$umem" users --peak --json "$pid" >json
[ "$(sed -n 's/^ *"peak_age_ns": \([0-9]*\),$/\1/p' json)" -gt 1000000000 ] || exit 1
expect 0 '^~[0-9.]+M allocated since sampling began in ~[0-9]+ blocks$' \
    users --allocated "$pid"
expect 0 '^ +BYTES SHARE +BLOCKS +IN USE  CALL SITE$' users --allocated "$pid"
expect 0 '^~[0-9.]+M allocated that lived less than a second in ~' \
    users --temporary "$pid"
expect 0 '^ +BYTES SHARE +BLOCKS +<1 MS  CALL SITE$' users --temporary "$pid"
expect 0 '^~[0-9.]+M allocated at the peak [1-9][0-9m]*s ago in ~' \
    users --peak "$pid"
expect 0 '^ +BYTES SHARE +BLOCKS  CALL SITE$' users --peak "$pid"
expect 0 '^ {4}brief`rise\+0x' users --peak -d "$pid"
expect 0 ';main;churn [0-9]+$' users --folded --temporary "$pid"
expect 0 'no blocks|allocated blocks from nobody found' users --peak -c nobody "$pid"

# The page says of which blocks it is.
"$umem" users --html --temporary "$pid" >page || exit 1
"$umem" users --html --peak "$pid" >>page || exit 1
"$umem" users --html "$pid" >>page || exit 1
for words in 'allocated that lived less than a second' \
    'allocated at the peak [0-9m]+s ago' allocated; do
	grep -Eq "^<p>~[0-9.]+ [KM]iB $words, estimated from samples; " page || {
		grep 'estimated from' page
		exit 1
	}
done
# The counters are the sums of all stacks: 85 MB in 250,000 blocks.
"$umem" metrics "$pid" >figures || exit 1
awk '{ n[$1] = $2 }
    END {
	bytes = n["umem_allocated_bytes_total"] / 85e6
	blocks = n["umem_allocated_blocks_total"] / 250e3
	exit !(bytes > 0.9 && bytes < 1.1 && blocks > 0.9 && blocks < 1.1 &&
	    n["umem_freed_bytes_total"] < n["umem_allocated_bytes_total"] &&
	    n["umem_freed_blocks_total"] < n["umem_allocated_blocks_total"])
    }' figures || exit 1

# A profile has both: the sums, and the blocks in use.
"$umem" users --pprof "$pid" >profile || exit 1
for word in alloc_objects alloc_space inuse_objects inuse_space churn hold; do
	grep -q "$word" profile || { echo "no $word in the profile"; exit 1; }
done

# The sums begin anew when the interval is set, also before the next sample.
"$umem" ctl "$pid" sample=4k >said || exit 1
again=()
for look in before after; do
	"$umem" users --allocated --json "$pid" >json || exit 1
	check json "${again[@]/%/20000*1000:0.5}"
	"$umem" users --temporary --json "$pid" >json || exit 1
	check json "${again[@]/%/10000*1000:1}"
	[ $look = after ] && break
	again=(again=)
	echo a >&9
	until grep -q "done" "$TMP/told"; do sleep 0.05; done
done
"$umem" users --peak --json "$pid" >json || exit 1
check json 'again=10000*1000:0' 'hold=10000*500:0'

expect 2 'no --pprof or --save of such sums' users --peak --save=x "$pid"
expect 2 'no --pprof or --save of such sums' users --peak --pprof "$pid"
expect 2 'sums of all caches only' users --peak "$pid" umem_alloc_64
expect 2 'umem users has the sums' leaks --peak "$pid"
finish 0
UMEM_OPTIONS='' start "$TMP/brief"
expect 2 'users: no callers are recorded' users --allocated "$pid"
finish 0
