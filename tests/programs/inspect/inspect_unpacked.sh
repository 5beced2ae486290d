#!/bin/bash
# A file with debugging information that the program chose may have compressed
# sections of any size.  The command unpacks at most about a GiB, and no more
# than its own limit of address space permits.
# timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void
hidden(void)
{
	memset(malloc(3000), 1, 3000);
	__asm__ volatile("");
}

int
main(void)
{
	char c;

	hidden();
	write(1, "ready\n", 6);
	return read(0, &c, 1) != 0;
}
END
# pack.py MIB - makes .debug_info of its.debug a compressed section of so many
# zeros.  A part that ends with a flush may be repeated.
cat >pack.py <<'END'
import struct
import subprocess
import sys
import zlib

mib = int(sys.argv[1])
packer = zlib.compressobj(9)
first = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
part = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
size = mib << 20
checksum = (size % 65521) << 16 | 1
with open("section", "wb") as out:
    out.write(struct.pack("<IIQQ", 1, 0, size, 1))
    out.write(first + part * (mib - 1) + b"\3\0" + struct.pack(">I", checksum))
subprocess.check_call(["objcopy", "--update-section", ".debug_info=section",
                       "kept", "its.debug"])
with open("its.debug", "r+b") as elf:
    data = bytearray(elf.read())
    at, = struct.unpack_from("<Q", data, 0x28)
    entry, n, names = struct.unpack_from("<HHH", data, 0x3a)
    text, = struct.unpack_from("<Q", data, at + names * entry + 0x18)
    for i in range(n):
        header = at + i * entry
        name, = struct.unpack_from("<I", data, header)
        if data[text + name:].startswith(b".debug_info\0"):
            data[header + 9] |= 8  # SHF_COMPRESSED
    elf.seek(0)
    elf.write(data)
END
# peak.py WORD... - runs a command, and prints its largest resident set in MiB
cat >peak.py <<'END'
import resource
import subprocess
import sys

subprocess.run(sys.argv[1:], stdout=open("said", "w"), stderr=open("err", "w"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
END

"$CC" -O1 -g -w -fno-builtin -fno-omit-frame-pointer -o whole main.c || exit 1
objcopy --only-keep-debug whole kept
cp kept its.debug
objcopy --strip-all --add-gnu-debuglink=its.debug whole program
export UMEM_DEBUG=audit

# unpacks LEAST MOST WHAT - a search takes so much memory, and finds the leak.
unpacks() {
	peak=$(python3 peak.py "$umem" leaks -d "$pid")
	if ! grep -q '3000\|2\.9K' said || [ "$peak" -lt "$1" ] ||
	    [ "$peak" -gt "$2" ]; then
		echo "$3: $peak MiB instead of $1 to $2"
		cat said err
		exit 1
	fi
}

start ./program
unpacks 1 200 "without a compressed section"
grep -qF 'program`hidden+0x' said || exit 1
# A large file may be unpacked to more: its own size counts when it is opened.
cat >limits.c <<'END'
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int
setrlimit(int what, const unsigned long *limit)
{
	FILE *file = fopen("limits", "a");
	struct stat info;

	for (int fd = 0; fd < 100; fd++)
		if (fstat(fd, &info) == 0 && info.st_size > 64 << 20)
			fprintf(file, "%lu\n", limit[0] >> 20);
	fclose(file);
	return syscall(SYS_prlimit64, 0, what, limit, NULL);
}
END
"$CC" -shared -fPIC -w -o limits.so limits.c || exit 1
head -c 64M /dev/urandom >>its.debug
LD_PRELOAD=$TMP/limits.so expect 1 '2\.9K leaked' leaks "$pid"
if ! awk '$1 < 2048 { exit 1 }' limits || [ ! -s limits ]; then
	echo "with a file of 64 MiB, MiB of addresses:"
	cat limits
	exit 1
fi
python3 pack.py 500 || exit 1
unpacks 500 800 "500 MiB"
python3 pack.py 4000 || exit 1
unpacks 1 200 "4000 MiB"
python3 pack.py 500 || exit 1
(
	ulimit -S -v 400000
	unpacks 1 400 "500 MiB, with a limit of address space"
) || exit 1
finish 0
