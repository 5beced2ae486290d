#!/bin/bash
# vm.sh - the tests under other kernels, in virtual machines without KVM
#
#	tools/build/vm.sh FOLDER [ROW...]
#
# Each row of the table below is a virtual machine with a kernel of one Debian
# release and the C library and programs of another, or only the rows that are
# named.  The tree is compiled once for each architecture, with the headers and
# libraries of the oldest release.  FOLDER keeps the unpacked packages, the
# build folders, and the output of each row (ROW.log).  Nothing of this is
# installed on this machine, and the script need not run as root.
#
# QEMU emulates each instruction, so times mean nothing, and the memory order of
# aarch64 is that of this machine.  A row that takes longer than LIMIT seconds
# has failed.  A row is skipped if its packages cannot be had.  The last line is
# "N passed, N failed[, N skipped]".
#
set -uo pipefail

# Name, architecture, release and flavour of the kernel, release of the
# programs, and job.
TABLE='
5.10	amd64	bullseye		cloud-amd64	bookworm	short
6.1	amd64	bookworm		cloud-amd64	bookworm	short
6.12	amd64	trixie			cloud-amd64	trixie		short
7.2	amd64	sid			cloud-amd64	forky		short
7.3	amd64	trixie-backports	cloud-amd64	trixie		short
nodes	amd64	trixie-backports	cloud-amd64	forky		nodes2
nodes-4	amd64	trixie-backports	cloud-amd64	forky		nodes4
arm-6	arm64	bookworm-backports	arm64-16k	bookworm	short
arm-7	arm64	trixie-backports	arm64		trixie		short
'
OLDEST=bookworm
QEMU_RELEASE=forky
LIMIT=${LIMIT:-600}

SUITES='cpu rseq magazine shards depot fork grace typesafe sample snapshot'
PROGRAMS='vfork clone fork_unstarted atfork_alloc refused_later cpus nodes'
SCRIPTS='real_perl real_sqlite'

# Debian's packages of the emulator, of the programs in the virtual machine, and
# of the headers and libraries to compile with.
QEMU='qemu-system-x86 qemu-system-arm'
USERLAND='bash dash coreutils diffutils findutils grep sed mawk mount util-linux
	procps libc-bin python3 perl sqlite3 libdw1 libsubunit0'
DEVELOPMENT='libc6-dev check libsubunit-dev libdw-dev libelf-dev libiberty-dev
	liburcu-dev valgrind systemtap-sdt-dev'

self=$(readlink -f "$0")
tree=${self%/*/*/*}
# shellcheck source=tools/build/roots.sh
. "$tree/tools/build/roots.sh"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
passed=0 failed=0 skipped=0
LAST_LINE='vm.sh: the machine has done its job'

say() {
	echo "vm.sh: $*"
}

sums() {
	echo "$passed passed, $failed failed$([ $skipped -eq 0 ] ||
	    echo ", $skipped skipped")"
}

# check NAME COMMAND... - counts a command that must succeed
check() {
	if "${@:2}" >"$said" 2>&1; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1"
		sed 's/^/    /' "$said"
	fi
}

