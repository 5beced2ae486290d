#!/bin/bash
# run.sh - the misuse set: one bug a program, and its result
#
#	tests/misuse/run.sh BUILD [--check | --update] [NAME...]
#
# Runs each program of BUILD/misuse, or those named, in the modes of umem
#
#	default		no option
#	hardened	UMEM_OPTIONS=hardened
#	debug		UMEM_DEBUG=default
#
# and prints how many of each category were detected, harmless and missed;
# misuse.h defines these results.  The programs also run under the allocators in
# PEERS="NAME=LIBRARY ...", where a name alone is the C library's allocator; by
# default these are the C library's and all that `make peers` has built.  Some
# programs use functions that only umem has; the last row leaves these out.
#
# --check compares with tests/misuse/expect instead, and fails if there is a
# difference; --update writes that file.  A line of it is a name and, after a
# tab each, the results in the three modes: the first words of a result, or
# several with " or " between.
#
# Categories, by the first words of a name
#	overflow	23	writes past the end
#	underflow	 5	writes before the start
#	overread	 3	reads past the end
#	zero_size	 5	use of a block of no bytes
#	double_free	17	by one thread
#	invalid_free	13	of an address that is not the start of a block
#	write_after_free 13
#	read_after_free	 7
#	uninitialised	 9	reads of data of an earlier owner
#	realloc		 7	and malloc_usable_size(), of no block
#	size		12	a free that names another size or kind
#	kind		 5	a free by the function of another kind of memory
#	absurd		 3	sizes that nothing can have
#	thread		 8	the same between threads
#	object		15	of object caches, also in deferred frees
set -u

self=$(readlink -f "$0")
here=$(dirname "$self")
categories=(overflow underflow overread zero_size double_free invalid_free
    write_after_free read_after_free uninitialised realloc size kind
    absurd thread object)
modes=(default hardened debug)
declare -A setting=([default]=umem [hardened]=UMEM_OPTIONS=hardened
    [debug]=UMEM_DEBUG=default)

# result STATUS OUT ERR - in one line
result() {
	local text=

	# Leave out the message of the shell about its end, and the report of
	# a cache that is destroyed in use, which goes on.
	[ ! -s "$3" ] || text=$(sed -E '/ not recognized$/d; / not empty$/d
		/ in use:$/d; /^umem: allocated by thread /d; /^umem:     /d
		s/^umem( allocator)?: //
		s/ ?\(([^() ]+, )?0x[0-9a-f]+\)//g; q' "$3" | tr -d '\0')
	case $1 in
	0) grep -x harmless "$2" || echo "broken: says nothing" ;;
	1) grep '^missed: ' "$2" || echo "broken: $text" ;;
	77) grep -x none "$2" || echo "broken: $text" ;;
	124 | 137) echo "missed: does not end" ;;
	132 | 133) echo "detected: trap" ;;
	134) echo "detected: ${text:-abort}" ;;
	135 | 136 | 139) echo "detected: fault" ;;
	*) echo "broken: status $1: $text" ;;
	esac
}

# A job runs in a process of its own: run.sh --job MODE NAME
if [ "${1-}" = --job ]; then
	run=(timeout -k 1 $((60 * ${TEST_TIME_FACTOR:-1})) env
	    "LD_LIBRARY_PATH=$B")
	case $2 in
	default | hardened | debug)
		run+=("LD_PRELOAD=$B/libumem_malloc.so.1")
		[ "$2" = default ] || run+=("${setting[$2]}")
		;;
	*=*) run+=("LD_PRELOAD=${2#*=}") ;;
	esac
	at=$RESULTS/${2%%=*}.$3
	# A signal's message of this shell is none of the program's.
	{ "${run[@]}" "$B/misuse/$3" >"$at.out" 2>"$at.err" </dev/null; } \
	    2>/dev/null
	result $? "$at.out" "$at.err" >"$at"
	exit 0
fi

if [ $# -eq 0 ]; then
	sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$self" >&2
	exit 2
fi
B=$(readlink -f "$1")
action=--table
shift
case ${1-} in
--*)
	action=$1
	shift
	;;
esac
RESULTS=$(mktemp -d)
trap 'rm -rf "$RESULTS"' EXIT
export B RESULTS
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS LD_PRELOAD

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	mapfile -t names < <(cd "$here" && printf '%s\n' -- *.c *.cc |
	    sed -n 's/\.cc\{0,1\}$//p' | sort)
fi

for name in "${names[@]}"; do
	[ -x "$B/misuse/$name" ] || {
		echo "run.sh: there is no $B/misuse/$name;" \
		    "'make ${B##*/}/misuse/$name' builds it" >&2
		exit 2
	}
done

