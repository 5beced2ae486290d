#!/bin/bash
# A test that hangs, sleeping or running, is ended by run_tests.sh; one that
# waits for a busy CPU is not.
set -eu
mkdir -p tests/jobs build
cp "$TOP/tests/run_tests.sh" tests
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
trap 'kill $!' EXIT
CPU=$(taskset -pc $$ | sed 's/.*[ ,-]//')
export CPU
TEST_JOBS=4 TEST_TIME_FACTOR=1 tests/run_tests.sh build jobs >said || true
for line in 'FAIL jobs/sleeps.sh: timed out' 'FAIL jobs/polls.sh: timed out' \
    'FAIL jobs/runs.sh: timed out' '1 passed, 3 failed'; do
	grep -qx "$line" said || {
		cat said
		exit 1
	}
done