# count COMMAND... - adds the last sums that it prints; a machine also prints
# LAST_LINE before them
count() {
	local sums='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'

	# Without the console's control characters.
	"$@" | sed -u 's/\r$//; s/\x1b\(c\|\[[?0-9;]*[a-zA-Z]\)//g' |
	    tee "$said"
	if [[ $(grep -aE "$sums" "$said" | tail -n 1) =~ $sums ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
	else
		failed=$((failed + 1))
		echo "FAIL $*: it ended early"
		return
	fi
	if [ "$1" = boot ] && ! grep -qxF "$LAST_LINE" "$said"; then
		failed=$((failed + 1))
		echo "FAIL $*: it ended early"
	fi
}

# In the virtual machine: the tree is /umem.

preloaded() {
	LD_PRELOAD=$B/libumem_malloc.so.1 "$@"
}

# oracle MODE SECONDS THREADS
oracle() {
	UMEM_OPTIONS=mode=$1 preloaded "$B/programs/threads/oracle" \
	    "${2}000" $(($3 / 2))
}

python() {
	PYTHONMALLOC=malloc preloaded python3 -c '
import json, threading, subprocess
def work():
	text = json.dumps([{"n": n, "of": list(str(n))} for n in range(20000)])
	assert len(json.loads(text)) == 20000
threads = [threading.Thread(target=work) for n in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert subprocess.run(["true"]).returncode == 0'
}

# leaks - the command finds the leak of the demo in a live process
leaks() {
	local pid

	mkfifo /tmp/input
	UMEM_OPTIONS=sample=16k LD_PRELOAD=$B/libumem_malloc.so.1 \
	    "$B/demo/jobs" </tmp/input >/tmp/told &
	pid=$!
	exec 9>/tmp/input
	until grep -q ready /tmp/told; do
		kill -0 $pid || return
		sleep 0.2
	done
	"$B/umem" status $pid 9>&- && "$B/umem" leaks $pid 9>&- >/tmp/leaks
	cat /tmp/leaks
	exec 9>&-
	wait $pid && grep -q 'jobs\.c:' /tmp/leaks
}

short_job() {
	local mode

	# shellcheck disable=SC2086 # lists
	count tests/run_tests.sh build programs -- $PROGRAMS $SCRIPTS
	for mode in rseq own locked; do
		check "oracle $mode" oracle $mode 15 12
	done
	check python3 python
	check leaks leaks
	# shellcheck disable=SC2086 # a list
	count tests/run_tests.sh build unit -- $SUITES
}

# turn 0|1 - the CPUs of the second half of the nodes off, or on
turn() {
	local cpu

	for ((cpu = 32; cpu < 64; cpu++)); do
		echo "$1" >/sys/devices/system/cpu/cpu$cpu/online || return
	done
}

# disturbed MODE - the oracle while half of the CPUs go and come back, and while
# its set of CPUs shrinks to one
disturbed() {
	local group=/sys/fs/cgroup/oracle pid status=0

	oracle "$1" 20 200 &
	pid=$!
	echo $pid >$group/cgroup.procs
	turn 0 && turn 1 || status=1
	for cpus in 0-40 3-10 5 0-63; do
		echo $cpus >$group/cpuset.cpus || status=1
		sleep 1
	done
	wait $pid && return $status
}

nodes_job() {
	local mode

	count tests/run_tests.sh build programs -- nodes
	check leaks leaks
	mount -t cgroup2 group /sys/fs/cgroup &&
	    echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control &&
	    mkdir /sys/fs/cgroup/oracle
	for mode in rseq own locked; do
		check "oracle $mode, 64 threads" oracle $mode 15 64
		check "oracle $mode, CPUs go" disturbed $mode
	done
	count tests/run_tests.sh build unit -- cpu rseq magazine shards depot
}

# inside JOB - the first process of the virtual machine
inside() {
	local debug=/sys/kernel/debug

	export PATH=/usr/sbin:/usr/bin HOME=/root B=/umem/build
	export TEST_TIME_FACTOR=10
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	mount -t devtmpfs dev /dev
	mkdir -p /dev/shm /dev/pts
	mount -t tmpfs shm /dev/shm
	mount -t devpts pts /dev/pts
	mount -t tmpfs tmp /tmp
	mount -t debugfs debug $debug
	ln -sf /proc/self/fd /dev/fd
	say "$(uname -srm), $(nproc) CPUs, $(getconf PAGESIZE) bytes a page," \
	    "$(getconf GNU_LIBC_VERSION)"
	# The kernel ends a process that breaks a rule of rseq.
	if [ -e $debug/rseq/debug ]; then
		echo 1 >$debug/rseq/debug && say "rseq's debug key is on"
	fi
	cd /umem || exit
	"${1%[0-9]}_job"
	echo "$LAST_LINE"
	sums
	echo b >/proc/sysrq-trigger
	sleep 60
}

# On this machine: packages, build, machine.

# kernel RELEASE ARCH FLAVOUR - sets $image
kernel() {
	local packages

	lists "$1" "$2" || return
	packages=$(apt-cache "${apt[@]}" depends --recurse --important \
	    "linux-image-$3" | grep -E '^linux-(image|binary)-[0-9]' | sort -u)
	image=$folder/kernel/${packages%%$'\n'*}
	[ ! -f "$image" ] || return 0
	rm -rf "$image.new"
	mkdir -p "$image.new"
	# shellcheck disable=SC2086 # a list
	(cd "$image.new" && apt-get "${apt[@]}" download $packages) &&
	    unpack "$image.new" "$image.new"/*.deb &&
	    find "$image.new" -name 'vmlinuz*' -exec mv {} "$image" \; &&
	    [ -f "$image" ] && rm -rf "$image.new"
}

# machine ARCH JOB - sets the prefix of the compiler, and the words for QEMU
machine() {
	local n ncpus i first

	if [ "$1" = amd64 ]; then
		triplet=x86_64-linux-gnu
		qemu=(qemu-system-x86_64 -cpu max -vga none)
		words='console=ttyS0 tsc=reliable lpj=4000000 nowatchdog'
	else
		triplet=aarch64-linux-gnu
		qemu=(qemu-system-aarch64 -M 'virt,gic-version=3'
			-cpu 'max,pauth-impdef=on')
		words=console=ttyAMA0
	fi
	case $2 in
	nodes*)
		n=${2#nodes} ncpus=$((64 / n))
		qemu+=(-smp "64,sockets=$n,cores=$ncpus,threads=1" -m 6G)
		for ((i = 0; i < n; i++)); do
			first=$((i * ncpus))
			qemu+=(-object "memory-backend-ram,id=n$i,size=$((6144 / n))M"
				-numa "node,memdev=n$i,cpus=$first-$((first + ncpus - 1))")
		done
		;;
	*) qemu+=(-smp 4 -m 5G) ;;
	esac
}

# archive FOLDER - as an initial file system
archive() {
	(cd "$1" && find . -path ./usr/include -prune -o ! -name '*.a' -print0 |
	    cpio --null --quiet -o -H newc -R 0:0)
}

# prepare ARCH RELEASE FLAVOUR USERLAND
prepare() {
	# shellcheck disable=SC2086 # lists
	kernel "$2" "$1" "$3" &&
	    root "$4-$1" "$4" "$1" $USERLAND &&
	    root "sysroot-$1" $OLDEST "$1" $DEVELOPMENT &&
	    root qemu $QEMU_RELEASE "$(dpkg --print-architecture)" $QEMU
}

# build ARCH - the tree in the virtual machine, in $folder/tree-ARCH
build() {
	local sysroot=$folder/sysroot-$1 at=$folder/tree-$1 out name source
	local -a programs=(demo/jobs programs/threads/oracle)

	for name in $PROGRAMS; do
		source=$(cd "$tree/tests" && echo programs/*/"$name".c)
		programs+=("${source%.c}")
	done
	# The dependencies of make name files by their paths from the tree.
	if [ "$(cat "$folder/tree" 2>/dev/null)" != "$tree" ]; then
		rm -rf "$folder"/build-*
		echo "$tree" >"$folder/tree"
	fi
	out=$(realpath --relative-to="$tree" "$folder/build-$1")
	env -u MAKEFLAGS -u MFLAGS PKG_CONFIG_SYSROOT_DIR="$sysroot" \
	    PKG_CONFIG_LIBDIR="$sysroot/usr/lib/$triplet/pkgconfig" \
	    make -s -C "$tree" B="$out" LD=$triplet-ld AR=$triplet-ar \
	    OBJCOPY=$triplet-objcopy CC="$triplet-gcc --sysroot=$sysroot" \
	    all "$out/unit" "${programs[@]/#/$out/}" || return
	rm -rf "$at"
	mkdir -p "$at"/{proc,sys,dev,tmp,root,umem/build}
	cp -r "$tree/tests" "$tree/tools" "$at/umem"
	cp -r "$tree/$out"/{lib*,umem,unit,account.so,programs,demo} \
	    "$at/umem/build"
	printf '#!/bin/bash\nexec /umem/tools/build/vm.sh --inside %s\n' "$2" \
	    >"$at/init"
	chmod +x "$at/init"
}

# boot ARCH USERLAND - until the virtual machine resets itself
boot() {
	local at=$folder/qemu loader

	[ -f "$folder/$2-$1.cpio" ] ||
	    archive "$folder/$2-$1" >"$folder/$2-$1.cpio" || return
	{ cat "$folder/$2-$1.cpio" && archive "$folder/tree-$1"; } \
	    >"$folder/initrd.$$" || return
	for loader in "$at"/usr/lib*/ld-linux-*.so.*; do
		break
	done
	QEMU_MODULE_DIR=$(echo "$at"/usr/lib/*/qemu) \
	    timeout -k 10 "$LIMIT" "$loader" \
	    --library-path "$(echo "$at"/usr/lib/*-linux-gnu)" \
	    "$at/usr/bin/${qemu[0]}" "${qemu[@]:1}" \
	    -L "$at/usr/share/qemu" -L "$at/usr/share/seabios" \
	    -accel tcg,thread=multi -nographic -no-reboot -nic none \
	    -kernel "$image" -initrd "$folder/initrd.$$" \
	    -append "$words quiet panic=-1" </dev/null
	rm "$folder/initrd.$$"
}

# row NAME ARCH RELEASE FLAVOUR USERLAND JOB
row() {
	local log=$folder/$1.log began=$SECONDS

	machine "$2" "$6"
	if ! prepare "${@:2:4}" >"$log" 2>&1; then
		skipped=$((skipped + 1))
		say "$1: skipped: $(tail -n 1 "$log")"
	elif ! build "$2" "$6" >"$log" 2>&1; then
		failed=$((failed + 1))
		cat "$log"
		say "$1: the build for $2 failed"
	else
		count boot "$2" "$5" >"$log" 2>&1
		grep -av ' tests have ended$' "$log"
		say "$1: $((SECONDS - began)) s"
	fi
}

if [ "${1-}" = --inside ]; then
	inside "$2"
	exit
fi
[ $# -ge 1 ] || { echo "usage: tools/build/vm.sh FOLDER [ROW...]" >&2; exit 2; }
mkdir -p "$1" || exit
folder=$(readlink -f "$1")
shift
rows() {
	awk -v name="$1" 'name == "" || $1 == name' <<<"$TABLE"
}
# shellcheck disable=SC2046 # a list
[ $# -gt 0 ] || set -- $(rows '' | awk '{ print $1 }')
for name in "$@"; do
	[ -n "$(rows "$name")" ] || {
		echo "vm.sh: no row $name; the table in $0 has the rows" >&2
		exit 2
	}
done
for name in "$@"; do
	read -r -a columns < <(rows "$name")
	row "${columns[@]}"
done
sums
[ $failed -eq 0 ]
