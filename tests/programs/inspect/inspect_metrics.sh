#!/bin/bash
# umem_metrics() and umem metrics give OpenMetrics text, with the same figures
# for a process that is quiet.
set -eu
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END2'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/programs/check.h"
#include "umem/umem.h"
#include "vmem/vmem.h"

/* Do the functions of the C library and umem_stats() agree? */
static int
figures_agree(void)
{
	struct mallinfo2 info = mallinfo2();
	struct umem_stats stats;

	return umem_stats(&stats, sizeof(stats)) == 0 &&
	       info.arena + info.hblkhd == stats.heap_bytes &&
	       info.uordblks == stats.live_bytes - stats.large_bytes &&
	       info.hblkhd >= stats.large_bytes &&
	       info.hblkhd <= stats.large_bytes + stats.sampled_bytes &&
	       info.keepcost == stats.dirty_bytes &&
	       stats.cached_bytes == stats.cpu_bytes + stats.depot_bytes +
					 stats.slab_bytes;
}

static void *volatile blocks[3000];
static char text[1 << 17];

int
main(void)
{
	umem_cache_t *twins[2];
	vmem_alloc_t *take;
	vmem_free_t *give;
	vmem_t *arena, *source = vmem_heap_arena(&take, &give);
	void *volatile block = malloc(3000);

	/* A buffer of stdout would be allocated between the two readings. */
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 0; i < 2; i++) {
		twins[i] = umem_cache_create("of \"twins\" \\", 100, 0, NULL,
		    NULL, NULL, NULL, NULL, 0);
		if (umem_cache_alloc(twins[i], UMEM_DEFAULT) == NULL)
			return 1;
	}
	/* A cache without memory, which has only failed. */
	arena = vmem_create("empty", NULL, 0, 4096, NULL, NULL, NULL, 0,
	    VM_NOSLEEP);
	if (umem_cache_alloc(umem_cache_create("failing", 100, 0, NULL, NULL,
				 NULL, NULL, arena, 0),
		UMEM_DEFAULT) != NULL)
		return 1;
	for (int i = 1; i < 2000; i++)
		if (malloc((size_t)i) == NULL)
			return 1;
	block = realloc(block, 20 << 20);
	for (int i = 0; i < 3000; i++)
		blocks[i] = malloc(1000);
	for (int i = 0; i < 3000; i++)
		if (i % 16 != 0)
			free(blocks[i]);
	malloc_trim(0);
	for (int i = 0; i < 40; i++)
		free(malloc((size_t)i << 18));
	arena = vmem_create("own", NULL, 0, 4096, take, give, source, 0,
	    VM_NOSLEEP);
	(void)!vmem_alloc(arena, 12288, VM_NOSLEEP);
	for (int i = 0; i < 3000; i++)
		blocks[i] = malloc(100);
	/* These fill more than two magazines, so the depot gets some. */
	for (int i = 1000; i < 3000; i++)
		free(blocks[i]);
	if (!figures_agree() || block == NULL ||
	    umem_metrics(text, sizeof(text)) >= (ssize_t)sizeof(text))
		return 1;
	fputs(text, stdout);
	puts("ready");
	return read(0, block, 1) != 0;
}
END2
"$CC" -fno-builtin -D_GNU_SOURCE -I"$TOP" -o main main.c -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B"
check=$TOP/tests/programs/inspect/parts/openmetrics.py

# The checker itself refuses wrong text.
refused() {
	if printf '%b' "$1" | python3 "$check" >/dev/null 2>&1; then
		echo "not refused: $1"
		exit 1
	fi
}
printf '# TYPE a gauge\na 1\n# EOF\n' | python3 "$check" >/dev/null
refused '# TYPE a gauge\na 1\n'
refused '# TYPE a gauge\na 1\n# EOF\n\n'
refused '# TYPE a gauge\na_total 1\n# EOF\n'
refused '# TYPE a counter\na 1\n# EOF\n'
refused '# TYPE a gauge\na 1\na 1\n# EOF\n'
refused '# TYPE a gauge\na{b="c"d"} 1\n# EOF\n'
refused '# TYPE a gauge\n# UNIT a bytes\na 1\n# EOF\n'
refused '# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na{c="d"} 1\n# EOF\n'

start ./main
grep -vx ready told >library
"$umem" metrics "$pid" >outside
finish 0
for text in library outside; do
	python3 "$check" <$text >sizes || { cat $text; exit 1; }
	read -r nfamilies nsamples <sizes
	if [ "$nfamilies" -lt 10 ] || [ "$nsamples" -lt 20 ]; then
		echo "$text: $nfamilies families, $nsamples samples"
		exit 1
	fi
