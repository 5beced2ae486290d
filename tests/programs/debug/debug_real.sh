#!/bin/bash
# test timeout: 120
# A debugged library reports no fault of real programs, and their results are
# equal to those without debugging.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >python.py <<'END'
import json, threading, re

def work():
    for i in range(20):
        text = json.dumps({str(k): [k] * 10 for k in range(200)})
        assert len(json.loads(text)) == 200
        assert len(re.findall("[0-9]+", text)) > 2000

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
END
# real COMMAND... - the same output with debugging, and no word on stderr
real() {
	command -v "$1" >/dev/null || return 0
	"$@" >plain
	for words in guards default,nosignal firewall=8192,guards \
	    'audit;default:umem_alloc_?6,umem_oversize'; do
		UMEM_DEBUG=$words UMEM_LOGGING=transaction,contents,fail,slab \
		    LD_PRELOAD=$SHIM "$@" >out 2>err || {
			echo "UMEM_DEBUG=$words $*: status $?"
			cat err
			exit 1
		}
		if ! cmp -s plain out || [ -s err ]; then
			echo "UMEM_DEBUG=$words $*: not as without"
			cat err
			exit 1
		fi
	done
}
export PYTHONMALLOC=malloc
real python3 python.py
# sqlite3 of Debian forky has no texts in double quotes.
real sqlite3 :memory: "create table t(a, b);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
insert into t select i, hex(i) from n; create index tb on t(b);
select count(*), sum(length(b)) from t where b like '3%';"
# shellcheck disable=SC2016
real perl -e 'my %h; $h{$_ % 1000} .= $_ x 3 for 1 .. 30000;
print join(",", map { length } @h{sort keys %h}), "\n";'
real git -C "$TOP" log --oneline -20
# shellcheck disable=SC2016
real bash -c 'for i in $(seq 300); do x[i]=$(printf %d "$i"); done; echo "${x[@]}"'
real sort -R --random-source="$TOP/README.md" "$TOP/README.md"
