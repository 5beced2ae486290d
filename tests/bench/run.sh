#!/bin/sh
# run.sh - runs the benchmarks; run.py describes the method and the table
#
#	tests/bench/run.sh BUILD [--scaling]
set -eu

# Debian's peers and programs come with tools/build/install_packages.sh bench, the
# newest with tools/build/peers.sh.
exec python3 "$(dirname "$0")/run.py" "$@"
