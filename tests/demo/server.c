/*
 * server.c - a server's way with memory: one thread reads requests, others
 * answer and free them
 *
 * Each of PAIRS reader threads allocates requests of 32 to 1055 bytes and
 * queues them for its worker thread, which allocates a reply, frees the request
 * and then the reply.  Prints a checksum of all replies.
 */
#include "tests/demo/demo.h"

enum {
	PAIRS = 4,
	REQUESTS = 4000000, /* of one reader */
	QUEUE = 1024
};

struct request {
	uint32_t bytes, number;
	char text[24]; /* and more */
};

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct request *waiting[QUEUE];
	uint32_t nin, nout;
	uint64_t sum;
};

static struct queue queues[PAIRS];

static void *
read_requests(void *arg)
{
	struct queue *q = arg;
	uint64_t state = 88172645463325252ull;

	for (uint32_t i = 0; i < REQUESTS;) {
		struct request *batch[64];

		for (int k = 0; k < 64; k++, i++) {
			uint32_t bytes =
			    32 + (uint32_t)(next_random(&state) % 1024);

			batch[k] = need(malloc(bytes));
			batch[k]->bytes = bytes;
			batch[k]->number = i;
			memset(batch[k]->text, (int)i, sizeof(batch[k]->text));
		}
		pthread_mutex_lock(&q->lock);
		while (q->nin + 64 - q->nout > QUEUE)
			pthread_cond_wait(&q->changed, &q->lock);
		for (int k = 0; k < 64; k++)
			q->waiting[q->nin++ % QUEUE] = batch[k];
		pthread_cond_signal(&q->changed);
		pthread_mutex_unlock(&q->lock);
	}
	return NULL;
}

static void *
answer(void *arg)
{
	struct queue *q = arg;

	for (uint32_t n = 0; n < REQUESTS; n += 64) {
		struct request *batch[64];

		pthread_mutex_lock(&q->lock);
		while (q->nin == q->nout)
			pthread_cond_wait(&q->changed, &q->lock);
		for (int k = 0; k < 64; k++)
			batch[k] = q->waiting[q->nout++ % QUEUE];
		pthread_cond_signal(&q->changed);
		pthread_mutex_unlock(&q->lock);
		for (int k = 0; k < 64; k++) {
			char *reply = need(malloc(batch[k]->bytes / 2));

			memcpy(reply, batch[k]->text, 16);
			q->sum += (unsigned char)reply[0] + batch[k]->bytes;
			free(batch[k]);
			free(reply);
		}
	}
	return NULL;
}

int
main(void)
{
	pthread_t thread[2 * PAIRS];
	uint64_t sum = 0;

	for (int i = 0; i < PAIRS; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].changed, NULL);
		thread[2 * i] = start(read_requests, &queues[i]);
		thread[2 * i + 1] = start(answer, &queues[i]);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < PAIRS; i++)
		sum += queues[i].sum;
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}
