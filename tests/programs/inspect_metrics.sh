#!/bin/bash
# umem_metrics() and umem metrics give OpenMetrics text, with the same figures
# for a process that is quiet.
set -eu
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"
cat >main.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "umem/umem.h"

int
main(void)
{
	umem_cache_t *twins[2];
	void *volatile block = malloc(3000);

	/* A buffer of stdout would be allocated between the two readings. */
	setvbuf(stdout, NULL, _IONBF, 0);
	for (int i = 0; i < 2; i++) {
		twins[i] = umem_cache_create("of \"twins\" \\", 100, 0, NULL,
		    NULL, NULL, NULL, NULL, 0);
		if (umem_cache_alloc(twins[i], UMEM_DEFAULT) == NULL)
			return 1;
	}
	for (int i = 1; i < 2000; i++)
		if (malloc((size_t)i) == NULL)
			return 1;
	block = realloc(block, 20 << 20);
	free(malloc(100));
	if (block == NULL || umem_dump(1, UMEM_DUMP_METRICS) != 0)
		return 1;
	puts("ready");
	return read(0, block, 1) != 0;
}
END2
"$CC" -fno-builtin -I"$TOP" -o main main.c -L"$B" -lumem_malloc \
    -Wl,-rpath,"$B"
check=$TOP/tests/programs/inspect/openmetrics.py

# The checker itself refuses what is wrong.
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

# live FILE - the bytes that the program holds
live() {
	sed -n 's/^umem_live_bytes //p' "$1"
}
# The command does not know two families.
cp library without
grep -v 'umem_heap_bytes\|umem_dirty_bytes' library | diff - outside

# The command counts the pages of samples, and the library some by their size.
export UMEM_OPTIONS=sample=2000
start ./main
grep -vx ready told >library
"$umem" metrics "$pid" >outside
finish 0
for text in library outside; do
	python3 "$check" <$text >sizes || { cat $text; exit 1; }
	part=$(($(live $text) * 100 / $(live library)))
	if [ "$(live $text)" -le "$(live without)" ] ||
	    [ $part -lt 95 ] || [ $part -gt 105 ]; then
		echo "$text: $(live $text), library $(live library), without" \
		    "sampling $(live without)"
		exit 1
	fi
done
