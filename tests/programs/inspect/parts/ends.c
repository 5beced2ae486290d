/*
 * ends.c - a program that ends in different ways, with or without a leak
 *
 *	ends HOW [leak]
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *
idle(void *arg)
{
	void *volatile mine = malloc(99);

	(void)mine;
	for (;;)
		pause();
	return arg;
}

static void *
ender(void *how)
{
	usleep(1000);
	if (strcmp(how, "thread_exit") == 0)
		exit(0);
	if (strcmp(how, "thread_segv") == 0)
		raise(SIGSEGV);
	if (strcmp(how, "thread_exec") == 0)
		execlp("sh", "sh", "-c", "exit 0", NULL);
	return NULL;
}

static void
lose(void)
{
	memset(malloc(4000), 1, 4000);
}

int
main(int argc, char **argv)
{
	const char *how = argv[1];
	pthread_t thread;

	if (argc > 2)
		lose();
	for (int i = 0; i < 10; i++)
		pthread_create(&thread, NULL, idle, NULL);
	for (int i = 0; i < 20; i++) {
		pthread_create(&thread, NULL, ender, "");
		pthread_join(thread, NULL);
	}
	if (strncmp(how, "thread_", 7) == 0) {
		pthread_create(&thread, NULL, ender, argv[1]);
		for (;;)
			pause();
	}
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(how, "_exit") == 0)
		_exit(0);
	return strcmp(how, "3") == 0 ? 3 : 0;
}
