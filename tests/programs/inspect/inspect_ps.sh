#!/bin/bash
# umem ps lists the processes that run on umem; umem metrics prints several of
# them with labels, in two formats, and replaces a file at once.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
bad() {
	echo "$*"
	cat said
	exit 1
}
cat >main.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? (size_t)atol(argv[1]) : 1;
	char *volatile block = malloc(bytes);

	memset(block, 1, bytes);
	puts("ready");
	fflush(stdout);
	return read(0, block, 1) != 0;
}
END2
"$CC" -fno-builtin -o "small\"one" main.c
cp 'small"one' large
cp 'small"one' other
mkfifo hold
./other <hold &
other=$!
exec 8>hold
start ./large 40000000
large=$pid
mkfifo hold2
UMEM_OPTIONS=depot_bytes=2m LD_PRELOAD=$SHIM "./small\"one" <hold2 >/dev/null 8>&- 9>&- &
small=$!
exec 7>hold2
until "$umem" ps 2>/dev/null | grep -Eq "^ *$small "; do
	kill -0 $small || exit 1
done

# A file with the name of a process is not taken for a core.
: >"$large"
"$umem" ps >said 2>err || bad "ps fails"
grep -Eq '^ *PID +RSS +IN USE +CACHED +NOT OURS +ALLOC/S +AGE +PROGRAM +WHERE  OPTIONS$' \
    said || bad "no head"
grep -Eq "^ *$large +([34][0-9]\.[0-9]|[34][0-9])M +38\.[0-9]M .* [0-9ms]+  large +[^ ]+$" \
    said || bad "not the large process"
grep -Eq "^ *$small +[0-9.]+[KM] .* small\"one +[^ ]+  .*depot_bytes=2m" said ||
    bad "not the small one, with its options"
! grep -Eq "^ *$other " said || bad "a process that does not run on umem"
[ "$(grep -n " large " said | cut -d: -f1)" -lt \
    "$(grep -n " small\"one " said | cut -d: -f1)" ] || bad "not by size"
tail -1 said | grep -Eq '^ +all +[0-9.]+[MG] .* [0-9]+ processes' || bad "no sums"
"$umem" top -i 0.1 -n 2 >said 2>err || bad "top without a process fails"
[ "$(grep -c "^ *$large " said)" = 2 ] || bad "not two tables"
"$umem" ps --json >said || bad "ps --json fails"
python3 - "$large" "$small" "$other" 3<said <<'END2' || bad "ps --json"
import json, os, sys
rows = {str(p["pid"]): p for p in json.load(os.fdopen(3))["processes"]}
large, small, other = sys.argv[1:]
assert other not in rows
assert rows[large]["program"] == "large" and rows[small]["program"] == 'small"one'
memory = rows[large]["memory"]
assert memory["live_bytes"] >= 40000000
assert memory["rss_bytes"] >= memory["live_bytes"]
assert rows[small]["options"] == "depot_bytes=2m"
assert 0 < rows[large]["age_ns"] < 600e9
order = [(-row["memory"]["rss_bytes"], row["pid"]) for row in rows.values()]
assert order == sorted(order), order
for row in rows.values():
    assert {"cached_bytes", "not_ours_bytes"} < set(row["memory"])
    assert {"unit", "container"} < set(row)
END2
rm "$large"

# A row is a line of the terminal.
script -qec "stty cols 80; $umem ps" /dev/null </dev/null 2>err | tr -d '\r' >said
if awk 'length > 80 && !/^umem: /' said | grep -q .; then
	bad "ps is beyond 80 columns"
fi
grep -Eq "^ *$small .* small\"one +[^ ].*\.\.$" said || bad "the options are not cut"

