#!/bin/bash
# run.sh - runs the fuzzers, one for each CPU at a time
#
#	tests/fuzz/run.sh FOLDER TIME [NAME...]
#
# Runs each fuzzer in FOLDER/fuzz, or those that are named, for TIME seconds,
# from the inputs in tests/fuzz/corpus/NAME and those that earlier runs left in
# FOLDER/fuzz/NAME.new.  "calls" has variants, with options of the library; they
# share its inputs.  With TIME=0 it runs only the inputs of the tree.
# Prints a line for each: executions, edges of the code that were reached, and
# findings, each of which is a file in FOLDER/fuzz/NAME.found.  The output of a
# fuzzer is in FOLDER/fuzz/NAME.log.  The status is 1 if anything was found.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
top=$1/fuzz seconds=$2
shift 2
# In seconds and MiB; an input that takes more is a finding.
limits="-timeout=$((25 * ${TEST_TIME_FACTOR:-1})) -rss_limit_mb=3000 -malloc_limit_mb=2500"
# Some memory of libdw is not freed; see command.h.
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16
options="-detect_leaks=0 -print_funcs=0 -print_final_stats=1 -max_len=1000
	-report_slow_units=60 -verbosity=1"

# variant NAME - the environment of a variant
variant() {
	case $1 in
	calls-debug) echo UMEM_DEBUG=default,firewall=512 ;;
	calls-hardened) echo UMEM_OPTIONS=thread=no,hardened ;;
	calls-sample) echo UMEM_OPTIONS=thread=no,sample=2k ;;
	esac
}

# fuzz NAME[-VARIANT] - prints its line; the status is 1 if there is a finding
fuzz() {
	local name=$1 base=${1%%-*}
	local seeds=tests/fuzz/corpus/$base found=$top/$1.found new=$top/$base.new
	local code executions edges findings
	local -a runs=(-runs=0)

	mkdir -p "$found" "$new"
	rm -f "$found"/*
	if [ "$seconds" -gt 0 ]; then
		runs=("-max_total_time=$seconds" "$new")
	fi
	# shellcheck disable=SC2046,SC2086 # lists
	env $(variant "$name") nice "$top/$base" $options $limits "-artifact_prefix=$found/" \
	    "${runs[@]}" "$seeds" >"$top/$name.log" 2>&1 </dev/null
	code=$?
	executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$top/$name.log")
	edges=$(grep -aoE 'cov: [0-9]+' "$top/$name.log" | tail -n 1)
	findings=$(find "$found" -type f | wc -l)
	printf '%-14s %10s %8s %8s\n' "$name" "${executions:--}" "${edges#cov: }" "$findings"
	[ "$code" -ne 0 ] || [ "$findings" -ne 0 ] || return 0
	grep -aE 'not true|ERROR|runtime error|Assertion' "$top/$name.log" | head -n 5
	find "$found" -type f
	[ "$findings" -ne 0 ] || tail -n 5 "$top/$name.log"
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
