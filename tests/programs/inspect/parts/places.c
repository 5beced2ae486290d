/*
 * places.c - a program that holds each of some blocks in one place alone
 *
 *	places [mapped] LIBRARY		that is places_library.c
 *
 * Prints as planted.c does, with the place behind "kept ADDRESS", then waits
 * until its standard input ends.  The blocks come from a thread that ends, and
 * until they are in their places their addresses are kept as differences.
 * Each address is moved to its place by a few instructions that leave no copy,
 * so that a search that leaves out one kind of place misses a block.
 * With "mapped" the main thread ends up on a stack of its own making, below
 * which there is another.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MASK  0x5a5a5a5a5a5a5a5aull
#define KIB64 65536

/* Where; the blocks of the main thread, then those of other threads. */
#define PLACES(X)                                                              \
	X(REGISTER, " a register")                                             \
	X(VECTOR, " a vector register")                                        \
	X(RED_ZONE, " below the stack pointer")                                \
	X(STACK, " the stack")                                                 \
	X(TLS, " thread-local data")                                           \
	X(LIBRARY_TLS, " thread-local data of a library")                      \
	X(KEY, " pthread_setspecific()")                                       \
	X(KEY_HIGH, " pthread_setspecific(), a late key")                      \
	X(OTHER_REGISTER, " a thread's register")                              \
	X(OTHER_VECTOR, " a thread's vector register")                         \
	X(OTHER_RED_ZONE, " below a thread's stack pointer")                   \
	X(OTHER_STACK, " a thread's stack")                                    \
	X(OTHER_TLS, " a thread's thread-local data")                          \
	X(OTHER_LIBRARY_TLS, " a thread's data of a library")                  \
	X(OTHER_KEY, " pthread_setspecific() in a thread")                     \
	X(OTHER_KEY_HIGH, " pthread_setspecific() in a thread, a late key")    \
	X(DATA, " data")                                                       \
	X(ZEROS, " bss")                                                       \
	X(LIBRARY_DATA, " data of a library")                                  \
	X(LIBRARY_ZEROS, " bss of a library")                                  \
	X(INTERIOR, " data, by its middle")                                    \
	X(INTERIOR_LARGE, " data, by its middle, a large one")                 \
	X(MAPPED, " private memory")                                           \
	X(MAPPED_SHARED, " shared memory")                                     \
	X(MAPPED_MEMFD, " a file in memory")                                   \
	X(MAPPED_FILE, " a private file")                                      \
	X(MAPPED_SEALED, " memory that was made read-only")                    \
	X(BREAK, " memory by sbrk()")                                          \
	X(SIGNAL_STACK, " a signal stack, mapped")                             \
	X(SIGNAL_HEAP, " a signal stack in the heap")                          \
	X(SIGNAL_FRAME, " a register that a signal has saved")                 \
	X(CONTEXT, " the stack of a context, in the heap")                     \
	X(CONTEXT_ON, " the stack of a context that runs")                     \
	X(EPOLL, " the kernel: epoll")                                         \
	X(TIMER, " the kernel: a timer")                                       \
	X(RESULT, " the result of a thread that has ended")

enum place {
#define PLACE_ENUM(id, name) id,
	PLACES(PLACE_ENUM) NPLACES
};

static const char *const place_name[] = {
#define PLACE_NAME(id, name) name,
    PLACES(PLACE_NAME)};

static uint64_t hidden[NPLACES];
static uint64_t lost[4];
static __thread void *volatile own;
static void *volatile data = &data;
static void *volatile zeros;
static void *volatile inside[2];
static pthread_key_t key[40];
static void *volatile *(*library_place)(int which);
static pthread_barrier_t ready;
static char *stacks; /* two for contexts of the main thread, one mapping */

#if defined(__x86_64__)
/* One that shows itself in *where alone. */
#define SHOW(where, from)                                                      \
	__asm__ volatile("mov %[h], %%rax\n\txor %[m], %%rax\n\t"              \
			 "mov %%rax, %[w]\n\txor %%eax, %%eax"                 \
			 : [w] "=m"(*(where))                                  \
			 : [h] "m"(from), [m] "r"(MASK)                        \
			 : "rax", "cc")

