#!/bin/bash
# umem leaks finds all lost blocks and no others: in a process with few and with
# many threads, idle and at work, repeatedly, and in a core.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
build planted

start "$TMP/planted" 2
leaked "$pid"
exactly_planted "2 threads"
leaked "$pid"
exactly_planted "2 threads, again"
"$umem" leaks --mdb "$pid" >said
status=$?
if [ $status -ne 1 ]; then
	echo "status for leaks is $status"
	exit 1
fi
for line in '^BYTES +LEAKED +VMEM_SEG CALLER$' '^31457280 +1 [0-9a-f]{16} \?$' \
    '^CACHE +LEAKED +BUFFER CALLER$' '^ +Total +[0-9]+ buffers, [0-9]+ bytes$'; do
	if ! grep -Eq "$line" said; then
		echo "not the tables of findleaks: no $line in"
		cat said
		exit 1
	fi
done
gcore -o core "$pid" >/dev/null 2>&1
leaked "core.$pid"
exactly_planted "core by gcore"
rm -f "core.$pid"
finish 0

# Large blocks have records, too; before a guard page as without one.
for words in default audit; do
	export UMEM_DEBUG=$words
	start "$TMP/planted" 2
	unset UMEM_DEBUG
	"$umem" leaks --mdb "$pid" >said
	if ! grep -Eq '^3[0-9]{7} +1 [0-9a-f]{16} planted`[a-z_]+\+0x' said; then
		echo "$words: no caller of a large leak in"
		cat said
		exit 1
	fi
	finish 0
done

start "$TMP/planted" 200
soon_planted "200 threads"
finish 0

start "$TMP/planted" 3 4
for ((n = 0; n < 5; n++)); do
	soon_planted "4 threads at work, time $n"
done
finish 0

# A core of a crash, where the kernel writes one beside the program.
ulimit -c unlimited 2>/dev/null
if ! grep -qx core /proc/sys/kernel/core_pattern ||
    [ "$(ulimit -c)" != unlimited ]; then
	exit 0
fi
start "$TMP/planted" 3
kill -ABRT "$pid"
finish 134 2>/dev/null
leaked core*
exactly_planted "core of a crash"
rm -f core*
