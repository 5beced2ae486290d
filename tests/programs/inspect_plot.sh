#!/bin/bash
# umem plot records a process without stopping it, and its page has the layers,
# the call sites that grew, the leaks and the flame graph.  A page that is made
# from a saved record is the same.  The end of the process is said, a recording
# that was killed is still of use, and no damaged record does harm.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build growing
build sampled
: >err

bad() {
	echo "$*"
	tail -20 err
	exit 1
}

# recorded FILE N - waits until the recording has N looks
recorded() {
	until [ -f "$1" ] && [ "$(grep -c '^look' "$1")" -ge "$2" ]; do
		kill -0 $plot 2>/dev/null || bad "no recording"
		sleep 0.05
	done
}

cat >page.py <<'END2'
"""page.py PAGE: the texts of a page, after checks that it is one file of HTML."""
import html.parser, re, sys

class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.open, self.texts, self.scripts, self.rows = [], [], [], []
        self.areas, self.boxes, self.figures = [], [], []
        self.columns = []
        text = open(path).read()
        assert "http" not in text and "src=" not in text
        self.feed(text)
        self.close()
        assert not self.open, self.open
    def handle_starttag(self, tag, attributes):
        if tag == "path":
            self.areas.append(dict(attributes)["d"])
        attributes = dict(attributes)
        if tag == "pre":
            self.figures.append("")
        if tag == "div" and attributes.get("class", "").startswith("look"):
            left, width = re.findall("[0-9.]+", attributes["style"])
            self.columns.append((float(left), float(width),
                                 "late" in attributes["class"]))
        if tag == "div" and "title" in attributes:
            self.boxes.append((attributes["title"], attributes["style"]))
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        if tag not in ("meta", "input"):
            self.open.append(tag)
    def handle_startendtag(self, tag, attributes):
        pass
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and "style" not in self.open:
            self.texts.append(data)
            if "td" in self.open:
                self.rows[-1][-1] += data
            if "pre" in self.open:
                self.figures[-1] += data
END2

# The process is not stopped, and what it does meanwhile is in the page.
UMEM_OPTIONS=sample=16k start "$TMP/growing"
"$umem" plot -i 0.1 --no-leaks --save=record "$pid" >page.html 2>err 9>&- &
plot=$!
python3 - "$pid" 9>&- <<'END2' &
import re, sys, time
end = time.time() + 1.5
while time.time() < end:
    status = open("/proc/%s/status" % sys.argv[1]).read()
    assert "TracerPid:\t0" in status, status
    assert not re.search(r"^State:\t[tT]", status, re.M), status
END2
looking=$!
recorded record 3
echo >&9
until grep -q more told; do
	sleep 0.05
done
recorded record 6
wait $looking || bad "the process was stopped"
kill -TERM $plot
wait $plot || bad "umem plot ended with $?"
[ ! -s err ] || bad "umem plot complains"
python3 - "$pid" <<'END2' || bad "the page"
import re, sys
from page import Page
lines = [l.split("\t") for l in open("record").read().splitlines()]
layers = next(l for l in lines if l[0] == "fields")[4:]
looks = [[float(x) for x in l[1:]] for l in lines if l[0] == "look"]
assert len(looks) >= 6 and looks[0][0] == 0, looks
for look in looks:
    # RSS and untouched are all layers together.
    assert look[1] == sum(look[3:]) - look[2], look
assert all(a[0] < b[0] for a, b in zip(looks, looks[1:]))
assert [l for l in lines if l[0] == "no_leaks"]
page = Page("page.html")
text = "".join(page.texts)
assert "Memory of growing (%s)" % sys.argv[1] in text
assert re.search(r"Most of the change: in use \+[345][. ]", text), text
assert "%d looks" % len(looks) in text
# The areas lie in the square, and end where they began.
used = [i for i in range(len(layers)) if any(look[3 + i] for look in looks)]
assert len(page.areas) == len(used) >= 6, used
for area in page.areas:
    numbers = [float(n) for n in re.findall(r"[0-9.]+", area)]
    assert len(numbers) >= 2 * len(looks) and max(numbers) == 1000, area
    assert area.startswith("M0,1000L0.0,") and area.endswith("V1000Z"), area
# The table is in the order of the areas, the uppermost first.
names = [r[0] for r in page.rows if len(r) == 6]
order = [names.index(n) for n in ("RSS", "not ours", "library", "samples",
                                  "cached in depots", "in use")]
