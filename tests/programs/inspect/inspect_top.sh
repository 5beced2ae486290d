#!/bin/bash
# umem top shows the memory of a process without stopping it: the identity adds
# up and agrees with umem status, growth and call sites are those of the
# program, the screen fits the terminal, and the end of the process is said.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build growing

bad() {
	echo "$*"
	cat said err 2>/dev/null | tail -40
	exit 1
}

UMEM_OPTIONS=sample=16k start "$TMP/growing"

"$umem" status --json "$pid" >json || bad "umem status"
python3 - json "$pid" <<'END2' || bad "the identity of umem status"
import json, sys
u = {key.removesuffix("_bytes"): n
     for key, n in json.load(open(sys.argv[1]))["memory"].items()}
assert u["cached"] == u["cpu"] + u["depot"] + u["slab"], u
layers = (u["live"] + u["cached"] + u["waiting"] + u["dirty"] + u["sampled"]
          + u["own"])
# A thread is at work meanwhile.
assert abs(u["mapped"] - layers) <= u["mapped"] / 100 + 65536, u
assert u["mapped"] == u["heap"] + u["own"], u
assert u["rss"] == layers + u["surplus"] + u["not_ours"] - u["untouched"], u
# keep_more() holds 20000 blocks of 200 bytes, some of them as samples.
assert 3.6e6 < u["live"] + u["sampled"] < 9e6, u
assert u["sampled"] > 0 and u["own"] > 0, u
assert u["not_ours"] < u["rss"] / 2, u
END2

# Magazines move between the CPU, the depot and the slabs in both looks, unless
# the machine is busy and the program does not get a CPU for so long.
rates() {
	awk '/^umem_alloc_112 / { n++; if ($6 > 0 && $7 > 50 && $7 <= 100) good++ }
	    END { exit !(n == 2 && good == 2) }' said
}
for ((i = 0; i < 20; i++)); do
	"$umem" top -i 0.2 -n 2 "$pid" >said 2>err || bad "umem top: $?"
	rates && break
done
rates || bad "no hit rates"
[ "$(grep -c '^umem top  '"$pid"' growing  ' said)" = 2 ] || bad "two screens"
# The line is folded if its figures are long.
tr -s '\n ' ' ' <said |
    grep -Eq 'RSS [0-9.]+M = in use [0-9.]+M \+ cached .* \(CPUs .*, depots .*, slabs ' ||
    bad "no identity"
grep -Eq '^umem_alloc_208 ' said || bad "no cache"
grep -Eq ' ~[0-9.]+M +[-+0-9.KM~]+ +~[0-9]+  keep_more \(growing\.c:[0-9]+\)$' said ||
    bad "no call site"
# The figures of a look leave no memory behind.
UMEM_DEBUG=audit LD_PRELOAD=$SHIM "$umem" top -i 0.1 "$pid" >said 2>err &
top=$!
until [ "$(grep -c '^umem top' said)" -ge 4 ]; do
	kill -0 $top 2>/dev/null || bad "umem top ended"
	sleep 0.02
done
"$umem" leaks -d $top >said 2>err
kill $top
! grep -q usage_read said || bad "leaks of umem top"

# wrong REGEX WORD...
wrong() {
	if "$umem" top "${@:2}" >said 2>err </dev/null ||
	    ! grep -Eq -e "$1" err; then
		bad "umem top ${*:2}"
	fi
}
wrong '^umem: top: -i takes 0\.1 to 3600 seconds, not 0$' -i 0 "$pid"
wrong '^umem: top: -s takes memory, .*, not size$' -s size "$pid"
gcore -o core "$pid" >/dev/null 2>&1
wrong 'is a core file$' "core.$pid"

# On a terminal: growth, small screens, another size, the end.
python3 - "$umem" "$pid" 9>&- 3>"$TMP/input" <<'END2' || exit 1
import fcntl, os, pty, re, select, signal, struct, sys, termios, time
umem, target = sys.argv[1], sys.argv[2]
LIMIT = 60 * int(os.environ["TEST_TIME_FACTOR"])
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", LC_ALL="C")
    os.close(3)
    os.execv(umem, [umem, "top", "-i", "0.2", target])