/* h[0] to h[2] in registers and below the stack; pause() or read() for ever. */
static void
hold(const uint64_t *h, long call)
{
	char c;

	__asm__ volatile(
	    "mov (%[h]), %%r15\n\txor %[m], %%r15\n\t"
	    "mov 8(%[h]), %%rax\n\txor %[m], %%rax\n\tmovq %%rax, %%xmm15\n\t"
	    "mov 16(%[h]), %%rax\n\txor %[m], %%rax\n\t"
	    "mov %%rax, -104(%%rsp)\n"
	    "1:\tmov %[n], %%rax\n\tsyscall\n\t"
	    "test %[n], %[n]\n\tjnz 1b\n\tcmp $1, %%rax\n\tje 1b\n\t"
	    "movq $0, -104(%%rsp)"
	    :
	    : [h] "r"(h), [m] "r"(MASK), [n] "r"(call ? 34l : 0l), "D"(0l),
	    "S"(&c), "d"(1l)
	    : "rax", "rcx", "r11", "r15", "xmm15", "memory", "cc");
}

/* Into a register, then a signal. */
static void
trap(const uint64_t *h)
{
	__asm__ volatile(
	    "mov (%[h]), %%r15\n\txor %[m], %%r15\n\tud2" ::[h] "r"(h),
	    [m] "r"(MASK)
	    : "r15", "memory", "cc");
}
#elif defined(__aarch64__)
#define SHOW(where, from)                                                      \
	__asm__ volatile("ldr x9, %[h]\n\teor x9, x9, %[m]\n\t"                \
			 "str x9, %[w]\n\tmov x9, xzr"                         \
			 : [w] "=m"(*(where))                                  \
			 : [h] "m"(from), [m] "r"(MASK)                        \
			 : "x9")

static void
hold(const uint64_t *h, long call)
{
	char c;

	__asm__ volatile(
	    "ldr x19, [%[h]]\n\teor x19, x19, %[m]\n\t"
	    "ldr x9, [%[h], 8]\n\teor x9, x9, %[m]\n\tfmov d15, x9\n\t"
	    "ldr x20, [%[h], 16]\n\teor x20, x20, %[m]\n\tmov x9, xzr\n"
	    "1:\tmov x0, xzr\n\tmov x1, %[c]\n\tmov x2, 1\n\tmov x8, 63\n\t"
	    "cbz %[n], 2f\n\tmov x1, xzr\n\tmov x2, xzr\n\tmov x3, xzr\n\t"
	    "mov x4, xzr\n\tmov x8, 73\n"
	    "2:\tsvc 0\n\tcbnz %[n], 1b\n\tcmp x0, 1\n\tb.eq 1b"
	    :
	    : [h] "r"(h), [m] "r"(MASK), [n] "r"(call), [c] "r"(&c)
	    : "x0", "x1", "x2", "x3", "x4", "x8", "x9", "x19", "x20", "v15",
	    "memory", "cc");
}

static void
trap(const uint64_t *h)
{
	__asm__ volatile(
	    "ldr x19, [%[h]]\n\teor x19, x19, %[m]\n\tudf 0" ::[h] "r"(h),
	    [m] "r"(MASK)
	    : "x19", "memory");
}
#endif

enum {
	READ,
	PAUSE
};

/* The frame of the signal has the registers of the interrupted code. */
static void
forget_registers(void)
{
#if defined(__x86_64__)
	__asm__ volatile("xor %%r15d, %%r15d\n\tpxor %%xmm15, %%xmm15" ::
			     : "r15", "xmm15", "cc");
#else
	__asm__ volatile("mov x19, xzr\n\tmov x20, xzr\n\tfmov d15, xzr" ::
			     : "x19", "x20", "v15");
#endif
}

static void
tell(const char *what, const void *p, const char *place)
{
	char line[128];
	int n =
	    snprintf(line, sizeof(line), "%s %lx%s\n", what, (long)p, place);

	if (write(1, line, (size_t)n) != n)
		_exit(9);
}

