#!/bin/bash
# umem users --html: the page has the figures and functions of "umem users
# --json", refers to no other file, has the whole flame graph without its
# script, and the script enlarges and marks boxes.
# umem users --pprof: the profile has the figures, functions, lines and files
# of "umem users --json", for a process and for its core.
# test timeout: 300
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build sampled

UMEM_OPTIONS=sample=4k start "$TMP/sampled"
gcore -o core "$pid" >/dev/null 2>&1

for target in "$pid" "core.$pid"; do
	"$umem" users --json "$target" >json || exit 1
	"$umem" users --pprof "$target" >profile || exit 1
	python3 - "$target" <<'END' || exit 1
import json, sys

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
profile = fields(open("profile", "rb").read())
text = [t.decode() for t in profile[6]]
assert text[0] == "" and len(set(text)) == len(text), text

def types(field):
    return [(text[one(t, 1)], text[one(t, 2)])
            for t in map(fields, profile[field])]

assert types(1) == [("alloc_objects", "count"), ("alloc_space", "bytes"),
                    ("inuse_objects", "count"), ("inuse_space", "bytes")]
assert types(11) == [("space", "bytes")]
assert one(profile, 12) == report["sample_bytes"] == 4096
assert text[one(profile, 14)] == "inuse_space"
assert not live or one(profile, 9) > 1e18
functions = {one(f, 1): f for f in map(fields, profile[5])}
mappings = {one(m, 1): m for m in map(fields, profile.get(3, []))}
locations = {one(l, 1): l for l in map(fields, profile[4])}

def frames(number):
    """The functions of a location, inlined ones first."""
    location = locations[number]
    mapping = mappings.get(one(location, 2))
    assert mapping, text[one(functions[one(fields(location[4][0]), 1)], 2)]
    assert one(mapping, 2) <= one(location, 3) < one(mapping, 3)
    assert len(text[one(mapping, 6)]) == 40, "the build ID"
    for line in map(fields, location[4]):
        function = functions[one(line, 1)]
        yield (one(location, 3), text[one(function, 2)],
               text[one(function, 4)], one(line, 2),
               text[one(mapping, 5)])

samples = []
for sample in map(fields, profile[2]):
    stack = [f for n in numbers(one(sample, 1)) for f in frames(n)]
    samples.append((numbers(one(sample, 2)), stack))
stacks = [s for row in report["users"] for s in row["stacks"]]
# What is in use, and then all that was allocated.
assert len(samples) > len(stacks)
for (values, stack), want in zip(samples, stacks):
    assert values[:2] == [0, 0], values
    assert abs(values[2] - want["blocks"]) <= 1, (values, want)
    assert abs(values[3] - want["bytes"]) <= 1, (values, want)
    assert len(stack) == len(want["frames"])
for values, stack in samples[len(stacks):]:
    assert values[0] > 0 and values[1] > 0 and values[2:] == [0, 0], values
del samples[len(stacks):]

caller = {stack[0][1]: stack for _, stack in samples if stack}
for name in "keep_many", "keep_few", "forget":
    first, second = caller[name][:2]
    assert first[2] == "sampled.c" and 20 < first[3] < 80, first
    assert second[1] == "main", second
    assert first[4].endswith("/sampled"), first
END
	# pprof itself, where Go is installed; Go 1.25 and later build it at its
	# first use, which takes 40 s on two idle CPUs.
	if command -v go >/dev/null && go tool pprof -h 2>&1 | grep -q pprof; then
		go tool pprof -top profile >top 2>err ||
		    { cat top err; exit 1; }
		grep -Eq '^ +[0-9.]+[kM]B .* keep_many$' top ||
		    { cat top err; exit 1; }
	fi
done

# The page, of a core with a name that is markup.
mv "core.$pid" '<i>&core'
"$umem" users --json '<i>&core' >json || exit 1
"$umem" users --html '<i>&core' >page.html || exit 1
"$umem" users --html "$pid" >live.html || exit 1
python3 - <<'END' || exit 1
import html.parser, json, re