done
grep -q '^umem_cache_live_objects{cache="of _twins_ _",address="0x' outside
[ "$(grep -c '^umem_cache_live_objects{cache="of _twins_' library)" = 2 ]
grep -q '^umem_cache_failures_total{cache="failing",address="0x.*"} 1$' library

# value FAMILY FILE
value() {
	sed -n "s/^umem_$1_bytes //p" "$2"
}

# The library, and the command on the process and on its core, say the same, and
# each byte has its place.
agree() {
	# The upkeep thread would release magazines of depots between the looks.
	UMEM_OPTIONS=thread=no${UMEM_OPTIONS:+,$UMEM_OPTIONS} start ./main
	grep -vx ready told >library
	"$umem" metrics "$pid" >outside
	"$umem" status --json "$pid" >json
	gcore -o core "$pid" >/dev/null 2>&1
	"$umem" metrics core."$pid" >core
	rm core."$pid"
	finish 0
	python3 "$check" <library >/dev/null
	diff library outside
	diff library core
	heap=$(value heap library)
	sum=0
	for part in live cached waiting dirty sampled; do
		sum=$((sum + $(value $part library)))
	done
	for part in cpu depot slab; do
		grep -q "\"${part}_bytes\": *$(value ${part}_cached library),\$" \
		    json || { echo "$*: $part"; cat json library; exit 1; }
	done
	if [ "$heap" -eq 0 ] || [ $sum -ne "$heap" ] ||
	    [ "$(value mapped library)" -ne \
		$((heap + $(value own library))) ]; then
		echo "$*: the parts are $sum bytes"
		cat library
		exit 1
	fi
	for part in mapped heap live cached waiting dirty own large sampled; do
		grep -q "\"${part}_bytes\": *$(value $part library)[,}]*\$" \
		    json || { echo "$*: $part"; cat json library; exit 1; }
	done
}
agree
[ "$(value depot_cached library)" -gt 0 ]
cp library without
for options in sample=2000 hardened mode=locked; do
	export UMEM_OPTIONS=$options
	agree "$options"
	if [ $options = sample=2000 ] &&
	    [ "$(value sampled library)" -eq 0 ]; then
		echo "no samples"
		exit 1
	fi
done
unset UMEM_OPTIONS
for words in default firewall=1 default,firewall=1; do
	export UMEM_DEBUG=$words
	agree "$words"
done
unset UMEM_DEBUG

# The largest call sites are as many series as are asked for, and one for the
# rest.  Without lines, two of these functions have names that differ in a
# character that no label has; both are in one series.
cat >sites.cc <<'END2'
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

struct row {
	int n;
	bool operator<(int) const;
	bool operator>(int) const;
};

static void *volatile kept;

#define KEEP(bytes) \
	for (int i = 0; i < n; i++) \
		kept = malloc(bytes); \
	return kept != nullptr

__attribute__((noinline)) bool row::operator<(int) const { KEEP(3000); }
__attribute__((noinline)) bool row::operator>(int) const { KEEP(3000); }
__attribute__((noinline)) static bool small(int n) { KEEP(100); }
__attribute__((noinline)) static bool large(int n) { KEEP(20000); }

int
main()
{
	volatile row r = {100};

	if (const_cast<row &>(r) < 1 && const_cast<row &>(r) > 1 && small(100) &&
	    large(100))
		puts("ready");
	fflush(stdout);
	return read(0, const_cast<int *>(&r.n), 1) != 0;
}
END2
"${CXX:-c++}" -O1 -fno-builtin -w -o sites sites.cc
start env UMEM_OPTIONS=sample=1 ./sites
"$umem" metrics "$pid" >none
"$umem" metrics --sites=2 "$pid" >two
"$umem" metrics --sites=100 "$pid" >all
"$umem" metrics --sites=18446744073709551615 "$pid" | diff all -
gcore -o core "$pid" >/dev/null 2>&1
"$umem" metrics --sites=2 core."$pid" >core
rm core."$pid"
finish 0
for text in two all core; do
	python3 "$check" <$text >sizes || { cat $text; exit 1; }
done
if grep umem_site none; then
	exit 1
fi
grep '^umem_site_live_blocks{' two >sums
printf '%s\n' 'umem_site_live_blocks{site="sites`large+' \
    'umem_site_live_blocks{site="sites`row::operator_+' \
    'umem_site_live_blocks{site="other"} 1' >want
sed 's/0x[0-9a-f]*"} [12]00$//; s/ 1[0-9][0-9]$/ 1/' sums | diff want -
grep -q 'operator_.* 200$' sums
diff <(grep umem_site_ two) <(grep umem_site_ core)
grep -q '^umem_site_live_blocks{.*`small' all
"$umem" metrics --sites=few "$pid" 2>err && exit 1
grep -qx 'umem: metrics: few is no number of call sites' err
