#!/bin/bash
# The programs in the README and the man pages compile unchanged, without a
# warning, against the installed tree, and end with status 0.
set -eu
make -s -C "$TOP" install DESTDIR="$TMP/root" PREFIX=/usr >/dev/null
export PKG_CONFIG_SYSROOT_DIR=$TMP/root
export PKG_CONFIG_PATH=$TMP/root/usr/lib/pkgconfig
# An older pkg-config leaves out the folders of the system below it, too.
export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export LD_LIBRARY_PATH=$TMP/root/usr/lib

# A literal display that has a main() becomes PAGE.N.c, or .cc in C++; \e is
# roff's backslash.
for page in "$TOP"/man/*.3; do
	awk -v page="$(basename "$page")" '
	    /^\.Bd -literal/ { on = 1; text = ""; next }
	    /^\.Ed/ {
		if (on && text ~ /int main\(/)
			printf "%s", text >(page "." ++n \
			    (text ~ /umem\.hpp/ ? ".cc" : ".c"))
		on = 0
	    }
	    on { gsub(/\\e/, "\\"); text = text $0 "\n" }' "$page"
done
nexamples=0
for source in *.c; do
	case $(cat "$source") in
	*umem_rcu.h*)
		libraries=$(pkg-config --cflags --libs umem-rcu)
		libraries="$libraries -lurcu-memb -lurcu-cds" ;;
	*) libraries=$(pkg-config --cflags --libs umem) ;;
	esac
	# shellcheck disable=SC2086 # words
	"$CC" -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Werror "$source" \
	    $libraries -pthread -o example
	timeout 60 ./example || {
		echo "$source ended with status $?"
		exit 1
	}
	nexamples=$((nexamples + 1))
done
[ "$nexamples" -ge 1 ]
for source in *.cc; do
	# shellcheck disable=SC2046 # words
	"$CXX" -std=c++17 -Wall -Wextra -Werror "$source" \
	    $(pkg-config --cflags --libs umem) -pthread -o example
	timeout 60 ./example || {
		echo "$source ended with status $?"
		exit 1
	}
done

# The object cache of the README prints the expected output.
awk '/^```/ { on = $0 == "```c"; next } on' "$TOP/README.md" >readme.c
# shellcheck disable=SC2046 # words
"$CC" -std=gnu11 -fno-builtin -Wall -Wextra -Wno-unused-parameter -Werror readme.c \
    $(pkg-config --cflags --libs umem) -o example
./example | tee out
grep -qx 'lock of a job taken: [0-9.]*' out

# Before glibc 2.35, the stack would end in libc.
[ "${GLIBC_MINOR:-35}" -ge 35 ] || exit 0
# The call site and the stack of its leak are those that the command finds in
# the program of the demo.  Offsets differ from compiler to compiler.
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
