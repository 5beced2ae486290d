#!/bin/bash
# umem diff shows the growth between two looks at leaks or users, each saved or
# taken now.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
needs_tables
build sites

# more - lets the program lose 100 names of 13 bytes
more() {
	echo >&9
	until grep -q lost "$TMP/told"; do
		sleep 0.02
	done
}

grown='^ +\+1\.2K +(\+[0-9.]+[KM]?|-) +\+100 +1\.9K +150  load_names \(sites\.c:[0-9]+\) via __?strdup < lose_more; 1 more stack$'

start env UMEM_DEBUG=audit "$TMP/sites" 100
expect 1 ' leaked in ' leaks --save=leaks.old "$pid"
expect 0 ' allocated in ' users --save=users.old "$pid"
expect 0 '^643\.8K leaked, 0 since the look [0-9ms]+ before$' diff leaks.old "$pid"
expect 0 '^6 call sites without a change$' diff leaks.old "$pid"
gcore -o core.old "$pid" >/dev/null 2>&1
sleep 2.3
more
"$umem" leaks --json "$pid" >json
python3 - json <<-'EOF' || exit 1
import json, math, sys
rows = {row["call_site"].split()[0]: row
        for row in json.load(open(sys.argv[1]))["leaks"]}
names = rows["load_names"]
# The 100 new names, in a time of 2 s, 4 s or more; the first 50 are older.
seconds = 2 ** math.floor(math.log2(names["oldest_age_ns"])) / 1e9
assert seconds > 2, names
assert abs(names["bytes_per_minute"] - 1300 * 60 / seconds) <= 1, names
assert rows["make_list"]["bytes_per_minute"] == 0, rows["make_list"]
EOF
expect 2 '^umem: /dev/full: No space left' leaks --save=/dev/full "$pid"
"$umem" leaks --save=/dev/stdout "$pid" | cat >said
if [ "${PIPESTATUS[0]}" != 1 ]; then
	echo "saved to a pipe:"
	cat said
	exit 1
fi
# A file system may report at the end of the file that it could not write.
cat >late.c <<'END2'
#include <errno.h>

int
fsync(int fd)
{
	errno = ENOSPC;
	return -1;
}
END2
"$CC" -shared -fPIC -o late.so late.c
LD_PRELOAD=$PWD/late.so expect 2 '^umem: late: No space left' \
    leaks --save=late "$pid"
# If a look cannot be saved, the older one stays.
cp leaks.old kept.old
(
	ulimit -f 0
	"$umem" leaks --save=leaks.old "$pid" 2>&1
	echo "status $?"
) | cat >said
printf 'umem: leaks.old: File too large\nstatus 2\n' | diff - said || exit 1
LD_PRELOAD=$PWD/late.so expect 2 '^umem: leaks.old: No space left' \
    leaks --save=leaks.old "$pid"
cmp kept.old leaks.old || exit 1
rm kept.old
left=$(find . -name 'late.??????' -o -name '*s.old.*')
[ -z "$left" ] || { echo "left: $left"; exit 1; }
expect 1 "$grown" diff leaks.old "$pid"
echo older >leaks.new
chmod 640 leaks.new
ln -s leaks.new link.new
expect 1 ' leaked in ' leaks --save=link.new "$pid"
if [ ! -L link.new ] || [ "$(stat -c %a leaks.new)" != 640 ]; then
	ls -l
	exit 1
fi
# A file with two names keeps them.
ln leaks.new other.new
echo older >leaks.new
expect 1 ' leaked in ' leaks --save=leaks.new "$pid"
cmp leaks.new other.new || exit 1
# So has a file of another user its owner, which root may change.
rm other.new
if chown 12345 leaks.new 2>/dev/null; then
	expect 1 ' leaked in ' leaks --save=leaks.new "$pid"
	[ "$(stat -c %u leaks.new)" = 12345 ] || { ls -l; exit 1; }
	chown "$(id -u)" leaks.new
fi
# A file on which another one is mounted gets the text itself.
cat >busy.c <<'END2'
#include <errno.h>
int
rename(const char *from, const char *to)
{
	errno = EBUSY;
	return -1;
}
END2
"$CC" -shared -fPIC -w -o busy.so busy.c || exit 1
echo older >leaks.new
LD_PRELOAD=$PWD/busy.so expect 1 ' leaked in ' leaks --save=leaks.new "$pid"
if grep -qx older leaks.new || [ -n "$(find . -name 'leaks.new.*')" ]; then
	exit 1
fi
expect 1 '^645K leaked, \+1\.2K since the look [0-9ms]+ before$' \
    diff leaks.old "$pid"
for looks in "leaks.old $pid" "leaks.old leaks.new" "core.old.$pid $pid"; do
	# shellcheck disable=SC2086 # two looks
	expect 1 "$grown" diff $looks
	if [ "$(sed '/ reachable, /,$d' said |
	    grep -c '  [a-z_]* (sites\.c:')" -ne 1 ]; then
		echo "$looks: more than one row:"
		cat said
		exit 1
	fi
