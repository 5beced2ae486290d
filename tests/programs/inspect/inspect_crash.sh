#!/bin/bash
# umem crash explains a core: the signal, the address of the fault, the stacks
# of its allocation and its free, the stack, the registers and the library's
# report.
# test timeout: 120
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
build firewalled

# core_of SETTING PROGRAM ARG... - makes the file core
core_of() {
	rm -f core
	gdb -batch -nx -ex "handle ${passed:-SIGUSR1} nostop noprint" -ex "set environment LD_PRELOAD $SHIM" \
	    -ex "set environment $1" -ex "set startup-with-shell off" \
	    -ex run -ex "info symbol \$pc" -ex 'gcore core' --args "${@:2}" >told 2>gdb.err </dev/null
	if [ ! -f core ]; then
		echo "$2 does not crash:"
		tail told gdb.err
		exit 1
	fi
	if ! "$umem" crash core >said 2>err || [ -s err ]; then
		echo "umem crash fails:"
		cat said err
		exit 1
	fi
}

# says REGEX - a line of the last output matches
says() {
	if ! grep -Eq -e "$1" said; then
		echo "no '$1' in:"
		cat said
		exit 1
	fi
}

# address KEY - the address that the program printed after KEY
address() {
	sed -n "s/^$1 //p" told
}

# json PYTHON - prints an expression of j, the output of umem crash --json
json() {
	"$umem" crash --json core | python3 -c \
	    "import json, sys; j = json.load(sys.stdin); print($1)"
}

