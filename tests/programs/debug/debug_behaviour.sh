#!/bin/bash
# test timeout: 120
# Behaviour of a debugged program without misuse: failures on purpose,
# constructors, callbacks, handlers, fork, options of its own.
set -eu
unset UMEM_DEBUG UMEM_LOGGING UMEM_OPTIONS
cat >main.c <<'END'
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>

#include "tests/programs/check.h"

static const char *what;
static jmp_buf away;
static char *held;
static int nasked;

static bool
is(const char *name)
{
	return strcmp(what, name) == 0;
}

static char *
corrupted(void)
{
	char *p = malloc(100);

	check(p != NULL);
	p[100] ^= 1;
	return p;
}

/* Gets its chance, allocates, and returns. */
static void
on_abort(int signal)
{
	(void)signal;
	check(write(2, "handler\n", 8) == 8);
	free(malloc(10));
}

/* Gets its chance, and goes on in main(). */
static void
jump_away(int signal)
{
	(void)signal;
	siglongjmp(away, 1);
}

static void
allocate(int signal)
{
	(void)signal;
	if (is("signal_resize"))
		held = realloc(held, 99);
	else
		free(malloc(10));
}

/* The tag of a large block, before its guard page, as that of another one. */
static void
copied_tag(void)
{
	size_t size = 100000, span = 131072 - (size_t)sysconf(_SC_PAGESIZE);
	char *p = malloc(size), *q = malloc(size);

	memset(p, 1, size);
	memcpy(q + span - 64, p + span - 64, 64);
	free(q);
	check(p[0] == 1);
}

static int
callback(void)
{
	if (is("nofail_retry"))
		return nasked++ < 2 ? UMEM_CALLBACK_RETRY
				    : UMEM_CALLBACK_EXIT(9);
	if (is("nofail_jump"))
		longjmp(away, 1);
	return is("nofail_exit3") ? UMEM_CALLBACK_EXIT(3)
				  : is("nofail_7") ? 7 : -1;
}

static void
nofail(void)
{
	umem_nofail_callback(is("nofail_null") ? NULL : callback);
	if (setjmp(away) == 0)
		umem_alloc((size_t)1 << 60, UMEM_NOFAIL);
	check(is("nofail_jump"));
}

/* Constructed and destructed at each turn, in this state. */
struct object {
	int state;
	char rest[100];
};

static int nmade, nended, nrefuse;

static int
construct(void *p, void *priv, int flags)
{
	struct object *object = p;

	check(priv == &nmade && flags == UMEM_DEFAULT);
	if (nrefuse > 0) {
		nrefuse--;
		return 1;
	}
	object->state = 42;
	nmade++;
	return 0;
}

static void
destruct(void *p, void *priv)
{
	struct object *object = p;

	check(priv == &nmade && object->state == 42);
	nended++;
}

static void
constructs(void)
{
	umem_cache_t *cache = umem_cache_create("constructed",
	    sizeof(struct object), 0, construct, destruct, NULL, &nmade, NULL,
	    0);
	struct object *object[100];
	bool each = is("constructs_each");

	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < 100; i++) {
			object[i] = umem_cache_alloc(cache, UMEM_DEFAULT);
			check(object[i] != NULL && object[i]->state == 42);
		}
		for (int i = 0; i < 100; i++)
			umem_cache_free(cache, object[i]);
		check(!each || (nmade == 100 * (turn + 1) && nended == nmade));
	}
	check(each || (nmade >= 100 && nmade < 500 && nended <= nmade - 100));
	/* Refused: no object, and no fault of the next. */
	umem_cache_reap_now(cache);
	nrefuse = 3;
	for (int i = 0; i < 3; i++)
		check(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL &&
		      errno == ENOMEM);
	object[0] = umem_cache_alloc(cache, UMEM_NOFAIL);
	check(object[0]->state == 42);
	umem_cache_free(cache, object[0]);
	umem_cache_destroy(cache);
	check(nmade == nended);
}

static void
mtbf(void)
{
	umem_cache_t *cache = umem_cache_create("objects", 50, 0, NULL, NULL,
	    NULL, NULL, NULL, 0);

	for (int i = 0; i < 100; i++) {
		void *p;

		errno = 0;
		check(umem_alloc(100, UMEM_DEFAULT) == NULL);
		check(errno == ENOMEM || errno == EAGAIN);
		check(umem_zalloc(100, UMEM_DEFAULT) == NULL);
		check(umem_cache_alloc(cache, UMEM_DEFAULT) == NULL);
		check((p = umem_alloc(100, UMEM_NOFAIL)) != NULL);
		umem_free(p, 100);
		check((p = umem_cache_alloc(cache, UMEM_NOFAIL)) != NULL);
		umem_cache_free(cache, p);
	}
}

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 3000, 20000);
	return NULL;
}

