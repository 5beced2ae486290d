#!/bin/bash
# run_tests.sh - runs the tests and counts them
#
#	tests/run_tests.sh BUILD FOLDER... [-- NAME...]
#
# BUILD is the build folder; FOLDER is "unit", or one of tests/ that holds
# programs, themselves or in folders by subject ("programs", "programs/rcu",
# "stress").  With names, only those rooms and programs.
# The output of a failed test is shown; the last line is
#
#	N passed, N failed[, N skipped]
#
# and the exit status is 0 if none failed.
#
# A program is tests/FOLDER/[SUBJECT/]NAME.c or .cc, built by the Makefile, or a
# script NAME.sh, which passes by exit 0 and is skipped by exit 77.  A compiled
# program runs once in mode rseq and once in mode locked, with the library
# preloaded, and must exit 0.  What is different stands in lines of the head
# comment, "test KEY: VALUE":
#
#	exit: 3			the status
#	signal: 6		the signal that ends it
#	stderr: REGEX		any number: each must match a line of stderr
#	no stderr: REGEX	must match none
#	env: NAME=value		any number of these; UMEM_OPTIONS is merged
#	modes: rseq locked own	run once in each, by UMEM_OPTIONS=mode=...;
#				"default" is a run without that option
#	args: one two		words for the program
#	preload: no		without libumem_malloc.so.1
#	link: umem		built with -lumem; "rcu": -lumem_rcu, too;
#				"static": libumem.a; "archive":
#				libumem_malloc.a.  None of these
#				is run with the preload unless that says yes
#	libs: -lX		linked with, too
#	cflags: -DX		for the compiler
#	account: no		tests/account.c does not check the statistics
#				at its end; a number: see there
#	run: NAME		the lines that follow are for this run alone.
#				A program runs once for each such line, in each
#				of its modes; lines before the first one are for
#				all runs
#
# In programs and scripts:
#
#	timeout: 60		seconds, see below
#	alone: yes		not beside another test
#	not with: SANITIZER	left out of builds with SAN=SANITIZER; the word
#				musl leaves it out of builds by musl-gcc, the
#				word qemu of runs with EMULATED=qemu, the word
#				coverage of make coverage.  Any number; text
#				after the word is a comment
#
# On a machine without a command of TOOLS or without $CXX, scripts that use it
# and programs in C++ are skipped, except for scripts that look for the command
# themselves: by "command -v NAME", or for all of them by "command -v $...".
#
# In a build with SAN, scripts are left out, except for real_*.sh of a build
# with SAN=undefined: its library can be preloaded into programs of the machine.
# The address and the thread sanitizer have a malloc of their own, so their
# programs are those with a "link", without the preload.  ThreadSanitizer runs
# the programs with threads in their modes, the suites with threads in the
# locked mode, and those of RSEQ_SUITES in mode rseq, too.  There,
# tests/rseq_watcher.h tells it the stores of the restartable sequences, and
# tests/programs/rcu/rcu.h the order that grace periods of liburcu make.
#
# EMULATED=qemu is for binaries of another architecture, which the kernel runs
# by QEMU's user mode; see tools/build/others.sh.  There the library has the
# locked mode only.
#
# TESTS is a list of words of "unit programs scripts", of which each names what
# is run; all by default.  MODES are those of programs that name none.
#
# Every PROGRESS_S seconds a line on standard error says how many have ended.
#
# Tests find the build folder in $B, the tree in $TOP, the library to preload
# in $SHIM, a folder of their own, removed afterwards, in $TMP (also their
# working directory), the compilers in $CC and $CXX, and in $UNSHARE the command
# that runs another one in a mount namespace, where this user may.  $GLIBC_MINOR
# is the 31 of glibc 2.31, and empty with another C library.
#
# Time limits end a test that hangs, on a busy machine, too.  A test's clock
# counts the CPU time of its processes while at least one of them runs or waits
# for a CPU, and the time that passes while all of them sleep.  Because an
# emulated machine needs more CPU time for the same work, TEST_TIME_FACTOR (a
# whole number, 1 by default) multiplies every limit: those of this script,
# those of Check, and those that tests set for themselves (tests/time_limit.h;
# scripts multiply by $TEST_TIME_FACTOR).  The limits of Check and of the tests
# themselves count seconds that pass; they are five minutes for this reason.
set -u

self=$(readlink -f "$0")
TOP=$(dirname "$(dirname "$self")")
MODE_WORDS=' default rseq locked own '
TOOLS='gcore gdb git perl pkg-config python3'
PROGRESS_S=15

fail() {
	echo "run_tests.sh: $*" >&2
	exit 2
}

