/* described.h - names for tools outside the process; see vmem/description.h */
#ifndef UMEM_CACHE_DESCRIBED_H
#define UMEM_CACHE_DESCRIBED_H

/* umem/describe.c */
#define DESCRIBED_CACHES(M, V, C, B)                                           \
	V(CACHE_LIST, cache_list)                                              \
	V(CACHE_DESTROYED_LIST, cache_destroyed_list)                          \
	B(CACHE_BYTES, cache, umem_cache)                                      \
	M(CACHE_HOT, cache, umem_cache, mag.hot)                               \
	M(CACHE_COLD, cache, umem_cache, mag.cold)                             \
	M(CACHE_DEPOT_FULL, cache, umem_cache, mag.depot.full.head)            \
	M(CACHE_DEPOT_EMPTY, cache, umem_cache, mag.depot.empty.head)          \
	M(CACHE_DEPOT_NFULL, cache, umem_cache, mag.depot.full.n)              \
	M(CACHE_NCONTENDED, cache, umem_cache, mag.depot.ncontended)           \
	M(CACHE_SHARDS, cache, umem_cache, mag.nshards)                        \
	M(CACHE_MORE_SHARDS, cache, umem_cache, mag.more)                      \
	M(CACHE_HAS_MAGAZINES, cache, umem_cache, has_magazines)               \
	M(CACHE_CLASS, cache, umem_cache, class)                               \
	M(CACHE_DEBUG, cache, umem_cache, debug)                               \
	M(CACHE_CHECKS_SLACK, cache, umem_cache, checks_slack)                 \
	M(CACHE_TAG_BYTES, cache, umem_cache, tag_bytes)                       \
	M(CACHE_TAG_OFFSET, cache, umem_cache, tag_offset)                     \
	M(CACHE_PATTERN_BYTES, cache, umem_cache, pattern_bytes)               \
	M(CACHE_FREE_PATTERN, cache, umem_cache, free_pattern)                 \
	M(CACHE_COUNTS, cache, umem_cache, limit.counts)                       \
	M(CACHE_LIMIT, cache, umem_cache, limit.most)                          \
	M(CACHE_HELD, cache, umem_cache, limit.nheld)                          \
	M(CACHE_WAITING, cache, umem_cache, limit.nwaiting)                    \
	M(CACHE_WAITS, cache, umem_cache, limit.nwaits)                        \
	M(CACHE_REFUSED, cache, umem_cache, limit.nrefused)                    \
	M(CACHE_RESERVE, cache, umem_cache, reserve.objects)                   \
	M(CACHE_RESERVE_WANT, cache, umem_cache, reserve.want)                 \
	M(CACHE_RESERVE_READY, cache, umem_cache, reserve.nready)              \
	M(CACHE_RESERVE_USED, cache, umem_cache, reserve.nused)                \
	M(CACHE_QUARANTINE, cache, umem_cache, quarantine.slot)                \
	M(CACHE_QUARANTINE_SLOTS, cache, umem_cache, quarantine.nslots)        \
	M(CACHE_BUFSIZE, cache, umem_cache, bufsize)                           \
	M(CACHE_DESTRUCT, cache, umem_cache, destruct)                         \
	M(CACHE_PRIV, cache, umem_cache, priv)                                 \
	M(CACHE_NFAILED, cache, umem_cache, nfailed)                           \
	M(CACHE_LINK, cache, umem_cache, link)                                 \
	M(CACHE_NAME, cache, umem_cache, name)                                 \
	M(CACHE_SLABS, cache, umem_cache, slabs)                               \
	M(CACHE_NSLABS, cache, umem_cache, slabs.nslabs)                       \
	M(CACHE_SLAB_NCONTENDED, cache, umem_cache, slabs.ncontended)          \
	M(CACHE_CHUNK, cache, umem_cache, slabs.layout.chunk)                  \
	M(CACHE_SLAB_BYTES, cache, umem_cache, slabs.layout.slab_bytes)        \
	M(CACHE_NCHUNKS, cache, umem_cache, slabs.layout.nchunks)              \
	M(CACHE_SOURCE, cache, umem_cache, slabs.source)                       \
	M(CACHE_COLOUR_MAX, cache, umem_cache, slabs.layout.colour_max)        \
	M(CACHE_HAS_GUARDS, cache, umem_cache, slabs.has_guard_pages)          \
	M(CACHE_IS_UNBACKED, cache, umem_cache, slabs.is_unbacked)             \
	M(CACHE_RECORD_BYTES, cache, umem_cache, slabs.record_bytes)           \
	M(CACHE_CONSTRUCTS, cache, umem_cache, slabs.constructs)               \
	M(CACHE_PARTIAL, cache, umem_cache, slabs.partial)                     \
	M(CACHE_FULL, cache, umem_cache, slabs.full)                           \
	M(CACHE_EMPTY, cache, umem_cache, slabs.empty)                         \
	M(CACHE_RETIRED, cache, umem_cache, slabs.retired)                     \
	M(CACHE_NUSED, cache, umem_cache, slabs.nused)                         \
	B(IMPORT_BYTES, import, import)                                        \
	M(CACHE_IMPORT, cache, umem_cache, import)                             \
	M(IMPORT_POOL, import, import, arrays.pool)                            \
	M(IMPORT_NPOOL, import, import, npool)

#endif
