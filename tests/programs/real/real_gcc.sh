#!/bin/bash
# The compiler, with everything it starts: the same object, byte for byte.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need gcc cksum
run() {
	local f

	for f in vmem/arena.c umem/slab/slab.c; do
		with "$1" gcc -O2 -g0 -c -std=gnu11 -D_GNU_SOURCE -I"$TOP" \
		    -o x.o "$TOP/$f" && cksum x.o || return
	done
	with "$1" gcc -x c -o no - <<<'int main(void) { return nothing; }'
	with "$1" gcc -x c -o hello - <<<'int main(void) { return 0; }' &&
		with "$1" ./hello
}
in_each run