# header KEY FILE [RUN] - the values of the lines "test KEY: value" in its
# comments, without those for other runs
header() {
	awk -v key="$1" -v run="${3-}" '
		!/^( \*|\/\/|#) test [a-z ]+: / { next }
		{ sub(/^[^ ]* *\*? *test /, ""); value = $0 }
		{ sub(/: .*/, ""); sub(/^[a-z ]+: /, "", value) }
		$0 == "run" { section = value }
		$0 == key && (section == "" || section == run || key == "run") {
			print value
		}' "$2"
}

# last KEY FILE RUN - the value that counts
last() {
	header "$@" | tail -n 1
}

# look SESSION - the processes of a session, their CPU time in hundredths of a
# second, and whether one of them runs or waits for a CPU
look() {
	local file line
	local -a field

	members=()
	used=0
	runs=
	for file in /proc/[0-9]*/stat; do
		# A name may have a newline.
		line=
		{ read -r -d '' line <"$file"; } 2>/dev/null
		# The fields after the name: state, parent, group, session, ...
		read -r -a field <<<"${line##*) }"
		[ "${field[3]-}" = "$1" ] || continue
		members+=("${line%% *}")
		used=$((used + field[11] + field[12] + field[13] + field[14]))
		[ -n "$runs" ] ||
		    grep -Eqs '\) R ' "${file%stat}"task/*/stat && runs=yes
	done
}

# is_wanted - has the run of which this job is a part not ended?
is_wanted() {
	kill -0 "$TEST_RUN" 2>/dev/null
}

# watch SECONDS - ends the session of this job when its clock has reached them,
# or when the run has been killed
watch() {
	local left=$(($1 * TEST_TIME_FACTOR * 100)) before=0 session=
	local now last=${EPOCHREALTIME/[.,]/} passed spent

	while [ $left -gt 0 ]; do
		sleep 1
		[ -n "$session" ] || read -r session <"$TMP/.session"
		is_wanted || break
		[ -n "$session" ] || continue
		look "$session"
		now=${EPOCHREALTIME/[.,]/}
		passed=$(((now - last) / 10000)) spent=$((used - before))
		last=$now before=$used
		# Processes that ended may have taken their time with them.
		[ $spent -ge 0 ] || spent=0
		if [ -z "$runs" ] || [ $spent -gt $passed ]; then
			spent=$passed
		fi
		left=$((left - spent))
	done
	: >"$TMP/.late"
	[ -n "$session" ] || return
	look "$session"
	kill -TERM "${members[@]}"
	for _ in 1 2 3 4 5; do
		sleep 1
		look "$session"
		[ ${#members[@]} -gt 0 ] || return
	done
	kill -KILL "${members[@]}"
}

# limited SECONDS OUT ERR COMMAND... - status 124 if the clock has reached them
limited() {
	local watcher status

	watch "$1" >/dev/null 2>&1 </dev/null &
	watcher=$!
	# shellcheck disable=SC2016 # for sh
	setsid sh -c 'echo $$ >"$0" && exec "$@"' "$TMP/.session" \
	    "${@:4}" >>"$2" 2>>"$3" </dev/null
	status=$?
	if [ -e "$TMP/.late" ]; then
		wait "$watcher"
		return 124
	fi
	kill "$watcher"
	wait "$watcher"
	rm -f "$TMP/.session"
	return $status
}

# end_session - ends the test of a job that is ended by a signal itself
end_session() {
	local session

	read -r session 2>/dev/null <"$TMP/.session" || return
	look "$session"
	[ ${#members[@]} -eq 0 ] || kill -KILL "${members[@]}" 2>/dev/null
}

# The suites for mode rseq, of those that pass objects from thread to thread.
# cache, import, limit and reclaim are left out, because they count objects or
# memory, and cache and reclaim failed by that on a busy machine; magazine and
# sample, because they take too long.
RSEQ_SUITES=' alloc bulk cpu defer_order exit_check fork freed grace '
RSEQ_SUITES+='magazine_bulk nofail quarantine sample_object typesafe '

# unit_job ROOM [MODE] - one suite of $B/unit; Check counts its tests
unit_job() {
	local counts status name=$1${2:+" (mode=$2)"}

	[ -z "${2-}" ] || export UMEM_OPTIONS=mode=$2
	limited 600 "$TMP/out" "$TMP/out" "${PLAIN[@]}" "$B/unit" "$1"
	status=$?
	counts=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$TMP/out")
	if [ -z "$counts" ]; then
		verdict 0 1 0 "unit $name: ended with status $status" "$TMP/out"
		return
	fi
	# shellcheck disable=SC2086 # three numbers
	set -- "$1" $counts
	local bad=$(($3 + $4))
	if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
		bad=1
	fi
	verdict $(($2 - $3 - $4)) "$bad" 0 "unit $name" "$TMP/out"
}

# lacks SOURCE - names a command that the test needs and the machine lacks
lacks() {
	local tool

	[ -n "$LACKING" ] || return
	case $1 in
	*.cc) grep -ow CXX <<<"$LACKING" ;;
	*.sh) grep -q 'command -v "*[$]' "$1" || sed '/^[[:blank:]]*#/d' "$1" |
	    grep -Eow -e "$LACKING" | while read -r tool; do
		grep -q "command -v $tool" "$1" || echo "$tool"
	    done ;;
	esac
}

# script_job FILE
script_job() {
	local limit status

	limit=$(header timeout "$1")
	limited "${limit:-120}" "$TMP/out" "$TMP/out" bash "$1"
	status=$?
	case $status in
	0) verdict 1 0 0 ;;
	77) verdict 0 0 1 "${1#"$TOP"/tests/}" "$TMP/out" ;;
	124) verdict 0 1 0 "${1#"$TOP"/tests/}: timed out" "$TMP/out" ;;
	*) verdict 0 1 0 "${1#"$TOP"/tests/}: status $status" "$TMP/out" ;;
	esac
}

# program_job SOURCE MODE [RUN]
program_job() {
	local name=${1#"$TOP"/tests/} source=$1 mode=$2 case=${3-}
	local want status limit preload link args options=() line
	local -a vars=() argv=() problems=()

	name=${name%.*}
	[ "$mode" = default ] || options=("mode=$mode")
	want=$(last exit "$source" "$case")
	line=$(last signal "$source" "$case")
	[ -z "$line" ] || want=$((128 + line))
	want=${want:-0}
	while IFS= read -r line; do
		case $line in
		UMEM_OPTIONS=*) options+=("${line#*=}") ;;
		*) vars+=("$line") ;;
		esac
	done < <(header env "$source" "$case")
	if [ ${#options[@]} -gt 0 ]; then
		vars+=("UMEM_OPTIONS=$(IFS=,; echo "${options[*]}")")
	fi
	link=$(header link "$source")
	preload=$(header preload "$source")
	if [[ $SAN == address || $SAN == thread ]]; then
		: # Its library comes first.
	elif [ "${preload:-$([ -n "$link" ] && echo no)}" != no ]; then
		vars+=("LD_PRELOAD=$SHIM:$B/account.so")
	elif [ -n "$link" ]; then
		vars+=("LD_PRELOAD=$B/account.so")
	fi
	line=$(last account "$source" "$case")
	[ -z "$line" ] || vars+=("ACCOUNT=$line")
	[ -z "$link" ] || vars+=("LD_LIBRARY_PATH=$B")
	limit=$(last timeout "$source" "$case")
	args=$(last args "$source" "$case")
	read -r -a argv <<<"$args"

	limited "${limit:-120}" "$TMP/out" "$TMP/err" \
	    "${PLAIN[@]}" env "${vars[@]}" "$B/$name" "${argv[@]}"
	status=$?
	if [ "$status" -eq 77 ] && [ "$want" -ne 77 ]; then
		verdict 0 0 1 "$name" "$TMP/err"
		return
	fi
	if [ "$status" -eq 124 ] && [ "$want" -ne 124 ]; then
		problems+=("timed out after ${limit:-120} s")
	elif [ "$status" -ne "$want" ]; then
		problems+=("status $status instead of $want")
	fi
	while IFS= read -r line; do
		grep -Eq -e "$line" "$TMP/err" ||
		    problems+=("not on stderr: $line")
	done < <(header stderr "$source" "$case")
	while IFS= read -r line; do
		! grep -Eq -e "$line" "$TMP/err" ||
		    problems+=("on stderr, against: $line")
	done < <(header 'no stderr' "$source" "$case")

	if [ ${#problems[@]} -eq 0 ]; then
		verdict 1 0 0
		return
	fi
	{
		printf '%s\n' "${problems[@]}"
		tail -n 20 "$TMP/out" | sed 's/^/out: /'
		tail -n 40 "$TMP/err" | sed 's/^/err: /'
	} >"$TMP/all"
	verdict 0 1 0 "$name (mode=$mode${case:+, $case})" "$TMP/all"
}

# verdict PASSED FAILED SKIPPED [TEXT [OUTPUT]] - in one write, at the end
verdict() {
	local text=

	is_wanted || return
	if [ "$2" -gt 0 ]; then
		text="FAIL $4"$'\n'$(sed 's/^/    /' "$5" | tail -n 200)$'\n'
	elif [ "$3" -gt 0 ]; then
		text="skip $4: $(tail -n 1 "$5")"$'\n'
	fi
	printf '%s' "$text"
	echo "$1 $2 $3" >"$RESULTS/$JOB"
}

# A job runs in a process of its own: run_tests.sh --job NUMBER KIND WORDS...
if [ "${1-}" = --job ]; then
	JOB=$2
	kind=$3
	shift 3
	# After this status xargs begins no other job.
	is_wanted || exit 255
	TMP=$(mktemp -d)
	export TMP
	# A process that this shell has forked, and that is killed before it
	# has reset its traps, runs this one, and bash may end the test in it
	# with a status other than 0.
	trap '[ $BASHPID -eq $$ ] &&
	    { end_session; chmod -R u+w "$TMP" 2>/dev/null; rm -rf "$TMP"; }' EXIT
	cd "$TMP" || exit
	ulimit -S -c 0
	# The counters of make coverage, in a folder for each name of a test.
	[ -z "${COVERAGE_DIR-}" ] || {
		COVERAGE_DIR=$COVERAGE_DIR/$(basename "${1%.*}")
		mkdir -p "$COVERAGE_DIR"
	}
	# Some versions of the thread sanitizer cannot live with much randomness
	# in addresses.  A child of fork() cannot join the threads of its
	# parent, and starts threads of its own.
	PLAIN=()
	# There is no library of malloc() to preload, and memory of umem is no
	# root of leaks.
	[ -z "$SAN" ] || [ "$SAN" = undefined ] || unset SHIM
	[ "$kind" = unit ] || export ASAN_OPTIONS=detect_leaks=0
	if [ "$SAN" = thread ]; then
		TSAN_OPTIONS=report_thread_leaks=0:die_after_fork=0
		export TSAN_OPTIONS+=:suppressions=$TOP/tests/thread.supp
		! setarch -R true 2>/dev/null || PLAIN=(setarch -R)
	fi
	if [ "$kind" != unit ] && read -r tool < <(lacks "$1"); then
		verdict 0 0 1 "${1#"$TOP"/tests/}" <(echo "no $tool")
		exit
	fi
	"${kind}_job" "$@" 2>>"$TMP/shell"
	exit
fi

[ $# -ge 2 ] || fail "usage: tests/run_tests.sh BUILD FOLDER... [-- NAME...]"
B=$(cd "$1" && pwd) || exit 2
shift
SHIM=$B/libumem_malloc.so.1
RESULTS=$(mktemp -d)
TEST_RUN=$$
CC=${CC:-cc}
CXX=${CXX:-c++}
LIBC=${LIBC-}
EMULATED=${EMULATED-}
SAN=${SAN:-}
TEST_TIME_FACTOR=${TEST_TIME_FACTOR:-1}
[[ $TEST_TIME_FACTOR =~ ^[1-9][0-9]*$ ]] ||
    fail "TEST_TIME_FACTOR is not a whole number"
CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-60}
CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER:-$((5 * TEST_TIME_FACTOR))}
GLIBC_MINOR=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.//p')
[ -z "$LIBC" ] || GLIBC_MINOR=
UNSHARE='unshare -m'
[ "$(id -u)" -eq 0 ] || UNSHARE='unshare -rm'
LACKING=
for tool in $TOOLS; do
	command -v "$tool" >/dev/null || LACKING=$LACKING$tool'|'
done
command -v "${CXX%% *}" >/dev/null || LACKING=${LACKING}CXX
LACKING=${LACKING%|}
export B TOP GLIBC_MINOR SHIM RESULTS TEST_RUN LACKING CC CXX UNSHARE SAN \
    TEST_TIME_FACTOR CK_DEFAULT_TIMEOUT CK_TIMEOUT_MULTIPLIER
trap 'rm -rf "$RESULTS"' EXIT

folders=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	folders+=("$1")
	shift
done
[ $# -eq 0 ] || shift
only=" $* "

wanted() {
	[ "$only" = "  " ] || [[ $only == *" $1 "* ]]
}

# Jobs are lines "KIND WORD..."; those that must have the machine for
# themselves come last, one at a time.
beside=()
alone=()
add_job() {
	if [ "$1" = yes ]; then
		alone+=("${*:2}")
	else
		beside+=("${*:2}")
	fi
}

# A test that runs this script on tests of its own means all of them.
export -n TESTS

# runs WORD - is it one of TESTS?
runs() {
	[[ " ${TESTS:-unit programs scripts} " == *" $1 "* ]]
}

# has_threads SOURCE - can ThreadSanitizer find anything in it?
has_threads() {
	grep -Eqw 'pthread_create|thread_start|umem_defer_[a-z]*' "$1"
}

# is_left_out SOURCE RUN - is one of its "not with" the word of this build?
is_left_out() {
	local word

	for word in $LIBC $EMULATED $SAN ${COVERAGE_DIR:+coverage}; do
		! grep -Eq "^$word( |\$)" <(header 'not with' "$1" "$2") ||
		    return 0
	done
	return 1
}

# suits SOURCE RUN - may this program run in this build?
suits() {
	! is_left_out "$1" "$2" || return
	# Programs in C, and with liburcu if the build has it for musl.
	[ "$LIBC" != musl ] || [[ $1 != *.cc &&
	    ($(header link "$1") != rcu || -d $B/outside/lib) ]] || return
	[ -n "$SAN" ] || return 0
	[ "$SAN" = undefined ] || {
		[ -n "$(header link "$1")" ] &&
		    [ "$(header preload "$1")" != yes ]
	} || return
	[ "$SAN" != thread ] || has_threads "$1"
}

# add_program SOURCE RUN
add_program() {
	local mode modes

	suits "$1" "$2" || return
	modes=$(last modes "$1" "$2")
	if [[ -n $EMULATED && " ${modes-} " != *" default "* ]]; then
		modes=locked
	fi
	for mode in ${modes:-${MODES:-rseq locked}}; do
		[[ $MODE_WORDS = *" $mode "* ]] || fail "$1: no mode $mode"
		# A blank at the end of a line would join it to the next one.
		add_job "$(header alone "$1")" program "$1" "$mode" ${2:+"$2"}
	done
}

# suits_script SOURCE - may this script run in this build?
suits_script() {
	is_left_out "$1" '' && return 1
	[ -z "$SAN" ] || [[ $SAN == undefined && $1 == */real_*.sh ]]
}

