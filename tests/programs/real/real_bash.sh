#!/bin/bash
# bash: arrays, strings, subshells, pipes, traps.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need bash
cat >script <<'END'
declare -A seen
list=()
x=12345
for ((i = 0; i < 4000; i++)); do
	x=$(((x * 1103515245 + 12345) & 0x7fffffff))
	seen[$((x % 500))]+=$i,
	list+=("item $x")
done
for k in $(printf '%s\n' "${!seen[@]}" | sort -n); do echo "$k ${seen[$k]}"; done
printf '%s\n' "${list[@]/item/thing}" | sort -r | head -20
text=
for ((i = 0; i < 3000; i++)); do text+="word$i "; done
echo ${#text} "${text//word/w}" | cksum
for i in {1..40}; do (echo "$i $(echo $((i * i)))"); done
f() { local a=("$@"); [ $# -eq 0 ] || { shift; f "$@"; echo ${#a[@]}; }; }
f {1..60}
trap 'echo got it' USR1
kill -USR1 $$
cat <(echo one) <(echo two)
exit 0
END
run() { with "$1" bash ../script; }
in_each run
