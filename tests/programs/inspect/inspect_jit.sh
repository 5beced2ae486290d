#!/bin/bash
# Code that is generated at run time: the call site is the program's function,
# and without names one line says how to get them.
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"
cat >main.c <<'END2'
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A call of its first argument with the second, with a frame pointer. */
#if defined(__x86_64__)
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
    0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
#else
static const uint32_t code[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e8, 0xaa0103e0,
    0xd63f0100, 0xa8c17bfd, 0xd65f03c0};
#endif

static char *made;

typedef void call_t(void *function, void *argument);

static __attribute__((noinline)) void
runtime_make(void *bytes)
{
	memset(malloc((size_t)bytes), 1, (size_t)bytes);
	__asm__ volatile("");
}

static char *inner, *outer;

/* The outer function calls the inner one, which calls the runtime. */
static __attribute__((noinline)) void
runtime_call(void *bytes)
{
	((call_t *)inner)(runtime_make, bytes);
	__asm__ volatile("");
}

static void
call(int i, int j, size_t bytes)
{
	outer = made + 256 * i;
	inner = made + 256 * j;
	((call_t *)outer)(runtime_call, (void *)bytes);
}

/* Finds the gap between the first two segments of a library. */
static int
find_gap(struct dl_phdr_info *info, size_t bytes, void *found)
{
	uintptr_t at = 0;

	for (int i = 0; strstr(info->dlpi_name, GAP) && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];

		if (h->p_type != PT_LOAD)
			continue;
		if (at != 0 && h->p_vaddr >= at + 8192) {
			*(uintptr_t *)found = info->dlpi_addr + at;
			return 1;
		}
		at = (h->p_vaddr + h->p_memsz + getpagesize() - 1) & -getpagesize();
	}
	return 0;
}

int
main(int argc, char **argv)
{
	char c, path[64], line[256], *gap = NULL;
	FILE *list = argc > 1 ? fopen(argv[1], "r") : NULL, *map = NULL;
	int i, library = open("runtime/" LIBRARY, O_RDONLY);

	mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, library, 0);
	if (dl_iterate_phdr(find_gap, &gap) != (strcmp(GAP, "none") != 0))
		return 1;
	made = mmap(gap, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS | (gap != NULL ? MAP_FIXED : 0), -1, 0);
	for (i = 0; i < 18; i++)
		memcpy(made + 256 * i, code, sizeof(code));
	__builtin___clear_cache(made, made + 8192);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	if (list != NULL)
		map = fopen(path, "w");
	for (i = 0; map != NULL && fgets(line, sizeof(line), list); i++)
		fprintf(map, "%lx 100 %s", (long)made + 256 * i, line);
	if (map != NULL)
		fclose(map);
	for (i = 0; i < 9; i++)
		call(2 * i, 2 * i + 1, 10000 + 1000 * i);
	write(1, "ready\n", 6);
	read(0, &c, 1);
	if (map != NULL)
		remove(path);
	return 0;
}
END2
# build_one NAME LIBRARY [GAP] - a program that maps a file with the name of a
# library, and generates its code in the gap of the library GAP
build_one() {
	mkdir -p runtime
	: >"runtime/$2"
	"$CC" -O1 -w -fno-builtin -fno-omit-frame-pointer -D_GNU_SOURCE \
	    -DLIBRARY="\"$2\"" -DGAP="\"${3:-none}\"" -o "$1" main.c \
	    ${3:+-Wl,--no-as-needed "./$3"} || exit 1
}
build_one main none
# Pairs: a caller, and the function that it calls.
cat >names <<'END2'
JS:~work /srv/app.js:1:77
JS:^makeRow /srv/app.js:2:29
JS:*work /srv/app.js:1:77
JS:*makeRow /srv/app.js:2:29
JS:~handle /srv/app.js:9:1
JS:^alloc node:buffer:391:30
void Rows.work()
void Rows.makeRow(int, java.util.List)
void Rows.makeTable(int)
long jdk.internal.misc.Unsafe.allocateMemory(long)
py::work:/srv/app.py
py::make_row:/srv/app.py
py::work:/srv/app.py
py::_find_and_load:<frozen importlib._bootstrap>
Interpreter
StubRoutines (1)
JIT$sellShoes
JIT$$exit_handler
END2
export UMEM_DEBUG=audit
start ./main names
# The two versions of makeRow are one row.
expect 0 '^ +20\.5K +[0-9]+% +2 .*  makeRow /srv/app\.js:2:29 < .*work /srv/app\.js:1:77' users "$pid"
expect 0 '  handle /srv/app\.js:9:1( <|$)' users "$pid"
expect 0 '  void Rows\.makeRow\(int, java\.util\.List\) < .*void Rows\.work' users "$pid"
expect 0 '  void Rows\.makeTable\(int\)( <|$)' users "$pid"
expect 0 '  make_row:/srv/app\.py < .*work:/srv/app\.py' users "$pid"
expect 0 '  work:/srv/app\.py( <|$)' users "$pid"
expect 0 '  sellShoes( <|$)' users "$pid"
# Without a function of the program, the place is that of other programs.
expect 0 '  main`runtime_make\+0x' users "$pid"
if grep -q '^Function names' said; then
	echo "advice in vain:"
	cat said
	exit 1
