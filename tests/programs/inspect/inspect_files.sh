#!/bin/bash
# The command opens files at paths that the program chose as the program itself
# would: below its root, with the rights of its user, and only regular files.
# It opens no FIFO and no device, waits for none, and unpacks no file.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

cat >main.c <<'END'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static __attribute__((noinline)) void
hidden(void)
{
	memset(malloc(3000), 1, 3000);
	__asm__ volatile("");
}

/* A call of its argument, with a frame pointer. */
#if defined(__x86_64__)
static const unsigned char code[] = {
    0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#else
static const uint32_t code[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000,
    0xa8c17bfd, 0xd65f03c0};
#endif

/* The arguments: a file for the list of made code, and a link to the list. */
int
main(int argc, char **argv)
{
	char c, path[64];
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;

	memcpy(made, code, sizeof(code));
	__builtin___clear_cache((char *)made, (char *)made + 4096);
	((void (*)(void (*)(void)))made)(hidden);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	if (argc > 2) {
		map = fopen(argv[1], "w");
		fprintf(map, "%lx 100 made inside\n", (long)made);
		fclose(map);
		symlink(argv[2], path);
	}
	write(1, "ready\n", 6);
	read(0, &c, 1);
	remove(path);
	return 0;
}
END

fail() {
	echo "$*; said:"
	cat said
	exit 1
}

# fifo NAME - makes a FIFO, and a writer that waits until somebody opens it
writers=
trap 'kill $writers 2>/dev/null' EXIT
fifo() {
	mkfifo "$1" || exit 1
	(
		exec 9>&-
		echo >"$1"
		echo "$1" >"$TMP/opened"
	) 2>/dev/null &
	writers="$writers $!"
}

# looks WORD... - umem WORD... ends with status 0 or 1, and opens no FIFO
looks() {
	timeout -k 1 $((20 * TEST_TIME_FACTOR)) "$umem" "$@" >said 2>&1
	status=$?
	[ $status -le 1 ] || fail "umem $*: status $status"
	[ ! -e opened ] || fail "umem $*: opened the FIFO $(cat opened)"
}

export UMEM_DEBUG=audit
flags="-O1 -g -w -fno-builtin -fno-omit-frame-pointer -D_GNU_SOURCE"
# shellcheck disable=SC2086 # several options
"$CC" $flags -o whole main.c || exit 1
# separate - makes program, with its debugging information in its.debug
separate() {
	rm -f program its.debug
	objcopy --only-keep-debug whole its.debug
	objcopy --strip-all --add-gnu-debuglink=its.debug whole program
}
named='program`hidden+0x'

# A separate file is found, but not as a FIFO, or compressed.
separate
start ./program
looks leaks -d "$pid"
grep -qF "$named" said || fail "no name by .gnu_debuglink"
mv its.debug kept
mkdir .debug
fifo its.debug
fifo .debug/its.debug
for command in 'leaks -d' users status; do
	# shellcheck disable=SC2086 # a command and its option
	looks $command "$pid"
done
rm -r its.debug .debug
gzip -c kept >its.debug
looks leaks -d "$pid"
! grep -qF "$named" said || fail "a compressed file was read"
rm its.debug
ln -s kept its.debug
looks leaks -d "$pid"
grep -qF "$named" said || fail "no name by a symbolic link"
finish 0

# The alternate file of debugging information, and the file of a split unit.
printf 'alternate\0%020d' 0 >section
objcopy --add-section .gnu_debugaltlink=section whole alternating
fifo alternate
start ./alternating
looks leaks -d "$pid"
finish 0
# shellcheck disable=SC2086
"$CC" $flags -gsplit-dwarf -gdwarf-5 -c main.c && "$CC" -o split main.o ||
    exit 1
rm -f main.dwo
fifo main.dwo
fifo split.dwp
start ./split
looks leaks -d "$pid"
finish 0

# The list of a JIT compiler.
start ./whole
fifo "/tmp/perf-$pid.map"
looks leaks -d "$pid"
finish 0

# Only root may change the root and the user of a program.
[ "$(id -u)" = 0 ] && chroot / true 2>/dev/null || exit 0

# A symbolic link leads to the file that the program would find.  At the same
# path below the root of the test is another list.
mkdir -p root/tmp
cp whole root
ldd whole "$SHIM" | grep -o '/[^ ]*\.so[^ :]*' | sort -u |
    while read -r library; do
	mkdir -p "root${library%/*}"
	cp -L "$library" "root$library"
done
mkdir -p "root${SHIM%/*}" "root$TMP"
cp -L "$SHIM" "root$SHIM"
start chroot root /whole "$TMP/list" "$TMP/list"
sed 's/inside/outside/' "root$TMP/list" >list
looks leaks -d "$pid"
grep -q '^ *\[JIT\]`made inside' said || fail "no name by a link below the root"
! grep -q outside said || fail "a link left the root of the program"
finish 0
# Above its root there is nothing, and a link of /proc leads nowhere.
links=()
if unshare -m true 2>/dev/null; then
	links=("../../../../..$TMP/list" "/proc/1/root$TMP/list")
fi
mkdir root/proc
for link in "${links[@]}"; do
	start unshare -m bash -c 'mount -t proc none root/proc || exit 1
	    exec chroot root /whole "$@"' - "$TMP/other" "$link"
	sed 's/inside/outside/' "root$TMP/other" >list
	rm -f "root$TMP/list"
	looks leaks -d "$pid"
	grep -q '3000\|2.9K' said || fail "no leak"
	! grep -q outside said || fail "$link left the root of the program"
	finish 0
done

# The command reads no file that the user of the program may not read.
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
chmod 755 "$TMP"
# shellcheck disable=SC2086
$nobody test -r "$SHIM" -a -r . || exit 0
separate
# shellcheck disable=SC2086
start $nobody ./program
looks leaks -d "$pid"
grep -qF "$named" said || fail "no name for a user"
chmod 640 its.debug
looks leaks -d "$pid"
! grep -qF "$named" said || fail "read a file of root"
chgrp 65534 its.debug
looks leaks -d "$pid"
grep -qF "$named" said || fail "no name by the user's group"
finish 0
start setpriv --reuid=65534 --regid=65534 --groups=1,2 ./program
chgrp 2 its.debug
looks leaks -d "$pid"
grep -qF "$named" said || fail "no name by another group of the user"
finish 0
