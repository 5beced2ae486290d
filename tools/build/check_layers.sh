#!/bin/sh
# check_layers.sh - the rules about which file may do what, checked by text
#
# Run in the tree's root; prints each breach as FILE: TEXT, and exits 1 if
# there was one.  Comments and strings are taken out first.
set -eu

breaches=$(mktemp)
bare=$(mktemp -d)
trap 'rm -rf "$breaches" "$bare"' EXIT

breach() {
	sed "s|^|$1:|; s|\$|: $2|" >>"$breaches"
}

# code FILE - its text without comments, and with strings emptied except in
# include lines; made once
code() {
	if [ ! -f "$bare/$1" ]; then
		mkdir -p "$bare/$(dirname "$1")"
		perl -0pe 's{/\*.*?\*/}{my $c = $&; $c =~ s/[^\n]//g; $c}gse;
		    s{^(?!\s*\#\s*include)(.*)$}{
			my $l = $1; $l =~ s/"(\\.|[^"\\])*"/""/g;
			$l =~ s{//.*}{}; $l}gme' "$1" >"$bare/$1"
	fi
	cat "$bare/$1"
}

# only PATTERN TEXT FILE... - no file of the library but these may match
only() {
	pattern=$1
	what=$2
	shift 2
	for file in $library; do
		case " $* " in
		*" $file "*) continue ;;
		esac
		code "$file" | grep -nE "$pattern" | cut -d: -f1 |
		    breach "$file" "$what" || true
	done
}

library=$(find vmem magazine umem -name '*.[ch]' | sort)
everything=$(find vmem magazine umem tests tools -name '*.[ch]' | sort)

# An include names its folder; check_symbols.py finds calls upwards in the
# library.  The public headers are for every folder.
# Besides the public headers, the command has the formats that the library
# shares: the description, by which it learns all else at run time, and the sum
# of a waiting buffer; the parsers of numbers and words; and the names of the
# metrics.
shared='vmem/description|umem/described|umem/debug/wait_sum|umem/base/number|umem/word|umem/stats/metrics'
for file in $everything; do
	case $file in
	vmem/* | magazine/* | umem/*) may='vmem|magazine|umem(/[a-z]+)?' ;;
	tools/inspect/base/*) may="$shared|tools/inspect/base" ;;
	tools/inspect/target/*) may="$shared|tools/inspect/(base|target)" ;;
	tools/inspect/symbols/*)
		may="$shared|tools/inspect/(base|target|symbols)" ;;
	tools/inspect/model/*)
		may="$shared|tools/inspect/(base|target|symbols|model)" ;;
	tools/inspect/sites/*)
		may="$shared|tools/inspect/(base|target|symbols|model|sites)" ;;
	tools/inspect/report/*)
		may="$shared|tools/inspect/(base|target|symbols|model|sites|report)" ;;
	tools/*) may="$shared|tools/inspect/[a-z]+" ;;
	tests/programs/inspect/*) may='tools/inspect/[a-z]+|tests/programs' ;;
	tests/fuzz/*) may='tools/inspect/[a-z]+|umem(/[a-z]+)?|vmem|tests/[a-z]+' ;;
	*) may='vmem(/sys)?|magazine|umem(/[a-z]+)?|tests(/[a-z]+)*' ;;
	esac
	# Programs of the tests may use headers as installed.
	code "$file" | grep -nE '^[ 	]*#[ 	]*include[ 	]*"' |
	    grep -vE "\"(($may)(/[^/\"]*|\.h)|umem/umem(_rcu)?\.h|vmem/vmem\.h)\"" |
	    cut -d: -f1 | breach "$file" "includes upwards, or without naming the folder" ||
	    true
done
for file in $library; do
	code "$file" | grep -nE '^[ 	]*#[ 	]*include.*\.c[">]' |
	    cut -d: -f1 | breach "$file" "includes a .c file" || true
done

# The installed headers stand alone.
for file in umem/umem.h vmem/vmem.h; do
	code "$file" | grep -nE '^[ 	]*#[ 	]*include[ 	]*"' | cut -d: -f1 |
	    breach "$file" "an installed header includes one of the tree" ||
	    true
done

# One file makes the system calls; waiting on a futex is behind os.h too.
memory='mmap|mmap64|munmap|mremap|madvise|mprotect|brk|sbrk|mincore|mlock'
only "(^|[^_[:alnum:]])($memory|membarrier|syscall)[[:space:]]*\\(" \
    'only vmem/os.c asks the kernel' vmem/os.c vmem/syscall_generic.h
# umem/malloc/thread.c defines the name.
only '(^|[^_[:alnum:]])prctl[[:space:]]*\(' \
    'only vmem/os.c asks the kernel' vmem/os.c umem/malloc/thread.c
only 'SYS_[a-z]|__NR_|syscall6[[:space:]]*\(' \
    'only vmem/os.c asks the kernel' \
    vmem/os.c vmem/syscall_x86_64.h vmem/syscall_aarch64.h \
    vmem/syscall_generic.h

# Two files define names of the C library; malloc_stats_print() is jemalloc's.
names='malloc|calloc|realloc|free|cfree|memalign|aligned_alloc|posix_memalign'
names="$names|valloc|pvalloc|reallocarray|malloc_[a-z_]+|mallopt|mallinfo2?"
names="$names|free_sized|free_aligned_sized|__libc_[a-z]+"
only "^(public[[:space:]].*[ *])?($names)[[:space:]]*\\(" \
    'only malloc.c and mallinfo.c define names of the C library' \
    umem/malloc/malloc.c umem/stats/mallinfo.c umem/mallctl.c
# And nothing may call them: the library runs on its own memory.  Only functions
# of a program with an allocator of its own are made of that (replaced.h).
only "(^|[^_.>[:alnum:]])(malloc|calloc|realloc|strdup|asprintf)[[:space:]]*\\(" \
    'calls malloc' umem/malloc/malloc.c umem/malloc/allocx.c \
    umem/malloc/operators.c

# One file reads the environment, and one includes urcu.
only '(^|[^_[:alnum:]])(secure_)?getenv|environ([^_[:alnum:]]|$)' \
    'only umem/options.c reads the environment' umem/options.c
only '#[[:space:]]*include[[:space:]]*<urcu' 'only umem/rcu/rcu.c uses urcu' \
    umem/rcu/rcu.c

# Nothing that may allocate, lock or look up names behind our back.  (A new
# that fails, thread.c and dlopen.c look for the next library's.)
only '(^|[^_[:alnum:]])(f|s|sn|vs|vsn|d|vf)?printf[[:space:]]*\(|fopen|fputs' \
    'uses stdio'
only '(^|[^_[:alnum:]])(dlsym|dlopen|backtrace)[[:space:]]*\(' \
    'looks up names or stacks through libraries' umem/malloc/operators.c \
    umem/malloc/thread.c umem/malloc/dlopen.c umem/malloc/dlopen.h

# An architecture is a file, and one header chooses it.  A function or flag that
# only some libcs have is asked for by its own name, not by that of the libc.
only '__(x86_64|aarch64|riscv|powerpc64|s390x|loongarch64)__' \
    'only vmem/arch.h knows architectures' vmem/arch.h
only '__GLIBC|__musl|gnu_get_libc_version' \
    'tests for a libc instead of a function or flag'

if [ -s "$breaches" ]; then
	sort -u "$breaches" >&2
	exit 1
fi
