#!/bin/bash
# In a program without symbols, the rows of umem users, leaks and top
# have the callers of the program's own allocation functions, which are found
# by the stacks.  A function that makes objects of one size, one with one
# caller, and many functions that allocate keep their rows.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build wrapped
nm "$TMP/wrapped" >symbols
cp "$TMP/wrapped" stripped
strip stripped

# rows MODE FUNCTION... - are these functions the call sites in this mode, and
# the wrappers of "wrappers" named after via?
rows() {
	for environment in UMEM_OPTIONS=sample=1 UMEM_DEBUG=audit; do
		start env "$environment" "$PWD/stripped" "$1"
		"$umem" users "$pid" >users.said
		cp users.said top.said
		[ "$environment" = UMEM_DEBUG=audit ] ||
		    "$umem" top -n 1 "$pid" >top.said
		finish 0
		python3 - "$environment" "$@" <<-'END' || { cat ./*.said; exit 1; }
		import bisect, re, sys
		mode, want = sys.argv[2], set(sys.argv[3:])
		table = sorted((int(line.split()[0], 16), line.split()[2])
		               for line in open("symbols")
		               if line.split()[-2] in "tT")
		def function(text):
		    at = int(re.match(r"stripped\+0x([0-9a-f]+)", text)[1], 16)
		    return table[bisect.bisect(table, (at,)) - 1][1]
		for file in "users.said", "top.said":
		    found = set()
		    for line in open(file):
		        row = re.search(r"[s\d] +(stripped\+.*)", line)
		        if row is None:
		            continue
		        row = row[1].split(" < ")[0].split(" via ")
		        found.add(function(row[0]))
		        if mode == "wrappers" and len(row) > 1:
		            assert function(row[1]) == "take_memory", (file, line)
		    assert found == want, (sys.argv, file, found)
		END
	done
}

# In umem top, a function is a wrapper as soon as it has a second caller.
later() {
	rm -f top.said
	start env UMEM_OPTIONS=sample=1 "$PWD/stripped" later
	"$umem" top -i 0.1 -n 600 "$pid" >top.said 2>err 9>&- &
	top=$!
	until grep -qs stripped+ top.said || ! kill -0 $top; do
		sleep 0.05
	done
	echo >&9
	# The first table has one row, each later one two.
	for ((i = 0; i < 600; i++)); do
		[ "$(tail -n 4 top.said | grep -c stripped+)" = 2 ] && break
		sleep 0.05
	done
	kill $top
	wait $top 2>/dev/null
	finish 0
	python3 - <<-'END' || { cat top.said; exit 1; }
	import re
	tables = open("top.said").read().split("CALL SITE")[1:]
	sites = [re.findall(r"(\S+) +(\S+) +\d+ +stripped\+(\S+)", table)
	         for table in tables]
	assert len(sites[0]) == 1, sites
	last = [s for s in sites if len(s) == 2][0]
	assert sites[0][0][2] not in [site[2] for site in last], sites
	# load_users() had its blocks at the first look.
	growth = {site[0]: site[1] for site in last}
	assert growth[sites[0][0][0]] == "0", sites
	assert any(g.startswith("+") for g in growth.values()), sites
	END
}

rows wrappers load_users load_names
rows nodes node_new
rows one buffer_new
rows many many_0 many_1 many_2 many_3 many_4 many_5 many_6 many_7
later
