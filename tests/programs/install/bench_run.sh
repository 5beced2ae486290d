#!/bin/bash
# The benchmark's runner: its files are well formed and complete, and a program
# that fails under our library makes it exit 1.
# test timeout: 60
set -u
fail() {
	echo "$*"
	tail -n 20 out err
	exit 1
}

# fake FILE LINE... - a shell script
fake() {
	printf '%s\n' '#!/bin/sh' "${@:2}" >"$1"
	chmod +x "$1"
}

mkdir -p build/bench bin
PATH=$PWD/bin:$PATH
library=$(readlink -f "$SHIM")
ln -s "$library" build/libumem_malloc.so.1
ln -s "${library%/*}/libumem_rcu.so.1" build/
for name in launch cache churn rcu; do
	libraries=
	[ $name = rcu ] && libraries='-lurcu-memb -lurcu-cds'
	# shellcheck disable=SC2086 # a list
	"$CC" -std=gnu11 -O1 -I"$TOP" -I"$TOP/umem" -D_GNU_SOURCE \
	    -o "build/bench/$name" "$TOP/tests/bench/$name.c" -pthread \
	    $libraries -ldl 2>err >out ||
		fail "$name.c does not compile"
done
run() {
	env -u LIMIT -u QUICK "$@" PYTHONDONTWRITEBYTECODE=1 PEERS=glibc \
	    SCALE=0.002 python3 "$TOP/tests/bench/run.py" build >out 2>err
}

# A stand-in for a real program; the runner compares its output.
fake bin/lua5.4 'echo same'
run ONLY='^(cache-|churn|lua|rcu)' ROUNDS=2 || fail "exit $?"
python3 - "$TOP/tests/bench" <<'END' || fail "bad results"
import json
import sys
import xml.dom.minidom

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import allocators
import page
import report
import run

content = json.load(open("build/bench.json"))
figures = content["figures"]
for name in ("cache.thrash", "cache.scratch", "churn.thread", "churn.rss",
             "cache-thrash.cpu"):
    for allocator in ("ours", "glibc"):
        assert len(figures[name]["samples"][allocator]) == 2, name
    assert name == "cache-thrash.cpu" or figures[name]["ratios"]["ours"] > 0
# Deferred frees of ours are compared with the methods of the peer.
for name in ("rcu.table.own.best", "rcu.array.own.callback", "rcu.array.own.best.peak"):
    assert figures[name]["ratios"]["ours"] > 0, name
    assert min(figures[name]["medians"].values()) > 0, name
assert (figures["rcu.table.own.best"]["samples"]["ours"]
        == figures["rcu.table.cache"]["samples"]["ours"])
assert "glibc" not in figures["rcu.table.cache"]["samples"]
assert not content["failures"], content["failures"]
peak = content["over_programs"]["peak RSS"]
assert peak["ours"][1] == peak["glibc"][1] >= 3, peak
assert min(v[0] for v in peak.values()) >= 1, peak
# The chart has a dot for each allocator.
dots = xml.dom.minidom.parse("build/bench.svg").getElementsByTagName("circle")
assert len(dots) == len(content["over_programs"]["time"]) == 2
# A page loads nothing, and is a document that ends.
text = open("build/bench.html").read()
xml.dom.minidom.parseString(
    text.replace("<!DOCTYPE html>", "").replace("&nbsp;", " "))
