/*
 * A program that is built for jemalloc asks for figures by mallctl(): those of
 * this library are right, releases take place, and wrong calls get an errno.
 *
 * test no stderr: .
 *
 * test run: plain
 * test run: hardened
 * test modes: default
 * test env: UMEM_OPTIONS=hardened
 * test run: debugged
 * test modes: default
 * test env: UMEM_DEBUG=default
 */
#include <dlfcn.h>

#include "tests/programs/check.h"

static int (*mallctl)(const char *, void *, size_t *, void *, size_t);
static int (*nametomib)(const char *, size_t *, size_t *);
static int (*bymib)(const size_t *, size_t, void *, size_t *, void *, size_t);
static void (*print)(void (*)(void *, const char *), void *, const char *);

static void
find(void *function, const char *name)
{
	*(void **)function = dlsym(RTLD_DEFAULT, name);
	check(*(void **)function != NULL);
}

static size_t
get(const char *name)
{
	size_t value = 77, bytes = sizeof(value);

	errno = 99;
	check(mallctl(name, &value, &bytes, NULL, 0) == 0);
	check(errno == 99);
	return value;
}

static unsigned
get_unsigned(const char *name)
{
	unsigned value = 77;
	size_t bytes = sizeof(value);

	check(mallctl(name, &value, &bytes, NULL, 0) == 0);
	return value;
}

static bool
is_between(size_t n, size_t least, size_t most)
{
	return n >= least && n <= most;
}

/* 10,000 blocks of 1000 bytes and one of 20 MiB. */
static void
check_figures(void)
{
	static void *block[10000];
	size_t allocated = get("stats.allocated"), mapped, large;
	size_t small = get("stats.arenas.0.small.allocated");
	void *big;

	large = get("stats.arenas.4096.large.allocated");
	for (int i = 0; i < 10000; i++)
		block[i] = keep(malloc(1000));
	big = keep(malloc(20 * MIB));
	memset(big, 1, 20 * MIB);
	check(
	    is_between(get("stats.allocated") - allocated, 29 * MIB, 34 * MIB));
	check(is_between(
	    get("stats.arenas.0.small.allocated") - small, 9 * MIB, 14 * MIB));
	check(is_between(get("stats.arenas.4096.large.allocated") - large,
	    20 * MIB, 21 * MIB));
	check(get("stats.arenas.1.small.allocated") == 0);
	mapped = get("stats.resident");
	check(get("stats.active") <= mapped && mapped <= get("stats.mapped"));
	check(get("stats.arenas.0.pactive") * get("arenas.page") ==
	      get("stats.active"));
	for (int i = 0; i < 10000; i++)
		free(block[i]);
	free(big);
	check(get("stats.allocated") < allocated + 2 * MIB);
	check(mallctl("arena.0.purge", NULL, NULL, NULL, 0) == 0);
	check(get("stats.resident") < mapped - 20 * MIB);
	check(get("stats.metadata") > 0 && get("stats.retained") < 1000 * MIB);
}

/* The bins are size classes; their figures say where free chunks are. */
static void
check_bins(void)
{
	unsigned nbins = get_unsigned("arenas.nbins");
	size_t size = 0, nlive = 0;

	for (int i = 0; i < 1000; i++)
		keep(malloc(100));
	check(nbins > 10 && nbins < 200);
	for (unsigned i = 0; i < nbins; i++) {
		char text[64];
		size_t larger, live, slabs;

		snprintf(text, sizeof(text), "arenas.bin.%u.size", i);
		larger = get(text);
		check(larger > size);
		size = larger;
		snprintf(
		    text, sizeof(text), "stats.arenas.4096.bins.%u.curregs", i);
		live = get(text);
		snprintf(
		    text, sizeof(text), "stats.arenas.0.bins.%u.curslabs", i);
		slabs = get(text);
		snprintf(text, sizeof(text), "arenas.bin.%u.nregs", i);
		check(live <= slabs * (get_unsigned(text) + 1));
		snprintf(
		    text, sizeof(text), "stats.arenas.3.bins.%u.curregs", i);
		check(get(text) == 0);
		if (nlive == 0 && size >= 100)
			nlive = live;
	}
	check(nlive >= 1000);
	check(mallctl("arenas.bin.9999.size", NULL, NULL, NULL, 0) == ENOENT);
}