# sources FOLDER - its tests; a folder "parts" holds parts of its scripts
sources() {
	find "$1" -name parts -prune -o -type f -regex '.*\.\(c\|cc\|sh\)' -print |
	    LC_ALL=C sort
}

for folder in "${folders[@]}"; do
	if [ "$folder" = unit ]; then
		runs unit || continue
		for room in $("$B/unit" --list); do
			wanted "$room" || continue
			if [ "$SAN" != thread ]; then
				add_job no unit "$room"
			elif [ "$room" != rseq ] &&
			    has_threads "$TOP/tests/unit/test_$room.c"; then
				add_job no unit "$room" locked
				[[ $RSEQ_SUITES != *" $room "* ]] ||
				    add_job no unit "$room" rseq
			fi
		done
		continue
	fi
	while IFS= read -r source; do
		name=$(basename "${source%.*}")
		wanted "$name" || continue
		if [[ $source == *.sh ]]; then
			! runs scripts || ! suits_script "$source" ||
			    add_job "$(header alone "$source")" script "$source"
			continue
		fi
		runs programs || continue
		cases=$(header run "$source")
		while IFS= read -r run; do
			add_program "$source" "$run"
		done <<<"$cases"
	done < <(sources "$TOP/tests/$folder")
done

number() {
	local first=$1 i

	shift
	for ((i = 0; i < $#; i++)); do
		echo "$((first + i)) ${*:i+1:1}"
	done
}

njobs=$((${#beside[@]} + ${#alone[@]}))
# Its sleep does not keep the output open when it is killed.
while sleep $PROGRESS_S >/dev/null 2>&1 && kill -0 $$; do
	ended=$(find "$RESULTS" -mindepth 1 -name '*[0-9]' | wc -l)
	echo "run_tests.sh: $ended of $njobs tests have ended" >&2
done &
progress=$!
trap 'kill $progress; rm -rf "$RESULTS"' EXIT
if [ ${#beside[@]} -gt 0 ]; then
	number 0 "${beside[@]}" |
	    xargs -P "${TEST_JOBS:-2}" -L 1 "$self" --job
fi
if [ ${#alone[@]} -gt 0 ]; then
	number ${#beside[@]} "${alone[@]}" | xargs -L 1 "$self" --job
fi

passed=0
failed=0
skipped=0
for ((i = 0; i < njobs; i++)); do
	if ! read -r p f s 2>/dev/null <"$RESULTS/$i"; then
		echo "FAIL job $i ended without a result"
		p=0 f=1 s=0
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
if [ $((passed + failed + skipped)) -eq 0 ]; then
	echo "run_tests.sh: no test ran"
	failed=1
fi
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] ||
    echo ", $skipped skipped")"
[ "$failed" -eq 0 ]
