#!/bin/bash
# The object cache of the README compiles unchanged against the installed tree,
# and prints the expected output.  The call site and the stack of README's leak
# are those that the command finds in the program of the demo.
set -eu
make -s -C "$TOP" install DESTDIR="$TMP/root" PREFIX=/usr >/dev/null
export PKG_CONFIG_SYSROOT_DIR=$TMP/root
export PKG_CONFIG_PATH=$TMP/root/usr/lib/pkgconfig
awk '/^```/ { on = $0 == "```c"; next } on' "$TOP/README.md" >example.c
# shellcheck disable=SC2046 # words
"$CC" -std=gnu11 -fno-builtin -Wall -Wextra -Wno-unused-parameter -Werror example.c \
    $(pkg-config --cflags --libs umem) -o example
LD_LIBRARY_PATH=$TMP/root/usr/lib ./example | tee out
grep -qx 'lock of a job taken: [0-9.]*' out

# The call site and the stack.  Offsets differ from compiler to compiler.
"$CC" -O2 -g -fno-builtin -I"$TOP" -D_GNU_SOURCE "$TOP/tests/demo/jobs.c" -o jobs -pthread
places() {
	grep -o -e 'job_create (.*' -e 'jobs`[a-z].*' | sed 's/+0x[0-9a-f]*//'
}
mkfifo input
env UMEM_DEBUG=default LD_PRELOAD="$SHIM" ./jobs <input >ready &
exec 3>input
until grep -q ready ready; do
	kill -0 $!
	sleep 0.05
done
"$B/umem" leaks -d $! >said || [ $? = 1 ]
exec 3>&-
wait $!
places <said >answer
sed -n '/^## Find a leak/,/^The process/p' "$TOP/README.md" | places >told
[ "$(wc -l <told)" -ge 4 ]
diff told answer
