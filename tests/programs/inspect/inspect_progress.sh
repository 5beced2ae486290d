#!/bin/bash
# On a terminal, umem shows the progress of a search that takes longer than a
# second, ten times in a second at most, and erases it before it prints the
# result.  Elsewhere it shows none.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build chain

cat >terminal.py <<'END'
"""
terminal.py UMEM PID SLOW - umem leaks on a terminal; prints what it writes to
standard error.  SLOW: 1 to stop it for more than a second while it works.
"""
import os
import pty
import re
import signal
import subprocess
import sys
import time

umem, pid, slow = sys.argv[1:]
own, its = pty.openpty()
begin = time.monotonic()
tool = subprocess.Popen([umem, "leaks", pid], stdout=subprocess.DEVNULL,
                        stderr=its, env=dict(os.environ, TERM="linux"))
os.close(its)
while slow == "1" and tool.poll() is None:
    with open(f"/proc/{tool.pid}/status") as status:
        anonymous = re.search(r"RssAnon:\s*(\d+)", status.read())
    # It holds tables of the process, so it has begun.
    if anonymous and int(anonymous[1]) > 2048:
        tool.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        tool.send_signal(signal.SIGCONT)
        break
said = b""
try:
    while piece := os.read(own, 1000):
        said += piece
except OSError:
    pass
assert tool.wait() == 1
most = max(0, 1 + (time.monotonic() - begin - 1) / 0.1)
assert said.count(b"Kumem: ") <= most, most
sys.stdout.write(said.decode())
END

UMEM_OPTIONS=thread=yes start "$TMP/chain" 192 dense
for ((i = 0; i < 20; i++)); do
	python3 terminal.py "$umem" "$pid" 1 >said || exit 1
	grep -Eq $'\r\033\\[Kumem: (reading memory|searching for pointers), [0-9]+ %' said &&
	    break
done
if [ $i -eq 20 ]; then
	echo "no progress shown:"
	cat -v said
	exit 1
fi
if [ "$(tail -c 4 said)" != $'\r\033[K' ]; then
	echo "the line is not erased:"
	cat -v said
	exit 1
fi
"$umem" leaks "$pid" 2>err >/dev/null
if [ -s err ]; then
	echo "written to a file:"
	cat -v err
	exit 1
fi
finish 0
