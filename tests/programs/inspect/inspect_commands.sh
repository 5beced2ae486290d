#!/bin/bash
# The other commands of umem that inspect a process: columns, agreement with
# the figures that the program printed, JSON, and the errors if they cannot
# inspect it.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build planted

json() {
	if ! "$umem" "$1" --json "${@:2}" 2>&1 |
	    python3 -c 'import json, sys; json.load(sys.stdin)'; then
		echo "umem $1 --json ${*:2}: no JSON"
		exit 1
	fi
}

every_command() {
	local looks=5

	# Upkeep may change the process between two looks.
	while :; do
		expect 0 '^(Process: +planted \([0-9]+\)|Core: +core\.[0-9]+), [0-9]+ threads$' \
		    status "$1"
		cp said status
		! "$umem" "$1" | diff -I Next: -I RSS -I '^Not ours' -I '^ ' \
		    status - >differences || break
		if [ $((--looks)) -eq 0 ]; then
			cat differences
			echo "umem $1 is not umem status"
			exit 1
		fi
	done
	if [ "$(wc -l <status)" -gt 24 ] || grep -E '.{81}' status ||
	    ! tail -n 1 status | grep '^Next: umem ' >next; then
		cat status
		exit 1
	fi
	expect 0 '^umem_alloc_96 +96 +1[0-9]{3} ' stat "$1"
	expect 0 '^planted +200 +7 ' stat "$1"
	expect 0 "^${2}7 is ${2}0\+0x7, .*allocated from umem_alloc" whatis "$1" "${2}7"
	expect 0 'unknown$' whatis "$1" 10000
	expect 0 '^0 is a null pointer$' whatis "$1" 0
	expect 0 '^10 is a null pointer plus' whatis "$1" 10
	"$umem" grep "$1" 0123456789abcdef >said 2>&1
	status=$?
	if [ $status -ne 1 ] || [ -s said ]; then
		echo "grep for what is nowhere: status $status"
		cat said
		exit 1
	fi
	for command in status stat verify; do
		json "$command" "$1"
	done
	json whatis "$1" "$2" 0 10
	json walk "$1" allocated
	"$umem" walk "$1" planted | sort >walked
	"$umem" walk "$1" leak | sort >leaked
	if [ "$(wc -l <walked)" -ne 7 ] ||
	    [ "$(comm -12 walked leaked | wc -l)" -ne 7 ]; then
		echo "walk planted, or walk leak: not the 7 objects"
		exit 1
	fi
}

start "$TMP/planted" 2
block=$(sed -n 's/^kept //p' "$TMP/told" | tail -1)
every_command "$pid" "${block%?}"
expect 0 '^nothing can be verified: no cache has redzones' verify "$pid"
list=$(sed -n 's/^kept //p' "$TMP/told" | sed -n 100p)
expect 0 ', .*allocated from umem_alloc_96$' grep "$pid" "$list"
gcore -o core "$pid" >/dev/null 2>&1
every_command "core.$pid" "${block%?}"
head -c 100000 "core.$pid" >cut_short
expect 2 '^umem: cut_short: the core file is truncated' leaks cut_short
expect 2 'no transaction is recorded' log "$pid"
expect 2 '^umem: users: no callers are recorded' users "$pid"
gdb -p "$pid" -batch -ex "shell $umem stat $pid 2>$TMP/traced; true" \
    >/dev/null 2>&1
if ! grep -q 'process [0-9]* is debugging it' traced; then
	echo "under a debugger:"
	cat traced
	exit 1
fi
finish 0
rm -f core.*
expect 2 "^umem: $pid: no such process" leaks "$pid"

# Threads that find a lock taken are counted, sooner or later.
build contended
start "$TMP/contended"
for ((i = 0; i < 300; i++)); do
	"$umem" stat "$pid" >said 2>err
	grep -Eq '^contended +64 .* [1-9][0-9]*$' said && break
	sleep 0.02
done
expect 0 '^contended +64( +[0-9.KM]+)+ +[1-9][0-9]*$' stat "$pid"
finish 0

