#!/bin/bash
# git: a repository with a history, packed, checked and compared.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need git
export HOME=$TMP GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
for who in AUTHOR COMMITTER; do
	export "GIT_${who}_NAME=A B" "GIT_${who}_EMAIL=a@b.c" \
	    "GIT_${who}_DATE=2020-01-01T00:00:00Z"
done
run() {
	local i git=(with "$1" git -c gc.auto=0)

	"${git[@]}" init -q -b main . || return
	for i in 1 2 3; do
		mkdir -p "d$i"
		for f in "$TOP"/*/*.[ch]; do
			sed "${i}d" "$f" >"d$i/$(basename "$f")"
		done
		"${git[@]}" add . && "${git[@]}" commit -q -m "step $i" ||
			return
	done
	"${git[@]}" checkout -q -b side HEAD~1 && echo x >new &&
		"${git[@]}" add new && "${git[@]}" commit -q -m side &&
		"${git[@]}" merge -q -m merged main &&
		"${git[@]}" repack -q -a -d -f --threads=4 || return
	"${git[@]}" fsck --full --strict --no-progress
	"${git[@]}" log --stat --format='%H %s' --numstat | cksum
	"${git[@]}" diff HEAD~2 | cksum
	"${git[@]}" grep -n -i 'lock' HEAD | cksum
	"${git[@]}" blame -s d3/arena.c | cksum
	"${git[@]}" ls-tree -r HEAD | cksum
}
in_each run
