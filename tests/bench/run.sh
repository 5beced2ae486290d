#!/bin/sh
# run.sh - runs the benchmarks; run.py describes the method and the table
#
#	tests/bench/run.sh BUILD [--scaling]
#	tests/bench/run.sh BUILD --bundle FOLDER
#
# --bundle writes to FOLDER what --scaling needs on another machine, which may
# lack everything but Python, and prints the command for it.
set -eu

if [ "${2-}" = --bundle ]; then
	here=$(dirname "$0") build=$(cd "$1" && pwd) out=${3:?usage}
	mkdir -p "$out/tests/bench/real" "$out/build/bench" "$out/build/peers"
	cp "$here"/*.py "$out/tests/bench"
	cp "$here"/real/*.py "$out/tests/bench/real"
	cp -L "$build"/lib*.so.1 "$out/build"
	# liburcu's
	ldd "$build/bench/rcu" | sed -n 's/.*liburcu.* => \([^ ]*\).*/\1/p' |
	    xargs -I{} cp {} "$out/build"
	find "$build/bench" -maxdepth 1 -type f -perm -u+x \
	    -exec cp -t "$out/build/bench" {} +
	for peer in "$here"/../../build/peers/*.so; do
		[ ! -e "$peer" ] ||
		    cp "$peer" "${peer%so}version" "$out/build/peers"
	done
	strip -g "$out"/build/*.so.1 "$out"/build/peers/*.so 2>/dev/null || :
	du -sh "$out"
	echo "there: LD_LIBRARY_PATH=$out/build" \
	    "python3 $out/tests/bench/run.py $out/build --scaling"
	exit
fi

# tools/build/install_packages.sh bench installs Debian's peers and programs;
# tools/build/peers.sh builds the newest peers.
exec python3 "$(dirname "$0")/run.py" "$@"
