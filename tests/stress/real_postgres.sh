#!/bin/bash
# test timeout: 1800
# PostgreSQL: initdb, a server, pgbench, and the contents of its tables.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
bin=$(find /usr/lib/postgresql/*/bin -maxdepth 0 2>/dev/null | tail -1)
if [ ! -x "$bin/initdb" ] || [ ! -x "$bin/pgbench" ]; then
	echo "no PostgreSQL"
	exit 77
fi
as=()
if [ "$(id -u)" = 0 ]; then
	# It refuses to run as root.
	need setpriv
	as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	chmod 755 "$TMP"
	mkdir lib
	cp "$SHIM" lib
	chmod -R a+rX lib
	SHIM=$TMP/lib/$(basename "$SHIM")
fi
run() {
	local psql=(with none "$bin/psql" -h "$PWD" -U me -At postgres) status

	[ ${#as[@]} -eq 0 ] || chown 65534:65534 .
	with "$1" "${as[@]}" "$bin/initdb" -D "$PWD/data" -U me -A trust -N \
	    --locale=C >log 2>&1 || { cat log; return 1; }
	with "$1" "${as[@]}" "$bin/pg_ctl" -D "$PWD/data" -w -l "$PWD/server" \
	    -o "-k '$PWD' -c listen_addresses= -c fsync=off" start >log 2>&1 ||
		{ cat log server; return 1; }
	[ "$1" = none ] || really "$(head -1 data/postmaster.pid)" ||
		echo "not on our malloc"
	with "$1" "$bin/pgbench" -h "$PWD" -U me -i -q -s 2 postgres >log 2>&1 ||
		cat log
	with "$1" "$bin/pgbench" -h "$PWD" -U me -c 8 -j 4 -t 500 postgres \
	    >log 2>&1 || cat log
	grep 'number of transactions actually' log
	"${psql[@]}" -c 'select sum(abalance) = (select sum(tbalance) from
	    pgbench_tellers), count(*) from pgbench_accounts' \
	    -c 'select count(*) from pgbench_history' \
	    -c "select md5(string_agg(md5(i::text), '')) from
	    generate_series(1, 200000) i"
	with "$1" "${as[@]}" "$bin/pg_ctl" -D "$PWD/data" -w -m fast stop \
	    >log 2>&1
	status=$?
	grep -E 'PANIC|terminated by signal' server
	return $status
}
in_each run
