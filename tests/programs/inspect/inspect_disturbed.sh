#!/bin/bash
# A disturbance while umem inspects a process does not end the process: umem is
# killed, the process is stopped, overwrites the words by which it agrees with
# umem on a copy, forks or replaces itself.  If the process dies, umem says so.
# Seeds are fixed.  inspect_disturbed.sh ROUNDS for a longer run.
# test timeout: 180
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build copied
build restless
python3 "$TOP/tests/programs/inspect/parts/disturb.py" "$umem" \
    "${1:-2}" "$TMP/copied" "$TMP/restless"
