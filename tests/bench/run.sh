#!/bin/sh
# run.sh - runs the benchmarks; run.py describes the method and the table
#
#	tests/bench/run.sh BUILD [--scaling]
set -eu

# tools/build/install_packages.sh bench installs Debian's peers and programs;
# tools/build/peers.sh builds the newest peers.
exec python3 "$(dirname "$0")/run.py" "$@"