static uint64_t
hide(size_t bytes, const char *what, const char *place)
{
	void *p = malloc(bytes);

	memset(p, 0x5a, bytes);
	tell(what, p, place);
	return (uint64_t)p ^ MASK;
}

static void *
planter(void *arg)
{
	for (int i = 0; i < NPLACES; i++)
		hidden[i] = hide(i == INTERIOR_LARGE ? 12u << 20 : 100u + i,
		    "kept", place_name[i]);
	for (int i = 0; i < 4; i++)
		lost[i] = hide(5000, "leak", "");
	return arg;
}

static void
show_key(int i, uint64_t *from)
{
	void *volatile p;

	SHOW(&p, *from);
	pthread_setspecific(key[i], p);
	p = NULL;
}

/* In the thread that calls; first is its REGISTER or so. */
__attribute__((noinline)) static void
show_own(int first)
{
	SHOW(&own, hidden[first + TLS]);
	void *volatile *place = library_place(0);
	SHOW(place, hidden[first + LIBRARY_TLS]);
	show_key(3, &hidden[first + KEY]);
	show_key(39, &hidden[first + KEY_HIGH]);
}

/* Overwrites the stack below, which has data of earlier calls. */
__attribute__((noinline)) static void
sweep(void)
{
	volatile char below[KIB64];

	for (int i = 0; i < KIB64; i++)
		below[i] = 0;
}

/* Leaves a leak's address far below where the stack will end. */
__attribute__((noinline)) static void
leave(uint64_t *from)
{
	void *volatile deep[2048];

	SHOW(&deep[10], *from);
}

static void *
other(void *arg)
{
	void *volatile on_stack;

	SHOW(&on_stack, hidden[OTHER_STACK]);
	show_own(OTHER_REGISTER);
	sweep();
	leave(&lost[1]);
	pthread_barrier_wait(&ready);
	hold(&hidden[OTHER_REGISTER], PAUSE);
	(void)on_stack;
	return arg;
}

/* Ends with addresses in its stack, its own data and its result. */
static void *
ender(void *from)
{
	void *volatile p;

	leave(&lost[2]);
	if (from == &lost[3])
		SHOW(&own, lost[3]);
	SHOW(&p, *(uint64_t *)from);
	return p;
}

static void
handler(int signal)
{
	void *volatile p;

	SHOW(&p, hidden[signal == SIGILL ? SIGNAL_STACK : SIGNAL_HEAP]);
	pthread_barrier_wait(&ready);
	forget_registers();
	for (;;)
		pause();
}

static void *
handling(void *heap)
{
	stack_t stack = {.ss_size = KIB64};

	stack.ss_sp = heap ? malloc(KIB64)
			   : mmap(NULL, KIB64, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&stack, NULL);
	memset(&stack, 0, sizeof(stack));
	if (heap)
		raise(SIGUSR2);
	else
		trap(&hidden[SIGNAL_FRAME]);
	return NULL;
}

static ucontext_t waiting, waited, running, run_from;

static void
context_waits(void)
{
	void *volatile p;

	SHOW(&p, hidden[CONTEXT]);
	swapcontext(&waiting, &waited);
	(void)p;
}

static void
context_runs(void)
{
	void *volatile p;

	SHOW(&p, hidden[CONTEXT_ON]);
	memset(&running, 0, sizeof(running));
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	(void)p;
}

static void
start_context(
    ucontext_t *context, ucontext_t *back, void (*f)(void), void *stack)
{
	getcontext(context);
	context->uc_stack.ss_sp = stack ? stack : malloc(KIB64);
	context->uc_stack.ss_size = KIB64;
	makecontext(context, f, 0);
	swapcontext(back, context);
}

static void *
on_context(void *arg)
{
	start_context(&running, &run_from, context_runs, NULL);
	return arg;
}

static void
context_reads(void)
{
	hold(&hidden[REGISTER], READ);
	_exit(0);
}

