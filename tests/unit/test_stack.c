/* test_stack.c - stack traces: right, complete, and on any stack */
#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "tests/unit/child.h"
#include "tests/unit/machine.h"
#include "umem/debug/stack.h"
#include "umem/debug/symbol.h"
#include "vmem/os.h"
#include "vmem/syscall.h"

#define MOST 300

static uintptr_t pcs[MOST];
/*
 * Volatile, because the compiler takes raise() for a leaf function: it assumes
 * that raise() calls no function of this file.
 */
static volatile unsigned n;
static volatile bool in_signal;

static noinline void
trace(void)
{
	n = stack_trace(pcs, MOST);
	__asm__ volatile("" ::: "memory");
}

static noinline void
dive(int depth)
{
	char room[100 + 8 * (depth % 7)];

	__asm__ volatile("" : : "r"(room) : "memory");
	if (depth == 0)
		trace();
	else
		dive(depth - 1);
	__asm__ volatile("" : : "r"(room) : "memory");
}

static const char *
name_of(uintptr_t pc)
{
	static struct message m;

	m.n = 0;
	symbol_text(&m, pc);
	m.text[m.n] = '\0';
	return m.text;
}

static bool
is_in(uintptr_t pc, const char *f)
{
	char name[64];

	snprintf(name, sizeof(name), "unit`%s+0x", f);
	return strncmp(name_of(pc), name, strlen(name)) == 0;
}

/* Check the frames: trace(), then depth + 1 times dive(), then its callers. */
static void
check_dive(unsigned depth)
{
	ck_assert_uint_gt(n, depth + 1);
	ck_assert(is_in(pcs[0], "trace"));
	for (unsigned i = 1; i <= depth + 1; i++)
		ck_assert(is_in(pcs[i], "dive"));
	ck_assert(!is_in(pcs[depth + 2], "dive"));
}

START_TEST(each_frame_is_found_in_order)
{
	for (int depth = 0; depth < 100; depth += 1 + depth / 4) {
		dive(depth);
		check_dive((unsigned)depth);
	}
}
END_TEST

START_TEST(no_more_than_asked_for)
{
	for (unsigned most = 0; most < 10; most++) {
		uintptr_t some[11];

		memset(some, 0xee, sizeof(some));
		ck_assert_uint_le(stack_trace(some, most), most);
		ck_assert_uint_eq(some[most], 0xeeeeeeeeeeeeeeee);
	}
}
END_TEST

static void *
in_thread(void *arg)
{
	dive((int)(intptr_t)arg);
	return arg;
}

START_TEST(threads_have_stacks_of_their_own)
{
	pthread_t thread;

	for (intptr_t depth = 1; depth < 40; depth += 13) {
		ck_assert_int_eq(
		    pthread_create(&thread, NULL, in_thread, (void *)depth), 0);
		pthread_join(thread, NULL);
		check_dive((unsigned)depth);
	}
}
END_TEST

extern int find_object(void) __asm__("_dl_find_object") __attribute__((weak));

/* musl has no contexts. */
#pragma weak getcontext
#pragma weak makecontext
#pragma weak swapcontext

static ucontext_t here, there;

static void
in_context(void)
{
	dive(5);
}

/*
 * A trace is complete up to the end of a context's stack, and does not read the
 * inaccessible page behind it.
 */
