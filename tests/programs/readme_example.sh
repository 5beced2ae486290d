#!/bin/bash
# The object cache of the README compiles unchanged against the installed tree,
# and prints the expected output.
set -eu
make -s -C "$TOP" install DESTDIR="$TMP/root" PREFIX=/usr >/dev/null
export PKG_CONFIG_SYSROOT_DIR=$TMP/root
export PKG_CONFIG_PATH=$TMP/root/usr/lib/pkgconfig
awk '/^```/ { on = $0 == "```c"; next } on' "$TOP/README.md" >example.c
# shellcheck disable=SC2046 # words
"$CC" -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror example.c \
    $(pkg-config --cflags --libs umem) -o example
LD_LIBRARY_PATH=$TMP/root/usr/lib ./example | tee out
grep -qx 'lock of a job taken: [0-9.]*' out