page = open("page.html").read()
assert "<i>" not in page and "http" not in page and "src=" not in page
assert "<h1>Memory of sampled (" in open("live.html").read()

class Reader(html.parser.HTMLParser):
    void = {"meta", "input"}
    def __init__(self):
        super().__init__()
        self.open, self.script, self.title, self.cells = [], "", "", []
        self.boxes = []
    def handle_starttag(self, tag, attributes):
        if tag == "td":
            self.cells.append("")
        attributes = dict(attributes)
        if attributes.get("id") == "graph":
            self.height = int(re.search(r"height:(\d+)px",
                                        attributes["style"])[1])
        if tag == "div" and "top:" in attributes.get("style", ""):
            self.boxes.append([attributes, ""])
        if tag not in self.void:
            self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.script += data
        if self.open and self.open[-1] == "h1":
            self.title += data
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data
        if self.boxes and self.open[-1:] == ["div"] and data != "\n":
            self.boxes[-1][1] += data

reader = Reader()
reader.feed(page)
assert not reader.open, reader.open
assert reader.title == "Memory of <i>&core", reader.title
# The table has the call sites, the largest first.  Figures have two digits.
def near(figure, value):
    return abs(float(figure.lstrip("~")) - value) <= 1 + 0.05 * value
assert re.fullmatch(r"~?[0-9.]+ MiB", reader.cells[0]), reader.cells
rows = [(blocks, name.split()[0])
        for blocks, name in zip(reader.cells[2::4], reader.cells[3::4])]
for (blocks, name), site in zip(rows, json.load(open("json"))["users"]):
    assert near(blocks, site["blocks"]), (rows, site)
    assert name == site["call_site"].split()[0], (rows, site)
assert {"keep_many", "keep_few", "forget"} <= {n for _, n in rows}, rows

# Without the script, each box has its place, and the figures of the stacks that
# begin like it.
# Blocks without a stack are in a box with the name of their row.
sites = [(row, s) for row in json.load(open("json"))["users"]
         for s in row["stacks"]]
whole = sum(site["bytes"] for _, site in sites)
want = {}
for row, site in sites:
    stack = ["all"] + ([re.sub(r".*`|\+0x[0-9a-f]+( \(.*)?$", "", frame)
                        for frame in reversed(site["frames"])]
                       or [row["call_site"]])
    for depth in range(len(stack)):
        box = want.setdefault(tuple(stack[:depth + 1]), [0, 0])
        box[0] += site["bytes"]
        box[1] += site["blocks"]
want = {k: v for k, v in want.items() if v[0] > 1.1e-4 * whole}
style = re.compile(r"left:([0-9.]+)%;width:([0-9.]+)%;top:(\d+)px")
title = re.compile(r"(.*): (~[0-9.]+ [KM]?i?B) \(([0-9.]+)%\) "
                   r"in (~\d+) blocks?")
boxes, found = [], {}
for attributes, name in reader.boxes:
    left, width, top = map(float, style.fullmatch(attributes["style"]).groups())
    named, _, share, blocks = title.fullmatch(attributes["title"]).groups()
    assert named == name and abs(float(share) - width) < 0.06, attributes
    assert top % 18 == 0 and top < reader.height, top
    boxes.append((top, left, left + width, name))
    # Its callers are the boxes above it.
    middle = left + width / 2
    above = sorted(b for b in boxes if b[1] <= middle <= b[2])
    assert [b[0] for b in above] == [18.0 * i for i in range(len(above))], above
    found[tuple(b[3] for b in above)] = width, blocks
for path, (size, blocks) in want.items():
    width, nblocks = found.pop(path)
    assert abs(width - 100 * size / whole) < 0.001, (path, width, size)
    assert near(nblocks, blocks), (path, nblocks, blocks)
