#!/bin/bash
# A core, or the file of a program, that becomes shorter while umem has mapped
# it: umem names the file and exits with 2.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

# Empties the file CUT when umem maps it for the NTHth time.
cat >cut.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
void *
mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *p = (void *)syscall(
	    SYS_mmap, at, bytes, protection, flags, fd, offset);
	const char *path = getenv("CUT"), *nth = getenv("NTH");
	struct stat cut, mapped;
	static int n;

	if (fd >= 0 && fstat(fd, &mapped) == 0 && stat(path, &cut) == 0 &&
	    mapped.st_ino == cut.st_ino && ++n == atoi(nth))
		truncate(path, 0);
	return p;
}
void *mmap64(void *, size_t, int, int, int, off_t)
    __attribute__((alias("mmap")));
END2
cat >loses.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void
lose(void)
{
	memset(malloc(3000), 1, 3000);
	__asm__ volatile("");
}
int
main(void)
{
	char c;

	lose();
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END2
"$CC" -O1 -w -D_GNU_SOURCE -shared -fPIC -o cut.so cut.c || exit 1
"$CC" -O1 -g -w -fno-builtin -o loses loses.c || exit 1
start env UMEM_DEBUG=audit ./loses
gcore -o whole "$pid" >/dev/null 2>&1
finish 0
cp "whole.$pid" core

# cuts FILE NTH - umem leaks core, with FILE cut when it is mapped
cuts() {
	CUT=$TMP/$1 NTH=$2 LD_PRELOAD=$TMP/cut.so "$umem" leaks core \
	    >said 2>err
	status=$?
	if [ $status != 2 ] || [ -s said ] || [ "$(cat err)" != \
	    "umem: $TMP/$1: the file became shorter while umem read it" ]; then
		echo "umem leaks core, while $1 is cut: status $status"
		cat said err
		exit 1
	fi
}
cuts core 1
cp "whole.$pid" core
# libelf maps it for the build ID, and then for the symbols.
cuts loses 1
"$CC" -O1 -g -w -fno-builtin -o loses loses.c || exit 1
cuts loses 2