assert text.count("<svg") >= 3 and "src=" not in text and "@import" not in text
# Nobody is early more often than others, nor first again and again.
for n, rounds in (2, 2), (3, 2), (12, 2), (12, 4):
    orders = [run.in_turn(list(range(n)), i, rounds) for i in range(rounds)]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert {sum(order.index(i) for order in orders) for i in range(n)} == {
        (n - 1) * rounds // 2}, orders
    assert len({order[0] for order in orders}) == rounds, orders
assert "larson" in "".join(w for w, _ in page.MARKDOWN)


# tcmalloc is asked how it runs; python3 of this environment answers for it.
for answer, text in ("1", "each CPU"), ("0", "each THREAD"), ("", "unknown"):
    allocators.TCMALLOC_MODE = f"print('{answer}')"
    assert text in allocators.mode(allocators.make("tcgoogle", "")), answer
assert allocators.mode(allocators.make("mimalloc2", "")) == ""


class Bench:
    allocators = {"ours": 0, "a": 0, "b": 0}
    units = {"p.cpu": "s", "q.cpu": "s", "r": "Mops/s"}
    fixed = {"p": True, "q": True}
    samples = {
        "p.cpu": {"ours": [2, 2, 9], "a": [1, 4, 3], "b": [8, 8, 8]},
        "q.cpu": {"ours": [1, 1], "a": [4, 4]},
        "r": {"ours": [50.0], "a": [100.0], "b": [25.0]},
    }


# By hand: p's medians are 2, 3, 8; ours to a by round 2, 0.5, 3.
rows = [report.make_row(Bench, figure) for figure in Bench.units]
assert rows[0].ratios["ours"] == 2 and rows[0].spread == (0.5, 3)
assert rows[2].ratios == {"ours": 2, "a": 1, "b": 4}
# Over the programs that all have run.
over, without = report.over_programs(Bench, rows, ".cpu")
assert over["ours"] == (1, 1) and over["b"][1] == 1 and without == ["q"]
assert abs(over["a"][0] - 1.5) < 1e-9 and abs(over["b"][0] - 4) < 1e-9
# A figure by umem's own interface counts in its group, but not in all times.
for figure, groups in (
        ("objcache.own.pair", {"object cache"}),
        ("rcu.table.own.best.peak", {"deferred, peak"}),
        ("pair.64.set", {"pairs, written", "all times"}),
        ("xmalloc.64.2", {"hand-over", "all times"})):
    row = report.Row(figure, "ns", {}, {})
    assert set(report.groups_of(row)) == groups, figure
# One that ran less than half of them is not compared.
means, without = report.means_in_common(
    {"p": {"x": 1, "y": 2}, "q": {"x": 4, "y": 2}, "r": {"x": 1, "z": 1},
     "s": {"x": 1, "y": 1}})
assert means.keys() == {"x", "y"} and without == ["r"], means
assert abs(means["x"][0] - 4 ** (1 / 3)) < 1e-9 and means["x"][1] == 3
END
python3 "$TOP/tests/bench/run.py" build --table >rows 2>err || fail "no table"
grep -q '^| | umem | glibc |$' rows || fail "no head: $(cat rows)"
grep -q '^| peak RSS of 4 programs' rows || fail "no mean: $(cat rows)"

# It fails on our library alone; a peer's failure is only told.
# shellcheck disable=SC2016 # for the scripts
{
	on_ours='case $LD_PRELOAD in *umem*) true ;; *) false ;; esac &&'
	on_libc='[ -z "$LD_PRELOAD" ] &&'
	die='kill -9 $$'
}
fake build/bench/churn "$on_ours exit 3" 'exit 0'
run ONLY='^churn' ROUNDS=1
[ $? -eq 1 ] || fail "a failure must be exit 1"
grep -q '^FAILED: churn under ours: exit 3' out || fail "not told"
fake build/bench/churn "$on_libc $die" 'exit 0'
run ONLY='^churn' ROUNDS=1 || fail "a peer's failure must not matter"
grep -q '^FAILED: churn under glibc: SIGKILL' out || fail "not told"
fake bin/lua5.4 "$on_ours echo another" 'exit 0'
run ONLY='^lua' ROUNDS=1
[ $? -eq 1 ] || fail "another output must be exit 1"
grep -q '^FAILED: lua under ours: its output' out || fail "not told"
fake build/bench/churn 'echo churn.thread 1 parsec'
run ONLY='^churn' ROUNDS=1
[ $? -eq 1 ] || fail "an unknown unit must be exit 1"
run ONLY=nonesuch
[ $? -eq 2 ] || fail "no program must be exit 2"
exit 0
