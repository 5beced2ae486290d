#!/bin/bash
# umem samples --pprof: the profile has the figures, functions, lines and files
# of "umem samples --json", for a process and for its core.
# timeout: 60
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build sampled

UMEM_OPTIONS=sample=4k start "$TMP/sampled"
gcore -o core "$pid" >/dev/null 2>&1

for target in "$pid" "core.$pid"; do
	"$umem" samples --json "$target" >json || exit 1
	"$umem" samples --pprof "$target" >profile || exit 1
	python3 - "$target" <<'END' || exit 1
import gzip, json, sys

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at

def numbers(data):
    at, found = 0, []
    while at < len(data):
        value, at = varint(data, at)
        found.append(value)
    return found

def fields(data):
    """The fields of a message: number -> values."""
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            at += value
            value = data[at - value:at]
            assert len(data) >= at
        else:
            assert key & 7 == 0, key
        found.setdefault(key >> 3, []).append(value)
    return found

def one(message, field):
    values = message.get(field, [0])
    assert len(values) == 1, (message, field)
    return values[0]

live = not sys.argv[1].startswith("core")
report = json.load(open("json"))
profile = fields(gzip.open("profile").read())
text = [t.decode() for t in profile[6]]
assert text[0] == "" and len(set(text)) == len(text), text

def types(field):
    return [(text[one(t, 1)], text[one(t, 2)])
            for t in map(fields, profile[field])]

assert types(1) == [("inuse_objects", "count"), ("inuse_space", "bytes")]
assert types(11) == [("space", "bytes")]
assert one(profile, 12) == report["mean"] == 4096
assert text[one(profile, 14)] == "inuse_space"
assert not live or one(profile, 9) > 1e18
functions = {one(f, 1): f for f in map(fields, profile[5])}
mappings = {one(m, 1): m for m in map(fields, profile.get(3, []))}
locations = {one(l, 1): l for l in map(fields, profile[4])}

def frame(number):
    location = locations[number]
    line = fields(one(location, 4))
    function = functions[one(line, 1)]
    mapping = mappings.get(one(location, 2))
    if live:
        assert one(mapping, 2) <= one(location, 3) < one(mapping, 3)
        assert len(text[one(mapping, 6)]) == 40, "the build ID"
    return (one(location, 3), text[one(function, 2)], text[one(function, 4)],
            one(line, 2), text[one(mapping, 5)] if mapping else None)

samples = []
for sample in map(fields, profile[2]):
    stack = [frame(n) for n in numbers(one(sample, 1))]
    samples.append((numbers(one(sample, 2)), stack))
assert len(samples) == len(report["sites"])
for (values, stack), site in zip(samples, report["sites"]):
    assert abs(values[0] - site["about_buffers"]) <= 1, (values, site)
    assert abs(values[1] - site["about_bytes"]) <= 1, (values, site)
    want = site["newest"]["stack"]
    assert len(stack) == len(want)

caller = {stack[0][1]: stack for _, stack in samples}
for name in "keep_many", "keep_few", "forget":
    first, second = caller[name][:2]
    assert first[2] == "sampled.c" and 20 < first[3] < 80, first
    assert second[1] == "main", second
    assert not live or first[4].endswith("/sampled"), first
END
	# pprof itself, where it is installed.
	if command -v go >/dev/null && go tool pprof -h 2>&1 | grep -q pprof; then
		go tool pprof -top profile >top 2>err ||
		    { cat top err; exit 1; }
		grep -Eq '^ +[0-9.]+MB .* keep_many$' top ||
		    { cat top err; exit 1; }
	fi
done
rm -f "core.$pid"

# A message instead of half a profile.
if "$umem" samples --pprof "$pid" >/dev/full 2>err ||
    ! grep -q '^umem: standard output: ' err; then
	echo "no message when the disk is full:"
	cat err
	exit 1
fi
finish 0
