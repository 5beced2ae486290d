#!/bin/bash
# umem finds out by itself what the filters of system calls of a process permit:
# its verdict on a call is the kernel's.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build filters
./filters
