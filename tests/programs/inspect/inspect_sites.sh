#!/bin/bash
# umem leaks has one row for each call site, the largest first, tells direct
# from indirect leaks, and estimates the blocks for which samples stand.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
needs_tables
build sites

# says REGEX WORD... - does umem WORD...?  Its status is in $status.
says() {
	"$umem" "${@:2}" >said 2>err
	status=$?
	if ! grep -Eq -e "$1" said; then
		echo "umem ${*:2}: status $status, no '$1' in:"
		head -40 said err
		exit 1
	fi
}

# fits WIDTH COMMAND... - are the lines of the table as wide as that, at most,
# and are all lines, if that is 80?
fits() {
	script -qec "stty cols $1; $umem ${*:2} $pid" /dev/null </dev/null 2>err |
	    tr -d '\r' >said
	if ! grep -q ' CALL SITE' said ||
	    awk -v width="$1" 'width >= 80 || / CALL SITE/ { on = 1 }
	    /^$/ { on = 0 }
	    on && length > width' said | grep -q .; then
		echo "umem ${*:2} on $1 columns:"
		head -40 said err
		exit 1
	fi
}
# shown REGEX - does the last output have this line?
shown() {
	grep -Eq -e "$1" said || {
		echo "no '$1' in:"
		head -40 said
		exit 1
	}
}

# exact TARGET - is its report true to the byte?  All blocks have records.
exact() {
	"$umem" leaks --json "$1" >json
	python3 - json <<-'EOF' || exit 1
	import json, sys
	report = json.load(open(sys.argv[1]))
	true = [
	    ("direct", "session_open", 9600, 100, 500000, 2),
	    ("direct", "make_list", 64, 1, 1999 * 64, 1),
	    ("direct", "lose_sizes", 11800, 40, 0, 1),
	    ("direct", "use_wrapper", 9000, 30, 0, 1),
	    ("direct", "load_names", 650, 50, 0, 1),
	    ("direct", "make_ring", 72, 1, 144, 1),
	    ("indirect", "buffer_new", 500000, 100, 0, 2),
	    ("indirect", "make_list", 1999 * 64, 1999, 0, 1),
	    ("indirect", "make_ring", 144, 2, 0, 1),
	]
	rows = [(row["kind"], row["call_site"].split()[0], row["bytes"],
	         row["blocks"], row["indirect_bytes"],
	         len({tuple(stack["frames"]) for stack in row["stacks"]}))
	        for row in report["leaks"]]
	assert rows == true, rows
	assert report["bytes"] == sum(row[2] for row in true), report["bytes"]
	assert report["blocks"] == sum(row[3] for row in true)
	for row in report["leaks"]:
	    assert not row["estimated"] and row["seen"] == row["blocks"], row
	    assert 0 < row["oldest_age_ns"] < 600e9, row
	EOF
}

# With the record of every block, of a process and of its core.
for environment in UMEM_DEBUG=audit UMEM_OPTIONS=sample=1; do
	start env "$environment" "$TMP/sites"
	exact "$pid"
	gcore -o core "$pid" >/dev/null 2>&1
	exact "core.$pid"
	rm -f "core.$pid"
	finish 0
done

start env UMEM_DEBUG=audit "$TMP/sites"
says '^643\.8K leaked in 2323 blocks, 613\.3K indirect in 2101 blocks$' \
    leaks "$pid"
[ $status -eq 1 ] || exit 1
says '^ +BYTES SHARE +BLOCKS INDIRECT +OLDEST +PER MIN  CALL SITE$' leaks "$pid"
says '^ +497\.6K +77% +100 +488\.2K +[0-9ms]+ +[0-9.K-]+  session_open \(sites\.c:[0-9]+\) < serve_first < lose_all; 1 more stack$' \
    leaks "$pid"
says '  use_wrapper \(sites\.c:[0-9]+\) via xmalloc < lose_all$' leaks "$pid"
says '  load_names \(sites\.c:[0-9]+\) via __?strdup < lose_all$' leaks "$pid"
says '^  199K in 40 blocks, one at [0-9a-f]+, allocated by:$' leaks -d "$pid"
says '^    sites`serve_second\+0x[0-9a-f]+ \(sites\.c:[0-9]+\)$' leaks -d "$pid"
says '^199K leaked in 80 blocks, 195\.3K indirect in 40 ' leaks -c serve_second "$pid"