static void
check_others(void)
{
	const char *version;
	size_t mib[6], n = 6, bytes = sizeof(version), value = 0;
	uint64_t epoch = 1;
	unsigned first, number = 3;
	bool on = true;

	check(mallctl("version", &version, &bytes, NULL, 0) == 0);
	check(version[0] >= '5' && version[1] == '.');
	bytes = sizeof(epoch);
	check(mallctl("epoch", &epoch, &bytes, &epoch, sizeof(epoch)) == 0);
	check(mallctl("background_thread", NULL, NULL, &on, sizeof(on)) == 0);
	check(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0);
	first = get_unsigned("arenas.narenas");
	check(get_unsigned("arenas.create") == first);
	check(get_unsigned("arenas.narenas") == first + 1);
	check(get_unsigned("tcache.create") > 0);
	check(mallctl("tcache.destroy", NULL, NULL, &number, sizeof(number)) ==
	      0);
	check(nametomib("stats.arenas.0.bins.3.curregs", mib, &n) == 0);
	check(n == 6 && mib[2] == 0 && mib[4] == 3);
	bytes = sizeof(value);
	check(bymib(mib, n, &value, &bytes, NULL, 0) == 0);
	check(value == get("stats.arenas.0.bins.3.curregs"));
	mib[4] = 9999;
	check(bymib(mib, n, &value, &bytes, NULL, 0) == ENOENT);
	n = 6;
	check(nametomib("arenas.page", mib, &n) == 0 && n == 2);
	check(bymib(mib, n, &value, &bytes, NULL, 0) == 0);
	check(value == (size_t)sysconf(_SC_PAGESIZE));
}

static void
check_errors(void)
{
	static const char *const unknown[] = {"", "stats", "stats.allocated.",
	    "stats.allocate", "arena.x.purge", "arena..purge", "arena.0",
	    "thread.allocatedp", "arenas.bin.-1.size"};
	size_t value = 5, bytes = 3, mib[6] = {1000}, n = 6;

	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		check(mallctl(unknown[i], NULL, NULL, NULL, 0) == ENOENT);
		check(nametomib(unknown[i], mib, &n) == ENOENT);
	}
	check(mallctl("stats.allocated", &value, &bytes, NULL, 0) == EINVAL);
	check(mallctl("stats.allocated", &value, NULL, NULL, 0) == EINVAL);
	check(mallctl("stats.allocated", NULL, NULL, &value, 8) == EPERM);
	check(mallctl("epoch", NULL, NULL, &value, 1) == EINVAL);
	check(value == 5);
	mib[0] = 1000;
	check(bymib(mib, 1, NULL, NULL, NULL, 0) == ENOENT);
	check(bymib(mib, 0, NULL, NULL, NULL, 0) == ENOENT);
	check(bymib(mib, 7, NULL, NULL, NULL, 0) == ENOENT);
}

static void
take_text(void *arg, const char *text)
{
	*(bool *)arg = strstr(text, "umem_live_bytes ") != NULL;
}

/* Sampling, where the library permits it. */
static void
check_profile(void)
{
	const char *path = "profile", *none = NULL;
	bool on = true, was = true, printed = false;
	size_t bytes = sizeof(was);
	char line[20] = "";
	FILE *file;

	print(take_text, &printed, NULL);
	check(printed);
	if (mallctl("prof.active", &was, &bytes, &on, sizeof(on)) != 0)
		return;
	check(!was);
	check(mallctl("opt.prof", &was, &bytes, NULL, 0) == 0 && was);
	keep(malloc(100 * MIB));
	check(mallctl("prof.dump", NULL, NULL, &path, sizeof(path)) == 0);
	file = fopen(path, "r");
	check(file != NULL && fgets(line, 14, file) != NULL);
	check(strcmp(line, "heap profile:") == 0);
	fclose(file);
	check(mallctl("prof.dump", NULL, NULL, &none, sizeof(none)) == EFAULT);
	path = "/no/such/folder/file";
	check(mallctl("prof.dump", NULL, NULL, &path, sizeof(path)) == EFAULT);
	on = false;
	check(mallctl("prof.active", NULL, NULL, &on, sizeof(on)) == 0);
	check(mallctl("opt.prof", &was, &bytes, NULL, 0) == 0 && !was);
}

int
main(void)
{
	find(&mallctl, "mallctl");
	find(&nametomib, "mallctlnametomib");
	find(&bymib, "mallctlbymib");
	find(&print, "malloc_stats_print");
	check_figures();
	check_bins();
	check_others();
	check_errors();
	check_profile();
	return 0;
}