done
rm -f "core.old.$pid"
expect 0 '^ +-1\.2K +-[0-9.]*[KM]? +-100 +650 +50  load_names |^ +-1\.2K +- +-100 +650 +50  load_names ' \
    diff leaks.new leaks.old
expect 1 '^ +0 +0 +\+0 +' diff -e leaks.old leaks.new
expect 0 "$grown" diff users.old "$pid"
"$umem" diff --json leaks.old leaks.new >json
python3 - json <<-'EOF' || exit 1
import json, sys
report = json.load(open(sys.argv[1]))
assert report["bytes"] - report["bytes_before"] == 1300, report
rows = {row["call_site"].split()[0]: row for row in report["call_sites"]}
assert rows["load_names"]["blocks_before"] == 50, rows
assert rows["load_names"]["blocks"] == 150, rows
assert 1 <= report["seconds"] < 600, report["seconds"]
EOF
expect 0 ' allocated, 0 since the look ' diff -u "$pid" "$pid"

# After "no leaks found", the commands for growth, which work.
echo sites >all
expect 0 '^no leaks found$' leaks --suppressions=all "$pid"
grep -q '^umem users' said && grep -q '^umem status' said &&
    grep -q '^umem diff -u' said && ! grep '^umem ctl' said || exit 1
sed -n 's/^umem \(.*[0-9]\)  .*/\1/p' said >commands
while read -r line; do
	# shellcheck disable=SC2086 # words
	expect 0 . ${line/-t 60/-t 1}
done <commands
expect 2 'AFTER or -t, of a second or more, is missing' diff "$pid"
expect 2 'AFTER or -t, of a second or more, is missing' diff -t 0 "$pid"
expect 2 'diff: soon is no number of seconds' diff -t soon "$pid" "$pid"
finish 0
expect 2 'no such process' diff leaks.old "$pid"

# Two looks at one process, while it loses 100 names again and again.  On a busy
# machine it may get no CPU between them, so the looks are repeated.
start env UMEM_DEBUG=audit "$TMP/sites" 100
for _ in 1 2 3 4 5; do
	"$umem" diff -t 1 "$pid" >waited &
	waiting=$!
	while kill -0 $waiting 2>/dev/null; do
		echo >&9
		sleep 0.05
	done
	wait $waiting
	status=$?
	[ $status -eq 0 ] || break
done
if [ $status -ne 1 ] ||
    ! grep -Eq '^[0-9.]+K leaked, .* since the look [1-9][0-9sm]* before$' waited ||
    ! grep -Eq '^ +\+[0-9.]+K +\+[0-9.]+[KM] +\+[0-9]+ .*  load_names ' waited; then
	echo "diff -t: status $status"
	cat waited
	exit 1
fi
finish 0

# A process grows by leaks and by memory that it can reach: a table of each.
cat >both.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
	struct node *next;
	char body[500];
};
static struct node *kept;

static __attribute__((noinline)) void
lose(void)
{
	void *volatile block = malloc(1000);

	memset(block, 1, 1000);
	block = NULL;
}

static __attribute__((noinline)) void
keep(void)
{
	struct node *node = malloc(sizeof(*node));

	memset(node, 0, sizeof(*node));
	node->next = kept;
	kept = node;
}

static __attribute__((noinline)) void
wipe(void)
{
	volatile char stack[16384];

	memset((void *)stack, 0, sizeof(stack));
}

int
main(void)
{
	char c;

	do {
		for (int i = 0; i < 100; i++)
			lose();
		for (int i = 0; i < 300; i++)
			keep();
		wipe();
		(void)!write(1, "ready\n", 6);
	} while (read(0, &c, 1) == 1);
	_exit(0);
}
END2
"$CC" -O1 -g -fno-builtin -w -o both both.c || exit 1
start env UMEM_DEBUG=audit "$TMP/both"
expect 1 . leaks --save=leaks.both "$pid"
gcore -o both.core "$pid" >/dev/null 2>&1
echo >&9
until [ "$(grep -c ready told)" -eq 2 ]; do
	kill -0 "$pid" || exit 1
