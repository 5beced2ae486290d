#!/bin/bash
# umem leaks needs a tenth of the memory that it inspects, and no command adds
# to that of the process.  No command copies memory if MemAvailable, or the
# limit of a memory cgroup of either version, is too low.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build chain

# A command that looks at a process leaves its pages as they are: no page of
# memory without a file becomes present in /proc/PID/pagemap, not even the page
# of zeros, and the figures of a process that sleeps do not change.
cat >looks.py <<'END'
import json, subprocess, sys
umem, pid = sys.argv[1:]
PAGE = 4096

def present():
    pages = {}
    pagemap = open(f"/proc/{pid}/pagemap", "rb", buffering=0)
    for line in open(f"/proc/{pid}/maps"):
        words = line.split()
        name = " ".join(words[5:])
        if words[4] != "0" or name.startswith("[v"):
            continue
        at, end = (int(n, 16) // PAGE for n in words[0].split("-"))
        while at < end:
            pagemap.seek(8 * at)
            got = pagemap.read(min(end - at, 1 << 17) * 8)
            for i in range(7, len(got), 8):
                if got[i] >> 7:
                    pages[at + i // 8] = words[0] + " " + name
            at += len(got) // 8
    return pages

def figures():
    text = subprocess.run([umem, "status", "--json", pid], check=True,
                          stdout=subprocess.PIPE).stdout
    return json.loads(text)["memory"]

def pages_of(figures):
    return {key: figures[key] for key in
            ("not_ours_bytes", "untouched_bytes", "surplus_bytes")}

before = present()
first = pages_of(figures())
for command in ("status", "stat", "metrics", "leaks", "verify",
                "whatis", "top"):
    arguments = {"whatis": ["whatis", pid, "1000"],
                 "top": ["top", "-n", "1", pid]}
    done = subprocess.run([umem] + arguments.get(command, [command, pid]),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode > 1:
        sys.exit(f"{command}: status {done.returncode}: {done.stderr}")
    after = present()
    new = [name for page, name in after.items() if page not in before]
    if new:
        sys.exit(f"umem {command}: {len(new)} pages are new, in {set(new)}")
last = pages_of(figures())
if first != last:
    sys.exit(f"the figures change without reason: {first}, {last}")
END

start "$TMP/chain" 8
python3 looks.py "$umem" "$pid" || exit 1
# Memory may end while pages are packed.
cat >short.c <<'END'
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *
mmap(void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	if (bytes == 1 << 20 && (flags & MAP_NORESERVE) != 0) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, bytes, access, flags, fd, offset);
}
END
"$CC" -shared -fPIC -w -o short.so short.c || exit 1
LD_PRELOAD=$TMP/short.so expect 2 \
    "^umem: $pid: this needs more than the [0-9]+ MiB of memory that may be" \
    leaks "$pid"
finish 0

# few - umem leaks finds the three leaks with a tenth of the process's memory
few() {
	local rss status peak

	rss=$(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")
	"$umem" leaks -v "$pid" >said 2>&1
	status=$?
	peak=$(sed -n 's/^memory of the search: \([0-9]*\) kB$/\1/p' said)
	if [ $status -ne 1 ] || ! grep -Eq 'leaked in 3 blocks' said; then
		echo "status $status, or not three leaks:"
		cat said
		exit 1
	fi
	# 8 MiB: the command itself.
	if [ "$((peak - 8192))" -gt "$((rss / 10))" ]; then
		echo "$peak kB to look at $rss kB"
		exit 1
	fi
}

# few_for STATUS COMMAND... - umem COMMAND... ends with this status, and needs a
# tenth of the process's memory
few_for() {
	local rss

	rss=$(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")
	python3 - "$rss" "$1" "$umem" "${@:2}" <<-'END' || exit 1
	import resource, subprocess, sys
	rss, status = int(sys.argv[1]), int(sys.argv[2])
	done = subprocess.run(sys.argv[3:], stdout=subprocess.DEVNULL)
	peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
	if done.returncode != status or peak - 8192 > rss / 10:
	    sys.exit(f"{sys.argv[4:]}: status {done.returncode}, "
	             f"{peak} kB to look at {rss} kB")
	END
}

# shared COMMAND... - umem COMMAND... reads a copy of the process that takes no
# memory of its own, while the process does not change its memory
shared() {
	python3 - "$pid" "$umem" "$@" <<-'END' || exit 1
	import os, subprocess, sys
	pid, most, n = sys.argv[1], 0, 0
	tool = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL)
	while tool.poll() is None:
	    for task in os.listdir(f"/proc/{pid}/task"):
	        for copy in open(f"/proc/{pid}/task/{task}/children").read().split():
	            try:
	                text = open(f"/proc/{copy}/smaps_rollup").read()
	            except OSError:
	                continue
	            most = max(most, sum(int(line.split()[1])
	                                 for line in text.splitlines()
	                                 if line.startswith("Private_")))
	            n += 1
	if n == 0 or most > 20000:
	    sys.exit(f"{sys.argv[3:]}: looked {n} times, {most} kB private")
	END
}

# Where every word is a pointer, pointers are not kept.
UMEM_OPTIONS=thread=yes start "$TMP/chain" 192 dense
few
few_for 0 grep -q "$pid" 1
few_for 0 verify "$pid"
shared leaks "$pid"
shared grep "$pid" 1234567
finish 0
start "$TMP/chain" 192
few
few_for 0 grep -q "$pid" 1

# Several threads read the memory if there are as many CPUs, and fewer than
# wanted will do.
cat >alone.c <<'END'
#include <errno.h>
#include <stdio.h>

int
pthread_create(void)
{
	fclose(fopen("wanted", "w"));
	return EAGAIN;
}
END
"$CC" -shared -fPIC -w -o alone.so alone.c || exit 1
LD_PRELOAD=$TMP/alone.so expect 1 'leaked in 3 blocks' leaks "$pid"
if [ -e wanted ] && [ "$(nproc)" = 1 ] ||
    [ ! -e wanted ] && [ "$(nproc)" != 1 ]; then
	echo "another thread, or none, on $(nproc) CPUs"
	exit 1
fi
rm -f wanted
first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
taskset -c "$first" env LD_PRELOAD="$TMP/alone.so" "$umem" leaks "$pid" >said
if [ $? != 1 ] || [ -e wanted ]; then
	echo "another thread on one CPU"
	exit 1
fi

# The kernel is to end this command, not the program, when memory runs out.
mkfifo printed
"$umem" grep -q -d 9223372036854775807 "$pid" 0 >printed &
looking=$!
exec 8<printed
read -r _ <&8
score=$(cat "/proc/$looking/oom_score_adj")
exec 8<&-
wait "$looking"
if [ "$score" != 1000 ]; then
	echo "oom_score_adj is $score"
	exit 1
fi

# The test replaces files of the kernel in a mount namespace of its own.
if ! unshare -m true 2>/dev/null; then
	finish 0
	exit 0
fi

# within FOLDER WORD... - runs umem in a mount namespace in which the files
# meminfo, cgroup and groups of FOLDER, if they exist, replace the kernel's
within() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m bash -c '
		[ -e "$1/meminfo" ] && mount --bind "$1/meminfo" /proc/meminfo
		[ -e "$1/cgroup" ] && mount --bind "$1/cgroup" /proc/$$/cgroup
		[ -e "$1/groups" ] && mount --bind "$1/groups" /sys/fs/cgroup
		shift
		exec "$@"' within "$1" "$umem" "${@:2}" >said 2>err
	status=$?
}

# refused COMMAND REGEX FOLDER - with the kernel's files from FOLDER umem verify
# must refuse with a message that matches REGEX, because there is not enough
# memory for its copy; umem leaks must refuse, too, if COMMAND is "leaks"
refused() {
	within "$3" verify "$pid"
	if [ $status -ne 2 ] || ! grep -Eq "^umem: $pid: this needs about [0-9]+ \
MiB of memory, and $2; --force" err || [ "$(wc -l <err)" -ne 1 ]; then
		echo "$3: verify: status $status"
		cat err
		exit 1
	fi
	within "$3" leaks "$pid"
	if [ "$1" = leaks ] && { [ $status -ne 2 ] || ! grep -Eq "and $2" err; } ||
	    [ "$1" != leaks ] && [ $status -ne 1 ]; then
		echo "$3: leaks: status $status"
		cat err
		exit 1
	fi
	within "$3" leaks --force "$pid"
	if [ $status -ne 1 ]; then
		echo "$3: leaks --force: status $status"
		cat err
		exit 1
	fi
}

# Figures that need the pages in memory are left out if they cannot be read.
# shellcheck disable=SC2016 # for the inner shell
unshare -m bash -c 'mount --bind /dev/null "/proc/$1/pagemap" &&
	exec "$2" status --json "$1"' pages "$pid" "$umem" >said 2>err
status=$?
if [ $status -ne 0 ] || ! grep -q '"mapped_bytes"' said ||
    grep -E '"(rss|untouched|not_ours)_bytes"' said; then
	echo "status without pagemap: status $status"
	cat said err
	exit 1
fi

mkdir -p little none v1/groups/memory/a/b v2/groups/a/b
echo "MemAvailable:     102400 kB" >little/meminfo
refused some '93 MiB may be used \(MemAvailable\)' little
echo "MemAvailable:       4096 kB" >none/meminfo
refused leaks '3 MiB may be used \(MemAvailable\)' none
echo "MemAvailable:        100 kB" >none/meminfo
within none stat "$pid"
if [ $status -ne 2 ] || ! grep -q 'this needs about' err; then
	echo "stat: status $status"
	cat err
	exit 1
fi
within none stat --force "$pid"
if [ $status -ne 0 ]; then
	echo "stat --force: status $status"
	cat err
	exit 1
fi

# The limit of the group above counts; 50 MiB of its usage can be dropped.
echo 4:memory:/a/b >v1/cgroup
echo 9223372036854771712 >v1/groups/memory/a/b/memory.limit_in_bytes
echo 419430400 >v1/groups/memory/a/b/memory.usage_in_bytes
echo 419430400 >v1/groups/memory/a/memory.limit_in_bytes
echo 419430400 >v1/groups/memory/a/memory.usage_in_bytes
echo total_inactive_file 52428800 >v1/groups/memory/a/memory.stat
refused some \
    '46 MiB may be used \(the limit of memory cgroup /sys/fs/cgroup/memory/a\)' v1
echo 0::/a/b >v2/cgroup
echo 419430400 >v2/groups/a/b/memory.max
echo 418381824 >v2/groups/a/b/memory.current
echo inactive_file 1048576 >v2/groups/a/b/memory.stat
echo max >v2/groups/a/memory.max
echo 419430400 >v2/groups/a/memory.current
refused leaks \
    '1 MiB may be used \(the limit of memory cgroup /sys/fs/cgroup/a/b\)' v2
finish 0

# A copy of a process may cost the process's own group memory: there is none if
# the group has little left, and the search ends when little is left.
UMEM_OPTIONS=thread=yes start "$TMP/chain" 192 dense
copied='^searched: a copy'
mkdir -p target/groups/g
echo 0::/g >target/its
echo 1073741824 >target/groups/g/memory.max
# As within, for the groups of the process.
group() {
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m bash -c '
		mount --bind target/its "/proc/$1/cgroup"
		mount --bind target/groups /sys/fs/cgroup
		shift
		exec "$@"' group "$pid" "$umem" leaks -v "$pid" >said 2>err
}
# left MIB - that memory is left to the group
left() {
	echo $((1073741824 - ($1 << 20))) >target/groups/g/memory.current
}
left 900
group
if ! grep -q "$copied" said; then
	echo "not copied with 900 MiB left:"
	cat said err
	exit 1
fi
left 4
group
status=$?
if [ $status -ne 1 ] || grep -q "$copied" said; then
	echo "copied with 4 MiB left, or status $status:"
	cat said err
	exit 1
fi
for ((i = 0; i < 20; i++)); do
	left 900
	group &
	while kill -0 $! 2>/dev/null && ! pgrep -P "$pid" >/dev/null; do :; done
	left 4
	wait $!
	status=$?
	[ $status -eq 2 ] && break
done
if ! grep -q 'ended, because the process has less than 16 MiB' err; then
	echo "went on with 4 MiB left: status $status"
	cat said err
	exit 1
fi
finish 0