# How it was started.
while read -r options debug shown words; do
	UMEM_OPTIONS=${options#-} UMEM_DEBUG=${debug#-} start "$TMP/planted" 1
	expect 0 "^Options: +$shown$" status "$pid"
	expect 0 "^Debugging: +$words$" status "$pid"
	json status "$pid"
	finish 0
done <<'END'
- - none off
hardened - hardened off
- default,noabort noabort audit,contents,guards,noabort
hardened guards:some*,umem_alloc_8;firewall=4k:big,mtbf=100000 hardened guards:some\*,umem_alloc_8; firewall=4096:big,mtbf=100000
END

# The spare memory of a cache is that of the slabs which its buffers would not
# need.
start "$TMP/planted" 1
"$umem" stat --json "$pid" >stat.json
python3 - <<'END' || exit 1
import json
seen = 0
for c in json.load(open("stat.json"))["caches"]:
    if c["slabs"] == 0:
        assert c["spare"] == 0, c
        continue
    need = -(-c["in_use"] // (c["total"] // c["slabs"]))
    assert c["spare"] == c["memory"] // c["slabs"] * (c["slabs"] - need), c
    seen += c["spare"] > 0
assert seen > 0
END
finish 0

# A library that describes itself in another version.
cp "$SHIM" libumem_malloc.so.1
python3 - <<'END'
text = bytearray(open("libumem_malloc.so.1", "rb").read())
at = text.index(b"umem described\n")
text[at + 16] += 1
open("libumem_malloc.so.1", "wb").write(text)
END
SHIM=$TMP/libumem_malloc.so.1 start "$TMP/planted" 1
expect 2 'describes itself in version' stat "$pid"
finish 0

# Nor is anything to be seen of a program on another malloc.
sleep 100 &
until grep -q 'libc[.-]' "/proc/$!/maps"; do
	sleep 0.02
done
expect 2 "^umem: $!: does not run on umem; \"umem run\" starts a program on it\$" \
    leaks $!
kill $!
# A static program has no place for the library, also under umem run.
echo 'int main(void) { for (;;) sleep(1); }' >still.c
if "$CC" -w -include unistd.h -static -o still still.c 2>/dev/null; then
	"$umem" run ./still &
	until [ "$(readlink "/proc/$!/exe")" = "$TMP/still" ]; do
		sleep 0.02
	done
	expect 2 "^umem: $!: does not run on umem: it is statically linked, and" \
	    status $!
	kill $!
fi
# A program in its exec(), which has mapped no other file yet, is not static.
# This one stays so, because it is its own dynamic loader.
echo 'void _start(void) { for (;;) ; }' >alone.c
"$CC" -nostdlib -pie -fPIE -Wl,--dynamic-linker="$TMP/alone" -o alone alone.c
./alone &
# shellcheck disable=SC2064 # this process
trap "kill $!" EXIT
until [ "$(readlink "/proc/$!/exe")" = "$TMP/alone" ]; do
	sleep 0.02
done
expect 2 "^umem: $!: does not run on umem; \"umem run\" starts a program on it\$" \
    status $!
trap - EXIT
kill $!

# The block that dlsym() of an older glibc keeps for a thread would count as
# lost.
[ "${GLIBC_MINOR:-34}" -ge 34 ] || exit 0

# With records of all transactions.
export UMEM_DEBUG=default UMEM_LOGGING=transaction
start "$TMP/planted" 2
unset UMEM_DEBUG UMEM_LOGGING
leaked "$pid"
exactly_planted "UMEM_DEBUG=default"
expect 1 '^ +planted`tree\+0x[0-9a-f]+ \(planted.c:' leaks -d -c tree "$pid"
expect 0 '^no leaks from nobody found$' leaks -c nobody "$pid"
expect 0 '^ +[0-9.]+K +[0-9]+% +1000 +[0-9sm]+  plant(er|_kept) ' users "$pid"
record='^ +[0-9]+\.[0-9]{6} allocated +[0-9a-f]+ +[0-9]+ +[0-9]+'
expect 0 "$record umem_alloc_[0-9]+ planted\`" log -l transaction "$pid"
expect 0 "$record umem_alloc_[0-9]+ planted\`tree" log -c tree "$pid"
expect 0 "$record [a-z_0-9]+ planted\`main" log -t "$pid" -s allocated "$pid"
if grep ' free ' said; then
	echo "a free buffer among the allocated ones"
	exit 1
fi
block=$("$umem" walk "$pid" allocated | head -n 1)
expect 0 '^    allocated by thread ' log -v -a "$block" "$pid"
if [ "$(grep -Ec "$record" said)" -ne 1 ]; then
	echo "not the one record of $block"
	exit 1
fi
expect 0 '^no such record$' log -c nobody "$pid"
expect 0 '^no such record is logged \(UMEM_LOGGING=slab' log -l slab "$pid"
expect 0 '^[0-9]+ caches are clean$' verify "$pid"
expect 0 '^  clean$' verify "$pid" umem_alloc_96
for command in users log verify; do
	json "$command" "$pid"
done
finish 0
