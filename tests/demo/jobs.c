/*
 * jobs.c - a server that loses memory: it copies a name and frees the job only
 *
 * Says "ready" after 20000 jobs, and works on until its input ends.
 */
#include "tests/demo/demo.h"

struct job {
	char *name;
	int number;
};

static struct job *
job_create(int number)
{
	struct job *job = need(malloc(sizeof(*job)));
	char name[256];

	snprintf(name, sizeof(name), "job %d of %0180d", number, number);
	job->name = need(strdup(name));
	job->number = number;
	return job;
}

static void *
work(void *arg)
{
	for (int i = 0; i < 20000; i++) {
		struct job *job = job_create(i);

		/* The bug: job->name is lost. */
		free(job);
	}
	return arg;
}

int
main(void)
{
	char text[16];

	pthread_join(start(work, NULL), NULL);
	puts("ready");
	fflush(stdout);
	while (read(0, text, sizeof(text)) > 0)
		;
	return 0;
}
