/*
 * Blocks with their only pointer in thread-local storage, in a pthread key, on
 * stacks and below a signal handler, and one leak.  Prints a line when all
 * threads wait.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__thread void *local;
pthread_key_t key;
static pthread_barrier_t ready;

static void *
block(size_t bytes)
{
	return memset(malloc(bytes), 1, bytes);
}

static void
handler(int signal)
{
	void *volatile kept = block(4004);

	(void)signal;
	free(block(5005));
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	free(kept);
}

static void *
work(void *arg)
{
	void *volatile kept = block(3003);

	local = block(1001);
	pthread_setspecific(key, block(2002));
	if (arg != NULL)
		pthread_kill(pthread_self(), SIGUSR1);
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
	free(kept);
}

static void __attribute__((noinline))
leak(void)
{
	void *volatile lost = block(6006);

	lost = NULL;
	(void)lost;
}

static void __attribute__((noinline))
overwrite(void)
{
	char room[4096];

	memset(room, 0, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
}

int
main(void)
{
	pthread_t thread;

	signal(SIGUSR1, handler);
	pthread_key_create(&key, NULL);
	pthread_barrier_init(&ready, NULL, 3);
	local = block(1001);
	leak();
	overwrite();
	pthread_create(&thread, NULL, work, NULL);
	pthread_create(&thread, NULL, work, &ready);
	pthread_barrier_wait(&ready);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
