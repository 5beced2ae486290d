#!/bin/bash
# A wrong word in the environment is reported by the first process that has it,
# and not by its children, which inherit the same text.
set -eu
wrong="umem: UMEM_OPTIONS: 'hardend' not recognized; did you mean 'hardened'?"

# tells N TEXT COMMAND... - the command writes the message N times
tells() {
	local want=$1 text=$2 got

	shift 2
	"$@" 2>said || { echo "$*: status $?"; cat said; exit 1; }
	got=$(grep -cFx "$wrong" said || true)
	if [ "$got" != "$want" ] || [ "$(wc -l <said)" != "$want" ]; then
		echo "$text: $got messages instead of $want in:"
		cat said
		exit 1
	fi
}

# Shells that start programs; the ":" keeps them from replacing themselves.
tree='cat /dev/null; sh -c "cat /dev/null; cat /dev/null; :"; :'
on_umem=(env "LD_PRELOAD=$SHIM")
tells 1 "a tree" "${on_umem[@]}" UMEM_OPTIONS=hardend sh -c "$tree"
tells 0 "a tree with quiet" \
    "${on_umem[@]}" UMEM_OPTIONS=hardend,quiet sh -c "$tree"

# The parent has the text, but runs on another malloc.
tells 1 "the first process on umem" \
    env UMEM_OPTIONS=hardend sh -c "LD_PRELOAD=$SHIM cat /dev/null; :"
# The parent runs on umem, but with another text.
tells 1 "another text" "${on_umem[@]}" UMEM_OPTIONS=hardend,quiet \
    sh -c 'UMEM_OPTIONS=hardend cat /dev/null; :'
# The texts differ in their end.
tells 1 "a longer text" "${on_umem[@]}" UMEM_OPTIONS=hardend,,quiet \
    sh -c 'UMEM_OPTIONS=hardend, cat /dev/null; :'
# Without /proc each process reports it.
if unshare -m true 2>/dev/null; then
	tells 2 "without /proc" unshare -m sh -c "mount -t tmpfs none /proc &&
	    LD_PRELOAD=$SHIM UMEM_OPTIONS=hardend sh -c 'cat /dev/null; :'"
fi
