#!/bin/bash
# USDT probes: the library's file has a note for each, with a semaphore and
# arguments in registers; gdb stops at each and finds the arguments that the
# manual page promises.  perf and bpftrace read the same notes.
# test timeout: 120
set -u
if ! readelf -n "$SHIM" | grep -q NT_STAPSDT; then
	echo "built without <sys/sdt.h>"
	exit 77
fi

# Each library has the probes; of a static one, the linked program, which here
# has one of its own.
cat >own.c <<'END2'
#include <sys/sdt.h>

int
main(void)
{
	DTRACE_PROBE(own, start);
	return 0;
}
END2
"$CC" own.c -Wl,--whole-archive "$B/libumem.a" -Wl,--no-whole-archive \
    -lpthread -o static || exit 1
for file in "$SHIM" "$B/libumem.so.1" static; do
	readelf -n "$file" | awk '
		/Provider:/ { provider = $2 }
		/Name:/ { name = $2 }
		/Location:/ { semaphore = $NF }
		/Arguments:/ && provider != "own" {
			if (semaphore == "0x0000000000000000" || /\(/)
				print "bad", provider ":" name, semaphore, $0
			# NF is wrong here in mawk of Debian forky.
			print provider ":" name, split($0, word) - 1
		}' | sort -u >probes
	diff - probes <<'END2' || exit 1
otel_memory:alloc 3
otel_memory:free 1
umem:arena_import 3
umem:depot_load 3
umem:depot_unload 2
umem:heap_grow 2
umem:limit 3
umem:purge 2
umem:refill 4
umem:slab_create 3
umem:slab_destroy 3
END2
	# The manual page describes the same probes.
	while read -r probe nargs; do
		if ! sed -n "/^\\.It Fn $probe /p" "$TOP/man/umem.1" |
		    grep -qE "^.It Fn $probe( \"[a-z0-9_ *]+\"){$nargs}\$"; then
			echo "man/umem.1 has no $probe with $nargs arguments"
			exit 1
		fi
	done <probes
done

cat >fire.c <<'END2'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include "umem.h"
#include <vmem.h>

static void *objects[20000];

int
main(void)
{
	umem_cache_t *cache = umem_cache_create(
	    "probed", 200, 0, NULL, NULL, NULL, NULL, NULL, 0);
	struct umem_cache_args args = {.size = 100, .limit = 1};
	umem_cache_t *limited =
	    umem_cache_create_args("limited", &args, sizeof(args));
	vmem_t *arena = vmem_create("probed_arena", NULL, 0, 4096, vmem_alloc,
	    vmem_free, vmem_heap_arena(NULL, NULL), 0, VM_NOSLEEP);
	void *sample, *span;

	for (int i = 0; i < 20000; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < 20000; i++)
		umem_cache_free(cache, objects[i]);
	for (int i = 0; i < 20000; i++)
		objects[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
	for (int i = 0; i < 20000; i++)
		umem_cache_free(cache, objects[i]);
	umem_cache_alloc(limited, UMEM_DEFAULT);
	umem_cache_alloc(limited, UMEM_DEFAULT);
	free(malloc(64 << 20));
	malloc_trim(0);
	span = vmem_alloc(arena, 4096, VM_NOSLEEP);
	printf("span %p\n", span);
	fflush(stdout);
	umem_sample(1);
	sample = malloc(1000);
	printf("sample %p\n", sample);
	fflush(stdout);
	free(sample);
	umem_sample(0);
	return 0;
}
END2
"$CC" -O1 -fno-builtin -w -I"$TOP/umem" -I"$TOP/vmem" fire.c -o fire \
    -L"$B" -lumem_malloc -Wl,-rpath,"$B" || exit 1

# At each stop, gdb prints the probe and its arguments.
{
	printf '%s\n' 'set pagination off' 'break main' run delete
	while IFS='|' read -r probe format arguments; do
		printf 'break -probe-stap %s\ncommands\nsilent\n' "$probe"
		printf 'printf "%s %s\\n", %s\ncontinue\nend\n' "$probe" \
		    "$format" "$arguments"
	done <<'END2'
umem:refill|%s %u %u|(char*)$_probe_arg1, (unsigned)$_probe_arg2, (unsigned)$_probe_arg3
umem:depot_load|%u %u|(unsigned)$_probe_arg1, (unsigned)$_probe_arg2
umem:depot_unload|%u|(unsigned)$_probe_arg1
umem:slab_create|%s %lu|(char*)$_probe_arg0, $_probe_arg2
umem:slab_destroy|%s %lu|(char*)$_probe_arg0, $_probe_arg2
umem:arena_import|%s 0x%lx %lu|(char*)$_probe_arg0, $_probe_arg1, $_probe_arg2
umem:heap_grow|%lu|$_probe_arg1
umem:purge|%lu|$_probe_arg1
umem:limit|%s %lu %lu|(char*)$_probe_arg0, $_probe_arg1, $_probe_arg2
otel_memory:alloc|0x%lx %lu %lu|$_probe_arg0, $_probe_arg1, $_probe_arg2
otel_memory:free|0x%lx|$_probe_arg0
END2
	echo continue
} >commands
gdb -batch -nx -x commands ./fire >said 2>gdb.err </dev/null

# says REGEX - a line of the output of gdb matches
says() {
	if ! grep -Eq "^$1\$" said; then
		echo "no '$1' in:"
		sort said | uniq -c | sort -rn | head -60
		tail -3 gdb.err
		exit 1
	fi
}

says 'umem:refill probed [0-9]+ [1-9][0-9]*'
says 'umem:depot_load [0-9]+ [1-9][0-9]*'
says 'umem:depot_unload [0-9]+'
says 'umem:slab_create probed [1-9][0-9]*'
says 'umem:slab_destroy probed [1-9][0-9]*'
says "umem:arena_import probed_arena $(sed -n 's/^span //p' said) [1-9][0-9]*"
says 'umem:heap_grow [1-9][0-9]*'
says 'umem:purge [1-9][0-9]*'
says 'umem:limit limited 1 1'
sample=$(sed -n 's/^sample //p' said)
says "otel_memory:alloc $sample 1000 1000"
says "otel_memory:free $sample"
