#!/bin/bash
# run.sh - runs the fuzzers, one for each CPU at a time
#
#	tests/fuzz/run.sh FOLDER TIME [NAME...]
#
# Runs each fuzzer in FOLDER/fuzz, or those that are named, for TIME seconds,
# from the inputs in tests/fuzz/corpus/NAME and those that earlier runs left in
# FOLDER/fuzz/NAME.new.  "calls" has variants, with options of the library; they
# share its inputs.  With TIME=0 it runs only the inputs of the tree.
# The fuzzers in build-afl are AFL++'s, and begin with the inputs of the tree.
# Prints a line for each: executions, edges of the code that were reached, and
# findings, each of which is a file in FOLDER/fuzz/NAME.found.  The output of a
# fuzzer is in FOLDER/fuzz/NAME.log.  The status is 1 if anything was found.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
top=$1/fuzz seconds=$2
shift 2
# An input that takes more seconds or MiB is a finding.
limit=$((25 * ${TEST_TIME_FACTOR:-1})) most=2500
# Some memory of libdw is not freed; see command.h.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16

# variant NAME - sets the environment of a variant
variant() {
	case $1 in
	calls-debug) export UMEM_DEBUG=default,firewall=512 ;;
	calls-hardened) export UMEM_OPTIONS=thread=no,hardened ;;
	calls-sample) export UMEM_OPTIONS=thread=no,sample=2k ;;
	esac
}

# run_libfuzzer NAME BASE
run_libfuzzer() {
	local -a runs=(-runs=0)

	[ "$seconds" -eq 0 ] || runs=("-max_total_time=$seconds" "$top/$2.new")
	nice "$top/$2" -detect_leaks=0 -print_funcs=0 -print_final_stats=1 \
	    -max_len=1000 -report_slow_units=60 -verbosity=1 \
	    "-timeout=$limit" -rss_limit_mb=3000 "-malloc_limit_mb=$most" \
	    "-artifact_prefix=$top/$1.found/" "${runs[@]}" "tests/fuzz/corpus/$2"
}

# run_afl NAME BASE - the variables have it run on any machine, and quietly
run_afl() {
	local out=$top/$1.afl code
	local -a runs=(-E 1)

	[ "$seconds" -eq 0 ] || runs=(-V "$seconds")
	rm -rf "$out"
	ASAN_OPTIONS+=:abort_on_error=1:symbolize=0:max_allocation_size_mb=$most \
	    AFL_NO_UI=1 AFL_NO_AFFINITY=1 AFL_SKIP_CPUFREQ=1 AFL_DEBUG_CHILD=1 \
	    AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_EXIT_ON_SEED_ISSUES=1 \
	    AFL_FORKSRV_INIT_TMOUT="${limit}000" nice afl-fuzz -t "${limit}000" \
	    -G 1000 -i "tests/fuzz/corpus/$2" -o "$out" "${runs[@]}" -- "$top/$2"
	code=$?
	cp "$out"/default/{crashes,hangs}/id* "$top/$1.found" 2>/dev/null
	cat "$out/default/fuzzer_stats"
	return $code
}

# fuzz NAME[-VARIANT] - prints its line; the status is 1 if there is a finding
fuzz() {
	local name=$1 base=${1%%-*} found=$top/$1.found log=$top/$1.log
	local code executions edges findings

	mkdir -p "$found" "$top/$base.new"
	rm -f "$found"/*
	variant "$name"
	"$run" "$name" "$base" >"$log" 2>&1 </dev/null
	code=$?
	executions=$(sed -nE 's/^(stat::number_of_executed_units|execs_done +): *//p' "$log")
	edges=$(grep -aoE 'cov: [0-9]+|^edges_found +: [0-9]+' "$log" | tail -n 1)
	findings=$(find "$found" -type f | wc -l)
	printf '%-14s %10s %8s %8s\n' "$name" "${executions:--}" "${edges##*: }" "$findings"
	[ "$code" -ne 0 ] || [ "$findings" -ne 0 ] || return 0
	grep -aE 'not true|ERROR|runtime error|Assertion' "$log" | sort -u | head -n 5
	find "$found" -type f
	[ "$findings" -ne 0 ] || tail -n 5 "$log"
	return 1
}

if [ $# -eq 0 ]; then
	set -- calls-debug calls-hardened calls-sample
	for path in tests/fuzz/*.c; do
		set -- "$@" "$(basename "$path" .c)"
	done
fi
printf '%-14s %10s %8s %8s\n' target executions edges findings
rm -f "$top/failed"
run=run_libfuzzer
[[ $top != *-afl/fuzz ]] || run=run_afl
# Each fuzzer is in a process group of its own, which an interrupt ends.
set -m
trap 'jobs -pr | xargs -rI{} kill -- -{}' EXIT
trap 'exit 1' INT TERM
for name in "$@"; do
	while [ "$(jobs -pr | wc -l)" -ge "$(nproc)" ]; do
		wait -n
	done
	{ lines=$(fuzz "$name") || touch "$top/failed"; echo "$lines"; } &
done
wait
[ ! -e "$top/failed" ] || exit 1
echo 'no findings'