# A process that does not run on umem costs a read for each mapping that may
# have the library's data, and one for its identity; a page of variables that is
# in memory is looked up once.
if command -v strace >/dev/null; then
	strace -o calls -e trace=process_vm_readv,pread64 "$umem" ps >said 2>&1 ||
	    bad "ps under strace"
	nmaps=$(awk '$2 ~ /^.w.p/ && $5 != 0' "/proc/$other/maps" | wc -l)
	n=$(grep -c "^process_vm_readv($other," calls)
	if [ "$n" -eq 0 ] || [ "$n" -gt $((nmaps + 1)) ]; then
		bad "$n reads of a process without umem, not $nmaps + 1"
	fi
	nreads=$(grep -c "^process_vm_readv($large," calls)
	n=$(awk '/^process_vm_readv/ { of = substr($1, 18) + 0 }
	    /^pread64/ && of == pid' pid="$large" calls | wc -l)
	if [ "$nreads" -le 50 ] || [ "$n" -ge $((nreads / 3)) ]; then
		bad "$n look-ups of pages for $nreads reads"
	fi
fi

# The rate of allocation, of a process that samples.
cat >busy.c <<'END2'
#include <stdlib.h>
#include <unistd.h>

int
main(void)
{
	void *volatile block;

	for (;;) {
		block = malloc(100000);
		free(block);
		usleep(1000);
	}
}
END2
"$CC" -fno-builtin -o busy busy.c
UMEM_OPTIONS=sample=16k LD_PRELOAD=$SHIM ./busy 8>&- 9>&- 7>&- &
busy=$!
until "$umem" ps 2>/dev/null >said &&
    grep -Eq "^ *$busy .* ~[0-9.]+[KMG] +[0-9ms]+  busy" said; do
	kill -0 $busy || bad "no busy process"
done
grep -Eq "^ *$large .* - +[0-9ms]+  large" said || bad "a rate without samples"
"$umem" ps --json 2>/dev/null | grep -q '"allocated_bytes_per_second": [0-9]' ||
    bad "no rate in JSON"
kill $busy

# Samples are in use: of blocks above the interval, most are samples.
UMEM_OPTIONS=sample=64k LD_PRELOAD=$SHIM ./large 40000000 <hold2 >/dev/null 8>&- 9>&- 7>&- &
sampled=$!
until "$umem" ps 2>/dev/null >said && grep -Eq "^ *$sampled " said; do
	kill -0 $sampled || bad "no process that samples"
done
grep -Eq "^ *$sampled +[0-9.]+M +(3[89]|4[01])(\.[0-9])?M .* large " said ||
    bad "a sample is not in use"

# Where a process runs: its innermost unit, or the container's ID or namespace.
id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
if unshare -m true 2>/dev/null; then
	while read -r group want; do
		echo "$group" >group
		# shellcheck disable=SC2016 # for the inner shell
		unshare -m bash -c 'mount --bind group "/proc/$1/cgroup" &&
			exec "$2" ps' - "$large" "$umem" >said 2>err
		grep -Eq " large +$want$" said || bad "$group: not $want"
	done <<-END2
		0::/system.slice/redis.service redis.service
		0::/user.slice/user@1.service/app.slice/a.scope/b a.scope
		0::/system.slice/docker-$id.scope 0123456789ab
		4:cpu,cpuacct:/docker/$id 0123456789ab
		0::/kubepods.slice/cri-containerd-$id.scope/x.service 0123456789ab
		0::/$id/${id}0 0123456789ab
		0::/${id}0/my.services -
		4:memory:/redis.service -
		1:name=systemd:/old.service old.service
		0::/ -
	END2
	LD_PRELOAD=$SHIM unshare -pf ./large 2000000 <hold2 >/dev/null 9>&- 8>&- 7>&- &
	apart=$!
	until "$umem" ps 2>/dev/null >said &&
	    grep -Eq " large +pid:\[[0-9]+\]$" said; do
		kill -0 $! || bad "no process of another namespace"
	done
	"$umem" metrics --all >said
	grep -Eq "^umem_live_bytes\{pid=\"[0-9]+\",program=\"large\",container=\"pid:\[[0-9]+\]\"\} " \
	    said || bad "metrics: no container"
fi

# Several processes: a block of lines for each family, with labels.
check=$TOP/tests/programs/inspect/parts/openmetrics.py
for which in --all "$large $small"; do
	# shellcheck disable=SC2086 # words
	"$umem" metrics $which >said 2>err || bad "metrics $which"
	python3 "$check" <said >/dev/null || bad "metrics $which: no OpenMetrics"
	grep -Eq "^umem_live_bytes\{pid=\"$large\",program=\"large\"[^}]*\} 4[0-9]{7}$" \
	    said || bad "metrics $which: not the large one"
	grep -q "^umem_failures_total{pid=\"$small\",program=\"small_one\"[^}]*} 0$" \
	    said || bad "metrics $which: not the small one"
	grep -q "^umem_cache_live_objects{pid=\"$small\",program=\"small_one\"[^}]*,cache=\"umem_alloc_" \
	    said || bad "metrics $which: no cache"
done
"$umem" metrics "$large" >said
grep -q '^umem_live_bytes [0-9]*$' said || bad "one process needs no labels"
"$umem" metrics --all "$large" >said 2>&1 && bad "--all and a process"
"$umem" metrics >said 2>&1 && bad "no process"
"$umem" metrics "$large" "$other" >said 2>err && bad "a process without umem"
[ ! -s said ] || bad "half an answer"

# The text format of Prometheus: a counter has its whole name in its type.
"$umem" metrics --format=prometheus "$large" >said || bad "--format"
python3 - <<'END2' 3<said || bad "not the format 0.0.4"
import os, re
types, seen = {}, set()
for line in os.fdopen(3).read().splitlines():
    meta = re.fullmatch(r'# (TYPE|HELP) (\w+) (.+)', line)
    if meta:
        if meta[1] == "TYPE":
            types[meta[2]] = meta[3]
        continue
    name = re.fullmatch(r'(\w+)(\{[^}]*\})? \d+', line)[1]
    seen.add(name)
    assert types[name] == ("counter" if name.endswith("_total") else "gauge")
assert set(types) == seen and "umem_failures_total" in seen
END2
"$umem" metrics --format=xml "$large" >said 2>&1 && bad "--format=xml"

# A reader of the file sees the old or the new text.  Others may read it.
umask 022
echo old >text.prom
ln text.prom before
"$umem" metrics -o text.prom --format=prometheus "$large" >said || bad "-o"
[ ! -s said ] || bad "-o prints to standard output, too"
[ "$(cat before)" = old ] || bad "-o changes the file"
[ "$(stat -c %a text.prom)" = 644 ] || bad "-o: others cannot read it"
grep -q '^umem_live_bytes ' text.prom || bad "-o: no text"
"$umem" metrics -o text.prom "$other" >said 2>&1 && bad "-o without a process"
grep -q '^umem_live_bytes ' text.prom || bad "-o: an error changes the file"
mkfifo pipe
"$umem" metrics -o pipe "$large" >said 2>&1 && bad "-o replaces a pipe"
[ -p pipe ] || bad "-o replaces a pipe"
"$umem" metrics -o none/text "$large" >said 2>&1 && bad "-o: no folder"
"$umem" metrics -o "$PWD" "$large" >said 2>&1 && bad "-o: a folder"
left=$(find . -name 'text.prom?*')
[ -z "$left" ] || bad "left: $left"
finish 0
exec 7>&- 8>&-
# shellcheck disable=SC2086 # words
wait $small $other $sampled ${apart-}
