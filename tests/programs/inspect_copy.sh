#!/bin/bash
# To search much memory, umem has the library make a copy of the process, and
# searches that while the process runs.  The process does not notice the copy,
# which ends with umem, however umem ends.  A process with a filter of system
# calls that may end it for a copy is stopped instead.
# timeout: 120
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build copied

copied='memory was read from => a copy of the process'
waited='memory was read from => the process while it waited'

# reads TEXT WHAT - umem leaks reads the memory in this way.  On a busy machine
# the process may get a CPU too late for that, so one of 20 looks is enough.
reads() {
	for ((i = 0; i < 20; i++)); do
		"$umem" leaks -v "$pid" >said 2>err
		status=$?
		if [ $status -ne 1 ] || [ -s err ]; then
			echo "$2: status $status"
			cat said err
			exit 1
		fi
		grep -q "$1" said && return
		sleep 0.1
	done
	echo "$2: wanted $1"
	cat said
	exit 1
}

start "$TMP/copied" 96
for look in 1 2 3; do
	reads "$copied" "look $look"
done
soon_planted "from a copy"
"$umem" grep -q "$pid" 0x4141414141414141 >said 2>err || {
	echo "grep: status $?"
	cat err
	exit 1
}

# umem is killed while it reads a copy.
cat >kill.py <<'END'
import os
import signal
import subprocess
import sys
import time

umem, pid, command = sys.argv[1:]


def children():
    """Processes of which pid is the parent."""
    for name in os.listdir("/proc"):
        try:
            stat = open(f"/proc/{name}/stat").read()
            if stat.rsplit(")", 1)[1].split()[1] == pid:
                yield name
        except (OSError, IndexError):
            pass


def score(child):
    try:
        return int(open(f"/proc/{child}/oom_score_adj").read())
    except OSError:
        return None


def attempt():
    """Kills umem while a copy exists; returns False if umem was faster."""
    tool = subprocess.Popen([umem, command, pid], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    while tool.poll() is None:
        found = [child for child in children() if score(child) == 1000]
        if not found:
            continue
        tool.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        alive = found[0] in children()
        tool.kill()
        tool.wait()
        return alive
    return False


for i in range(30):
    if attempt():
        break
else:
    sys.exit("no copy with an oom_score_adj of 1000 was seen")
until = time.monotonic() + 60
while list(children()):
    if time.monotonic() > until:
        sys.exit("the copy is still there")
    time.sleep(0.05)
END
python3 kill.py "$umem" "$pid" leaks || exit 1
reads "$copied" "after umem was killed"
finish 0

# With a record of each allocation, the library has so much memory of its own
# that the other commands have the process copied, too.
UMEM_DEBUG=default start "$TMP/copied" 96
python3 kill.py "$umem" "$pid" users || exit 1
"$umem" users "$pid" >said || exit 1
if ! grep -q ' main ' said; then
	echo "no blocks of main():"
	cat said
	exit 1
fi
finish 0

# Without a thread of the library, a call of the program makes the copy.
start "$TMP/copied" 96 single
reads "$copied" "a process with one thread"
soon_planted "single"
finish 0

# A program whose calls are all served from magazines does so, too.
start "$TMP/copied" 96 cached
reads "$copied" "a process that only uses magazines"
soon_planted "cached"
finish 0

# Without a call of the library, there is no copy.  A process that waits is read
# while it waits, and one that does not wait for long is stopped.
start "$TMP/copied" 96 waits
reads "$waited" "a process that waits"
stopped=$(sed -n 's/.* stood still for => \([0-9]*\)\..*/\1/p' said)
if [ "$stopped" -gt 1000 ]; then
	echo "the process that waited stood still for $stopped ms"
	exit 1
fi
"$umem" grep -q "$pid" 0x4141414141414141 >said 2>err
status=$?
if [ $status -ne 0 ] || [ "$(wc -l <said)" -lt 3000000 ] ||
    ! grep -q 'is searched while it runs' err; then
	echo "grep while the process runs: status $status, $(wc -l <said) lines"
	cat err
	exit 1
fi
soon_planted "waits"
finish 0
start "$TMP/copied" 96 naps
for ((i = 0; i < 5; i++)); do
	soon_planted "naps"
done
finish 0

# One filter that forbids a copy is enough, also if only one thread has it.
for mode in confined mixed; do
	start "$TMP/copied" 96 $mode
	"$umem" leaks -v "$pid" >said
	if grep -q "$copied" said; then
		echo "$mode: copied despite a filter of system calls"
		exit 1
	fi
	soon_planted $mode
	finish 0
done

# The kernel shows filters to root without a filter, if it has the option
# CHECKPOINT_RESTORE.
start "$TMP/copied" 96 contained
if [ "$(id -u)" -eq 0 ] && [ -e /proc/sys/kernel/ns_last_pid ] &&
    grep -q '^Seccomp:.0$' /proc/self/status &&
    unshare --mount true 2>/dev/null; then
	reads "$copied" "a filter of system calls that permits a copy"
fi
soon_planted "contained"
finish 0
