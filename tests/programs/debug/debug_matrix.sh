#!/bin/bash
# test timeout: 120
# Each misuse in each debugging mode, for each kind of block and many sizes:
# the first line of the report, the stack of the previous transaction, and the
# exit status of the program.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <malloc.h>

#include "tests/programs/check.h"

#define KEPT 300

static const char *kind;
static size_t size;
static umem_cache_t *cache, *other;

/* Named in reports. */
__attribute__((noinline)) char *
maker(void)
{
	void *p = NULL;

	if (strcmp(kind, "malloc") == 0)
		p = malloc(size);
	else if (strcmp(kind, "calloc") == 0)
		p = calloc(1, size);
	else if (strcmp(kind, "realloc") == 0)
		p = realloc(malloc(1), size);
	else if (strncmp(kind, "align", 5) == 0)
		p = memalign(strtoul(kind + 5, NULL, 10), size);
	else if (strcmp(kind, "umem") == 0)
		p = umem_alloc(size, UMEM_DEFAULT);
	else if (strcmp(kind, "zumem") == 0)
		p = umem_zalloc(size, UMEM_DEFAULT);
	else
		p = umem_cache_alloc(cache, UMEM_DEFAULT);
	check(p != NULL);
	return p;
}

__attribute__((noinline)) void
giver(char *p)
{
	if (strcmp(kind + (*kind == 'z'), "umem") == 0)
		umem_free(p, size);
	else if (strcmp(kind, "object") == 0)
		umem_cache_free(cache, p);
	else
		free(p);
	__asm__ volatile("" ::: "memory");
}

static char *volatile kept[KEPT];

__attribute__((noinline)) void
misuse(const char *what, char *p)
{
	if (strcmp(what, "twice") == 0) {
		giver(p);
		giver(p);
	} else if (strcmp(what, "past1") == 0) {
		p[size] ^= 1;
		giver(p);
	} else if (strcmp(what, "past8") == 0) {
		memset(p + size, 0, 8);
		giver(p);
	} else if (strcmp(what, "later") == 0) {
		giver(p);
		p[0] ^= 1;
		for (int i = 0; i < KEPT; i++)
			kept[i] = maker();
	} else if (strcmp(what, "inside") == 0) {
		giver(p + 8);
	} else if (strcmp(what, "size") == 0) {
		umem_free(p, size + 1);
	} else if (strcmp(what, "class") == 0) {
		umem_free(p, size * 4);
	} else if (strcmp(what, "cache") == 0) {
		umem_cache_free(other, p);
	} else if (strcmp(what, "free") == 0) {
		free(p);
	} else if (strcmp(what, "umem_free") == 0) {
		umem_free(p, size);
	} else if (strcmp(what, "stack") == 0) {
		giver((char *)&p + 8);
	} else if (strcmp(what, "object") == 0) {
		umem_cache_free(cache, p);
	} else if (strcmp(what, "resize") == 0) {
		free(p);
		p = realloc(p, size * 3);
		check(p == NULL && errno == EINVAL);
	} else if (strcmp(what, "resize_past") == 0) {
		p[size] ^= 1;
		p = realloc(p, size * 3);
		check(p != NULL);
	} else if (strcmp(what, "usable") == 0) {
		check(malloc_usable_size(p) == size);
		memset(p, 1, malloc_usable_size(p));
		giver(p);
	}
}

int
main(int argc, char **argv)
{
	check(argc == 4);
	kind = argv[2];
	size = strtoul(argv[3], NULL, 10);
	cache = umem_cache_create("objects", size, 0, NULL, NULL, NULL, NULL,
	    NULL, 0);
	other = umem_cache_create("others", size, 0, NULL, NULL, NULL, NULL,
	    NULL, 0);
	check(cache != NULL && other != NULL);
	misuse(argv[1], maker());
	fprintf(stderr, "went on\n");
	return 0;
}
END
"$CC" -g -D_GNU_SOURCE -O1 -fno-builtin -Wno-use-after-free -I"$TOP" \
    -o main main.c -pthread -L"$B" -lumem_malloc -Wl,-rpath,"$B"