# On a terminal, a row is one line: the callers are cut, then the middle part of
# the name, and a narrow terminal lacks columns.  Pipes have whole rows.
unset COLUMNS
fits 80 leaks
shown '^ +BYTES +BLOCKS INDIRECT +PER MIN  CALL SITE$'
shown '^ +497\.6K +100 +488\.2K +[0-9.K-]+  session_open \(sites\.c:[0-9]+\) < s.*\.\.$'
fits 100 leaks
shown '^ +BYTES SHARE +BLOCKS INDIRECT +OLDEST +PER MIN  CALL SITE$'
fits 60 users
shown '^ +BYTES +BLOCKS  CALL SITE$'
"$umem" users --save=before "$pid" >said
fits 70 diff -e before
shown '^ +0 +.*\.\.$'
says ' session_open \(sites\.c:[0-9]+\) < serve_first < lose_all; 1 more stack$' \
    users "$pid"
script -qec "stty cols 60; COLUMNS=300 $umem leaks $pid" /dev/null </dev/null \
    2>err | tr -d '\r' >said
shown ' session_open \(sites\.c:[0-9]+\) < serve_first < lose_all; 1 more stack$'

# Suppressed call sites take with them the blocks to which only theirs point.
cat >known <<'EOF'
# Sessions are known to be lost.
session_open

  lose_s*	
nothing_has_this_name
EOF
says '^509\.1K suppressed in 240 blocks by 2 of 3 patterns$' \
    leaks --suppressions=known "$pid"
[ $status -eq 1 ] || exit 1
if grep -Eq 'session_open|buffer_new|lose_sizes' said ||
    ! grep -Eq '^134\.6K leaked in 2083 blocks' said; then
	echo "suppressed, and yet:"
	cat said
	exit 1
fi
says '^  "suppressed_bytes": 521400,$' leaks --json --suppressions known "$pid"
if command -v valgrind >/dev/null; then
	valgrind -q --error-exitcode=9 "$umem" leaks --suppressions=known \
	    "$pid" >said 2>&1
	if [ $? -ne 1 ]; then
		echo "the command with suppressions, under valgrind:"
		cat said
		exit 1
	fi
fi
echo 'sites' >all
says '^no leaks found$' leaks --suppressions=all "$pid"
if [ $status -ne 0 ] || ! grep -q '^643.8K suppressed in 2323 blocks by 1 of 1 ' said; then
	echo "all suppressed: status $status"
	exit 1
fi
"$umem" leaks --suppressions=nosuch "$pid" >said 2>&1
if [ $? -ne 2 ] || ! grep -q '^umem: nosuch: No such file' said; then
	echo "a file that does not exist:"
	cat said
	exit 1
fi
"$umem" leaks --suppressions=. "$pid" >said 2>&1
if [ $? -ne 2 ] || ! grep -q '^umem: \.: Is a directory' said; then
	echo "a folder for a file:"
	cat said
	exit 1
fi
finish 0

