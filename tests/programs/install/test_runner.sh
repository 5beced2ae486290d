#!/bin/bash
# run_tests.sh, with tests of its own: time limits, short tests, and a run that
# is ended.
set -eu
bad() {
	echo "$*"
	cat said
	exit 1
}
mkdir -p tests/jobs build
export TOLD=$PWD/told TMPDIR=$PWD
cp "$TOP/tests/run_tests.sh" tests

# A test that hangs, sleeping or running, is ended; one that waits for a busy
# CPU is not.
for name in sleeps polls runs starved; do
	printf '#!/bin/bash\n# test timeout: 2\n' >tests/jobs/$name.sh
done
echo 'sleep 600' >>tests/jobs/sleeps.sh
echo 'while :; do sleep 0.01; done' >>tests/jobs/polls.sh
echo 'while :; do :; done' >>tests/jobs/runs.sh
# Busy loops that keep the CPU from starved.sh.  Each has a session of its own,
# because the kernel may divide a CPU among sessions (autogroups), whatever the
# scheduling policy of their threads.  They end by themselves.
cat >>tests/jobs/starved.sh <<'END2'
hogs=()
for _ in 1 2 3 4 5 6 7 8; do
	setsid taskset -c "$CPU" timeout 20 sh -c 'while :; do :; done' &
	hogs+=($!)
done
taskset -pc "$CPU" $$ >/dev/null
chrt -i -p 0 $$
until [ $SECONDS -ge 6 ]; do :; done
kill "${hogs[@]}"
END2
# A process with such a name does not confuse the clock.
name=$'two\nlines) x'
cp "$(command -v sleep)" "$name"
"./$name" 600 &
named=$!
trap 'kill $named' EXIT
CPU=$(taskset -pc $$ | sed 's/.*[ ,-]//')
export CPU
TEST_JOBS=4 TEST_TIME_FACTOR=1 tests/run_tests.sh build jobs >said || true
for line in 'FAIL jobs/sleeps.sh: timed out' 'FAIL jobs/polls.sh: timed out' \
    'FAIL jobs/runs.sh: timed out' '1 passed, 3 failed'; do
	grep -qx "$line" said || bad "time limits: no $line"
done
rm tests/jobs/*

# When a run is ended by a signal, its tests end, too, and no other one begins.
cat >tests/jobs/sleeps1.sh <<'END'
echo $$ >>"$TOLD"
exec sleep 600
END
for n in 2 3 4; do
	cp tests/jobs/sleeps1.sh tests/jobs/sleeps$n.sh
done
for signal in TERM KILL group; do
	: >told
	TEST_JOBS=2 setsid tests/run_tests.sh build jobs >said 2>&1 &
	run=$!
	until [ "$(wc -l <told)" -eq 2 ]; do
		sleep 0.1
	done
	if [ $signal = group ]; then
		kill -TERM -$run
	else
		kill -$signal $run
	fi
	wait $run && bad "$signal: status 0"
	while read -r test; do
		while kill -0 "$test" 2>/dev/null; do
			sleep 0.1
		done
	done <told
	sleep 1
	[ "$(wc -l <told)" -eq 2 ] || bad "$signal: another test began"
done
rm tests/jobs/*

# A test that ends before its time limit has begun to count keeps its output.  A
# run that skips all of its tests has not failed.  A long run counts the tests
# that have ended.
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
export AWAITED=""
STATUS=3 tests/run_tests.sh build jobs >said || true
[ "$(grep -c 'the output' said)" = 10 ] || bad "a short test loses its output"
grep -qx '0 passed, 10 failed' said || bad "short tests: other counts"
STATUS=77 tests/run_tests.sh build jobs >said
grep -qx '0 passed, 0 failed, 10 skipped' said || bad "a run of skipped tests"
rm tests/jobs/short?.sh
STATUS=0 AWAITED=ended tests/run_tests.sh build jobs >said 2>told
grep -qx '1 passed, 0 failed' said || bad "a long run"
grep -qx 'run_tests.sh: 0 of 1 tests have ended' told || bad "no count of tests"
