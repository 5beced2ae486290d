#!/bin/bash
# Tables of the command fit into 80 columns, and their lines begin where they
# should; the parts of umem status.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END2'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "umem/umem.h"
#include "vmem/vmem.h"

enum {
	MIB = 1 << 20
};

/* Caches and an arena with the longest names. */
static int
make_long_names(void)
{
	struct umem_cache_args args = {
	    .size = 500, .limit = 123456, .reserve = 20};
	umem_cache_t *cache = umem_cache_create_args(
	    "a_cache_with_quite_a_long__name", &args, sizeof(args));
	vmem_alloc_t *take;
	vmem_free_t *give;
	vmem_t *source = vmem_heap_arena(&take, &give), *arena;

	for (int i = 0; i < 12345; i++)
		if (umem_cache_alloc(cache, UMEM_DEFAULT) == NULL)
			return -1;
	/* Caches of one name and size, with more objects in each. */
	for (int i = 0; i < 4; i++) {
		cache = umem_cache_create("twin", 1000, 0, NULL, NULL, NULL,
		    NULL, NULL, 0);
		for (int j = 0; j <= i; j++)
			if (umem_cache_alloc(cache, UMEM_DEFAULT) == NULL)
				return -1;
	}
	arena = vmem_create("an_arena_with_quite_a_long_name", NULL, 0, 4096,
	    take, give, source, 0, VM_NOSLEEP);
	arena = vmem_create("a_lower_one_that_has_it_as_well", NULL, 0, 4096,
	    vmem_alloc, vmem_free, arena, 0, VM_NOSLEEP);
	return vmem_alloc(arena, 12288, VM_NOSLEEP) == NULL;
}

static __attribute__((noinline)) void
a_function_with_a_name_that_is_quite_long(void)
{
	if (malloc(123456789) == NULL)
		exit(1);
}

static pthread_barrier_t deep;

static void *
go_deep(void *arg)
{
	volatile char stack[3 * MIB];

	memset((char *)stack, 1, sizeof(stack));
	pthread_barrier_wait(&deep);
	for (;;)
		pause();
	return arg;
}

int
main(void)
{
	int file = open("a_file_that_is_mapped", O_RDWR | O_CREAT, 0600);
	char *volatile block = malloc(10 * MIB);
	pthread_t thread;
	char *at;

	memset(block, 1, 10 * MIB);
	if (ftruncate(file, 16 * MIB) != 0)
		return 1;
	at = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	memset(at, 1, 16 * MIB);
	at = mmap(NULL, 20 * MIB, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 1, 20 * MIB);
	for (int i = 1; i < 3000; i++)
		if (malloc((size_t)i) == NULL)
			return 1;
	a_function_with_a_name_that_is_quite_long();
	if (make_long_names() != 0)
		return 1;
	pthread_barrier_init(&deep, NULL, 2);
	if (pthread_create(&thread, NULL, go_deep, NULL) != 0)
		return 1;
	pthread_barrier_wait(&deep);
	puts("ready");
	fflush(stdout);
	return read(0, block, 1) != 0;
}
END2
"$CC" -fno-builtin -O1 -I"$TOP" -o main main.c -pthread -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B"
start env UMEM_LOGGING=transaction=1m,contents=1m,fail=1m,slab=1m \
    UMEM_DEBUG='default:umem_alloc_64*;guards,contents=100:umem_alloc_96,umem_alloc_128;noabort' \
    UMEM_OPTIONS=sample=16k,soft_limit=1g,hard_limit=2g,depot_bytes=4m,huge_pages=always \
    ./main
expect 0 . status "$pid"
if awk 'length > 80' said | grep .; then
	echo "status is beyond 80 columns"
	exit 1
fi

# Two options have the name contents.
tr -d '\n ' <said | grep -q \
    ',contents=100,noabortUMEM_LOGGING=contents=1m,fail=1m,slab=1m,transaction=1mSampling:' ||
    { cat said; exit 1; }

# On a terminal, all tables; files and pipes have whole names.
unset COLUMNS
"$umem" users --save=before "$pid" >said
for command in "status $pid" "stat $pid" "log $pid" "log -l transaction $pid" \
    "log -l slab $pid" "users $pid" "users -e $pid" "leaks $pid" \
    "diff -e before $pid" "verify $pid" "top -n 1 $pid" "ps" "ctl $pid" \
    "options"; do
	script -qec "stty cols 80; '$umem' $command" /dev/null </dev/null |
	    sed 's/\r//; s/\x1b\[[A-Z]//g' >said
	if awk 'length > 80 && !/^umem: /' said | grep -m 5 .; then
		echo "umem $command is beyond 80 columns"
		wide=1
	fi
