#!/bin/bash
# Whatever happens while umem inspects a process, the process goes on: umem is
# killed, the process is stopped, overwrites the words by which it agrees with
# umem on a copy, forks or replaces itself.  If the process dies, umem says so.
# Seeds are fixed.  inspect_disturbed.sh ROUNDS for a longer run.
# test timeout: 180
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build copied
build restless
python3 "$TOP/tests/programs/inspect/disturb.py" "$umem" \
    "${1:-2}" "$TMP/copied" "$TMP/restless"
