#!/bin/bash
# Debian's node exporter and Prometheus read the file that umem-metrics.service
# writes, of two processes that run on umem.  promtool finds nothing in it, a
# query shows the one that grows, the other one starts again under another
# number, and each query of the dashboard has an answer.
# test timeout: 300
set -u
export LC_ALL=C
umem=$TOP/build/umem
bad() {
	echo "$*"
	tail -n 5 ./*.log 2>/dev/null
	exit 1
}
fetch() {
	apt-get download prometheus prometheus-node-exporter >fetch.log 2>&1 &&
	    for deb in ./*.deb; do dpkg-deb -x "$deb" root; done
}
fetch || {
	echo "skipped: Debian's packages of Prometheus cannot be had"
	exit 77
}
bin=$PWD/root/usr/bin

cat >grows.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? (size_t)atol(argv[1]) : 0;

	for (int i = 0; i < 600; i++) {
		char *volatile block = malloc(bytes + 1);

		memset(block, 1, bytes + 1);
		if (bytes == 0)
			free(block);
		usleep(500000);
	}
	return 0;
}
END2
"$CC" -fno-builtin -o grows grows.c || exit 1
cp grows stays
pids=
trap 'kill $pids 2>/dev/null' EXIT
background() {
	"$@" &
	pids+=" $!"
}
background env "LD_PRELOAD=$SHIM" UMEM_OPTIONS=hard_limit=1g,sample=64k \
    ./grows 1000000
grows=$!
background env "LD_PRELOAD=$SHIM" ./stays
stays=$!

# The command of the service, in another folder, with the number of call sites
# that the man page proposes.
mkdir text data
service=$TOP/tools/metrics/umem-metrics.service
command=$(sed -n 's/^ExecStart=umem //p' "$service")
grep -qx 'Environment=SITES=0' "$service" || bad "the service has no SITES"
sites=$(sed -n 's/^Environment=SITES=//p' "$TOP/man/umem_service.7")
command=${command/\$\{SITES\}/$sites}
[[ $command == *" --sites=$sites "* ]] || bad "the service: $command"
write() {
	# shellcheck disable=SC2086 # words
	"$umem" ${command/ \/*\// text/} 2>write.log || bad "umem $command"
}
[[ $command == *" /"*/umem.prom ]] || bad "the service: $command"
write
"$bin/promtool" check metrics <text/umem.prom >lint.log 2>&1 || bad "promtool"
[ ! -s lint.log ] || bad "promtool has hints"
if command -v systemd-analyze >/dev/null; then
	sed "s|^ExecStart=umem|ExecStart=$umem|; /^Documentation/d" \
	    "$TOP/tools/metrics/umem-metrics.service" >umem-metrics.service
	sed '/^Documentation/d' "$TOP/tools/metrics/umem-metrics.timer" \
	    >umem-metrics.timer
	SYSTEMD_UNIT_PATH=$PWD: systemd-analyze verify ./umem-metrics.timer \
	    >verify.log 2>&1 || bad "systemd-analyze"
	[ ! -s verify.log ] || bad "systemd-analyze has hints"
fi

read -r port_of_node port < <(python3 - <<'END2'
import socket
s = [socket.socket() for _ in range(2)]
for one in s:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in s))
END2
)
background "$bin/prometheus-node-exporter" --collector.disable-defaults \
    --collector.textfile --collector.textfile.directory="$PWD/text" \
    --web.listen-address="127.0.0.1:$port_of_node" >node.log 2>&1
cat >prometheus.yml <<END2
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: node
    static_configs: [{targets: ["127.0.0.1:$port_of_node"]}]
END2
background "$bin/prometheus" --config.file=prometheus.yml \
    --storage.tsdb.path=data --web.listen-address="127.0.0.1:$port" \
    >prometheus.log 2>&1

for i in {1..15}; do
	if [ "$i" -eq 8 ]; then
		kill $stays
		background env "LD_PRELOAD=$SHIM" ./stays
		again=$!
	fi
	sleep 1
	write
done

python3 - "$port" "$grows" "$stays" "$again" "$sites" \
    "$TOP/tools/metrics/umem-grafana.json" <<'END2' || bad "the queries"
import json, re, sys, time, urllib.parse, urllib.request

port, grows, stays, again, nsites, dashboard = sys.argv[1:]


def ask(query):
    url = (f"http://127.0.0.1:{port}/api/v1/query?"
           + urllib.parse.urlencode({"query": query}))
    answer = json.load(urllib.request.urlopen(url, timeout=10))
    assert answer["status"] == "success", (query, answer)
    return {r["metric"].get("pid"): float(r["value"][1])
            for r in answer["data"]["result"]}


for _ in range(20):
    growth = ask("delta(umem_live_bytes[10s]) + delta(umem_sampled_bytes[10s])")
    if grows in growth and again in growth:
        break
    time.sleep(0.5)
# Two blocks of a class of 1 MiB a second.
assert 10e6 < growth[grows] < 40e6, growth
assert abs(growth[again]) < 1e5, growth
over = ask('count_over_time(umem_live_bytes{program="stays"}[60s])')
assert set(over) == {stays, again}, over
now = ask('umem_live_bytes{program="stays"}')
assert set(now) == {again}, now
# As many series as are asked for, and one for the rest, of the process that
# samples.
sites = ask("count by (pid) (umem_site_live_bytes)")
assert 1 <= sites[grows] <= max(sites.values()) <= int(nsites) + 1, sites
assert stays not in sites and again not in sites, sites
assert ask('umem_site_live_bytes{site=~"grows`main.*"} > 5e6'), "no call site"
queries = [target["expr"] for panel in json.load(open(dashboard))["panels"]
           for target in panel["targets"]]
assert len(queries) > 10
for query in queries:
    for name, value in (("$program", "grows|stays"), ("$pid", ".*"),
                        ("$growth", "10s"), ("$__rate_interval", "10s")):
        query = query.replace(name, value)
    assert "$" not in query, query
    assert ask(query), f"no answer: {query}"
END2
