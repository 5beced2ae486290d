#!/bin/bash
# test timeout: 2400
# test not with: undefined is not in its library
# Real programs that musl-gcc builds from Debian's sources: busybox, Lua, SQLite
# and Redis with two threads for input and output.  Each runs with the library
# preloaded, and linked statically with libumem_malloc.a.  The results are
# the same as without umem.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
# shellcheck source=tools/build/roots.sh
. "$TOP/tools/build/roots.sh"

need musl-gcc redis-cli redis-benchmark
folder=$TOP/build-musl/outside
headers="-idirafter /usr/include -idirafter /usr/include/$(gcc -print-multiarch)"
archive="-static -Wl,-u,malloc $TOP/build-musl/libumem_malloc.a"

if ! sources bookworm busybox lua5.4 libdbd-sqlite3-perl redis >log 2>&1; then
	tail -n 1 log
	exit 77
fi

# try COMMAND... - ends the test if it fails
try() {
	"$@" >log 2>&1 && return
	echo "failed: $*"
	tail -n 20 log
	exit 1
}

# Executes the SQL of its standard input on the database of its argument.
cat >sqlite3.c <<'END'
#include <stdio.h>
#include "sqlite3.h"

static int
print(void *arg, int n, char **value, char **name)
{
	for (int i = 0; i < n; i++)
		printf("%s%c", value[i] ? value[i] : "", i + 1 < n ? '|' : '\n');
	return 0;
}

int
main(int argc, char **argv)
{
	static char text[1 << 16];
	sqlite3 *db;

	fread(text, 1, sizeof(text) - 1, stdin);
	return sqlite3_open(argv[1], &db) || sqlite3_exec(db, text, print, 0, 0) ||
	       sqlite3_close(db);
}
END
applets='AWK SORT FEATURE_SORT_BIG GZIP GUNZIP TAR FEATURE_TAR_CREATE SEQ MD5SUM'

configure() {
	make -C busybox allnoconfig || return
	for word in $applets; do
		sed -i "s/^# CONFIG_$word is not set/CONFIG_$word=y/" \
		    busybox/.config || return
	done
	yes '' | make -C busybox oldconfig
}

# build FOLDER LINK... - makes the four programs
build() {
	mkdir "$1"
	try musl-gcc -O2 -DLUA_USE_POSIX -o "$1/lua" lua5.4/src/*.c "${@:2}" -lm
	try musl-gcc -O1 -DSQLITE_ENABLE_FTS5 -Ilibdbd-sqlite3-perl \
	    -o "$1/sqlite3" sqlite3.c libdbd-sqlite3-perl/sqlite3.c "${@:2}" -lm
	rm -f busybox/busybox redis/src/redis-server
	try make -C busybox -j2 CC=musl-gcc CONFIG_EXTRA_CFLAGS="$headers" \
	    CONFIG_EXTRA_LDFLAGS="${*:2}" busybox
	cp busybox/busybox "$1"
	try make -C redis/src -j2 MALLOC=libc CC="musl-gcc $headers" \
	    OPTIMIZATION=-O1 WARN=-w USE_SYSTEMD=no \
	    REDIS_LD="musl-gcc ${*:2} -rdynamic" redis-server
	cp redis/src/redis-server "$1"
}

# shellcheck disable=SC2016 # for awk
files() {
	with "$1" busybox seq 100000 |
	    with "$1" busybox awk '{ n[$1 % 977] += $1; print $1 * 7919 % 65537, $1 }
		END { for (i in n) print n[i], i }' |
	    with "$1" busybox sort -k1,1n -k2,2n >sorted || return
	with "$1" busybox tar -c sorted | with "$1" busybox gzip >archive &&
	    with "$1" busybox gunzip <archive | with "$1" busybox tar -x -O |
		with "$1" busybox md5sum
}

# run FOLDER - the programs of this folder, on the library $SHIM
run() (
	export PATH="$TMP/$1:$PATH"
	for name in real_lua real_sqlite real_redis; do
		mkdir "$TMP/$1/in_$name"
		cd "$TMP/$1/in_$name" || exit
		bash "$TOP/tests/programs/real/$name.sh" || {
			echo "$1: $name: status $?"
			exit 1
		}
	done
	cd "$TMP/$1" && in_each files
)

try make -C "$TOP" CC=musl-gcc all
cp -r "$folder"/{busybox,lua5.4,libdbd-sqlite3-perl,redis} .
rm lua5.4/src/luac.c
try configure
# shellcheck disable=SC2086 # a list
build preloaded && build archived $archive
SHIM=$TOP/build-musl/libumem_malloc.so.1 run preloaded || exit 1
# The text that the library looks for in the mappings of the server.
SHIM=$TMP/archived/redis-server run archived || exit 1
for said in said.none in_real_{lua,sqlite,redis}/said.none; do
	cmp "preloaded/$said" "archived/$said" || exit 1
done
