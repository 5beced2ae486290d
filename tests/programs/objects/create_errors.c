/*
 * umem_cache_create() and umem_alloc_align() refuse bad arguments by errno.
 *
 * test link: umem
 * test cflags: -Wno-alloc-size-larger-than
 * test no stderr: .
 */
#include "tests/programs/check.h"
#include "vmem/vmem.h"

static const struct {
	const char *name;
	size_t size, align;
	unsigned flags;
	int error;
} table[] = {
    {NULL, 100, 0, 0, EINVAL},
    {"a", 0, 0, 0, EINVAL},
    {"a", 100, 3, 0, EINVAL},
    {"a", 100, 24, 0, EINVAL},
    {"a", 100, SIZE_MAX, 0, EINVAL},
    {"a", 100, (size_t)1 << 63, 0, EINVAL},
    {"a", 100, 1 << 20, 0, EINVAL},
    {"a", 100, 0, UMC_NOHASH | UMC_NOTOUCH, EINVAL},
    {"a", 100, 0, 1, EINVAL},
    {"a", 100, 0, 0x00400000, EINVAL},
    {"a", SIZE_MAX, 0, 0, ENOMEM},
    {"a", SIZE_MAX - 5, 8, 0, ENOMEM},
    {"a", (size_t)PTRDIFF_MAX + 1, 0, 0, ENOMEM},
    {"a", 1, 0, 0, 0},
    {"a", 1, 1, 0, 0},
    {"a", 1, 1, UMC_NOTOUCH, 0},
    {"a", 100, 4096, 0, 0},
    {"a", 100, 0, UMC_NODEBUG | UMC_NOMAGAZINE | UMC_NOHASH, 0},
    {"a", 3 << 20, 64, 0, 0},
    {"", 100, 0, 0, 0},
    {"a name that is longer than the thirty-one bytes there is room for", 100,
	0, 0, 0},
};

static void
try_create(size_t i)
{
	umem_cache_t *cache;
	size_t align = table[i].align;
	char *object[20];

	errno = 4711;
	cache = umem_cache_create(table[i].name, table[i].size, align, NULL,
	    NULL, NULL, NULL, NULL, (int)table[i].flags);
	if (table[i].error != 0) {
		if (cache != NULL || errno != table[i].error)
			fprintf(stderr, "row %zu\n", i);
		check(cache == NULL && errno == table[i].error);
		return;
	}
	check(cache != NULL && errno == 4711);
	if (align < 8 && (table[i].flags & UMC_NOTOUCH) == 0)
		align = align == 0 && table[i].size >= 16 ? 16 : 8;
	for (int n = 0; n < 20; n++) {
		check((object[n] = umem_cache_alloc(cache, 0)) != NULL);
		check(is_aligned(object[n], align));
		stamp(object[n], table[i].size, (uint64_t)n);
	}
	for (int n = 0; n < 20; n++) {
		check(is_stamped(object[n], table[i].size, (uint64_t)n));
		errno = 4712;
		umem_cache_free(cache, object[n]);
		check(errno == 4712);
	}
	umem_cache_destroy(cache);
}

static void
try_align(size_t size, size_t align, int error)
{
	char *p;

	errno = 4711;
	p = umem_alloc_align(size, align, UMEM_DEFAULT);
	if (error != 0 || size == 0) {
		check(p == NULL && errno == (error == 0 ? 4711 : error));
		umem_free_align(p, 0);
		return;
	}
	check(p != NULL && is_aligned(p, align < 8 ? 8 : align));
	stamp(p, size, size);
	check(is_stamped(p, size, size));
	errno = 4713;
	umem_free_align(p, size);
	check(errno == 4713);
	check((p = umem_alloc_aligned(size, align, UMEM_DEFAULT)) != NULL);
	umem_free_aligned(p, size);
}

/* The alignment that umem_alloc() promises by size. */
static void
try_plain(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = umem_alloc(size, UMEM_DEFAULT);

	check(p != NULL && is_aligned(p, size < 16 ? 8 : 16));
	check(size % 64 != 0 || is_aligned(p, 64));
	check(size % page != 0 || is_aligned(p, page));
	stamp(p, size, 3);
	umem_free(p, size);
	p = umem_zalloc(size, UMEM_DEFAULT);
	check(p != NULL && is_zero(p, size));
	umem_free(p, size);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		try_create(i);
	for (size_t align = 1; align <= 64 * MIB; align *= 2)
		for (size_t size = 0; size < 10 * MIB; size = size * 3 + 1)
			try_align(size, align, 0);
	try_align(100, 0, EINVAL);
	try_align(100, 3, EINVAL);
	try_align(100, 96, EINVAL);
	try_align(100, SIZE_MAX, EINVAL);
	try_align(0, 3, EINVAL);
	try_align(100, (size_t)1 << 63, ENOMEM);
	try_align(100, (size_t)1 << 62, ENOMEM);
	try_align(SIZE_MAX, 8, ENOMEM);
	try_align(SIZE_MAX, 4096, ENOMEM);
	try_align(PTRDIFF_MAX, 64, ENOMEM);
	try_align(PTRDIFF_MAX, 1 << 20, ENOMEM);
	for (size_t size = 1; size < 200000; size += size < 5000 ? 1 : 64)
		try_plain(size);
	for (size_t size = 65536; size < 20 * MIB; size *= 2)
		try_plain(size);
	return 0;
}
