#!/bin/bash
# The functions that libumem.so.1 and libumem_rcu.so.1 export, and the types
# that programs know of them, are those that parts/*.abi record.  After a change
# that CONTRIBUTING.md, "Compatibility of the binary interface", allows,
#
#	RECORD_ABI=1 tests/run_tests.sh build programs -- abi
#
# records them anew.
# test not with: coverage exports the variables of the counters
set -eu
export LC_ALL=C
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
	echo "no abidiff"
	exit 77
fi
if ! abidw --help 2>&1 | grep -q exported-interfaces-only; then
	echo "abidw is too old"
	exit 77
fi
parts=$TOP/tests/programs/install/parts
# Types that no public header defines are opaque to programs.
mkdir headers
cp "$TOP"/umem/umem.h "$TOP"/umem/umem_rcu.h "$TOP"/vmem/vmem.h headers
# The structure of liburcu differs between its versions.
printf '%s\n' '[suppress_type]' 'name = rcu_flavor_struct' >outside
# format FILE - its main number
format() {
	sed -n "s/^<abi-corpus version='\\([0-9]*\\).*/\\1/p" "$1"
}
compare() {
	abidiff --harmless --suppressions outside "$@"
}

for library in libumem libumem_rcu; do
	file=$B/$library.so.1
	[ -e "$file" ] || continue
	readelf -hSW "$file" >said
	if ! grep -q X86-64 said || ! grep -q debug_info said; then
		echo "$library.so.1: not for x86-64, or without types"
		exit 77
	fi
	abidw --headers-dir headers --exported-interfaces-only \
	    --drop-private-types --no-show-locs --no-elf-needed \
	    --no-corpus-path --no-comp-dir-path "$file" >$library.abi
	[ -z "${RECORD_ABI-}" ] || cp $library.abi "$parts"
	if [ "$(format $library.abi)" != "$(format "$parts/$library.abi")" ]; then
		echo "abidw writes another format than that of Debian 12"
		exit 77
	fi
	compare "$parts/$library.abi" $library.abi ||
	    { echo "the interface of $library.so.1 has changed"; exit 1; }
done

# changed WORD WORD - abidiff notices this difference
changed() {
	sed "s/$1/$2/" libumem.abi >other.abi
	if compare libumem.abi other.abi >said || [ ! -s said ]; then
		echo "not noticed: $2 in place of $1"
		exit 1
	fi
}
changed vmem_walk vmem_go
changed "offset-in-bits='128'" "offset-in-bits='192'"
changed "name='ncpus'" "name='cpus'"
