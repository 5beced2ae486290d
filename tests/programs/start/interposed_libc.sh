#!/bin/bash
# test timeout: 300
# Functions in the place of those of the C library that the library calls by
# name (umem/README.md) may allocate and free.  memcpy() and its relatives,
# which the compiler calls anywhere, may not; they are only replaced.
set -eu
cat >hooks.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

static uintptr_t from, to; /* code of the library */
static __thread volatile int depth;

/* Allocates if the library is the caller, and counts such calls. */
static void
inside(unsigned *n, uintptr_t caller)
{
	if (caller - from >= to - from || depth != 0)
		return;
	depth = 1;
	__atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
	for (size_t size = 20; size < 200000; size *= 7)
		free(realloc(malloc(size), 2 * size));
	free(calloc(1, 5000));
	depth = 0;
}

#define HOOK(result, name, parameters, arguments)                              \
	static unsigned n_##name;                                              \
	result name parameters                                                 \
	{                                                                      \
		static result(*volatile next) parameters;                      \
		if (next == NULL)                                              \
			*(void **)&next = dlsym(RTLD_NEXT, #name);             \
		inside(&n_##name, (uintptr_t)__builtin_return_address(0));     \
		return next arguments;                                         \
	}

HOOK(unsigned long, getauxval, (unsigned long type), (type))
HOOK(int, sched_getcpu, (void), ())
HOOK(int, pthread_create,
    (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p),
    (t, a, f, p))
HOOK(int, pthread_join, (pthread_t t, void **r), (t, r))
HOOK(int, pthread_detach, (pthread_t t), (t))
HOOK(int, pthread_attr_init, (pthread_attr_t * a), (a))
HOOK(int, pthread_attr_destroy, (pthread_attr_t * a), (a))
HOOK(int, pthread_attr_setstacksize, (pthread_attr_t * a, size_t n), (a, n))
HOOK(int, pthread_key_create, (pthread_key_t * k, void (*f)(void *)), (k, f))
HOOK(void *, pthread_getspecific, (pthread_key_t k), (k))
HOOK(int, pthread_setspecific, (pthread_key_t k, const void *p), (k, p))
HOOK(int, pthread_setcancelstate, (int new, int *old), (new, old))
HOOK(int, pthread_sigmask, (int how, const sigset_t *s, sigset_t *old),
    (how, s, old))
HOOK(int, sigfillset, (sigset_t * s), (s))
HOOK(int, sigaction,
    (int n, const struct sigaction *a, struct sigaction *old), (n, a, old))
HOOK(size_t, fwrite, (const void *p, size_t size, size_t n, FILE *f),
    (p, size, n, f))
HOOK(int, madvise, (void *p, size_t n, int advice), (p, n, advice))
HOOK(void *, mmap, (void *p, size_t n, int prot, int flags, int fd, off_t at),
    (p, n, prot, flags, fd, at))

void *
memcpy(void *to_, const void *from_, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile char *)to_)[i] = ((const char *)from_)[i];
	return to_;
}

void *
memmove(void *to_, const void *from_, size_t n)
{
	if (to_ <= from_)
		return memcpy(to_, from_, n);
	while (n-- > 0)
		((volatile char *)to_)[n] = ((const char *)from_)[n];
	return to_;
}

void *
memset(void *to_, int c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((volatile char *)to_)[i] = (char)c;
	return to_;
}

size_t
strlen(const char *text)
{
	size_t n = 0;

	while (((const volatile char *)text)[n] != '\0')
		n++;
	return n;
}

static int
find(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (strstr(info->dlpi_name, "libumem_malloc") != NULL &&
		    (info->dlpi_phdr[i].p_flags & PF_X) != 0) {
			from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			to = from + info->dlpi_phdr[i].p_memsz;
		}
	return 0;
}

__attribute__((constructor)) static void
start(void)
{
	dl_iterate_phdr(find, NULL);
}

/*
 * The hooks are there, and the library comes by; not always at pthread_join(),
 * because the upkeep thread outlives the others if there is memory to return.
 */
__attribute__((destructor)) static void
end(void)
{
	if (from == 0 || n_pthread_attr_setstacksize == 0 ||
	    n_pthread_sigmask == 0 || n_fwrite == 0 || n_madvise == 0)
		_exit(4);
}
END
cat >program.c <<'END'
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *
work(void *arg)
{
	static const size_t sizes[] = {10, 200, 3000, 40000, 500000};
	char *held[40] = {NULL};

	for (int i = 0; i < 800; i++) {
		size_t n = sizes[i % 5];
		char *p = held[i % 40];

		if (p != NULL && *p != (char)(i % 40))
			abort();
		if (i % 3 != 0) {
			free(p);
			p = NULL;
		}
		p = held[i % 40] = realloc(p, n);
		p[0] = p[n - 1] = (char)(i % 40);
	}
	for (int i = 0; i < 40; i++)
		free(held[i]);
	malloc_trim(0);
	return arg;
}

int
main(void)
{
	pthread_t thread[3];
	FILE *file = tmpfile();
	int child, status;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread[i], NULL, work, NULL);
	work(NULL);
	child = fork();
	if (child == 0) {
		work(NULL);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		return 2;
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	malloc_info(0, file);
	fclose(file);
	return 0;
}
END
"$CC" -O1 -fno-builtin -fPIC -shared -o hooks.so hooks.c -ldl -pthread
"$CC" -O1 -fno-builtin -o program program.c -pthread
for options in UMEM_OPTIONS= UMEM_OPTIONS=mode=locked UMEM_OPTIONS=hardened \
    UMEM_OPTIONS=sample=10k UMEM_DEBUG=default UMEM_DEBUG=guards \
    UMEM_DEBUG=audit; do
	for order in "./hooks.so:$SHIM" "$SHIM:./hooks.so"; do
		status=0
		env "$options" LD_PRELOAD="$order" ./program 2>err || status=$?
		[ $status = 0 ] && [ ! -s err ] && continue
		echo "$options LD_PRELOAD=$order: exit $status"
		head -5 err
		exit 1
	done
done
