#!/bin/bash
# dlopen() of our libraries after ten libraries that use static TLS, and ten
# with large dynamic TLS.
set -eu
for i in 0 1 2 3 4 5 6 7 8 9; do
	cat >"near$i.c" <<END
__thread char near${i}[80] __attribute__((tls_model("initial-exec"))) = {1};
char *area(void) { return near$i; }
END
	cat >"far$i.c" <<END
static __thread char far${i}[100000];
char *area(void) { return far$i; }
END
	"$CC" -shared -fPIC -o "near$i.so" "near$i.c"
	"$CC" -shared -fPIC -o "far$i.so" "far$i.c"
done
cat >main.c <<'END'
#include <dlfcn.h>

#include "tests/programs/check.h"

static char *(*area[20])(void);
static void *(*get)(size_t);
static void (*put)(void *);

static void *
use(void *arg)
{
	for (int i = 0; i < 20; i++)
		memset(area[i](), i, i % 2 == 0 ? 80 : 100000);
	for (size_t i = 1; i < 20000; i++) {
		char *p = get(i);

		check(p != NULL);
		stamp(p, i, i);
		check(is_stamped(p, i, i));
		put(p);
	}
	for (int i = 0; i < 20; i++)
		check(area[i]()[79] == i && area[i]()[0] == i);
	return arg;
}

int
main(int argc, char **argv)
{
	pthread_t thread[3];
	void *library;
	char name[20];

	check(argc == 2);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "./%s%d.so",
		    i % 2 == 0 ? "near" : "far", i / 2);
		library = dlopen(name, RTLD_NOW);
		check(library != NULL);
		*(void **)&area[i] = dlsym(library, "area");
	}
	library = dlopen(argv[1], RTLD_NOW);
	if (library == NULL)
		fprintf(stderr, "%s\n", dlerror());
	check(library != NULL);
	*(void **)&get = dlsym(library, "malloc");
	*(void **)&put = dlsym(library, "free");
	check(dlsym(library, "umem_alloc") != NULL);
	for (int i = 0; i < 3; i++)
		thread[i] = thread_start(use, NULL);
	use(NULL);
	for (int i = 0; i < 3; i++)
		thread_end(thread[i]);
	return 0;
}
END
"$CC" -D_GNU_SOURCE -fno-builtin -I"$TOP" -o main main.c -ldl -pthread
for library in libumem_malloc.so.1 libumem.so.1; do
	for mode in rseq own locked; do
		UMEM_OPTIONS=mode=$mode ./main "$B/$library"
	done
done