static void
show_data(void)
{
	void *volatile *place = library_place(1);

	SHOW(&data, hidden[DATA]);
	SHOW(&zeros, hidden[ZEROS]);
	SHOW(place, hidden[LIBRARY_DATA]);
	place = library_place(2);
	SHOW(place, hidden[LIBRARY_ZEROS]);
	hidden[INTERIOR] = ((hidden[INTERIOR] ^ MASK) + 50) ^ MASK;
	hidden[INTERIOR_LARGE] =
	    ((hidden[INTERIOR_LARGE] ^ MASK) + (5u << 20)) ^ MASK;
	SHOW(&inside[0], hidden[INTERIOR]);
	SHOW(&inside[1], hidden[INTERIOR_LARGE]);
}

static void
show_mapped(enum place which, int flags, int fd)
{
	void *volatile *p =
	    mmap(NULL, KIB64, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED || (fd >= 0 && ftruncate(fd, KIB64) != 0))
		_exit(8);
	SHOW(&p[5000], hidden[which]);
	if (which == MAPPED_SEALED)
		mprotect((void *)p, KIB64, PROT_READ);
}

static void
show_memory(void)
{
	void *volatile *p;
	FILE *file = tmpfile();

	show_mapped(MAPPED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	show_mapped(MAPPED_SEALED, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	show_mapped(MAPPED_SHARED, MAP_SHARED | MAP_ANONYMOUS, -1);
	show_mapped(MAPPED_MEMFD, MAP_SHARED, memfd_create("places", 0));
	show_mapped(MAPPED_FILE, MAP_PRIVATE, dup(fileno(file)));
	fclose(file);
	p = sbrk(KIB64);
	SHOW(&p[100], hidden[BREAK]);
}

static void
show_kernel(void)
{
	struct {
		int pad;
		struct epoll_event event; /* its data is at a multiple of 8 */
	} to = {0, {.events = EPOLLIN}};
	struct sigevent event = {
	    .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	int fd = epoll_create1(0);
	timer_t timer;

	SHOW(&to.event.data.ptr, hidden[EPOLL]);
	epoll_ctl(fd, EPOLL_CTL_ADD, 0, &to.event);
	SHOW(&event.sigev_value.sival_ptr, hidden[TIMER]);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	memset(&to, 0, sizeof(to));
	memset(&event, 0, sizeof(event));
	__asm__ volatile("" ::"r"(&to), "r"(&event) : "memory");
}

static void
show_threads(void)
{
	pthread_t thread;

	pthread_barrier_init(&ready, NULL, 5);
	pthread_create(&thread, NULL, other, NULL);
	pthread_create(&thread, NULL, handling, NULL);
	pthread_create(&thread, NULL, handling, "heap");
	pthread_create(&thread, NULL, on_context, NULL);
	pthread_barrier_wait(&ready);
	pthread_create(&thread, NULL, ender, &hidden[RESULT]);
	pthread_create(&thread, NULL, ender, &lost[3]);
	pthread_join(thread, NULL);
	usleep(100000);
}

static void
show_all(void)
{
	struct sigaction action = {
	    .sa_handler = handler, .sa_flags = SA_ONSTACK};

	sigaction(SIGILL, &action, NULL);
	sigaction(SIGUSR2, &action, NULL);
	for (int i = 0; i < 40; i++)
		pthread_key_create(&key[i], NULL);
	show_data();
	show_memory();
	show_kernel();
	start_context(&waiting, &waited, context_waits, stacks);
	show_threads();
}

static void
show_main(void)
{
	void *volatile on_stack;

	SHOW(&on_stack, hidden[STACK]);
	show_own(REGISTER);
	sweep();
	if (stacks == NULL)
		leave(&lost[0]);
	if (write(1, "ready\n", 6) != 6)
		_exit(9);
	if (stacks == NULL)
		hold(&hidden[REGISTER], READ);
	else
		start_context(
		    &running, &run_from, context_reads, stacks + KIB64);
	(void)on_stack;
}

int
main(int argc, char **argv)
{
	void *library = dlopen(argv[argc - 1], RTLD_NOW);
	pthread_t thread;

	library_place =
	    (void *volatile *(*)(int))dlsym(library, "library_place");
	if (argc > 2) {
		char *guard = mmap(NULL, 3 * KIB64, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		mprotect(guard, KIB64, PROT_NONE);
		stacks = guard + KIB64;
	}
	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	show_all();
	show_main();
	return 0;
}
