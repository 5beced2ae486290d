/* layout.h - offsets and variables of the target's library; see layout.c */
#ifndef TOOLS_LAYOUT_H
#define TOOLS_LAYOUT_H

#include "tools/inspect/target.h"

/* The required entries of the library's description. */
#define LAYOUT_ENTRIES(X)                                                      \
	X(UMEM_STATE, "&umem_state")                                           \
	X(CACHE_LIST, "&cache_list")                                           \
	X(ADDR_MAP, "&addr_map")                                               \
	X(SIZE_CLASSES, "&size_classes")                                       \
	X(CPU_LAYER, "&cpu_layer")                                             \
	X(HEAP_SLOT, "&heap_slot")                                             \
	X(HEAP_ARENA, "&heap_arena")                                           \
	X(COMMITTED_END, "&committed_end")                                     \
	X(STATES, "&states")                                                   \
	X(NDIRTY, "&ndirty")                                                   \
	X(ARENA_LIST, "&arena_list")                                           \
	X(FREED, "&freed")                                                     \
	X(CHUNKS, "&chunks")                                                   \
	X(ALONES, "&alones")                                                   \
	X(USED_BYTES, "&used_bytes")                                           \
	X(MAPPED_BYTES, "&mapped_bytes")                                       \
	X(REGIONS, "&regions")                                                 \
	X(BOOT, "&boot")                                                       \
	X(BOOT_USED, "&boot_used")                                             \
	X(UPDATE_INTERVAL, "&update_interval_ns")                              \
	X(DEBUG, "&debug")                                                     \
	X(DOMAINS, "&domains")                                                 \
	X(CACHE_CHECKED, "&cache_checked")                                     \
	X(DEBUG_LARGE_CACHE, "&debug_large_cache")                             \
	X(FREED_LARGE, "&freed_large")                                         \
	X(FREED_FIREWALL, "&freed_firewall")                                   \
	X(LOGS, "&logs")                                                       \
	X(ERROR_BUFFER, "&umem_error_buffer")                                  \
	X(ERROR_BEGIN, "&umem_error_begin")                                    \
	X(ALLOC_FAST, "&alloc_fast")                                           \
	X(SAMPLING, "&sampling")                                               \
	X(SAMPLES, "&samples")                                                 \
	X(NSAMPLES, "&nsamples")                                               \
	X(NTAKEN, "&ntaken")                                                   \
	X(NLOST, "&nlost")                                                     \
	X(BUFCTL_NEVER, "=BUFCTL_NEVER")                                       \
	X(BUFCTL_ALLOCATED, "=BUFCTL_ALLOCATED")                               \
	X(BUFCTL_FREE, "=BUFCTL_FREE")                                         \
	X(BUFCTL_LOST, "=BUFCTL_LOST")                                         \
	X(BUFCTL_WAITING, "=BUFCTL_WAITING")                                   \
	X(DEFER_OBJECT, "=DEFER_OBJECT")                                       \
	X(DEFER_MALLOC, "=DEFER_MALLOC")                                       \
	X(DEFER_FOREIGN, "=DEFER_FOREIGN")                                     \
	X(DOMAIN_BYTES, "=domain")                                             \
	X(DEFER_BYTES, "=defer")                                               \
	X(KIND_MALLOC, "=KIND_MALLOC")                                         \
	X(LOG_TRANSACTION, "=LOG_TRANSACTION")                                 \
	X(LOG_CONTENTS, "=LOG_CONTENTS")                                       \
	X(LOG_FAIL, "=LOG_FAIL")                                               \
	X(LOG_SLAB, "=LOG_SLAB")                                               \
	X(BUFCTL_BYTES, "=bufctl")                                             \
	X(AUDIT_BYTES, "=bufctl_audit")                                        \
	X(FREED_RING_BYTES, "=freed_ring")                                     \
	X(CHOICE_BYTES, "=debug_choice")                                       \
	X(LOG_BYTES, "=log")                                                   \
	X(LOG_CPU_BYTES, "=log_cpu")                                           \
	X(READY, "=UMEM_READY")                                                \
	X(HEAP_UNIT, "=HEAP_UNIT")                                             \
	X(CPU_BLOCK, "=CPU_BLOCK")                                             \
	X(SLAB_BINS, "=SLAB_BINS")                                             \
	X(OWNER_NONE, "=RSEQ_NONE")                                            \
	X(OWNER_OWN, "=RSEQ_OWN")                                              \
	X(CACHE_BYTES, "=cache")                                               \
	X(ARENA_BYTES, "=arena")                                               \
	X(HOT_BYTES, "=cpu_hot")                                               \
	X(COLD_BYTES, "=cpu_cold")                                             \
	X(MAGAZINE_BYTES, "=magazine")                                         \
	X(SEGMENT_BYTES, "=segment")                                           \
	X(SLAB_BYTES, "=slab")                                                 \
	X(SIZE_SMALL, "=SIZE_SMALL")                                           \
	X(SAMPLE_LIVE, "=SAMPLE_LIVE")                                         \
	X(SAMPLE_FREED, "=SAMPLE_FREED")                                       \
	X(SAMPLE_WAITING, "=SAMPLE_WAITING")                                   \
	X(SAMPLE_BYTES, "=sample")                                             \
	X(FAST_SMALL_END, "alloc_fast.small_end")                              \
	X(FAST_UNITS, "alloc_fast.units")                                      \
	X(SAMPLING_MEAN, "sampling.mean")                                      \
	X(SAMPLING_COUNTED_END, "sampling.counted_end")                        \
	X(SAMPLING_ABLE, "sampling.able")                                      \
	X(SAMPLE_BLOCK, "sample.block")                                        \
	X(SAMPLE_SPAN, "sample.span")                                          \
	X(SAMPLE_SIZE, "sample.size")                                          \
	X(SAMPLE_MEAN, "sample.mean")                                          \
	X(SAMPLE_TIME, "sample.time")                                          \
	X(SAMPLE_THREAD, "sample.thread")                                      \
	X(SAMPLE_FREED_TIME, "sample.freed_time")                              \
	X(SAMPLE_FREED_THREAD, "sample.freed_thread")                          \
	X(SAMPLE_STATE, "sample.state")                                        \
	X(SAMPLE_DEPTH, "sample.depth")                                        \
	X(SAMPLE_FREED_DEPTH, "sample.freed_depth")                            \
	X(SAMPLE_GUARDED, "sample.guarded")                                    \
	X(SAMPLE_NFRAMES, "sample.nframes")                                    \
	X(SAMPLE_STACK, "sample.stack[0]")                                     \
	X(LIST_NEXT, "list.next")                                              \
	X(SLAB_LINK, "slab.link")                                              \
	X(SLAB_STORE, "slab.store")                                            \
	X(SLAB_SPAN, "slab.span")                                              \
	X(SLAB_FIRST, "slab.first")                                            \
	X(SLAB_NFREE, "slab.nfree")                                            \
	X(SLAB_BITS, "slab.bits[0]")                                           \
	X(SLAB_RECORDS, "slab.records")                                        \
	X(CLAIM_SLAB, "slab_claim.slab")                                       \
	X(CLAIM_MASK, "slab_claim.mask")                                       \
	X(CLAIM_WORD, "slab_claim.word")                                       \
	X(CLAIM_BYTES, "=slab_claim")                                          \
	X(CACHE_DEBUG, "cache.debug")                                          \
	X(CACHE_TAG_OFFSET, "cache.tag_offset")                                \
	X(CACHE_TAGGED, "cache.tagged")                                        \
	X(CACHE_PATTERN_BYTES, "cache.pattern_bytes")                          \
	X(CACHE_FREE_PATTERN, "cache.free_pattern")                            \
	X(CACHE_QUARANTINE, "cache.quarantine.slot")                           \
	X(CACHE_QUARANTINE_SLOTS, "cache.quarantine.nslots")                   \
	X(CACHE_CONSTRUCTS, "cache.slabs.constructs")                          \
	X(CACHE_IMPORT, "cache.import")                                        \
	X(IMPORT_BYTES, "=import")                                             \
	X(IMPORT_POOL, "import.arrays.pool")                                   \
	X(IMPORT_NPOOL, "import.npool")                                        \
	X(CACHE_NUSED, "cache.slabs.nused")                                    \
	X(CACHE_PRIV, "cache.priv")                                            \
	X(CACHE_RECORD_BYTES, "cache.slabs.record_bytes")                      \
	X(BUFCTL_SUM, "bufctl.sum")                                            \
	X(BUFCTL_ADDR, "bufctl.addr")                                          \
	X(BUFCTL_SLAB, "bufctl.slab")                                          \
	X(BUFCTL_CACHE, "bufctl.cache")                                        \
	X(BUFCTL_SIZE, "bufctl.size")                                          \
	X(BUFCTL_STATE, "bufctl.state")                                        \
	X(BUFCTL_KIND, "bufctl.kind")                                          \
	X(BUFCTL_DEPTH, "bufctl.depth")                                        \
	X(AUDIT_TIMESTAMP, "bufctl_audit.timestamp")                           \
	X(AUDIT_THREAD, "bufctl_audit.thread")                                 \
	X(AUDIT_LASTLOG, "bufctl_audit.lastlog")                               \
	X(AUDIT_CONTENTS, "bufctl_audit.contents")                             \
	X(AUDIT_STACK, "bufctl_audit.stack[0]")                                \
	X(FREED_RING_RECORD, "freed_ring.record")                              \
	X(FREED_RING_SIZE, "freed_ring.size")                                  \
	X(FREED_RING_NPUT, "freed_ring.nput")                                  \
	X(TAG_REDZONE, "buftag.redzone")                                       \
	X(TAG_BUFCTL, "buftag.bufctl")                                         \
	X(TAG_BXSTAT, "buftag.bxstat")                                         \
	X(DEBUG_NFRAMES, "debug.nframes")                                      \
	X(DEBUG_VERIFY_MAX, "debug.verify_max")                                \
	X(DEBUG_HARDENED, "debug.hardened")                                    \
	X(DEBUG_NOABORT, "debug.noabort")                                      \
	X(DEBUG_CHECKNULL, "debug.checknull")                                  \
	X(DEBUG_MTBF, "debug.mtbf")                                            \
	X(DEBUG_NCHOICES, "debug.nchoices")                                    \
	X(DEBUG_CHOICE, "debug.choice")                                        \
	X(CHOICE_FLAGS, "debug_choice.flags")                                  \
	X(CHOICE_FIREWALL, "debug_choice.firewall_min")                        \
	X(CHOICE_PATTERNS, "debug_choice.patterns")                            \
	X(LOG_BASE, "log.base")                                                \
	X(LOG_SIZE, "log.bytes")                                               \
	X(LOG_CHUNK_BYTES, "log.chunk_bytes")                                  \
	X(LOG_NCHUNKS, "log.nchunks")                                          \
	X(LOG_NCPUS, "log.ncpus")                                              \
	X(LOG_CPU, "log.cpu")                                                  \
	X(LOG_CPU_CHUNK, "log_cpu.chunk")                                      \
	X(LOG_CPU_NCHUNKS, "log_cpu.nchunks")                                  \
	X(CACHE_HOT, "cache.mag.hot")                                          \
	X(CACHE_COLD, "cache.mag.cold")                                        \
	X(CACHE_ROUNDS, "cache.mag.rounds")                                    \
	X(CACHE_DEPOT_FULL, "cache.mag.depot.full.head")                       \
	X(CACHE_DEPOT_EMPTY, "cache.mag.depot.empty.head")                     \
	X(CACHE_DEPOT_NFULL, "cache.mag.depot.full.n")                         \
	X(CACHE_DEPOT_NEMPTY, "cache.mag.depot.empty.n")                       \
	X(CACHE_SHARDS, "cache.mag.nshards")                                   \
	X(CACHE_MORE_SHARDS, "cache.mag.more")                                 \
	X(DEPOT_BYTES, "=depot")                                               \
	X(DEPOT_FULL, "depot.full.head")                                       \
	X(DEPOT_EMPTY, "depot.empty.head")                                     \
	X(DEPOT_NCONTENDED, "depot.ncontended")                                \
	X(CACHE_NCONTENDED, "cache.mag.depot.ncontended")                      \
	X(CACHE_NWAITED, "cache.slabs.nwaited")                                \
	X(CACHE_HAS_MAGAZINES, "cache.has_magazines")                          \
	X(CACHE_CLASS, "cache.class")                                          \
	X(CACHE_FLAGS, "cache.flags")                                          \
	X(CACHE_COUNTS, "cache.limit.counts")                                  \
	X(CACHE_LIMIT, "cache.limit.most")                                     \
	X(CACHE_HELD, "cache.limit.nheld")                                     \
	X(CACHE_WAITING, "cache.limit.nwaiting")                               \
	X(CACHE_WAITS, "cache.limit.nwaits")                                   \
	X(CACHE_REFUSED, "cache.limit.nrefused")                               \
	X(CACHE_RESERVE, "cache.reserve.objects")                              \
	X(CACHE_RESERVE_WANT, "cache.reserve.want")                            \
	X(CACHE_RESERVE_READY, "cache.reserve.nready")                         \
	X(CACHE_RESERVE_USED, "cache.reserve.nused")                           \
	X(CACHE_BUFSIZE, "cache.bufsize")                                      \
	X(CACHE_ALIGN, "cache.align")                                          \
	X(CACHE_CONSTRUCT, "cache.construct")                                  \
	X(CACHE_DESTRUCT, "cache.destruct")                                    \
	X(CACHE_DESTROYED, "cache.destroyed")                                  \
	X(CACHE_NFAILED, "cache.nfailed")                                      \
	X(CACHE_LINK, "cache.link")                                            \
	X(CACHE_NAME, "cache.name")                                            \
	X(CACHE_SLABS, "cache.slabs")                                          \
	X(CACHE_CHUNK, "cache.slabs.layout.chunk")                             \
	X(CACHE_SLAB_BYTES, "cache.slabs.layout.slab_bytes")                   \
	X(CACHE_NCHUNKS, "cache.slabs.layout.nchunks")                         \
	X(CACHE_SOURCE, "cache.slabs.source")                                  \
	X(CACHE_PARTIAL, "cache.slabs.partial")                                \
	X(CACHE_FULL, "cache.slabs.full")                                      \
	X(CACHE_EMPTY, "cache.slabs.empty")                                    \
	X(CACHE_RETIRED, "cache.slabs.retired")                                \
	X(CACHE_NSLABS, "cache.slabs.nslabs")                                  \
	X(CACHE_NCREATED, "cache.slabs.ncreated")                              \
	X(HOT_TOP, "cpu_hot.top")                                              \
	X(COLD_LOADED, "cpu_cold.loaded")                                      \
	X(COLD_PREVIOUS, "cpu_cold.previous")                                  \
	X(COLD_NLOADS, "cpu_cold.nloads")                                      \
	X(COLD_NUNLOADS, "cpu_cold.nunloads")                                  \
	X(COLD_NBYPASSED, "cpu_cold.nbypassed")                                \
	X(MAGAZINE_NEXT, "magazine.next")                                      \
	X(MAGAZINE_CAPACITY, "magazine.capacity")                              \
	X(MAGAZINE_NROUNDS, "magazine.nrounds")                                \
	X(MAGAZINE_ROUND, "magazine.round[0]")                                 \
	X(DOMAIN_KEY, "domain.key")                                            \
	X(DOMAIN_NEXT, "domain.next")                                          \
	X(DOMAIN_LAYERS, "domain.layers")                                      \
	X(DOMAIN_BROKEN, "domain.broken")                                      \
	X(DOMAIN_IN_GRACE, "domain.in_grace")                                  \
	X(DOMAIN_NGRACES, "domain.ngraces")                                    \
	X(DOMAIN_NRELEASED, "domain.nreleased")                                \
	X(DEFER_HOT, "defer.mags.hot")                                         \
	X(DEFER_COLD, "defer.mags.cold")                                       \
	X(DEFER_PENDING, "defer.mags.pending")                                 \
	X(DEFER_WAITING, "defer.mags.waiting")                                 \
	X(DEFER_CACHE, "defer.cache")                                          \
	X(DEFER_NEXT, "defer.next")                                            \
	X(DEFER_UNIT, "defer.mags.object_bytes")                               \
	X(DEFER_KIND, "defer.kind")                                            \
	X(LAYER_OWNER, "cpu_layer.rseq.owner")                                 \
	X(LAYER_BY_MM_CID, "cpu_layer.rseq.by_mm_cid")                         \
	X(LAYER_NSLOTS, "cpu_layer.nslots")                                    \
	X(LAYER_NWANTED, "cpu_layer.nwanted")                                  \
	X(LAYER_NUSED, "cpu_layer.nused")                                      \
	X(REGION_BLOCKS, "region.blocks")                                      \
	X(REGION_COMMITTED, "region.committed")                                \
	X(REGION_NEXT, "region.next")                                          \
	X(MAP_BASE, "addr_map.base")                                           \
	X(MAP_UNITS, "addr_map.units")                                         \
	X(MAP_ENTRY, "addr_map.entry")                                         \
	X(MAP_OWNER, "addr_map.owner")                                         \
	X(SLOT_BASE, "heap_slot.base")                                         \
	X(SLOT_UNITS, "heap_slot.units")                                       \
	X(RANGE_NEXT, "meta_range.next")                                       \
	X(RANGE_AT, "meta_range.at")                                           \
	X(RANGE_BYTES, "meta_range.bytes")                                     \
	X(ARENA_LINK, "arena.link")                                            \
	X(ARENA_NAME, "arena.name")                                            \
	X(ARENA_QUANTUM, "arena.quantum")                                      \
	X(ARENA_SOURCE, "arena.source")                                        \
	X(ARENA_CFLAGS, "arena.cflags")                                        \
	X(ARENA_HEAD, "arena.head")                                            \
	X(ARENA_INUSE, "arena.stats.inuse")                                    \
	X(ARENA_TOTAL, "arena.stats.total")                                    \
	X(ARENA_IMPORTED, "arena.stats.imported")                              \
	X(ARENA_NALLOCS, "arena.stats.nallocs")                                \
	X(ARENA_NFAILS, "arena.stats.nfails")                                  \
	X(SEGMENT_START, "segment.start")                                      \
	X(SEGMENT_SIZE, "segment.size")                                        \
	X(SEGMENT_ANEXT, "segment.anext")                                      \
	X(SEGMENT_TYPE, "segment.type")

