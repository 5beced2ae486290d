/*
 * Every name of malloc's family, __libc_* too, is found in the library.
 *
 * test modes: default
 */
#include <dlfcn.h>

#include "tests/programs/check.h"

int
main(void)
{
	static const char *const name[] = {"malloc", "calloc", "realloc",
	    "free", "reallocarray", "memalign", "aligned_alloc",
	    "posix_memalign", "valloc", "pvalloc", "malloc_usable_size",
	    "cfree", "free_sized", "free_aligned_sized", "malloc_trim",
	    "mallinfo", "mallinfo2", "malloc_info", "malloc_stats", "mallopt",
	    "__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_free",
	    "__libc_memalign", "__libc_valloc", "__libc_pvalloc",
	    "__libc_reallocarray", "__libc_mallinfo", "__libc_mallopt"};
	void *(*get)(size_t);
	void *(*resize)(void *, size_t);
	void (*put)(void *);
	bool ours = true;
	char *p;

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		void *at = dlsym(RTLD_DEFAULT, name[i]);
		Dl_info info;

		if (at == NULL || dladdr(at, &info) == 0 ||
		    strstr(info.dli_fname, "/libumem_malloc.so") == NULL) {
			printf("%s is %s\n", name[i],
			    at == NULL ? "nowhere" : info.dli_fname);
			ours = false;
		}
	}
	check(ours);

	/* One block's life across both families. */
	*(void **)&get = dlsym(RTLD_DEFAULT, "__libc_malloc");
	*(void **)&resize = dlsym(RTLD_DEFAULT, "__libc_realloc");
	*(void **)&put = dlsym(RTLD_DEFAULT, "__libc_free");
	check((p = get(100)) != NULL);
	stamp(p, 100, 1);
	check((p = realloc(p, 1000)) != NULL && is_stamped(p, 100, 1));
	check((p = resize(p, 100000)) != NULL && is_stamped(p, 100, 1));
	free(p);
	put(malloc(10));
	*(void **)&put = dlsym(RTLD_DEFAULT, "cfree");
	put(malloc(10));
	return 0;
}
