/*
 * A program that runs on another malloc loads both libraries by dlopen().  They
 * work, and dlclose() leaves them in place, with all allocated blocks.
 *
 * test not with: musl the program is linked with the library
 * test preload: no
 * test no stderr: .
 */
#include <dlfcn.h>

#include "tests/programs/check.h"

enum {
	N = 1000
};
static void *(*get)(size_t);
static void (*put)(void *);

static void *
sized_get(size_t size)
{
	static void *(*alloc)(size_t, int);

	if (alloc == NULL)
		*(void **)&alloc =
		    dlsym(dlopen("libumem.so.1", RTLD_NOW), "umem_alloc");
	return alloc(size, UMEM_DEFAULT);
}

static void *
use(void *arg)
{
	uint64_t r = (uintptr_t)arg;
	void *p[50] = {0};
	size_t n[50];

	for (int i = 0; i < 20000; i++) {
		unsigned at = next_random(&r) % 50;

		if (p[at] == NULL) {
			n[at] = next_random(&r) % 3000 + 1;
			check((p[at] = get(n[at])) != NULL);
			stamp(p[at], n[at], at);
			continue;
		}
		check(is_stamped(p[at], n[at], at));
		if (put != NULL)
			put(p[at]);
		p[at] = NULL;
	}
	return NULL;
}

static void
try(const char *name, const char *get_name, const char *put_name)
{
	static char *block[N];
	pthread_t thread[4];
	char path[4096];
	void *library, *again;

	snprintf(path, sizeof(path), "%s/%s", getenv("B"), name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	check(library != NULL);
	check((*(void **)&get = dlsym(library, get_name)) != NULL);
	*(void **)&put = put_name == NULL ? NULL : dlsym(library, put_name);
	if (put_name == NULL)
		get = sized_get;
	check((void *)get != (void *)malloc);
	for (size_t i = 0; i < N; i++) {
		check((block[i] = get(i * i / 2 + 1)) != NULL);
		stamp(block[i], i * i / 2 + 1, i);
	}
	check(dlclose(library) == 0);
	for (size_t i = 0; i < N; i++)
		check(is_stamped(block[i], i * i / 2 + 1, i));
	again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	check(again != NULL && dlsym(again, get_name) != NULL);
	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(use, (void *)(i + 1));
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);
	for (size_t i = 0; put != NULL && i < N; i++)
		put(block[i]);
	check(dlclose(again) == 0);
}

int
main(void)
{
	if (getenv("B") == NULL)
		skip("no build folder in $B");
	try("libumem_malloc.so.1", "malloc", "free");
	try("libumem.so.1", "umem_alloc", NULL);
	check(dlopen("libumem.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
	return 0;
}