at() {
	printf '%x' $((16#$(address block) + 5))
}

core_of UMEM_DEBUG=default,firewall=1 "$TMP/firewalled" read
says "^$TMP/firewalled read, process [0-9]+$"
says "^signal 11 \\(Segmentation fault\\) in thread $(address thread) of [0-9]+, at address $(at)$"
says "^$(at) is $(address block)\\+0x5, bufctl [0-9a-f]+ freed from umem_alloc_112$"
says '^ {9}firewalled`give_back\+0x'
says '^    freed by thread [0-9]+, 0\.[0-9]+ s before the newest record:$'
says '^ {9}firewalled`make_block\+0x'
says "^Stack of thread $(address thread):$"
says '^    firewalled`main\+0x[0-9a-f]+ \(firewalled.c:[0-9]+\)$'
says '^    firewalled`_start\+0x'
# The offset of the first frame is that of the instruction itself.
offset=$(sed -n 's/^main + \([0-9]*\) in section .*/\1/p' told)
says "^    firewalled\`main\+0x$(printf %x "$offset") "
got=$(json "j['signal'], j['address'][2:], j['explanation'][0]['cache'],
    j['explanation'][0]['freed']['thread'], j['thread'],
    j['stack'][0]['name'].split('+')[0], len(j['registers']) > 8")
want="11 $(at) umem_alloc_112 $(address thread) $(address thread) firewalled\`main True"
[ "$got" = "$want" ] || { echo "$got instead of $want"; exit 1; }
says "^    [rx][a-z0-9]+ +$(address block) is $(address block)\\+0x0, bufctl"
if [ "$(wc -l <said)" -gt 60 ]; then
	echo "more than one screen:"
	cat said
	exit 1
fi

# The kernel writes a blank behind each argument, also the last.
cat >blank.py <<'END2'
core = bytearray(open("core", "rb").read())
# pr_psargs is at offset 56 of the data of NT_PRPSINFO, behind the owner.
at = core.index(bytes((5, 0, 0, 0, 136, 0, 0, 0, 3, 0, 0, 0)) + b"CORE") + 20 + 56
end = core.index(0, at)
core[end:end + 1] = b" "
open("core", "wb").write(core)
END2
python3 blank.py
"$umem" crash core >said
says "^$TMP/firewalled read, process [0-9]+$"

# The report of the library, and the stack from abort() on.
cat >twice.c <<'END2'
#include <stdlib.h>
__attribute__((noinline)) void
free_it(void *p)
{
	free(p);
	__asm__ volatile("");
}
int
main(void)
{
	void *p = malloc(100);

	free_it(p);
	free_it(p);
	return 0;
}
END2
"$CC" -O1 -g -fno-builtin -w -o twice twice.c
core_of UMEM_DEBUG=default ./twice
says '^signal 6 \(Aborted\) in thread [0-9]+ of [0-9]+$'
says '^    twice`free_it\+0x[0-9a-f]+ \(twice.c:5\)$'
says '^umem allocator: duplicate free: buffer freed twice$'
# The frames of the report come before those of the program.
grep -A 1 '^Stack of thread' said | grep -q '^    twice`free_it' || {
	echo "the stack begins in the library:"
	cat said
	exit 1
}
json "'\n'.join(j['messages'])" >said
says '^umem allocator: duplicate free: buffer freed twice$'
says '^umem crash CORE prints these stacks with lines of the source$'

# A file that is not a core of this library gets one message.
printf '%s\n' no core >text
for target in text $$; do
	if "$umem" crash "$target" >said 2>err || [ "$(wc -l <err)" != 1 ]; then
		echo "umem crash $target:"
		cat said err
		exit 1
	fi
done
LD_PRELOAD=$SHIM sleep 60 &
pid=$!
until grep -qs libumem_malloc /proc/$pid/maps; do
	sleep 0.05
done
"$umem" crash $pid >said 2>err
kill $pid
if ! grep -q 'is a process that runs; crash reads a core$' err; then
	echo "umem crash of a process:"
	cat said err
	exit 1
fi

# A core that gcore made of a process that runs lacks the pages of code.
cat >sleeps.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int
main(void)
{
	free(malloc(1));
	puts("ready");
	fflush(stdout);
	pause();
	__asm__ volatile("");
	return 0;
}
END2
"$CC" -O1 -g -o sleeps sleeps.c
LD_PRELOAD=$SHIM ./sleeps >told &
pid=$!
until grep -qs ready told; do
	sleep 0.05
done
gcore -o alive $pid >gdb.err 2>&1
kill $pid
"$umem" crash alive.$pid >said 2>err || { echo "gcore:"; cat err gdb.err; exit 1; }
says '^    libc(\.so\.6|-2\.[0-9]*\.so)`.*pause'
says '^    sleeps`main\+0x[0-9a-f]+ \(sleeps.c:10\)$'
if grep -q 'no code is there' said; then
	echo "the code of a library is called no code:"
	cat said
	exit 1
fi

# A call through a pointer to no code: the calling function is in the stack.
cat >stale.c <<'END2'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct handler {
	int (*fn)(struct handler *);
};
static __attribute__((noinline)) int
dispatch(struct handler *h)
{
	int n = h->fn(h);

	__asm__ volatile("" : "+r"(n));
	return n;
}
int
main(int argc, char **argv)
{
	struct handler *h = malloc(sizeof(*h));
	uintptr_t at = 0;

	if (strcmp(argv[1], "data") == 0)
		at = (uintptr_t)h;
	else if (strcmp(argv[1], "unmapped") == 0)
		at = 4096;
	memcpy(&h->fn, &at, sizeof(at));
	printf("fn %lx\n", at);
	fflush(stdout);
	return dispatch(h);
}
END2
"$CC" -O1 -g -fno-builtin -w -o stale stale.c
for where in null unmapped data; do
	core_of UMEM_OPTIONS=mode=rseq ./stale $where
	says "^    0x$(address fn) \\(called, but no code is there\\)$"
	says '^    stale`dispatch\+0x[0-9a-f]+ \(stale.c:11\)$'
	says '^    stale`main\+0x[0-9a-f]+ \(stale.c:29\)$'
done

# abort() in a signal handler: the stack goes on with the interrupted code.
cat >handles.c <<'END2'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
static void
handler(int number)
{
	abort();
}
static __attribute__((noinline)) void
store(int *to)
{
	char below[200];

	memset(below, 1, sizeof(below));
	__asm__ volatile("" ::"r"(below) : "memory");
	*to = 1;
	__asm__ volatile("");
}
int
main(void)
{
	signal(SIGSEGV, handler);
	store(NULL);
	__asm__ volatile("");
	return 0;
}
END2
"$CC" -O1 -g -fno-builtin -w -fomit-frame-pointer -o handles handles.c
passed=SIGSEGV core_of UMEM_OPTIONS=mode=rseq ./handles
says '^    handles`handler\+0x[0-9a-f]+ \(handles.c:7\)$'
says '^    handles`store\+0x[0-9a-f]+ \(handles.c:16\)$'
says '^    handles`main\+0x[0-9a-f]+ \(handles.c:23\)$'

# The address of a null pointer is called that.
core_of UMEM_OPTIONS=mode=rseq ./stale null
says '^signal 11 .*, at address 0$'
says '^0 is a null pointer$'

# The buffer of the last report has its stacks, whose times agree with the
# report.  The buffer that was overrun is blamed, not the one behind it.  A
# register that points to a freed block has the stacks of that block.
cat >harm.c <<'END2'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct node {
	long value;
	struct node *next;
};
static char *volatile p[64];
static __attribute__((noinline)) void
make_blocks(void)
{
	for (int i = 0; i < 64; i++)
		p[i] = malloc(100);
}
static __attribute__((noinline)) void
give(void *block)
{
	free(block);
	__asm__ volatile("");
}
static __attribute__((noinline)) long
read_next(struct node *node)
{
	long value = node->next->value;

	/* Until here, a register has the address. */
	__asm__ volatile("" ::"r"(node));
	return value;
}
static void
overrun(void)
{
	char *low = NULL, *next = NULL;

	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 64; j++)
			if (p[j] > p[i] &&
			    (low == NULL || p[j] - p[i] < next - low)) {
				low = p[i];
				next = p[j];
			}
	printf("low %lx\nnext %lx\n", (long)low, (long)next);
	fflush(stdout);
	memset(low, 1, 140);
	usleep(1200000);
	give(next);
}
int
main(int argc, char **argv)
{
	make_blocks();
	if (strcmp(argv[1], "overrun") == 0) {
		overrun();
		return 0;
	}
	give(p[0]);
	return (int)read_next((struct node *)p[0]);
}
END2
"$CC" -O1 -g -fno-builtin -w -o harm harm.c
core_of UMEM_DEBUG=default ./harm overrun
says '^umem allocator: redzone violation: write past end of buffer$'
says "^The buffer of the library's last report:$"
says "^$(address low) is $(address low)\\+0x0, bufctl [0-9a-f]+ allocated from"
says '^    allocated by thread [0-9]+, [1-9][0-9]*\.[0-9]+ s ago:$'
says '^ {9}harm`make_blocks\+0x[0-9a-f]+ \(harm.c:14\)$'
says '^    harm`give\+0x[0-9a-f]+ \(harm.c:19\)$'
got=$(json "j['reported'][0]['buffer'][2:], j['reported'][0]['allocated']['stack'][-1][:4]")
[ "${got% *}" = "$(address low)" ] || { echo "reported: $got"; exit 1; }
# The next buffer was being freed, but its record is still of the allocation.
"$umem" whatis core "$(address next)" >said
says '^    allocated by thread '
if grep -q 'freed by' said; then
	echo "an allocation is called a free:"
	cat said
	exit 1
fi
# Of a core without its end, the rest is used, with one warning.  The kernel
# writes the notes first, gdb writes them last.
cat >cut.py <<'END2'
import struct

core = open("core", "rb").read()
at, = struct.unpack_from("<Q", core, 32)
n, = struct.unpack_from("<H", core, 56)
heads = [list(struct.unpack_from("<IIQQQQQQ", core, at + 56 * i))
         for i in range(n)]
front = at + 56 * n
notes = b"".join(core[h[2]:h[2] + h[5]] for h in heads if h[0] == 4)
shift = front + len(notes) + 4095 & ~4095
for h in heads:
    h[2] = front if h[0] == 4 else h[2] + shift
with open("cut", "wb") as out:
    out.write(core[:at] + b"".join(struct.pack("<IIQQQQQQ", *h) for h in heads))
    out.write(notes)
    out.seek(shift)
    out.write(core)
    out.truncate(max(h[2] + h[5] for h in heads) - 8)
END2
python3 cut.py
"$umem" crash cut >said 2>err || { echo "a truncated core:"; cat err; exit 1; }
says "^$(address low) is $(address low)\\+0x0, bufctl [0-9a-f]+ allocated from"
says '^    harm`give\+0x[0-9a-f]+ \(harm.c:19\)$'
if [ "$(wc -l <err)" != 1 ] ||
    ! grep -q '^umem: cut: the core file is truncated' err; then
	echo "not one warning of a truncated core:"
	cat err
	exit 1
fi
# The notes and no memory.
python3 - <<'END2'
import struct

cut = open("cut", "rb").read()
n, = struct.unpack_from("<H", cut, 56)
at, = struct.unpack_from("<Q", cut, 32)
heads = [struct.unpack_from("<IIQQQQQQ", cut, at + 56 * i) for i in range(n)]
open("cut", "wb").write(cut[:min(h[2] for h in heads if h[0] == 1)])
END2
expect 2 'the part of the core that is there has no memory of umem' leaks cut
core_of UMEM_DEBUG=default ./harm stale
# On aarch64, the kernel tells the address.
says '^(signal 11 .*, at an unknown address: |deadbeefdeadbeef is )an impossible pointer value'
says '^    freed by thread '
says '^ {9}harm`give\+0x[0-9a-f]+ \(harm.c:19\)$'
says '^ {9}harm`make_blocks\+0x[0-9a-f]+ \(harm.c:14\)$'
