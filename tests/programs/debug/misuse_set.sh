#!/bin/bash
# Each program of the misuse set ends as expected in each mode.
exec "$TOP/tests/misuse/run.sh" "$B" --check