shown = b""

def size(rows, columns):
    global shown
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    time.sleep(0.5)
    shown = b""

def wait(text):
    """Waits until this was drawn since the size was set."""
    global shown
    end = time.monotonic() + LIMIT
    while not re.search(text, shown):
        assert time.monotonic() < end, (text, shown[-3000:])
        if select.select([fd], [], [], 0.2)[0]:
            try:
                shown += os.read(fd, 65536)
            except OSError:
                break
    assert re.search(text, shown), (text, shown[-3000:])

def screens():
    """The lines of whole screens, which begin at the top left corner."""
    wait(rb"(?s)\x1b\[H.*\x1b\[H.*\x1b\[H")
    for screen in shown.split(b"\x1b[H")[1:-1]:
        yield [re.sub(rb"\x1b\[[JK]", b"", line).rstrip(b"\r")
               for line in screen.split(b"\n")]

size(24, 80)
wait(rb"umem_alloc_208")
wait(rb"keep_more \(growing")
os.write(3, b"\n")
wait(rb"\+[34](\.\d)?M|\+3\.\d|\+4\.\d")
# The depot had no magazines for the new blocks: DEPOT% is a number.
wait(rb"umem_alloc_208( +\S+){6} +\d")
# A narrow screen has whole names and whole columns.
size(24, 60)
for rows, columns in (24, 60), (2, 10), (1, 1), (8, 40), (60, 200):
    size(rows, columns)
    # The size may change in the midst of a screen.
    last = list(screens())[-1]
    assert len(last) <= rows, (rows, last)
    assert all(len(line) <= columns for line in last), (columns, last)
    if columns == 60:
        assert any(line.startswith(b"umem_alloc_208 ") for line in last), last
        assert any(line.endswith(b"MEMORY  IN USE  CACHED  GROWTH LOADS/S")
                   for line in last), last
    assert os.waitpid(pid, os.WNOHANG) == (0, 0), (rows, columns)
# The process was never stopped by it.
status = open("/proc/%s/status" % target).read()
assert "TracerPid:\t0" in status, status
os.close(3)
os.kill(int(target), signal.SIGKILL)
wait(rb"%s: the process has ended" % target.encode())
assert os.waitpid(pid, 0)[1] == 0
END2
wait "$pid" 2>/dev/null
exec 9>&-

# In a file, the end of the process and another program are said, too.
for line in "" /bin/sleep; do
	start "$TMP/growing"
	rm -f said
	"$umem" top -i 0.1 "$pid" >said 2>err 9>&- &
	top=$!
	until [ -s said ] || ! kill -0 $top; do
		sleep 0.05
	done
	if [ -n "$line" ]; then
		echo "$line" >&9
		want="^($pid: the process runs another program|$pid: .*)$"
	else
		kill -9 "$pid"
		want="^$pid: the process has ended$"
	fi
	wait $top || bad "umem top ended with $?"
	tail -n 1 said | grep -Eq "$want" || bad "the end is not said"
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	exec 9>&-
done

# A look has the call sites also while the process adds samples.
cat >adding.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

static __attribute__((noinline)) void
add(void)
{
	kept = malloc(2000);
}

int
main(void)
{
	puts("ready");
	fflush(stdout);
	for (int i = 0; i < 20000; i++) {
		add();
		usleep(50);
	}
	pause();
	return 0;
}
END2
"$CC" -O1 -g -o adding adding.c || bad "cc"
UMEM_OPTIONS=sample=1k start "$TMP/adding"
"$umem" top -i 0.1 -n 8 "$pid" >said 2>err 9>&- || bad "umem top: $?"
kill "$pid"
[ "$(grep -c ' add (adding\.c:' said)" = 8 ] || bad "a look without call sites"