assert all(width < 0.012 for width, _ in found.values()), found
names = {b[3] for b in boxes}
assert {"main", "keep_many", "keep_few", "forget"} <= names, names
json.dump([[b[0], b[1], b[2] - b[1], b[3]] for b in boxes],
          open("boxes.json", "w"))
open("script.js", "w").write(reader.script)
END
# The script, in a document that has only the boxes.
if command -v node >/dev/null; then
	{
		echo "const boxes = $(cat boxes.json);"
		cat - script.js <<'END'
class Element {
	constructor(name, style) {
		this.textContent = name;
		this.title = 'figures of ' + name;
		this.style = style;
		this.names = new Set();
		this.classList = {toggle: (name, is) =>
			is ? this.names.add(name) : this.names.delete(name)};
	}
}
const graph = boxes.map(([top, left, width, name]) => new Element(name,
	{left: left + '%', width: width + '%', top: top + 'px'}));
const search = {}, zoom = {hidden: true, lastElementChild: search};
const figures = {};
const document = {
	getElementById: id => ({graph: {children: graph}, zoom, figures})[id]
};
END
		cat <<'END'
const find = name => graph.find(d => d.textContent === name);
const width = name => parseFloat(find(name).style.width);
const isWhole = width => Math.abs(width - 100) < 1e-9; // after a division
const check = (is, what) => { if (!is) throw new Error(what); };
const before = JSON.stringify(graph.map(d => d.style));
check(!zoom.hidden, 'the search is shown');
check(figures.textContent === 'figures of all', 'of the top box');
find('keep_few').onclick();
check(isWhole(width('keep_few')) && find('keep_few').style.left === '0%',
    'enlarged');
check(isWhole(width('main')) && find('main').names.has('above') &&
    !find('main').hidden, 'its caller');
check(find('keep_many').hidden, 'others');
check(figures.textContent === 'figures of keep_few', 'without a pointer');
check(!find('keep_few').hidden && !find('keep_few').names.has('above'),
    'itself');
search.oninput({target: {value: 'keep_f'}});
check(find('keep_few').names.has('match') && !find('main').names.has('match'),
    'found');
search.oninput({target: {value: ''}});
check(!find('keep_few').names.has('match'), 'no search');
find('all').onclick();
check(graph.every(d => !d.hidden && !d.names.has('above')), 'all again');
const after = graph.map(d => parseFloat(d.style.width));
check(JSON.parse(before).every((style, i) =>
    Math.abs(parseFloat(style.width) - after[i]) < 1e-6), 'widths again');
END
	} >run.js
	node run.js || exit 1
fi
rm -f '<i>&core'

# A message instead of half a profile.
if "$umem" users --pprof "$pid" >/dev/full 2>err ||
    ! grep -q '^umem: standard output: ' err; then
	echo "no message when the disk is full:"
	cat err
	exit 1
fi
finish 0

# Without blocks, the page says so, and has neither graph nor table.
cat >none.c <<'END'
#include <stdio.h>
#include <unistd.h>

int
main(void)
{
	char c;

	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	return read(0, &c, 1) != 0;
}
END
"$CC" -o none none.c
UMEM_OPTIONS=sample=1 start ./none
# page TEXT COMMAND... - the page must have this paragraph, and no figures
page() {
	"$umem" "${@:2}" >page || exit 1
	if ! grep -Eq "^<p>$1; 20[0-9-]+ [0-9:]+</p>\$" page ||
	    grep -Eq '<table|<script|id="graph"|[0-9] B' page ||
	    [ "$(tail -n 1 page)" != "</html>" ]; then
		echo "umem ${*:2}: no '$1', or more in:"
		sed '/<style>/,/<.style>/d' page
		exit 1
	fi
}
page 'no leaks found' leaks --html "$pid"
page 'no leaks from nobody&#38; found' leaks -c 'nobody&' --html "$pid"
page 'no allocated blocks from nobody found' users -c nobody --html "$pid"
"$umem" leaks --save=look "$pid" >said
page 'nothing more since the look [0-9]+s before' diff --html look "$pid"
finish 0
