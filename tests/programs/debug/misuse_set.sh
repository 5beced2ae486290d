#!/bin/bash
# Each program of the misuse set, some of which are in C++, ends as expected in
# each mode.
command -v "${CXX%% *}" >/dev/null || { echo "there is no $CXX"; exit 77; }
exec "$TOP/tests/misuse/run.sh" "$B" --check