START_TEST(stacks_of_contexts_end_where_they_end)
{
	size_t page = os_page_size();

	for (unsigned turn = 0; turn < 20; turn++) {
		size_t bytes = 32 * KIB;
		char *stack = mmap(NULL, bytes + 2 * page, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		mprotect(stack + page, bytes, PROT_READ | PROT_WRITE);
		getcontext(&there);
		there.uc_stack.ss_sp = stack + page;
		there.uc_stack.ss_size = bytes;
		there.uc_link = &here;
		makecontext(&there, in_context, 0);
		swapcontext(&here, &there);
		check_dive(5);
		ck_assert_uint_lt(n, 20);
		munmap(stack, bytes + 2 * page);
		dive(3);
		check_dive(3);
	}
}
END_TEST

/*
 * A function without unwind information.  It sets the frame pointer to its
 * first argument and calls its second argument.
 */
void call_with_pointer(uintptr_t frame_pointer, void (*f)(void));
#if defined(__x86_64__)
__asm__(".text\n"
	"call_with_pointer:\n\tpush %rbp\n\tmov %rdi, %rbp\n\tcall *%rsi\n"
	"\tpop %rbp\n\tret\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	"call_with_pointer:\n\tstp x29, x30, [sp, #-16]!\n\tmov x29, x0\n"
	"\tblr x1\n\tldp x29, x30, [sp], #16\n\tret\n");
#else
void
call_with_pointer(uintptr_t frame_pointer, void (*f)(void))
{
	(void)frame_pointer;
	f();
}
#endif

/* Calls its argument.  On aarch64 it signs the return address that it saves. */
void call_signed(void (*f)(void));
#if defined(__x86_64__)
__asm__(".text\n"
	"call_signed:\n\t.cfi_startproc\n"
	"\tsub $8, %rsp\n\t.cfi_def_cfa_offset 16\n\tcall *%rdi\n"
	"\tadd $8, %rsp\n\t.cfi_def_cfa_offset 8\n\tret\n"
	"\t.cfi_endproc\n");
#elif defined(__aarch64__)
/* hint 25 is paciasp, hint 29 is autiasp. */
__asm__(".text\n"
	"call_signed:\n\t.cfi_startproc\n"
	"\thint #25\n\t.cfi_negate_ra_state\n"
	"\tstr x30, [sp, #-16]!\n\t.cfi_def_cfa_offset 16\n"
	"\t.cfi_offset 30, -16\n\tblr x0\n"
	"\tldr x30, [sp], #16\n\t.cfi_restore 30\n"
	"\t.cfi_def_cfa_offset 0\n\thint #29\n\t.cfi_negate_ra_state\n"
	"\tret\n\t.cfi_endproc\n");
#else
void
call_signed(void (*f)(void))
{
	f();
}
#endif

static noinline void
trace_by_signed(size_t deeper)
{
	char room[deeper];

	__asm__ volatile("" : : "r"(room) : "memory");
	call_signed(trace);
	__asm__ volatile("" : : "r"(room) : "memory");
}

/*
 * The signature depends on the stack pointer, and some of its bits may be right
 * by chance.  So the test tries many stack pointers.
 */
START_TEST(a_return_address_is_had_without_its_signature)
{
	for (size_t deeper = 16; deeper < 1024; deeper += 16) {
		trace_by_signed(deeper);
		ck_assert_uint_gt(n, 3);
		ck_assert(is_in(pcs[0], "trace"));
		ck_assert(is_in(pcs[2], "trace_by_signed"));
	}
}
END_TEST

enum {
	HALF_PAGES = 4
};

static char *halves;

/*
 * The caller's frame is in the upper half of the stack, this function's own
 * frame in the lower half.
 */
static void
trace_across(void)
{
	char room[(HALF_PAGES + 1) * os_page_size()];

	__asm__ volatile("" : : "r"(room) : "memory");
	trace();
	__asm__ volatile("" : : "r"(room) : "memory");
}

static void
trace_with_stale_pointer(void)
{
	size_t half = HALF_PAGES * os_page_size();

	call_with_pointer((uintptr_t)halves + half + 256, trace);
}

static void
run_on(char *stack, size_t bytes, void (*f)(void))
{
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = bytes;
	there.uc_link = &here;
	makecontext(&there, f, 0);
	swapcontext(&here, &there);
}

/*
 * The frame pointer leads to memory that was part of a stack and is unmapped
 * now.
 */
START_TEST(memory_that_has_been_unmapped_since_is_not_read)
{
	size_t half = HALF_PAGES * os_page_size();

	halves = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(halves, MAP_FAILED);
	run_on(halves, 2 * half, trace_across);
	ck_assert_uint_gt(n, 1);
	ck_assert_int_eq(mprotect(halves + half, half, PROT_NONE), 0);
	run_on(halves, half, trace_with_stale_pointer);
	ck_assert_uint_gt(n, 0);
	munmap(halves, 2 * half);
}
END_TEST

/*
 * A fiber runs on both halves of this memory, then the upper half is unmapped,
 * and a fiber on the lower half has a frame pointer into the upper half.
 */
static void
trace_on_fiber_that_shrinks(char *memory)
{
	size_t half = HALF_PAGES * os_page_size();

	halves = memory;
	run_on(memory, 2 * half, trace_across);
	ck_assert_uint_gt(n, 1);
	ck_assert_int_eq(mprotect(memory + half, half, PROT_NONE), 0);
	run_on(memory, half, trace_with_stale_pointer);
	ck_assert_uint_gt(n, 0);
}

static void *
trace_below_own_stack(void *memory)
{
	trace_on_fiber_that_shrinks(memory);
	return NULL;
}

/* The fiber's memory adjoins the stack of its thread, without a guard page. */
START_TEST(a_fiber_below_the_stack_of_its_thread_is_not_part_of_it)
{
	size_t bytes = 2 * MIB, fiber = 2 * HALF_PAGES * os_page_size();
	char *memory = mmap(NULL, fiber + bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	ck_assert_ptr_ne(memory, MAP_FAILED);
	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, memory + fiber, bytes);
	ck_assert_int_eq(
	    pthread_create(&thread, &attributes, trace_below_own_stack, memory),
	    0);
	pthread_join(thread, NULL);
}
END_TEST

static void
on_signal(int signal)
{
	(void)signal;
	in_signal = stack_in_signal();
	trace();
	__asm__ volatile("" ::: "memory");
}

static noinline void
raise_it(void)
{
	/* musl's raise() has no unwind table. */
	if (find_object)
		raise(SIGUSR1);
	else
		syscall6(
		    SYS_tgkill, getpid(), stack_thread(), SIGUSR1, 0, 0, 0);
	__asm__ volatile("" ::: "memory");
}

START_TEST(a_handler_and_what_it_interrupted_are_seen)
{
	stack_t alternative = {.ss_sp = malloc(64 * KIB), .ss_size = 64 * KIB};
	struct sigaction action = {.sa_handler = on_signal};

	ck_assert(!stack_in_signal());
	for (int turn = 0; turn < 2; turn++) {
		unsigned i;

		action.sa_flags = turn == 0 ? 0 : SA_ONSTACK;
		ck_assert_int_eq(sigaltstack(&alternative, NULL), 0);
		sigaction(SIGUSR1, &action, NULL);
		in_signal = false;
		raise_it();
		ck_assert(in_signal);
		ck_assert(is_in(pcs[1], "on_signal"));
		/*
		 * The trace may stop at the alternative stack, because the
		 * interrupted stack is far away.
		 */
		for (i = 2; i < n && !is_in(pcs[i], "raise_it"); i++)
			;
		ck_assert(turn == 1 || i < n);
		ck_assert(!stack_in_signal());
	}
	free(alternative.ss_sp);
}
END_TEST

START_TEST(frames_that_lie_are_survived)
{
	uintptr_t stack[64];

	/* The saved frame pointers lead to arbitrary addresses. */
	for (unsigned i = 0; i < 64; i++)
		stack[i] = (uintptr_t)stack + 0x1000000 * i;
	__asm__ volatile("" : : "r"(stack) : "memory");
	trace();
	ck_assert_uint_gt(n, 1);
}
END_TEST

START_TEST(the_thread_is_the_kernels)
{
	int status;
	pid_t child;

	ck_assert_uint_eq(stack_thread(), os_thread_id());
	ck_assert_uint_eq(stack_thread(), os_thread_id());
	child = fork();
	if (child == 0)
		_exit(stack_thread() == os_thread_id() ? 0 : 1);
	waitpid(child, &status, 0);
	ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(addresses_have_names)
{
	dive(1);
	ck_assert_ptr_nonnull(strstr(name_of(pcs[0]), "unit`trace+0x"));
	ck_assert_ptr_nonnull(strstr(name_of(pcs[1]), "unit`dive+0x"));
	/* Other libcs do not tell where a library is. */
	if (find_object)
		ck_assert_ptr_nonnull(strstr(
		    name_of((uintptr_t)getenv + 4), "libc.so.6`getenv+0x4"));
	ck_assert_str_eq(name_of(0x1234), "0x1234");
	ck_assert_str_eq(name_of(0), "0x0");
}
END_TEST

Suite *
stack_suite(void)
{
	Suite *suite = suite_create("stack");
	TCase *tc = tcase_create("stack");

	tcase_set_timeout(tc, 60);
	suite_add_tcase(suite, tc);
	tcase_add_test(tc, the_thread_is_the_kernels);
	if (!machine_has_stacks())
		return suite;
	tcase_add_test(tc, each_frame_is_found_in_order);
	tcase_add_test(tc, no_more_than_asked_for);
	tcase_add_test(tc, threads_have_stacks_of_their_own);
	tcase_add_test(tc, a_return_address_is_had_without_its_signature);
	if (swapcontext) {
		tcase_add_test(tc, stacks_of_contexts_end_where_they_end);
		tcase_add_test(
		    tc, memory_that_has_been_unmapped_since_is_not_read);
		tcase_add_test(tc,
		    a_fiber_below_the_stack_of_its_thread_is_not_part_of_it);
	}
	tcase_add_test(tc, a_handler_and_what_it_interrupted_are_seen);
	tcase_add_test(tc, frames_that_lie_are_survived);
	tcase_add_test(tc, addresses_have_names);
	return suite;
}