nruns=0
# run MODE MISUSE KIND SIZE - standard error is in $said, the exit status in
# $status
run() {
	status=0
	# The redirection drops the shell's messages about signals.
	{ UMEM_DEBUG=$1 ./main "$2" "$3" "$4" 2>said; } 2>/dev/null ||
	    status=$?
	said=$(<said)
	what="$*"
	nruns=$((nruns + 1))
}
bad() {
	echo "UMEM_DEBUG=$what: $*"
	echo "status $status"
	echo "$said"
	exit 1
}
# reported TEXT [FUNCTION] - the first line must begin with TEXT; if the mode
# records transactions, the last one must be by FUNCTION
reported() {
	[[ $said == "umem allocator: "$1* ]] || bad "not reported: $1"
	[[ $said =~ .in" "[a-z_]+", process "[0-9]+", thread "[0-9]+" ("[a-z_]+")". ]] ||
		bad "no line of the program and its thread"
	case $mode in
	*noabort*)
		[[ $said == *$'\nwent on' && $status = 0 ]] ||
		    bad "did not go on"
		;;
	*)
		[[ $status = 134 ]] || bad "did not abort"
		[[ $said == *$'\numem: heap corruption detected\nstack trace:\n'*'`main+0x'* ]] ||
		    bad "no stack of the end"
		;;
	esac
	case $mode in
	*default* | *audit*)
		[ -z "${2:-}" ] ||
		    [[ $said =~ "previous transaction on buffer "[0-9a-f]+:.thread=[0-9]+"  time=T-"[0-9]+\.[0-9]{9}"  slab="[0-9a-f]+"  cache: "[a-z0-9_]+.main\`"$2"\+0x ]] ||
		    bad "not the last transaction, or not by $2"
		[ "${2:-}" != giver ] ||
		    [[ $said =~ "buffer was allocated by:".thread=[0-9]+"  time=T-"[0-9]+\.[0-9]{9}"  size="[0-9]+.main\`maker"+0x" ]] ||
		    bad "not allocated by maker"
		;;
	esac
}
fine() {
	[[ $status = 0 && $said == "went on" ]] || bad "not fine"
}
faulted() {
	[[ $status = 139 ]] || bad "no fault"
}

redzone="redzone violation: write past end of buffer"
modified=$'buffer modified after being freed\numem'
twice="duplicate free: buffer freed twice"
kinds="malloc calloc realloc align64 align4096 align131072 umem zumem object"

# later KIND SIZE - the report of the mode about a write to freed memory
later() {
	run "$mode" later "$1" "$2"
	case $mode$1$2 in
	audit*) fine ;;
	# Large blocks are unmapped; this alignment makes a block large.
	*align131072* | *9000000) faulted ;;
	*) reported "${modified%$'\n'*}" giver ;;
	esac
}

for mode in guards audit default guards,noabort default,noabort; do
	sizes="1 24 64 100 4096 5000 70000 9000000"
	for kind in $kinds; do
		# These differ from malloc() in nothing that depends on size.
		some=$sizes
		case $kind in
		calloc | align64 | align131072 | zumem) some="1 100" ;;
		esac
		for size in $some; do
			[ "$kind$size" != object9000000 ] || continue
			run $mode usable "$kind" "$size"
			[ "$kind" = object ] || fine
			run $mode twice "$kind" "$size"
			reported "$twice" giver
			run $mode past1 "$kind" "$size"
			reported "$redzone" maker
		done
		for size in 24 5000; do
			run $mode past8 "$kind" "$size"
			reported "$redzone" maker
			run $mode inside "$kind" "$size"
			reported "bad free: free address (0x" maker
			later "$kind" "$size"
		done
		[ "$kind" = object ] || later "$kind" 9000000
		run $mode stack "$kind" 100
		reported "invalid free: buffer not in cache"
	done
	for size in 60 300 ${sizes##* }; do
		run $mode size umem "$size"
		reported "bad free: free size ($((size + 1))) != alloc size ($size)" maker
		run $mode class umem "$size"
		reported "bad free: free size ($((size * 4))) != alloc size ($size)" maker
		run $mode free umem "$size"
		reported "free(0x" maker
		run $mode umem_free malloc "$size"
		reported "umem_free(0x" maker
		run $mode resize malloc "$size"
		reported "$twice" misuse
		run $mode resize_past malloc "$size"
		reported "$redzone" maker
	done
	run $mode cache object 100
	reported "buffer freed to wrong cache
buffer was allocated from objects,
caller attempting free to others." maker
	run $mode object malloc 100
	reported "buffer freed to wrong cache
buffer was allocated from umem_alloc_112," maker
	run $mode free object 100
	reported "invalid free: buffer not in cache"
done

# Behind a firewall, the kernel finds it.
for mode in firewall=1 firewall=1,audit firewall=1,noabort; do
	for kind in malloc realloc umem object; do
		for size in 16 64 4096 65536; do
			run $mode past1 "$kind" "$size"
			faulted
			run $mode later "$kind" "$size"
			faulted
			run $mode twice "$kind" "$size"
			reported "$twice" giver
			run $mode inside "$kind" "$size"
			reported "bad free: free address (0x" maker
		done
		run $mode past1 "$kind" 100
		reported "$redzone" maker
	done
done
# Smaller ones are in no firewall.
mode=firewall=4096,guards
run $mode past1 malloc 64
reported "$redzone"
run $mode past1 malloc 4096
faulted

# Only caches of these names.
mode="default:objects"
run "$mode" twice object 100
reported "$twice" giver
run "$mode" twice malloc 100
[[ $said == "umem: free(0x"*$'): block freed twice\n'* ]] || bad "another text"
mode="guards;audit:obj*,x;default:nosuch"
run "$mode" later malloc 100
reported "buffer modified after being freed"
run "$mode" past1 object 100
reported "$redzone"

# The fourth and fifth line of a report.
mode=default
run default past1 malloc 100
[[ $said =~ ^[^$'\n']*.[^$'\n']*.buffer=[0-9a-f]+"  bufctl="[0-9a-f]+"  cache: umem_alloc_112"$'\n' ]] ||
    bad "no line of the buffer"
run default later malloc 100
[[ $said == *$'\nmodification occurred at offset 0x0 (0xdeadbeefdeadbeef replaced by 0xdeadbeefdeadbeee)\n'* ]] ||
    bad "no line of the modification"
[ "$nruns" -gt 500 ] || bad "only $nruns runs"