fi
finish 0

# Code in the gap between two segments of a library is not the library's.
echo 'int value = 1;' >gap.c
"$CC" -shared -fPIC -Wl,-z,max-page-size=0x40000,-z,separate-code -o gap.so gap.c
build_one gapped none gap.so
start ./gapped names
expect 0 '  void Rows\.makeTable\(int\)( <|$)' users "$pid"
! grep 'gap\.so' said || exit 1
finish 0

# advice PROGRAM LIBRARY REGEX - without names
advice() {
	build_one "$1" "$2"
	start "./$1"
	expect 0 "^Function names: ${3//PID/$pid}\$" users "$pid"
	if [ "$(grep -c '^Function names' said)" != 1 ] ||
	    awk '/^Function/ && length > 80' said | grep .; then
		cat said
		exit 1
	fi
	finish 0
}
advice node none 'start node --perf-basic-prof --interpreted-frames-native-stack'
advice java libjvm.so 'jcmd PID Compiler\.perfmap, .*'
advice script libpython3.12.so.1.0 'start python3 -X perf'
advice php opcache.so 'start php -d opcache\.jit_debug=0x10'
advice old libpython3.11.so.1.0 '.*/tmp/perf-PID\.map'
advice other libm.so '.*/tmp/perf-PID\.map'

# A program that generates no code needs no names.
start sh -c 'echo ready; read -r _ || :'
expect 0 . users "$pid"
! grep '^Function names' said || exit 1
finish 0

# The call site of a block that an extension of an interpreter has allocated is
# in the extension.  A block of the interpreter alone has its function.
cat >extension.c <<'END2'
void interp_new(long);

__attribute__((noinline)) void
extension_make(long bytes)
{
	interp_new(bytes);
	__asm__ volatile("");
}
END2
cat >python.c <<'END2'
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void extension_make(long);

__attribute__((noinline)) void
interp_new(long bytes)
{
	memset(malloc((size_t)bytes), 1, (size_t)bytes);
	__asm__ volatile("");
}

__attribute__((noinline)) void
interp_eval(void (*function)(long), long argument)
{
	function(argument);
	__asm__ volatile("");
}

int
main(void)
{
	char c;

	interp_eval(extension_make, 30000);
	interp_eval(interp_new, 20000);
	write(1, "ready\n", 6);
	read(0, &c, 1);
	return 0;
}
END2
"$CC" -O1 -w -shared -fPIC -fno-builtin -fno-omit-frame-pointer \
    -o extension.so extension.c
# build_interpreter NAME
build_interpreter() {
	"$CC" -O1 -w -fno-builtin -fno-omit-frame-pointer -rdynamic -o "$1" \
	    python.c ./extension.so || exit 1
}
for name in python3.11 php-fpm8.2 ruby3.1 perl; do
	build_interpreter $name
	start ./$name
	expect 0 '^ +29\.2K .*  extension\.so`extension_make\+0x[0-9a-f]+ via interp_new$' \
	    users "$pid"
	expect 0 "^ +19\\.5K .*  $name\`interp_new\\+0x" users "$pid"
	[ $name = perl ] || finish 0
done
# Of a program with another name, both blocks have the function that is called,
# unless a file names it.
echo 'extension_*' >mine
expect 0 '^ +48\.8K .*  perl`interp_new\+0x.* < extension_make' \
    users --frames=mine "$pid"
expect 2 '^umem: nosuch: No such file' users --frames=nosuch "$pid"
finish 0
build_interpreter shop
start ./shop
expect 0 '^ +48\.8K .*  shop`interp_new\+0x.* < extension_make < interp_eval' \
    users "$pid"
printf '%s\n' '# mine' '[allocators]' 'INTERP_*' >mine
expect 0 '^ +29\.2K .*  extension\.so`extension_make\+0x.* via interp_new < interp_eval < main$' \
    users --frames=mine "$pid"
expect 0 '^ +19\.5K .*  shop`main\+0x.* via interp_eval' users --frames=mine "$pid"
finish 0

# A function with the name of the series for the rest has no series of its own.
for i in 0 1 2 3 4 5 6 7; do
	printf 'outer\nf%d\n' $i
done >rest
printf 'outer\nother\n' >>rest
start env -u UMEM_DEBUG UMEM_OPTIONS=sample=1 ./main rest
"$umem" metrics --sites=2 "$pid" >text
grep '^umem_site_live_blocks{' text | sed 's/ .*//' >series
printf 'umem_site_live_blocks{site="%s"}\n' other f7 | diff - series ||
    { grep site text; exit 1; }
# The list of a process is closed before the next process is read: with few
# files, all processes have their names.
(
	ulimit -n 32
	names=()
	for i in {1..40}; do
		names+=("$pid")
	done
	"$umem" metrics --sites=2 "${names[@]}" >text
)
n=$(grep -c '^umem_site_live_blocks{.*site="f7"' text)
if [ "$n" != 40 ]; then
	echo "$n of 40 processes have the names of their functions"
	exit 1
fi
finish 0
