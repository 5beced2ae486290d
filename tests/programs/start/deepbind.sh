#!/bin/bash
# A library that is opened with RTLD_DEEPBIND shares malloc() and free() with
# the program, as its blocks come from functions of the C library, too.
# dlopen() and dlmopen() still see their caller: they search its RUNPATH, and a
# library in a namespace of its own opens others there.
set -eu
mkdir -p near/below
cat >plugin.c <<'END'
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks that libc allocates, and the functions that take them. */
int
plugin_use_libc(void)
{
	char *text = NULL, *copy, *line = NULL;
	size_t n = 0;
	FILE *file;

	if (asprintf(&text, "value %d", 42) != 8)
		return 1;
	copy = strdup(text);
	text = realloc(text, 100000);
	text = realloc(text, 20);
	file = fmemopen(copy, 8, "r");
	if (text == NULL || getline(&line, &n, file) != 8 ||
	    strcmp(line, text) != 0 || malloc_usable_size(line) < 9)
		return 2;
	fclose(file);
	free(line);
	free(copy);
	free(text);
	free(realpath("/", NULL));
	return 0;
}

void
plugin_take(void *block)
{
	free(block);
}

void *
plugin_give(size_t align)
{
	return align == 0 ? calloc(10, 10) : aligned_alloc(align, 4 * align);
}
END
cat >opener.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>

/* The library is found by the RUNPATH of this one only. */
void *
opener_open(int mode)
{
	return dlopen("libplugin.so", mode);
}

void *
opener_open_here(int mode)
{
	return dlmopen(LM_ID_BASE, "libplugin.so", mode);
}
END
cat >early.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

/* Runs before the constructors of umem and of the program. */
__attribute__((constructor)) static void
open_early(void)
{
	void *plugin = dlopen("./libplugin.so", RTLD_NOW | RTLD_DEEPBIND);
	int (*use)(void) = (int (*)(void))dlsym(plugin, "plugin_use_libc");

	if (use == 0 || use() != 0)
		_exit(9);
}
END
cat >program.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define check(x) ((x) ? (void)0 : failed(#x, __LINE__))

static void
failed(const char *what, int line)
{
	const char *error = dlerror();

	fprintf(stderr, "%d: %s: %s\n", line, what, error == NULL ? "" : error);
	exit(1);
}

static void
use(void *plugin, int is_ours)
{
	int (*use_libc)(void);
	void (*take)(void *);
	void *(*give)(size_t);

	check(plugin != NULL);
	*(void **)&use_libc = dlsym(plugin, "plugin_use_libc");
	*(void **)&take = dlsym(plugin, "plugin_take");
	*(void **)&give = dlsym(plugin, "plugin_give");
	check(use_libc() == 0);
	for (size_t n = 1; is_ours && n < 10000000; n *= 10)
		take(malloc(n));
	for (size_t align = 16; is_ours && align <= 65536; align *= 2)
		free(give(align));
	if (is_ours)
		free(give(0));
	else
		take(give(0));
}

static void *
open_and_use(void *opener)
{
	void *(*open_next)(int);

	*(void **)&open_next = dlsym(opener, "opener_open");
	use(open_next(RTLD_LAZY | RTLD_DEEPBIND), 1);
	return NULL;
}

int
main(void)
{
	void *opener = dlopen("near/libopener.so", RTLD_NOW), *plugin;
	void *(*open_next)(int);
	pthread_t thread[4];

	check(opener != NULL);
	for (int i = 0; i < 4; i++)
		check(pthread_create(
			  &thread[i], NULL, open_and_use, opener) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	*(void **)&open_next = dlsym(opener, "opener_open_here");
	use(open_next(RTLD_NOW | RTLD_DEEPBIND | RTLD_GLOBAL), 1);
	use(dlopen("./libplugin.so", RTLD_NOW | RTLD_DEEPBIND), 1);

	/* Not here, and the message names it. */
	check(dlopen("libplugin2.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
	check(strstr(dlerror(), "libplugin2.so") != NULL);
	check(dlopen("./libplugin.so", RTLD_DEEPBIND) == NULL);
	check(strstr(dlerror(), "mode") != NULL);
	check(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) ==
	    dlopen(NULL, RTLD_NOW));

	/* A namespace of its own has a libc of its own. */
	plugin = dlmopen(LM_ID_NEWLM, "./libplugin.so", RTLD_NOW);
	use(plugin, 0);
	plugin = dlmopen(
	    LM_ID_NEWLM, "./libplugin.so", RTLD_NOW | RTLD_DEEPBIND);
	use(plugin, 0);
	opener = dlmopen(LM_ID_NEWLM, "near/libopener.so", RTLD_NOW);
	check(opener != NULL);
	*(void **)&open_next = dlsym(opener, "opener_open");
	plugin = open_next(RTLD_NOW | RTLD_DEEPBIND);
	use(plugin, 0);
	puts("fine");
	return 0;
}
END
"$CC" -O1 -fno-builtin -fPIC -shared -o libplugin.so plugin.c
cp libplugin.so near/below/
# Without a tail call, by which the opener would not be the caller.
"$CC" -O1 -fno-optimize-sibling-calls -fPIC -shared -Wl,--enable-new-dtags,-rpath,"\$ORIGIN/below" \
    -o near/libopener.so opener.c -ldl
"$CC" -O1 -fPIC -shared -Wl,-z,initfirst -o early.so early.c -ldl
"$CC" -O1 -fno-builtin -o program program.c -pthread -ldl

bad=0
# run NAME=VALUE... - the program, alone and with an early constructor
run() {
	local preload

	for preload in "$SHIM" "$SHIM:./early.so" "./early.so:$SHIM"; do
		[ "$(env "$@" LD_PRELOAD="$preload" ./program 2>&1)" = fine ] &&
		    continue
		echo "$* LD_PRELOAD=$preload:"
		env "$@" LD_PRELOAD="$preload" ./program 2>&1 | head -5
		bad=1
	done
}
[ "$(./program)" = fine ] || { echo "the program fails without umem"; exit 1; }
run UMEM_OPTIONS=
run UMEM_OPTIONS=hardened
run UMEM_DEBUG=default
exit $bad