static void
fork_under_load(void)
{
	pthread_t thread[3];

	for (uintptr_t i = 0; i < 3; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			churn(i + 10, 100, 20000);
			_exit(0);
		}
		child_end(pid);
	}
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
}

static void *
free_it(void *p)
{
	free(p);
	return NULL;
}

/* Of two threads that free one block, one is told. */
static void
race(void)
{
	for (int i = 0; i < 100; i++) {
		void *p = malloc(100);
		pthread_t a = thread_start(free_it, p);
		pthread_t b = thread_start(free_it, p);

		thread_end(a);
		thread_end(b);
	}
}

static void
not_empty(void)
{
	umem_cache_t *cache = umem_cache_create("leaky", 50, 0, NULL, NULL,
	    NULL, NULL, NULL, 0);

	check(umem_cache_alloc(cache, UMEM_DEFAULT) != NULL);
	umem_cache_destroy(cache);
}

/* A size that grows and shrinks; contents stay. */
static void
resizes(void)
{
	static const size_t sizes[] = {1, 8, 15, 16, 17, 100, 112, 90, 4096,
	    4000, 70000, 10000000, 9000000, 30, 20000000, 20000001, 5};
	char *p = malloc(1);
	size_t n = 1;

	*p = 3;
	for (unsigned turn = 0; turn < 10; turn++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			size_t least = n < sizes[i] ? n : sizes[i];

			p = realloc(p, sizes[i]);
			check(p != NULL && malloc_usable_size(p) >= sizes[i]);
			for (size_t j = 0; j < least; j += 1 + least / 64)
				check(p[j] == 3);
			memset(p, 3, n = sizes[i]);
		}
	free(p);
}

/* 100 frames deep, so that a report is longer than a message may be. */
static void __attribute__((noinline))
a_function_with_quite_a_long_name_that_calls_itself_many_times(int n)
{
	if (n == 0)
		free(corrupted());
	else
		a_function_with_quite_a_long_name_that_calls_itself_many_times(
		    n - 1);
	__asm__ volatile("" ::: "memory");
}

int
main(int argc, char **argv)
{
	check(argc == 2);
	what = argv[1];
	if (is("handler") || is("handler_jumps")) {
		signal(SIGABRT, is("handler") ? on_abort : jump_away);
		if (sigsetjmp(away, 1) == 0)
			free(corrupted());
		check(is("handler_jumps"));
		churn(1, 1000, 1000);
	} else if (is("copied_tag")) {
		copied_tag();
	} else if (strncmp(what, "signal", 6) == 0) {
		held = malloc(100);
		signal(SIGUSR1, allocate);
		raise(SIGUSR1);
	} else if (strncmp(what, "nofail", 6) == 0) {
		nofail();
	} else if (strncmp(what, "constructs", 10) == 0) {
		constructs();
	} else if (is("mtbf")) {
		mtbf();
	} else if (is("fork")) {
		fork_under_load();
	} else if (is("race")) {
		race();
	} else if (is("not_empty")) {
		not_empty();
	} else if (is("resizes")) {
		resizes();
	} else if (is("deep")) {
		a_function_with_quite_a_long_name_that_calls_itself_many_times(
		    100);
	} else if (is("null")) {
		check(malloc((size_t)1 << 60) == NULL && errno == ENOMEM);
	} else if (is("past")) {
		free(corrupted());
	}
	return 0;
}
END
cat >init.c <<'END'
#include <stdlib.h>

const char *_umem_debug_init(void);
const char *_umem_logging_init(void);

const char *
_umem_debug_init(void)
{
	return malloc(1000) != NULL ? "guards,audit=3,thirteen" : NULL;
}

const char *
_umem_logging_init(void)
{
	return "transaction,fourteen";
}
END
flags=(-g -D_GNU_SOURCE -O1 -fno-builtin -Wno-alloc-size-larger-than -I"$TOP")
libs=(-pthread -L"$B" -lumem_malloc "-Wl,-rpath,$B")
"$CC" "${flags[@]}" -o main main.c "${libs[@]}"
"$CC" "${flags[@]}" -rdynamic -o own main.c init.c "${libs[@]}"