assert order == sorted(order), names
sites = [r for r in page.rows if len(r) == 4]
assert re.fullmatch(r"~\+[345]\.\d MiB", sites[0][0]), sites
assert sites[0][3].startswith("keep_more (growing.c:"), sites
for name in "main", "keep_more":
    assert any(title.startswith(name + ": ~") and
               float(re.search("width:([0-9.]+)%", style)[1]) > 30
               for title, style in page.boxes), page.boxes
# The figures of each look, in the order of the table.
order = [r[0] for r in page.rows if len(r) == 6]
assert len(page.figures) == len(looks), page.figures
for look, figures in zip(looks, page.figures):
    lines = figures.split("\n")
    assert re.fullmatch(r"[-0-9]{10} [0-9:]{8}", lines[0]), lines
    assert [re.split("  +", l)[0].strip("- ") for l in lines[1:]] == \
        [name.strip("\u2212 ") for name in order], (lines, order)
    number, unit = re.search(r"([0-9.]+) (.)iB$", lines[1]).groups()
    size = float(number) * {"K": 2**10, "M": 2**20, "G": 2**30}[unit]
    assert size <= look[1] < size + 2**20, (lines, look)
# The columns of the looks lie side by side; the figures of the right half, to
# the left of their columns.
assert len(page.columns) == len(looks), page.columns
end = 0
for (left, width, late), look in zip(page.columns, looks):
    assert abs(left - end) < 0.01 and width > 0, page.columns
    end = left + width
    x = look[0] / looks[-1][0]
    assert late == (x > 0.5) or abs(x - 0.5) < 0.01, (late, x)
assert abs(end - 100) < 0.01, page.columns
assert "No search for leaks was wanted." in text
END2
"$umem" plot record >again.html 2>err || bad "umem plot record: $?"
cmp page.html again.html || bad "another page from the record"

# Boxes stand in the order of their sizes, and the smallest are left out.
python3 - "$umem" <<'END2' || bad "the boxes"
import subprocess, sys
from page import Page
lines = [l for l in open("record").read().splitlines()
         if not l.startswith("stack")]
end = lines[-1].split("\t")
assert end[0] == "end", end
stacks = (300000, "main", "small"), (9, "main", "large", "tiny"), \
    (600000, "main", "large"), (99980, "other"), (11, "tiniest")
lines[-1] = "\t".join(end[:3] + [str(len(stacks))])
lines[-1:-1] = ["\t".join(["stack", str(bytes), "1.00", *names])
                for bytes, *names in stacks]
open("boxes", "w").write("\n".join(lines) + "\n")
open("boxes.html", "wb").write(subprocess.check_output(
    [sys.argv[1], "plot", "boxes"]))
page = Page("boxes.html")
names = [title.split(":")[0] for title, _ in page.boxes]
assert names == ["all", "main", "other", "large", "small"], names
assert "Boxes of at most 0.01% of the memory are left out: 2." in \
    "".join(page.texts)
END2

# Records of a killed command, cut ones and damaged ones.
"$umem" plot -i 0.1 --save=killed "$pid" >/dev/null 2>err 9>&- &
plot=$!
recorded killed 2
kill -9 $plot
wait $plot 2>/dev/null
"$umem" plot killed >page.html 2>err || bad "the record of a killed command"
grep -q 'The recording was cut short' page.html || bad "not said to be cut"
python3 - "$umem" <<'END2' || exit 1
import os, random, subprocess, sys
whole = open("record", "rb").read()
LIMIT = 60 * int(os.environ["TEST_TIME_FACTOR"])

def attempt(data, what):
    open("hurt", "wb").write(data)
    done = subprocess.run([sys.argv[1], "plot", "hurt"], capture_output=True,
                          timeout=LIMIT)
    message = done.stderr.decode("utf-8", "replace")
    assert done.returncode in (0, 2), (what, done.returncode)
    assert (message == "") == (done.returncode == 0), (what, message)
    assert done.returncode == 0 or message.startswith("umem: hurt: ") and \
        message.count("\n") == 1, (what, message)
    return done

random.seed(7)
for i in range(60):
    attempt(whole[:random.randrange(len(whole))], "cut")
for i in range(120):
    data = bytearray(whole)
    for _ in range(random.randrange(1, 6)):
        data[random.randrange(len(data))] = random.choice(b"\0\t\n-9e\xff<")
    attempt(bytes(data), i)
