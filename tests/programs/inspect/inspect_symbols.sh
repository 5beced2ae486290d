#!/bin/bash
# Function names come from the file that the process has mapped: in another
# mount namespace, after the file was replaced, and for code that the program
# made at run time.  For a stripped program umem prints addresses in the file.
# A core's files are those with its build IDs, also below --sysroot.  Without
# root, a deleted program has names, and another file at its path gives none.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

cat >main.c <<'END'
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static __attribute__((noinline)) void
FUNCTION(void)
{
	memset(malloc(3000), 1, 3000);
	__asm__ volatile("");
}

/* A call of its argument, with a frame pointer. */
#if defined(__x86_64__)
static const unsigned char code[] = {
    0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#else
static const uint32_t code[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0000,
    0xa8c17bfd, 0xd65f03c0};
#endif

static __attribute__((noinline)) void
from_made(void)
{
	memset(malloc(7000), 1, 7000);
	__asm__ volatile("");
}

int
main(void)
{
	char c, path[64];
	void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;

	memcpy(made, code, sizeof(code));
	__builtin___clear_cache((char *)made, (char *)made + 4096);
	FUNCTION();
	((void (*)(void (*)(void)))made)(from_made);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	/* The program has used the memory twice.  The last line counts. */
	fprintf(map, "%lx 100 made before\n", (long)made);
	fprintf(map, "%lx 100 made one\n", (long)made);
	fprintf(map, "%lx 100 made elsewhere\n", (long)made + 256);
	fclose(map);
	write(1, "ready\n", 6);
	read(0, &c, 1);
	return remove(path) != 0;
}
END
# build_one NAME FUNCTION OPTION...
build_one() {
	"$CC" -O1 -w -fno-builtin -fno-omit-frame-pointer -D_GNU_SOURCE \
	    -DFUNCTION="$2" -o "$1" main.c "${@:3}" || exit 1
}

# says REGEX - does umem leaks -d of $pid?
says() {
	"$umem" leaks -d "$pid" >said 2>&1
	if ! grep -Eq "$1" said; then
		echo "no $1 in"
		cat said
		exit 1
	fi
}

fail() {
	echo "$*; said:"
	cat said
	exit 1
}

export UMEM_DEBUG=audit
build_one true_one true_function
build_one false_one false_function
start ./true_one
says '^ +true_one`true_function\+0x'
says '^ +\[JIT\]`made one\+0x(6|c)$'

# Another file takes the place of the one that is mapped.
mv false_one true_one
says '^ +true_one \(deleted\)`true_function\+0x'
if grep -q false_function said; then
	echo "names of another file:"
	cat said
	exit 1
fi
finish 0

# Of a list without end the last lines count, however long a line is.  The
# limits are those of a command that does not read the whole list.
start ./true_one
map=/tmp/perf-$pid.map
made=$(sed -n 's/ .* made one$//p' "$map")
truncate -s 8G "$map"
printf '\n%s\n%s 100\n%s 100 made %s\n' ffff "$made" "$made" \
    "$(printf 'late%.0s' {1..1000})" >>"$map"
for ((i = 0; i < 100; i++)); do
	printf '%s 100\n1 1 %s\n%s\n' "$made" "$i" "$made"
done >>"$map"
(
	ulimit -v 4000000
	timeout $((60 * TEST_TIME_FACTOR)) "$umem" leaks -d "$pid" >said 2>&1
	[ $? -eq 1 ] || fail "a list without end: not read"
) || exit 1
grep -Eq '^ +\[JIT\]`made (late){200}' said || fail "the last line does not count"
# The last million lines, at most, are kept.
{
	echo "$made 100 made too early"
	yes '1 1 other' | head -n 600000
	echo "$made 100 made in time"
	yes '1 1 other' | head -n 500000
} >"$map"
says '^ +\[JIT\]`made in time\+0x'
# The part of a line at which the last 64 MiB begin is no line.
printf 'x %s 100 made of a part\n' "$made" >"$map"
truncate -s $((64 * 1024 * 1024 + 2)) "$map"
says '^9\.7K leaked in 2 blocks'
if grep -q 'made of a part' said; then
	fail "a part of a line counts"
fi
finish 0

build_one stripped hidden -g0
address=$(nm stripped | sed -n 's/^0*\([0-9a-f]*\) t hidden$/\1/p')
strip stripped
start ./stripped
says '^ +stripped\+0x[0-9a-f]+$'
if ! sed -n 's/^ *stripped+0x\([0-9a-f]*\)$/\1/p' said | {
	while read -r offset; do
		from=$((0x$offset - 0x$address))
		[ $from -gt 0 ] && [ $from -lt 60 ] && exit 0
	done
	exit 1
}; then
	echo "no address is in hidden, which is at $address:"
	cat said
	exit 1
fi
finish 0

# Without build ID, nothing shows that NAME.debug belongs to NAME.
build_one nameless true_function -Wl,--build-id=none
strip nameless
build_one nameless.debug false_function
start ./nameless
says '^ +nameless\+0x[0-9a-f]+$'
if grep -q false_function said; then
	fail "names of another file"
fi
finish 0

# The files of a core have the build IDs that are in the core.
build_one program true_function
start ./program
gcore -o core "$pid" >/dev/null 2>&1
finish 0
core=core.$pid
"$umem" leaks -d "$core" >said 2>&1
names='^ +program`true_function\+0x'
grep -Eq "$names" said || fail "no $names"
mkdir -p "root$TMP"
mv program "root$TMP"
"$umem" leaks -d "$core" >said 2>&1
grep -q "^umem: $TMP/program: No such file .*; --sysroot=DIR searches" said ||
    fail "no warning of an absent file"
build_one program false_function
"$umem" leaks -d "$core" >said 2>&1
grep -Eq '^ +program\+0x' said || fail "no addresses"
grep -q "^umem: $TMP/program: not the file that the program had" said ||
    fail "no warning"
"$umem" leaks -d --sysroot=root "$core" >said 2>&1
grep -Eq "$names" said || fail "no $names with --sysroot"
if "$umem" leaks --sysroot=root $$ >said 2>&1 ||
    ! grep -q 'sysroot is for a core' said; then
	fail "--sysroot of a process"
fi

# Only root may open /proc/PID/map_files.
nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
chmod 755 "$TMP"
# shellcheck disable=SC2086 # a command and its options
if [ "$(id -u)" = 0 ] && $nobody test -r "$SHIM" -a -x "$umem" -a -r . &&
    [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 0 ]
then
	root_umem=$umem
	printf '#!/bin/sh\nexec %s "$@"\n' "$nobody $umem" >umem_of_nobody
	chmod +x umem_of_nobody
	umem=./umem_of_nobody
	# A linker computes one build ID for files that differ in a name only.
	# Without build ID, only the inode tells such files apart.
	for id in sha1 none; do
		true=true_function
		[ $id = sha1 ] || true=true_functions
		build_one true_one $true -Wl,--build-id=$id
		build_one false_one false_function -Wl,--build-id=$id
		# shellcheck disable=SC2086
		start $nobody ./true_one
		says '^ +true_one`'$true'\+0x'
		rm true_one
		says '^ +true_one \(deleted\)`'$true'\+0x'
		mv false_one true_one
		says '^ +true_one \(deleted\)`'$true'\+0x'
		! grep -q false_function said || fail "names of another file"
		finish 0
	done
	umem=$root_umem
fi

# In another mount namespace the path leads to another file.
if ! unshare -m true 2>/dev/null; then
	exit 0
fi
mkdir inner
build_one inner/program true_function
build_one program false_function
cat >enter.sh <<'END'
mount --bind "$1/inner" "$2" && cd "$2" && exec ./program
END
mkdir place
build_one place/program false_function
start unshare -m bash enter.sh "$TMP" "$TMP/place"
says '^ +program`true_function\+0x'
finish 0

# A function without a name that an allocator has called is part of it, and the
# call site is the caller of the allocator; so is that of a copy of a tree.
cat >stripped.c <<'END'
#include <stdlib.h>
#include <unistd.h>

static void *volatile lost;

__attribute__((noinline)) static void *
chunk_new(size_t bytes)
{
	char *chunk = malloc(bytes + 16);

	return chunk + 16;
}

__attribute__((noinline)) char *
pool_alloc(size_t bytes)
{
	char *object = chunk_new(bytes);

	*object = 1;
	return object;
}

__attribute__((noinline)) static char *
copy_node(int depth)
{
	char *copyObjectImpl(int depth), *node = pool_alloc(500);

	return depth == 0 ? node : copyObjectImpl(depth - 1) - 1;
}

__attribute__((noinline)) char *
copyObjectImpl(int depth)
{
	return copy_node(depth) + 1;
}

__attribute__((noinline)) static int
nameless(void)
{
	lost = pool_alloc(3000);
	return lost != NULL;
}

__attribute__((noinline)) int
serve(int n)
{
	while (n-- > 0) {
		lost = pool_alloc(200);
		lost = copyObjectImpl(2);
	}
	return lost != NULL;
}

int
main(void)
{
	char c;

	if (serve(100) == 0 || nameless() == 0)
		return 1;
	lost = NULL;
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CC" -O1 -w -fno-builtin -fno-optimize-sibling-calls -rdynamic -s \
    -o stripped stripped.c || exit 1
start env UMEM_DEBUG=audit ./stripped
"$umem" leaks "$pid" | sed -n 's/^ .* \(stripped.*\)/\1/p' |
    sed 's/+0x[0-9a-f]*//' | sort >said
cat >want <<'END'
stripped via pool_alloc < main
stripped`serve via copyObjectImpl < main; 2 more stacks
stripped`serve via pool_alloc < main
END
diff want said || exit 1
finish 0
