/*
 * handed.c - hands three blocks to the kernel: as the data of an epoll
 * descriptor, as the value of a timer, and as the buffer of a read() that waits
 *
 * Prints the descriptor and the addresses, and that of a word behind 100 MiB
 * that are not touched and 5 MiB that are, which has its own address.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int
main(void)
{
	struct epoll_event event = {EPOLLIN, {malloc(100)}};
	struct sigevent timer = {.sigev_notify = SIGEV_SIGNAL,
	    .sigev_signo = SIGUSR1,
	    .sigev_value = {.sival_ptr = malloc(200)}};
	char *buffer = malloc(300);
	unsigned long *far = mmap(NULL, 128 << 20, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = epoll_create1(0);
	timer_t id;

	memset((char *)far + (100 << 20), 1, 6 << 20);
	far += (105 << 20) / sizeof(*far);
	*far = (unsigned long)far;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0 ||
	    timer_create(CLOCK_MONOTONIC, &timer, &id) != 0)
		return 1;
	printf("%d %lx %lx %lx %lx\nready\n", fd, (long)event.data.ptr,
	    (long)timer.sigev_value.sival_ptr, (long)buffer, *far);
	fflush(stdout);
	return (int)read(STDIN_FILENO, buffer, 1);
}