under=("${modes[@]}")
if [ "$action" = --table ]; then
	if [ -z "${PEERS+set}" ]; then
		PEERS=glibc
		for library in "$here"/../../build/peers/*.so; do
			[ ! -f "$library" ] || PEERS+=" $(
			    basename "$library" .so)=$(readlink -f "$library")"
		done
	fi
	read -r -a peers <<<"$PEERS"
	under+=("${peers[@]}")
fi
for mode in "${under[@]}"; do
	printf '%s\n' "${names[@]/#/$mode }"
done | xargs -P "${MISUSE_JOBS:-2}" -L 1 "$self" --job

# result_of MODE NAME - puts it into $said
result_of() {
	read -r said <"$RESULTS/${1%%=*}.$2"
}

category_of() {
	local category

	for category in "${categories[@]}"; do
		if [[ $1 == "$category"_* ]]; then
			echo "$category"
			return
		fi
	done
	echo other
}

# One line a program and mode: category, mode, first word of the result, name.
facts() {
	local name mode category said

	for name in "${names[@]}"; do
		category=$(category_of "$name")
		for mode in "${under[@]}"; do
			result_of "$mode" "$name"
			said=${said%% *}
			echo "$category ${mode%%=*} ${said%:} $name"
		done
	done
}

table() {
	facts | awk -v modes="$(printf '%s ' "${under[@]%%=*}")" \
	    -v rows="${categories[*]} other" '
	{
		if ($3 == "none")
			lacks[$4] = 1
		verdict[$4, $2] = $3
		names[$4] = 1
		count[$1, $2, $3]++
		all[$2, $3]++
		n[$1, $2]++
		total[$2]++
	}
	END {
		nmodes = split(modes, mode, " ")
		nrows = split(rows, row, " ")
		printf "| detected / harmless / missed |"
		for (i = 1; i <= nmodes; i++)
			printf " %s |", mode[i]
		printf "\n|---|"
		for (i = 1; i <= nmodes; i++)
			printf "--:|"
		for (r = 1; r <= nrows; r++) {
			if (!n[row[r], mode[1]])
				continue
			printf "\n| %s, %d |", row[r], n[row[r], mode[1]]
			for (i = 1; i <= nmodes; i++)
				printf " %d / %d / %d |", \
				    count[row[r], mode[i], "detected"], \
				    count[row[r], mode[i], "harmless"], \
				    count[row[r], mode[i], "missed"]
		}
		printf "\n| detected or harmless |"
		for (i = 1; i <= nmodes; i++)
			printf " %d of %d |", all[mode[i], "detected"] + \
			    all[mode[i], "harmless"], \
			    total[mode[i]] - all[mode[i], "none"]
		for (name in names) {
			if (lacks[name])
				continue
			nshared++
			for (i = 1; i <= nmodes; i++)
				shared[i, verdict[name, mode[i]]]++
		}
		printf "\n| of the %d that all can run |", nshared
		for (i = 1; i <= nmodes; i++)
			printf " %d / %d / %d |", shared[i, "detected"], \
			    shared[i, "harmless"], shared[i, "missed"]
		printf "\n"
	}'
}

list() {
	local mode name said

	for mode in "${modes[@]}"; do
		echo
		echo "Missed in mode $mode:"
		for name in "${names[@]}"; do
			result_of "$mode" "$name"
			[[ $said == detected* || $said == harmless ]] ||
			    printf '%-32s %s\n' "$name" "$said"
		done
	done
}

# as_expected SAID EXPECTED
as_expected() {
	local rest="$2 or " one

	while [ -n "$rest" ]; do
		one=${rest%%" or "*}
		rest=${rest#*" or "}
		[[ -z $one || $1 != "$one"* ]] || return 0
	done
	return 1
}

worth() {
	case $1 in
	detected*) echo 3 ;;
	harmless*) echo 2 ;;
	missed*) echo 1 ;;
	*) echo 0 ;;
	esac
}

declare -A expected
while IFS=$'\t' read -r name default hardened debug; do
	[[ $name == \#* ]] && continue
	expected[default.$name]=$default
	expected[hardened.$name]=$hardened
	expected[debug.$name]=$debug
done <"$here/expect"

check() {
	local name mode said want how bad=0

	for name in "${names[@]}"; do
		for mode in "${modes[@]}"; do
			result_of "$mode" "$name"
			want=${expected[$mode.$name]-}
			! as_expected "$said" "$want" || continue
			how="other words"
			[ "$(worth "$said")" -ge "$(worth "$want")" ] ||
			    how=worse
			[ "$(worth "$said")" -le "$(worth "$want")" ] ||
			    how=better
			[ -n "$want" ] || how=new
			echo "$name, $mode: $how: \"$said\"," \
			    "expected \"$want\""
			bad=1
		done
	done
	[ $bad -eq 0 ] || echo "If it is meant to be so:" \
	    "tests/misuse/run.sh ${B##*/} --update [NAME...], and see" \
	    "what it changes in tests/misuse/expect."
	return $bad
}

update() {
	local name mode said

	for name in "${names[@]}"; do
		for mode in "${modes[@]}"; do
			result_of "$mode" "$name"
			as_expected "$said" "${expected[$mode.$name]-}" ||
			    expected[$mode.$name]=${said/#missed:*/missed}
		done
	done
	{
		sed -n '/^#/p' "$here/expect"
		for name in "${!expected[@]}"; do
			[[ $name == default.* ]] || continue
			name=${name#*.}
			compgen -G "$here/$name.c*" >/dev/null || continue
			printf '%s\t%s\t%s\t%s\n' "$name" \
			    "${expected[default.$name]}" \
			    "${expected[hardened.$name]}" \
			    "${expected[debug.$name]}"
		done | sort
	} >"$RESULTS/expect"
	cp "$RESULTS/expect" "$here/expect"
}

case $action in
--check) check ;;
--update) update ;;
--table)
	table
	list
	;;
*)
	echo "run.sh: what is $action?" >&2
	exit 2
	;;
esac