# However wide the terminal is, no letter is cut, and no row is too long.
cat >letters.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void
lose_ääöö(void)
{
	memset(malloc(3000), 1, 3000);
}
__attribute__((noinline)) static void
führe_ääöö_aus(void)
{
	lose_ääöö();
	__asm__ volatile("");
}
int
main(void)
{
	char c;
	führe_ääöö_aus();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
EOF
"$CC" -O1 -g -fno-builtin -fno-omit-frame-pointer -w -o letters letters.c || exit 1
start env UMEM_DEBUG=audit ./letters
script -qec "for w in \$(seq 40 72); do COLUMNS=\$w $umem leaks $pid; done" \
    /dev/null </dev/null >letters.said 2>&1
python3 - <<'EOF' || exit 1
rows = [line for line in open("letters.said", "rb").read().split(b"\r\n")
        if b"  lose_" in line]
assert len(rows) == 33, rows
for width, row in zip(range(40, 73), rows):
    row.decode("utf-8")
    assert len(row) <= max(width, 42), (width, row)
assert b".." in rows[0], rows
assert any(b" < f\xc3\xbchre_\xc3\xa4" in row for row in rows), rows
EOF
finish 0

# users RECORDED - umem users has a row for all sizes of a call site, and shares
# of all memory.
users() {
	"$umem" users --json "$pid" >json
	python3 - json "$1" <<-'EOF' || exit 1
	import json, sys
	report = json.load(open(sys.argv[1]))
	rows = {row["call_site"].split()[0]: row for row in report["users"]}
	kept = rows["keep_sizes"]
	assert abs(kept["blocks"] / 500 - 1) < 0.2, kept
	assert abs(kept["bytes"] / (500 * 949.5) - 1) < 0.2, kept
	if sys.argv[2] == "recorded":
	    assert (kept["bytes"], kept["blocks"]) == (474750, 500), kept
	    assert "unknown:" not in rows, rows
	    assert rows["buffer_new"]["bytes"] == 500000
	order = [row["bytes"] for row in report["users"]]
	assert order == sorted(order, reverse=True), order
	assert abs(sum(order) - report["bytes"]) <= len(order), report["bytes"]
	EOF
}
start env UMEM_DEBUG=audit "$TMP/sites"
users recorded
says '^1(\.[0-9]+)?M allocated in [0-9]+ blocks$' users "$pid"
says '^ +BYTES SHARE +BLOCKS +OLDEST  CALL SITE$' users "$pid"
says '^ +463\.6K +[34][0-9]% +500 +[0-9ms]+  keep_sizes \(sites\.c:[0-9]+\) < lose_all$' \
    users "$pid"
says '^    sites`keep_sizes\+0x' users -d "$pid"
"$umem" users "$pid" umem_alloc_96 >said
if [ "$(grep -c '%' said)" -gt 3 ] || ! grep -q '  session_open ' said; then
	echo "not only a cache:"
	cat said
	exit 1
fi
"$umem" users "$pid" umem_alloc_96 nosuch >said 2>&1
if [ $? -ne 2 ] || ! grep -qx 'umem: users: no cache nosuch' said; then
	echo "users of a cache that does not exist:"
	cat said
	exit 1
fi
finish 0
start env UMEM_OPTIONS=sample=300 "$TMP/sites"
users sampled
says '^ +~[0-9.]+K +[0-9]+% +~?[0-9]+ +[0-9ms]+  keep_sizes ' users "$pid"
says '^~ is an estimate from samples' users "$pid"
finish 0

# Without records the classes of size are known, and a way to know more is told.
start "$TMP/sites"
says '^ +125K +[0-9]+% +1 +124\.9K +- +-  unknown: blocks of umem_alloc_64$' \
    leaks "$pid"
says "\"umem ctl $pid sample=default\"" leaks "$pid"
says '^ +[0-9]+ +0% in [0-9]+ more rows; -e prints all$' leaks "$pid"
"$umem" leaks -e "$pid" >said
if grep -q 'more rows' said || [ "$(grep -c '% .*  unknown: ' said)" -lt 25 ]; then
	echo "not every row:"
	cat said
	exit 1
fi
says '^    [0-9a-f]+$' leaks -d "$pid"
says '^    1989 more; umem walk leak prints all$' leaks -d "$pid"
finish 0

# Samples from the start miss sizes with few bytes.
start env UMEM_OPTIONS=sample=1g "$TMP/sites"
says '^one sample in 1G bytes has missed it; ' leaks "$pid"
finish 0

# A list hangs on its head, not on samples of other blocks of the head's size.
cat >list.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct link { struct link *next; char rest[24]; };
__attribute__((noinline)) static void
lose_list(void)
{
	struct link *volatile list = NULL;
	for (int i = 0; i < 3000; i++) {
		struct link *link = malloc(sizeof(*link));
		memset(link, 0, sizeof(*link));
		link->next = list;
		list = link;
	}
	list = NULL;
}
__attribute__((noinline)) static void
lose_plain(void)
{
	for (int i = 0; i < 3000; i++)
		memset(malloc(32), 1, 32);
}
__attribute__((noinline)) static void
wipe(void)
{
	volatile char stack[16384];
	memset((void *)stack, 0, sizeof(stack));
}
int
main(void)
{
	char c;
	lose_list();
	lose_plain();
	wipe();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
EOF
"$CC" -O1 -g -fno-builtin -w -o list list.c || exit 1
start env UMEM_OPTIONS=sample=1000 ./list
"$umem" leaks --json "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
rows = [row for row in report["leaks"] if row["kind"] == "direct"]
plain, = (row for row in rows if row["call_site"].startswith("lose_plain "))
assert plain["indirect_bytes"] == 0, plain
assert 1500 <= plain["blocks"] <= 3001, plain
total = sum(row["bytes"] + row["indirect_bytes"] for row in rows)
assert abs(total / 192000 - 1) < 0.01, rows
EOF
finish 0

# The samples tell how much of a size class was requested.  The tables of direct
# and indirect leaks count it alike, so no share exceeds the whole.
cat >orders.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void
lose_order(void)
{
	char **volatile order = malloc(64);
	memset(order, 0, 64);
	*order = malloc(1300);
	memset(*order, 1, 1300);
	order = NULL;
}
int
main(void)
{
	char c;
	for (int i = 0; i < 5000; i++)
		lose_order();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
EOF
"$CC" -O1 -g -fno-builtin -w -o orders orders.c || exit 1
start env UMEM_OPTIONS=sample=16k ./orders
"$umem" leaks --json "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
rows = [row for row in report["leaks"] if row["kind"] == "direct"]
total = sum(row["bytes"] + row["indirect_bytes"] for row in rows)
assert abs(total - report["bytes"]) <= 2 * len(rows), (total, report["bytes"])
assert abs(total / (5000 * 1364) - 1) < 0.01, total
EOF
finish 0

# Chance takes few samples of some sizes.  This rarely looks like blocks that
# were allocated before sampling began: five samples are expected of each size.
cat >chance.c <<'EOF'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int
main(void)
{
	static const size_t sizes[] = {64, 80, 96, 112, 128, 144, 160, 176, 192,
	    208, 224, 256, 288, 320, 352, 448, 512, 576, 640, 768};
	char c;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++)
		for (size_t n = 0; n < 5 * 65536 / sizes[k]; n++)
			memset(malloc(sizes[k]), 1, sizes[k]);
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
EOF
"$CC" -O1 -g -fno-builtin -w -o chance chance.c || exit 1
for _ in 1 2 3 4; do
	start env UMEM_OPTIONS=sample=64k ./chance
	"$umem" leaks -e "$pid"
	finish 0
done >chances
if [ "$(grep -c 'unknown: blocks of' chances)" -gt 4 ]; then
	echo "unknown by chance:"
	grep 'unknown: blocks of' chances
	exit 1
fi

# Without records, C++ objects are known by their virtual tables.
cat >classes.cc <<'EOF'
#include <cstring>
#include <unistd.h>
namespace shop {
struct base { virtual ~base() {} long number = 1; };
struct session : base { char text[80]; };
template <class T> struct cart : base { T items[4]; };
}
struct plain { char text[88]; };
static const char literal[88] = "no table";
struct pointer { const char *text = literal; char rest[80]; };
__attribute__((noinline)) static void
lose()
{
	for (int i = 0; i < 300; i++)
		new shop::session;
	for (int i = 0; i < 200; i++)
		new shop::cart<long>;
	for (int i = 0; i < 100; i++)
		memset(new plain, 1, sizeof(plain));
	for (int i = 0; i < 50; i++) {
		pointer *volatile p = new pointer;
		p = nullptr;
	}
}
__attribute__((noinline)) static void
wipe()
{
	volatile char stack[16384];
	memset((void *)stack, 0, sizeof(stack));
}
int
main()
{
	char c;
	lose();
	wipe();
	if (write(1, "ready\n", 6) != 6)
		return 9;
	return (int)read(0, &c, 1);
}
EOF
"$CXX" -O1 -g -fno-builtin -w -o classes classes.cc || exit 1
start ./classes
gcore -o core "$pid" >/dev/null 2>&1
for target in "$pid" "core.$pid"; do
	says '^ +28\.1K +[0-9]+% +300 .*  unknown: shop::session, umem_alloc_96$' \
	    leaks "$target"
	says '^ +9\.3K +[0-9]+% +200 .*  unknown: shop::cart<long>, umem_alloc_48$' \
	    leaks "$target"
	says '^ +14K +[0-9]+% +150 .*  unknown: blocks of umem_alloc_96$' \
	    leaks "$target"
done
rm -f "core.$pid"
finish 0

# A suppressed sample stands for other suppressed blocks.
start env UMEM_OPTIONS=sample=200 "$TMP/sites"
"$umem" leaks --json --suppressions=known "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
rows = [row for row in report["leaks"] if row["kind"] == "direct"]
names = [row["call_site"].split()[0] for row in rows]
assert "session_open" not in names and "use_wrapper" in names, names
assert sum(row["blocks"] for row in rows if row["call_site"] ==
           "unknown: blocks of umem_alloc_96") <= 50, rows
assert 60 <= report["suppressed_blocks"] <= 160, report
blocks = report["suppressed_blocks"] + report["blocks"]
assert blocks in (2322, 2323, 2324), blocks
EOF
finish 0

# Blocks that are no samples belong to the call sites of those that are: the sum
# is exact, and no block counts twice.
start env UMEM_OPTIONS=sample=200 "$TMP/sites"
"$umem" leaks --json "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
assert report["blocks"] == 2323, report["blocks"]
for kind, name, blocks, size in (("direct", "session_open", 100, 96),
        ("direct", "use_wrapper", 30, 300), ("indirect", "buffer_new", 100, 5000),
        ("indirect", "make_list", 1999, 64)):
    row, = (row for row in report["leaks"] if row["kind"] == kind and
            row["call_site"].startswith(name + " "))
    assert row["seen"] <= blocks, row
    # lose_sizes() has two or three blocks in the classes of some of these.  If
    # chance has taken few samples, some of the blocks are unknown.
    assert blocks * 0.5 <= row["blocks"] <= blocks * 1.1 + 1, row
    assert abs(row["bytes"] / row["blocks"] / size - 1) < 0.02, row
held = sum(row["indirect_bytes"] for row in report["leaks"]
           if row["call_site"].startswith("session_open ") or
           row["call_site"] == "unknown: blocks of umem_alloc_96")
assert abs(held / 510000 - 1) < 0.05, held
EOF
finish 0

# more N - lets the program lose more names, for the Nth time
more() {
	echo >&9
	until [ "$(grep -c lost "$TMP/told")" -eq "$1" ]; do
		sleep 0.02
	done
}

# Sampling that begins late explains only later leaks.
start "$TMP/sites" 3000
more 1
"$umem" ctl "$pid" sample=100 >/dev/null
more 2
"$umem" leaks --json "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
assert report["blocks"] == 8323, report["blocks"]
names, = (row for row in report["leaks"]
          if row["call_site"].startswith("load_names "))
before, = (row for row in report["leaks"]
           if row["call_site"] == "unknown: blocks of umem_alloc_16")
for row in names, before:
    assert row["estimated"] and 2200 < row["blocks"] < 3800, row
assert abs(names["blocks"] + before["blocks"] - 6050) <= 1, (names, before)
EOF
finish 0

# Lines are found without the table of address ranges, which clang omits.
objcopy -R .debug_aranges sites unranged
start env UMEM_DEBUG=audit "$TMP/unranged"
says '  session_open \(sites\.c:[0-9]+\) < serve_first < lose_all; 1 more stack$' \
    leaks "$pid"
finish 0

# In a stripped program, addresses in its file name the call site and callers.
cp sites stripped
strip stripped
start env UMEM_DEBUG=audit "$TMP/stripped"
says '^ +[0-9.]+K +[0-9]+% +100 +488\.2K .*  stripped\+0x[0-9a-f]+ < stripped\+0x[0-9a-f]+ < stripped\+0x[0-9a-f]+; 1 more stack$' \
    leaks "$pid"
finish 0
