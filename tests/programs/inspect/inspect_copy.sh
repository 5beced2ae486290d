#!/bin/bash
# To search much memory, umem has the library make a copy of the process, and
# searches that while the process runs.  The process does not notice the copy,
# which ends with umem, however umem ends.  A process without a thread of the
# library, or with a filter of system calls, is stopped instead.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build copied

copied='^searched: a copy of the process'

# reads TEXT MANNER - umem leaks reads the memory so.  On a busy machine the
# process may get a CPU too late for that, so one of 20 looks is enough.
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

# Without a thread of the library there is no copy, and none for a process that
# a filter of system calls would end.  umem does not wait for one.
for mode in single confined; do
	start "$TMP/copied" 96 $mode
	"$umem" leaks -v "$pid" >said 2>&1
	if [ $? -ne 1 ] || grep -q "$copied" said ||
	    ! grep -q '^process was stopped for' said; then
		echo "$mode: not stopped:"
		cat said
		exit 1
	fi
	soon_planted $mode
	"$umem" grep -q "$pid" 0x4141414141414141 >said 2>err
	status=$?
	if [ $status -ne 0 ] || [ "$(wc -l <said)" -lt 3000000 ] ||
	    ! grep -q 'is searched while it runs' err; then
		echo "$mode: grep: status $status, $(wc -l <said) lines"
		cat err
		exit 1
	fi
	finish 0
done

# With that thread in a program with one thread, there is a copy.
UMEM_OPTIONS=thread=yes start "$TMP/copied" 96 single
reads "$copied" "thread=yes"
finish 0
