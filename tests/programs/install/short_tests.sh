#!/bin/bash
# A test that ends before its time limit has begun to count keeps its output.  A
# run that skips all of its tests has not failed.  A long run counts the tests
# that have ended.
set -eu
mkdir -p tests/jobs build
cp "$TOP/tests/run_tests.sh" tests
for n in 1 2 3 4 5 6 7 8 9 10; do
	: >tests/jobs/short$n.sh
done
# In place of a test: it ends before the process that counts gets a CPU, or once
# the run has counted.
setsid() {
	while [ -n "$AWAITED" ] && ! grep -q "$AWAITED" "$TOLD"; do
		sleep 0.1
	done
	echo 'the output'
	return "$STATUS"
}
export -f setsid
export AWAITED="" TOLD=$PWD/told
STATUS=3 tests/run_tests.sh build jobs >said || true
if [ "$(grep -c 'the output' said)" != 10 ] ||
    ! grep -qx '0 passed, 10 failed' said; then
	cat said
	exit 1
fi
STATUS=77 tests/run_tests.sh build jobs >said
grep -qx '0 passed, 0 failed, 10 skipped' said
rm tests/jobs/short?.sh
STATUS=0 AWAITED=ended tests/run_tests.sh build jobs >said 2>told
grep -qx '1 passed, 0 failed' said
grep -qx 'run_tests.sh: 0 of 1 tests have ended' told