done
"$umem" diff "both.core.$pid" "$pid" >said
[ $? -eq 1 ] || exit 1
"$umem" diff --json "both.core.$pid" "$pid" >json
"$umem" diff --html "both.core.$pid" "$pid" >page
rm "both.core.$pid"
awk '/leaked/ { part = "leaked" } /reachable/ { part = "reachable" }
    / (lose|keep) \(both\.c:/ { print part, $1, $3, $6 }' said >rows
printf '%s\n' 'leaked +97.6K +100 lose' 'reachable +150K +300 keep' >want
diff want rows || { cat said; exit 1; }
python3 - json page <<-'END2' || exit 1
import json, re, sys
report = json.load(open(sys.argv[1]))
page = open(sys.argv[2]).read()
for part, name, more in ((report, "lose", 100000),
                         (report["reachable"], "keep", 153600)):
    row, = [r for r in part["call_sites"] if r["call_site"].startswith(name)]
    assert abs(row["bytes"] - row["bytes_before"] - more) < 3000, row
    assert re.search(f'title="{name}: [0-9.]+ KiB', page), name
for part in ("leaked", "reachable"):
    assert f'title="{part}: ' in page, part
assert "<h1>Growth of both (" in page
# The call sites say of which look they are, the largest first.
rows = re.findall(r"<td>(leaked|reachable): (\w+)", page)
assert rows[:2] == [("reachable", "keep"), ("leaked", "lose")], rows
assert re.search("<p>24[67](\\.[0-9])? KiB more since the look before;", page)
END2
# One saved look is of leaks; an old one has no stacks.
"$umem" diff --html leaks.both "$pid" >page || exit 1
grep -q 'title="lose: 97.6 KiB' page && ! grep -q 'title="keep: ' page || exit 1
sed 's/^umem leaks 2/umem leaks 1/; /^stack/d' leaks.both |
    awk '/^end/ { $0 = "end\t" n } /^site/ { n++ } { print }' >leaks.first
expect 1 '^ +\+97\.6K .* lose ' diff leaks.first "$pid"
expect 2 '^umem: leaks.first: has no stacks for --html$' \
    diff --html leaks.first "$pid"
finish 0

# Of estimates, samples show the growth.  BN_new has as many as before, and the
# unknown rest cannot grow.
site() {
	printf 'site\t%d\t%s\t%s\t%s\t < main\n' "$@"
}
{
	printf 'umem users 1\ntime\t1763870000.0\n'
	site 714000 1000 7 'BN_new (bn.c:1)'
	site 400000 2000 4 'grow (g.c:1)'
	site 300000 600 3 'gone (g.c:2)'
	site 1000000 5000 0 'unknown: blocks of umem_alloc_208'
	site 500 5 exact 'count (g.c:3)'
	printf 'end\t5\n'
} >users.before
{
	printf 'umem users 1\ntime\t1763870060.0\n'
	site 785000 1100 7 'BN_new (bn.c:1)'
	site 900000 4500 9 'grow (g.c:1)'
	site 1600000 5600 0 'unknown: blocks of umem_alloc_208'
	site 700 7 exact 'count (g.c:3)'
	site 800 0.5 1 'half (g.c:4)'
	printf 'end\t5\n'
} >users.after
expect 0 '^2 call sites without a change$' diff users.before users.after
expect 0 '^~\+660K: the samples do not tell by which call sites$' \
    diff users.before users.after
expect 0 '^ +~\+490K +~\+490K +~\+2500 +~880K +~4500  grow ' \
    diff users.before users.after
expect 0 '^~3\.1M allocated, ~\+850K since the look 1m00s before$' \
    diff users.before users.after
expect 0 '^~ is an estimate from samples\.$' diff users.before users.after
expect 0 '^ +\+200 +\+200 +\+2 +700 +7  count ' diff users.before users.after
expect 0 '^ +~-290K +~-290K +~-600 +0 +0  gone ' diff users.before users.after
expect 0 '  ~1  half ' diff users.before users.after
expect 0 '^ +0 +0 +\+0 +~770K +~1100  BN_new ' diff -e users.before users.after

# Nothing records callers yet.
start sh -c 'echo ready; read -r _ || :'
expect 0 '^no leaks found$' leaks "$pid"
line=$(sed -n 's/^umem \(ctl .*[0-9a-z]\)  .*/\1/p' said)
# shellcheck disable=SC2086 # words
expect 0 '^sample=512k' $line
finish 0

# Files that are no saved looks, or damaged.
expect 2 '^umem: /etc/passwd: not a core file$' diff /etc/passwd 1
expect 2 '^umem: nosuch: No such file' diff nosuch 1
expect 2 'one look is at leaks, the other at users' diff leaks.old users.old
head -n 5 leaks.old >short
expect 2 '^umem: short: is truncated$' diff short leaks.old
python3 - "$umem" <<-'EOF' || exit 1
import os, random, subprocess, sys
whole = open("leaks.old", "rb").read()
random.seed(1)
for n in range(150):
    text = bytearray(whole)
    for _ in range(random.randrange(1, 8)):
        at = random.randrange(len(text))
        if random.random() < 0.3:
            del text[at:at + random.randrange(1, 40)]
        else:
            text[at] = random.choice(b"\t\n\0 -9en\x1b\xffsx")
    open("damaged", "wb").write(text)
    run = subprocess.run([sys.argv[1], "diff", "damaged", "leaks.new"],
                         capture_output=True, timeout=60 *
                         int(os.environ["TEST_TIME_FACTOR"]))
    assert run.returncode in (0, 1, 2), (n, run)
    assert b"\x1b" not in run.stdout + run.stderr, (n, run)
EOF
