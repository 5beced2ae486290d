/*
 * gone.c - leaks in a program whose first thread has ended; see planted.c
 *
 * That thread has left the address of a block on its stack.  Another block is
 * allocated after it has ended, because it allocates memory in pthread_exit(),
 * and frames of the library on its stack may have the address of the memory
 * from which the block is taken.  A pointer in argv, above the frames of that
 * stack, keeps a third block.  There are as many threads and mappings as arrays
 * of the command have room for.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NTHREADS 16

void *volatile kept;
static pthread_t first;

static void *
wait_for_end(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static int
sleep_on(void *unused)
{
	for (;;)
		syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
	return unused != NULL;
}

/*
 * Starts a thread without libc's descriptor.  A search for one from its thread
 * pointer on, 2304 bytes, ends with the mapping, whose words are not 0.
 */
static void
start_raw(void)
{
	static char stack[16384];
	char *at =
	    mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(at + 4096, 2 * 4096, PROT_READ | PROT_WRITE);
	memset(at + 4096, 1, 2 * 4096);
	clone(sleep_on, stack + sizeof(stack),
	    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		CLONE_SYSVSEM | CLONE_SETTLS,
	    NULL, NULL, at + 3 * 4096 - 2304);
}

static void *
plant(size_t bytes)
{
	void *p = malloc(bytes);

	memset(p, 0x5a, bytes);
	printf("leak %lx\n", (long)p);
	return p;
}

static void *
planter(void *arg)
{
	plant(5000);
	return arg;
}

/* Adds mappings until their number is a power of two. */
static void
fill_mappings(void)
{
	char line[4096];
	int n = 0;

	for (int i = 0; n == 0 || (n & (n - 1)) != 0; i++) {
		FILE *maps = fopen("/proc/thread-self/maps", "r");

		/* The kernel merges neighbours that have the same access. */
		mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (n = 0; fgets(line, sizeof(line), maps) != NULL;)
			n++;
		fclose(maps);
	}
}

static void *
run(void *arg)
{
	pthread_t thread;
	char c;

	pthread_join(first, NULL);
	/* None of these gets the stack on which the planter was. */
	for (int i = 2; i < NTHREADS; i++)
		pthread_create(&thread, NULL, wait_for_end, NULL);
	pthread_create(&thread, NULL, planter, NULL);
	pthread_join(thread, NULL);
	kept = malloc(100);
	start_raw();
	usleep(50000);
	fill_mappings();
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) == 1)
		;
	exit(0);
	return arg;
}

/* Leaves an address far below the frames of pthread_exit(). */
static __attribute__((noinline)) void
leave(void)
{
	void *volatile deep[2048];

	deep[10] = plant(6000);
	(void)deep;
}

int
main(int argc, char **argv)
{
	pthread_t thread;

	(void)argc;
	leave();
	argv[0] = malloc(200);
	first = pthread_self();
	pthread_create(&thread, NULL, run, NULL);
	pthread_exit(NULL);
}
