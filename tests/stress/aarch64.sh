#!/bin/bash
# test timeout: 3600
# test alone: yes
# The unit tests of aarch64, and frees that wait for a grace period, on any
# machine, by QEMU's emulation of a process.  All files are compiled for
# aarch64.  The emulation has neither restartable sequences nor ptrace, so the
# library runs in the locked mode, and it keeps the memory order of the machine
# below it.  Restartable sequences need qemu-system-aarch64 with a kernel.
set -u

skip() {
	echo "$*"
	exit 77
}

for tool in aarch64-linux-gnu-gcc qemu-aarch64-static apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || skip "there is no $tool"
done

# The libraries of Check and liburcu, without telling dpkg of an architecture.
mkdir -p apt/lists/partial apt/archives/partial
: >apt/status
packages() {
	apt-get -qq -o Dir::State="$TMP/apt" -o Dir::State::status="$TMP/apt/status" \
	    -o Dir::Cache="$TMP/apt" -o APT::Architecture=arm64 \
	    -o APT::Architectures=arm64 -o APT::Sandbox::User=root "$@" >said 2>&1
}
if ! packages update || ! packages download check libsubunit-dev liburcu-dev; then
	tail -n 3 said
	skip "check for arm64 cannot be fetched"
fi
for package in *.deb; do
	dpkg-deb -x "$package" root || exit 1
done
include=$TMP/root/usr/include/aarch64-linux-gnu
libraries=$TMP/root/usr/lib/aarch64-linux-gnu
build=$TOP/build-aarch64

# The package of the cross compiler has no liburcu.
if make -n -B -C "$TOP" CROSS=aarch64-linux-gnu- all | grep -q umem/rcu/rcu.c; then
	echo "without liburcu, make would build libumem_rcu"
	exit 1
fi
if ! make -s -C "$TOP" CROSS=aarch64-linux-gnu- \
    CPPFLAGS="-I$include -I$TMP/root/usr/include" LDFLAGS="-L$libraries" \
    all build-aarch64/unit >said 2>&1 || [ -s said ]; then
	echo "built for aarch64:"
	cat said
	exit 1
fi

emulate() {
	qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@" </dev/null
}

failed=()
for flavour in memb mb bp qsbr; do
	aarch64-linux-gnu-gcc -O1 -g -D_GNU_SOURCE -I"$TOP" -I"$TOP/umem" \
	    -I"$include" -DURCU_API_MAP -include "urcu/urcu-$flavour.h" \
	    -o "$flavour" "$TOP/tests/programs/rcu/parts/map.c" \
	    "$build/libumem_rcu.a" "$build/libumem.a" -L"$libraries" \
	    -Wl,-Bstatic "-lurcu-$flavour" -lurcu-common -Wl,-Bdynamic \
	    -pthread -ldl -lm && emulate "./$flavour" && continue
	failed+=("rcu_map_$flavour")
done

# Suites that the emulation cannot pass: those of aborted children (QEMU adds a
# message of its own), of resident pages, of limits, of vfork() and of copies of
# the process; cache, whose tests need threads that stay on their CPUs; heap,
# which takes many minutes.
left_out=' arena import misuse nofail panic large sample snapshot os cache heap '
export CK_TIMEOUT_MULTIPLIER=20
suite() {
	emulate "$TOP/build-aarch64/unit" "$1" >"said.$1" 2>&1
}
suites=()
for suite in $(emulate "$build/unit" --list); do
	[[ $left_out = *" $suite "* ]] || suites+=("$suite")
done
[ ${#suites[@]} -gt 30 ] || {
	echo "only ${#suites[@]} suites"
	exit 1
}
export -f emulate suite
export TOP
printf '%s\n' "${suites[@]}" |
    xargs -P "$(nproc)" -I NAME bash -c 'suite NAME || echo NAME >>failed'
if [ -e failed ]; then
	while read -r suite; do
		failed+=("$suite")
		tail -n 20 "said.$suite"
	done <failed
fi
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed on aarch64: ${failed[*]}"
	exit 1
fi
