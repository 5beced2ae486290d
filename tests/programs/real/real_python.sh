#!/bin/bash
# test timeout: 300
# python3: some of its own tests pass on our malloc that pass without.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need python3
export PYTHONMALLOC=malloc
tests=${PYTHON_TESTS:-test_list test_dict test_thread test_array}
# Those that this python3 has.
# shellcheck disable=SC2086 # a list
tests=$(python3 - $tests <<'END'
import importlib.util, sys
print(*[t for t in sys.argv[1:] if importlib.util.find_spec("test." + t)])
END
) || tests=
[ -n "$tests" ] || {
	echo "python3 has no tests"
	exit 77
}
# Which tests failed; some do anywhere.
run() {
	# shellcheck disable=SC2086 # a list
	with "$1" python3 -m test -q $tests >out 2>&1
	[ $? -lt 128 ] || cat out
	sed -n '/^[0-9]* tests\{0,1\} failed:/,/^$/p' out
	grep -q '^Result: ' out
}
in_each run