done
[ -z "${wide:-}" ] || exit 1
# A name that is shortened there is whole on a wider one.
script -qec "COLUMNS=100 '$umem' stat $pid" /dev/null </dev/null >said
grep -q '^a_cache_with_quite_a_long__name ' said || { cat said; exit 1; }
"$umem" status --json "$pid" >json
python3 - json <<'END2' || { cat json; exit 1; }
import json, sys
report, mib = json.load(open(sys.argv[1])), 1 << 20
memory, parts = report["memory"], report["not_ours"]
# The file, the anonymous mapping and the stack, and those of libraries.
assert 39 * mib < memory["not_ours_bytes"] < 55 * mib, memory
assert 16 * mib < parts["files"] < 26 * mib, parts
assert 3 * mib < parts["stacks"] < 5 * mib, parts
assert 20 * mib <= parts["others"] < 24 * mib, parts
kinds = sum(parts[kind] for kind in ("files", "stacks", "named", "others"))
assert abs(kinds - memory["not_ours_bytes"]) < 2 * mib, (kinds, memory)
assert kinds == sum(part["bytes"] for part in parts["largest"])
names = [part["name"] for part in parts["largest"][:3]]
assert names[1] == "a_file_that_is_mapped", names
assert names[0].startswith("at 7"), names
assert names[2].startswith("stack of "), names
END2
expect 0 '^Not ours: +files [12][0-9.]+M, stacks 3[0-9.]*M, others 2[0-3][0-9.]*M; largest: ' \
    status "$pid"
grep -q ' 16M a_file_that_is_mapped,' said || { cat said; exit 1; }
# A line ends behind a character, not within one.
long=$(printf '\344\270\255%.0s' {1..40})
mv a_file_that_is_mapped "$long"
"$umem" status "$pid" >said
mv "$long" a_file_that_is_mapped
iconv -f UTF-8 -t UTF-8 said >/dev/null || { cat -v said; exit 1; }
tr -d '\n ' <said | grep -q "$long," || { cat said; exit 1; }
# Wherever a setting is divided, its lines begin in one column and end without a
# blank: the comma behind the name of the file is once in the last column.
name=a_file_that_is_mapped
for ((length = 1; length <= 60; length++)); do
	next=$(printf "%${length}s" '' | tr ' ' x)
	mv "$name" "$next"
	name=$next
	"$umem" status "$pid" >said
	if sed '/^$/q' said | grep -Ev '^([A-Z][A-Za-z ]*: .*|)$|^ {16}' |
	    grep . || sed '/^$/q' said | grep -E '^.{15}[^ ]|^.{16} | $'; then
		echo "a line of umem status begins or ends where it should not"
		cat said
		exit 1
	fi
done
mv "$name" a_file_that_is_mapped
# A name that the program gave to a mapping; not every kernel keeps such names.
if unshare -m true 2>/dev/null; then
	at=$(sed -n '/"largest"/,$s/.*"at \(7[0-9a-f]*\)".*/\1/p' json | head -1)
	sed "s/^\($at-.*[^ ]\) *$/\1 [anon:jit code]/" "/proc/$pid/smaps" >smaps
	# shellcheck disable=SC2016 # for the inner shell
	unshare -m bash -c 'mount --bind smaps "/proc/$1/smaps" &&
		exec "$2" status "$1"' - "$pid" "$umem" >said
	if ! grep -Eq '^Not ours: .* named 2[0-3][0-9.]*M' said ||
	    ! tr '\n' ' ' <said | grep -Eq '20M +\[anon:jit +code\],'; then
		cat said
		exit 1
	fi
fi
"$umem" top -n 1 "$pid" >said
awk 'length > 80' said | grep . && exit 1
# Caches of equal memory are in the order of their names.
grep -E '^(umem_[^ ]*|twin) +[0-9]+K ' said >rows
if [ "$(awk '$2 == "64K"' rows | wc -l)" -lt 3 ] ||
    ! LC_ALL=C sort -s -c -k 2,2hr -k 1,1 rows; then
	cat said
	exit 1
fi

# Those of equal names are in the order of their addresses, on a large screen.
"$umem" stat --json "$pid" >json
script -qec "stty rows 200 cols 80; '$umem' top -n 1 $pid" /dev/null </dev/null |
    sed 's/\r//; s/\x1b\[[A-Z]//g' >said
python3 - json <<'END2' || { cat said; exit 1; }
import json, sys
caches = [c for c in json.load(open(sys.argv[1]))["caches"] if c["name"] == "twin"]
caches.sort(key=lambda c: int(c["address"], 16))
shown = [line.split() for line in open("said") if line.startswith("twin ")]
assert len(shown) == 4 and len({row[1] for row in shown}) == 1, shown
wanted = [c["in_use"] for c in caches]
in_use = [float(n[:-1]) * 1024 if n[-1] == "K" else float(n)
          for n in (row[2] for row in shown)]
assert [round(n / min(in_use)) for n in in_use] == wanted, wanted
END2

# Pages and profiles do not go to a terminal.
for form in html pprof; do
	python3 - "$umem" users --$form "$pid" >said <<'END2'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
END2
	status=$?
	if [ $status -ne 2 ] || [ "$(wc -l <said)" -ne 1 ] ||
	    ! grep -q "users: --$form is not for a terminal; add >FILE" said; then
		echo "--$form to a terminal: status $status"
		head -c 1000 said
		exit 1
	fi
	"$umem" users --$form "$pid" | grep -q . || exit 1
done
finish 0
