#!/bin/bash
# timeout: 3600
# alone: yes
# The unit tests of aarch64, on any machine, by QEMU's emulation of a process.
# All files are compiled for aarch64.  The emulation has neither restartable
# sequences nor ptrace, so the library runs in the locked mode; and it keeps the
# memory order of the machine that it runs on.  Restartable sequences need
# qemu-system-aarch64 with a kernel.  Suites that the emulation cannot pass
# (limits of address space, its messages about signals) are left out, and those
# that take minutes.
set -u

skip() {
	echo "$*"
	exit 77
}

for tool in aarch64-linux-gnu-gcc qemu-aarch64-static apt-get dpkg-deb; do
	command -v "$tool" >/dev/null || skip "there is no $tool"
done

# Check's library for aarch64, without telling dpkg of another architecture.
mkdir -p apt/lists/partial apt/archives/partial
: >apt/status
packages() {
	apt-get -qq -o Dir::State="$TMP/apt" -o Dir::State::status="$TMP/apt/status" \
	    -o Dir::Cache="$TMP/apt" -o APT::Architecture=arm64 \
	    -o APT::Architectures=arm64 -o APT::Sandbox::User=root "$@" >said 2>&1
}
if ! packages update || ! packages download check libsubunit-dev; then
	tail -n 3 said
	skip "check for arm64 cannot be fetched"
fi
for package in *.deb; do
	dpkg-deb -x "$package" root || exit 1
done

if ! make -s -C "$TOP" CROSS=aarch64-linux-gnu- \
    LDFLAGS="-L$TMP/root/usr/lib/aarch64-linux-gnu" \
    all build-aarch64/unit >said 2>&1 || [ -s said ]; then
	echo "built for aarch64:"
	cat said
	exit 1
fi

export CK_TIMEOUT_MULTIPLIER=20
failed=()
for suite in rseq cpu depot shards stack lock meta page_map describe \
    firewall freelist options quarantine idle; do
	qemu-aarch64-static -L /usr/aarch64-linux-gnu "$TOP/build-aarch64/unit" \
	    "$suite" >said 2>&1 </dev/null && continue
	failed+=("$suite")
	tail -n 20 said
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed on aarch64: ${failed[*]}"
	exit 1
fi
