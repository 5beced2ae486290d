#!/bin/bash
# Each program in the man pages compiles unchanged, without a warning,
# against the installed tree, and ends with status 0.
set -eu
make -s -C "$TOP" install DESTDIR="$TMP/root" PREFIX=/usr >/dev/null
export PKG_CONFIG_SYSROOT_DIR=$TMP/root
export PKG_CONFIG_PATH=$TMP/root/usr/lib/pkgconfig
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