# run STATUS DEBUG STEP [PROGRAM] - runs one step of the program, which must
# exit with STATUS; its standard error is in $said
run() {
	local status=0

	context="UMEM_DEBUG=$2 ${4:-./main} $3"
	if [ "$2" = - ]; then
		{ "${4:-./main}" "$3" 2>said; } 2>/dev/null || status=$?
	else
		{ UMEM_DEBUG=$2 "${4:-./main}" "$3" 2>said; } 2>/dev/null ||
		    status=$?
	fi
	said=$(tr '\0' '?' <said)
	[ "$status" = "$1" ] || bad "status $status instead of $1"
}
bad() {
	echo "$context: $*"
	cat said
	exit 1
}
says() {
	[[ $said == *"$1"* ]] || bad "does not say: $1"
}
silent() {
	[ -z "$said" ] || bad "says something"
}
# in_use - the report of not_empty; with audit it has the stack, too
in_use() {
	local stack=

	case $mode in
	audit | default) stack='
umem: allocated by thread [0-9]+, [0-9]\.[0-9] s ago:
umem:     main`' ;;
	esac
	[[ $said =~ ^"umem: umem_cache_destroy: 'leaky' (0x"[0-9a-f]+") not empty
umem: 1 object in use:
umem:     0x"[0-9a-f]+$stack ]] || bad "says something else"
}
redzone="umem allocator: redzone violation: write past end of buffer"

for mode in guards audit default firewall=4096 guards,noabort; do
	for how in exit3:3 7:255 null:255 retry:9 jump:0; do
		run "${how#*:}" $mode "nofail_${how%:*}"
	done
	case $mode in
	audit) run 0 $mode constructs ;;
	firewall*) run 0 firewall=1 constructs_each ;;
	*) run 0 $mode constructs_each ;;
	esac
	silent
	run 0 $mode,mtbf=1 mtbf
	silent
	run 0 $mode fork
	silent
	run 0 $mode resizes
	silent
	run 0 $mode not_empty
	in_use
	run 0 $mode null
	silent
done
run 134 checknull null
says "umem: allocation: no memory for 1152921504606846976 bytes"
run 0 - null

for mode in guards default; do
	run 134 $mode race
	says "umem allocator: duplicate free: buffer freed twice"
done
run 0 guards,noabort race
[ "$(grep -c 'duplicate free' said)" = 100 ] || bad "not 100 times"

# A handler of SIGABRT has one chance.
run 134 guards handler
says "$redzone"
[ "$(grep -c '^handler$' said)" = 1 ] || bad "the handler ran more than once"
run 0 guards handler_jumps
says "$redzone"

run 134 default copied_tag
says "umem allocator: boundary tag corrupted"
for how in signal signal_resize; do
	run 134 nosignal $how
	says "umem allocator: allocation in a signal handler"
done
says 'main`allocate+0x'
run 0 default signal
run 134 nosignal past
says "$redzone"

# A message has 4096 bytes at most, and none is lost without a sign.
run 134 audit=200 deep
says "$redzone"
says "
..."
[ "$(wc -c <said)" -le 8192 ] || bad "too long"

# The number of frames, and unknown words.
run 134 audit=2,fifteen,guards=3,firewall,maxverify=x,,mtbf=99999999999999999999 past
says "umem: UMEM_DEBUG: 'fifteen' not recognized"
says "umem: UMEM_DEBUG: guards: does not take a value. ignored"
says "umem: UMEM_DEBUG: firewall: Required value missing"
says "umem: UMEM_DEBUG: maxverify: not a number"
says "umem: UMEM_DEBUG: empty option"
says "umem: UMEM_DEBUG: mtbf: overflowed"
says "$redzone"
frames=$(sed -n '/^thread=/,/^umem: /p' said | sed '1d;$d; s/+.*//')
[ "$frames" = 'main`corrupted
main`main' ] || bad "not these two frames"
UMEM_LOGGING=transaction,nosuch,contents=1k,fail=x,slab run 0 default resizes
says "umem: UMEM_LOGGING: 'nosuch' not recognized"
says "umem: UMEM_LOGGING: fail: not a number"

# The program's own choice counts if the variable is not set.
run 134 - past ./own
says "umem: UMEM_DEBUG: 'thirteen' not recognized"
says "umem: UMEM_LOGGING: 'fourteen' not recognized"
says "$redzone"
run 0 "" past ./own
[[ $said != *thirteen* ]] || bad "asked the program"
run 0 - past
silent