lines = whole.split(b"\n")
for i in range(len(lines) - 1):
    attempt(b"\n".join(lines[:i] + lines[i + 1:]), "without line %d" % i)
end = next(l for l in lines if l.startswith(b"look"))
for number in b"1e300", b"nan", b"-1", b"9e17", b"":
    fields = end.split(b"\t")
    fields[3] = number
    attempt(whole.replace(end, b"\t".join(fields)), number)
    fields = end.split(b"\t")
    fields[1] = number
    attempt(whole.replace(end, b"\t".join(fields)), number)
# Names of a target are no markup.
name = b"<script>alert(1)</script>&amp;\"'"
page = attempt(whole.replace(b"keep_more", name).replace(b"growing", name),
               "markup").stdout
assert page.count(b"<script>") == 1 and b"<script>alert" not in page
assert b"&#60;script&#62;alert" in page
END2

# refuses REGEX WORD... - umem plot WORD... prints only a message like this
refuses() {
	"$umem" plot "${@:2}" >said 2>err
	if [ $? -ne 2 ] || [ -s said ] || ! grep -Eq -e "$1" err ||
	    [ "$(wc -l <err)" -gt 4 ]; then
		bad "umem plot ${*:2}"
	fi
}
gcore -o core "$pid" >/dev/null 2>&1
sleep 100 &
other=$!
refuses '^umem: plot: no argument is given$'
refuses '^umem: plot: the page has no form for --json$' --json "$pid"
refuses '^umem: plot: --save needs a process$' --save=x record
refuses '^umem: plot: -i takes 0\.1 to 3600 seconds, not 0$' -i 0 "$pid"
refuses '^umem: plot: x is no number of seconds$' -t x "$pid"
refuses '^umem: nosuch: No such file or directory$' nosuch
refuses '^umem: core.*: is no process, and was not saved by umem plot$' \
    "core.$pid"
refuses '^umem: 99999999: no such process$' 99999999
refuses "^umem: $other: does not run on umem" "$other"
refuses '^umem: no/such/folder: No such file' --save=no/such/folder "$pid"
refuses '^umem: /dev/full: No space left on device$' --save=/dev/full "$pid"
kill $other
if "$umem" plot record >/dev/full 2>err ||
    ! grep -q '^umem: standard output: ' err; then
	bad "a full disk"
fi
script -qec "$umem plot $pid" /dev/null </dev/null >said 2>&1
grep -q 'standard output is a terminal, and the page belongs' said ||
    bad "a page on a terminal"

# The process ends, or runs another program.
for line in "" /bin/sleep; do
	"$umem" plot -i 0.1 --save=ended "$pid" >page.html 2>err 9>&- &
	plot=$!
	recorded ended 2
	if [ -n "$line" ]; then
		echo "$line" >&9
		want='the process runs another program|Permission|gone'
	else
		kill -9 "$pid"
		want='the process has ended'
	fi
	wait $plot || bad "umem plot ended with $?"
	grep -Eq "<b>$pid: ($want)" page.html || bad "the end is not said"
	grep -q 'keep_more' page.html || bad "no call sites after the end"
	grep -q 'There was no process to search for leaks' page.html ||
	    bad "leaks of no process"
	rm ended
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	exec 9>&-
	[ -n "$line" ] || UMEM_OPTIONS=sample=16k start "$TMP/growing"
done

# Leaks, and a duration.
UMEM_OPTIONS=sample=4k start "$TMP/sampled"
"$umem" plot -t 1 --save=record "$pid" >page.html 2>err || bad "-t 1"
finish 0
"$umem" plot record >again.html || bad "a record with leaks"
cmp page.html again.html || bad "another page from the record with leaks"
python3 - <<'END2' || bad "the leaks"
import re
from page import Page
page = Page("page.html")
rows = [r for r in page.rows if len(r) == 4]
leak = next(r for r in rows if re.fullmatch(r"\d+%", r[1]))
# 20000 blocks of 100 bytes
assert re.fullmatch(r"~?[12]\.\d MiB", leak[0]), leak
assert leak[3].startswith("forget (sampled.c:"), leak
looks = re.search(r"(\d+) looks", "".join(page.texts))[1]
assert 3 <= int(looks) <= 12, looks
END2

# Without samples, the page says how to turn them on.
start "$TMP/growing"
"$umem" plot -t 1 "$pid" >page.html 2>err || bad "without samples"
grep -q "<code>umem sample $pid default</code> turns it on" page.html ||
    bad "no advice"
exit 0
