#!/bin/bash
# Two copies of the library in one process: an audit library has a namespace of
# its own, and so has a library that dlmopen() loads.  Each namespace has its
# own libc, and may have its own malloc.
set -eu
cat >audit.c <<'END'
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>

static void *kept[1000];
static unsigned n;
static char busy;

/* One at a time: calls come from several threads. */
static void
use(void)
{
	if (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE))
		return;
	for (int i = 0; i < 50; i++) {
		free(kept[n % 1000]);
		kept[n % 1000] = malloc(n % 5000 + 1);
		memset(kept[n % 1000], 1, n % 5000 + 1);
		n++;
	}
	__atomic_clear(&busy, __ATOMIC_RELEASE);
}

unsigned
la_version(unsigned version)
{
	use();
	return version;
}

unsigned
la_objopen(struct link_map *map, Lmid_t id, uintptr_t *cookie)
{
	(void)map, (void)id, (void)cookie;
	use();
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t
la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
    unsigned *flags, const char *name)
{
	(void)index, (void)from, (void)to, (void)flags, (void)name;
	use();
	return symbol->st_value;
}
END
cat >main.c <<'END'
#include <dlfcn.h>

#include "tests/programs/check.h"

static void *
load(void *arg)
{
	churn((uintptr_t)arg, 20000, 20000);
	return NULL;
}

/* The malloc of a namespace of its own, beside ours. */
static void
use_another(const char *path)
{
	void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	void *(*get)(size_t);
	void (*put)(void *);
	static char *p[5000], *q[5000];

	if (library == NULL)
		fprintf(stderr, "%s\n", dlerror());
	check(library != NULL);
	*(void **)&get = dlsym(library, "malloc");
	*(void **)&put = dlsym(library, "free");
	check(get != NULL && put != NULL && get != malloc);
	for (size_t i = 0; i < 5000; i++) {
		check((p[i] = malloc(i)) != NULL);
		check((q[i] = get(i)) != NULL && q[i] != p[i]);
		stamp(p[i], i, i);
		stamp(q[i], i, ~i);
	}
	for (size_t i = 0; i < 5000; i++) {
		check(is_stamped(p[i], i, i) && is_stamped(q[i], i, ~i));
		free(p[i]);
		put(q[i]);
	}
}

int
main(int argc, char **argv)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = thread_start(load, (void *)(i + 1));
	if (argc > 1)
		use_another(argv[1]);
	for (int i = 0; i < 4; i++)
		thread_end(thread[i]);
	return 0;
}
END
"$CC" -shared -fPIC -fno-builtin -o plain_audit.so audit.c
"$CC" -shared -fPIC -fno-builtin -o own_audit.so audit.c \
    -Wl,--no-as-needed -L"$B" -lumem_malloc -Wl,-rpath,"$B"
"$CC" -D_GNU_SOURCE -fno-builtin -I"$TOP" -o main main.c -ldl -pthread
run() {
	"$@" || {
		echo "status $?: $*"
		exit 1
	}
}
for mode in rseq own locked; do
	export UMEM_OPTIONS=mode=$mode
	run env LD_PRELOAD="$SHIM" LD_AUDIT=./plain_audit.so ./main
	run env LD_AUDIT=./own_audit.so ./main
	run env LD_PRELOAD="$SHIM" LD_AUDIT=./own_audit.so ./main
	run env LD_PRELOAD="$SHIM" ./main "$SHIM"
	run ./main "$SHIM"
done