enum layout_entry {
#define LAYOUT_ENUM(id, name) L_##id,
	LAYOUT_ENTRIES(LAYOUT_ENUM) L_ENTRIES
};

/* An entry of a description, in the format of the library. */
struct described {
	char name[48];
	uint64_t value;
	uint64_t bytes;
};

struct layout {
	uint64_t at; /* of the description */
	const char *version;
	const char *object; /* file that the library is in */
	bool in_program;    /* the file is the program, not libumem*.so */
	unsigned ncopies;   /* of the library with a non-empty heap */
	bool is_ready;
	uint64_t in_use; /* bytes, of the heap */
	struct described *entries;
	size_t nentries;
	struct described known[L_ENTRIES];
};

/* Finds the library in the target, or ends the command with a message. */
struct layout *layout_find(struct target *target);

static inline uint64_t
layout_value(const struct layout *layout, enum layout_entry entry)
{
	return layout->known[entry].value;
}

/* Returns an entry that only some versions have; NULL: it is missing. */
const struct described *layout_optional(
    const struct layout *layout, const char *name);

/* Returns the bytes of a region of CPU blocks up to its last member. */
uint64_t layout_region_bytes(const struct layout *layout);

/* Reads a number of 1, 2, 4 or 8 bytes. */
uint64_t layout_number(const void *at, uint64_t bytes);

/* Reads a member of a record that was copied. */
static inline uint64_t
layout_get(
    const struct layout *layout, const void *record, enum layout_entry entry)
{
	const struct described *d = &layout->known[entry];

	return layout_number((const char *)record + d->value, d->bytes);
}

/* Reads a variable of the target; 0 if it cannot be read. */
uint64_t layout_variable(const struct layout *layout, struct target *target,
    enum layout_entry entry);

/* Returns the copy of a whole variable of the target, or NULL. */
const char *layout_at(const struct layout *layout, struct target *target,
    enum layout_entry entry);

/* Makes target_at() work for every variable except the large ones. */
void layout_copy_variables(const struct layout *layout, struct target *target);

#endif
