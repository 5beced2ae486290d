/*
 * description.h - format and entries of the library's introspection table
 *
 * A tool that inspects a live process or a core file must not have the layout
 * of the library's structures compiled in.  Otherwise it would misread another
 * build of the library.  The library therefore contains a table of names with
 * offsets, sizes, addresses and values, which the compiler makes from the
 * structures (vmem/describe.h).  The command umem (tools/inspect) looks up the
 * names in the table of its target.
 *
 * This file is the only one that the library and the command share for that
 * purpose.  It contains the format of the table, and the list of its entries.
 * The library makes the table from the list, and the command its look-up, so a
 * name is written once.  No offset and no value is in this file: the command
 * reads all of them from the target.
 *
 * The format changes only with a new DESCRIPTION_VERSION.  Entries come and go;
 * the command reports an entry that it needs and the target lacks.
 *
 * Each list belongs to the file that its comment names, which can see the
 * structures and variables of the list.  A list calls these macros:
 *	M(id, label, type, member)	a member of struct type: "label.member",
 *					with its offset and size
 *	V(id, variable)			"&variable", with its distance from
 *					the entry, and its size
 *	C(constant)			"=constant", with its value
 *	B(id, label, type)		"=label", with the size of struct type
 * id, or the name of the constant, is the name of the entry in the command,
 * with the prefix L_ (tools/inspect/model/layout.h).
 */
#ifndef VMEM_DESCRIPTION_H
#define VMEM_DESCRIPTION_H

#include <stdint.h>

/* The header of the table is at a multiple of this address. */
#define DESCRIPTION_ALIGN   128
#define DESCRIPTION_MAGIC   "umem described\n"
#define DESCRIPTION_VERSION 3

/* Tools read the entries directly from memory: 64 bytes each, no padding. */
struct describe_entry {
	char name[48];
	uint64_t value;
	uint64_t bytes;
};

_Static_assert(sizeof(struct describe_entry) == 64, "one after the other");

/*
 * The header.  Tools search for the magic.  The header contains its own
 * address, which distinguishes it from a copy.
 */
struct description {
	char magic[16];
	uint32_t version;
	uint32_t entry_bytes;
	struct description *self;
	struct describe_entry *entries;
	struct describe_entry *entries_end;
	char library[16]; /* version of the library */
};

_Static_assert(sizeof(struct description) == 64, "no padding");

/* vmem/create.c */
#define DESCRIBED_ARENA_LIST(M, V, C, B) V(ARENA_LIST, arena_list)

/* vmem/account.c */
#define DESCRIBED_ACCOUNT(M, V, C, B)                                          \
	V(ACCOUNT, account)                                                    \
	M(ACCOUNT_PROGRAM, account, account, program)                          \
	M(ACCOUNT_DONATED, account, account, donated)                          \
	M(ACCOUNT_FIREWALL, account, account, firewall)                        \
	M(ACCOUNT_PURGED, account, account, purged)                            \
	M(ACCOUNT_QUARANTINED, account, account, quarantined)                  \
	M(ACCOUNT_LARGE, account, account, large)                              \
	M(ACCOUNT_SAMPLE_UNITS, account, account, sample_units)                \
	M(ACCOUNT_SAMPLE_UNIT_SPANS, account, account, sample_unit_spans)      \
	M(ACCOUNT_SAMPLE_SPANS, account, account, sample_spans)                \
	M(ACCOUNT_SAMPLE_PAGES, account, account, sample_pages)                \
	M(ACCOUNT_SAMPLE_GUARDED, account, account, sample_guarded)            \
	M(ACCOUNT_SAMPLE_WARM, account, account, sample_warm)                  \
	M(ACCOUNT_TABLES, account, account, tables)                            \
	M(ACCOUNT_NLARGE_FAILED, account, account, nlarge_failed)              \
	M(ACCOUNT_NWRONG_SIZES, account, account, nwrong_sizes)

/* vmem/heap.c */
#define DESCRIBED_HEAP(M, V, C, B) V(HEAP_ARENA, heap_arena)

/* vmem/heap_commit.c */
#define DESCRIBED_COMMIT(M, V, C, B)                                           \
	V(COMMITTED_END, committed_end)                                        \
	V(NFOREIGN, nforeign)

/* vmem/heap_limit.c */
#define DESCRIBED_HEAP_LIMIT(M, V, C, B)                                       \
	V(HEAP_LIMITS, heap_limits)                                            \
	M(LIMITS_SOFT, heap_limits, heap_limits, soft)                         \
	M(LIMITS_NSOFT, heap_limits, heap_limits, nsoft)                       \
	M(LIMITS_HARD, heap_limits, heap_limits, hard)                         \
	M(LIMITS_NHARD, heap_limits, heap_limits, nhard)

/* vmem/probe.c */
#define DESCRIBED_PROBES(M, V, C, B) C(PROBES_BUILT)

/* vmem/heap_purge.c */
#define DESCRIBED_STATES(M, V, C, B)                                           \
	V(STATES, states)                                                      \
	V(NDIRTY, ndirty)

/* vmem/meta.c */
#define DESCRIBED_META(M, V, C, B)                                             \
	V(FREED, freed)                                                        \
	V(META_POOLS, pools)                                                   \
	V(DEDICATED, dedicated)                                                \
	V(MAPPED_BYTES, mapped_bytes)                                          \
	B(META_RANGE_BYTES, meta_range, meta_range)                            \
	M(RANGE_NEXT, meta_range, meta_range, next)                            \
	M(RANGE_AT, meta_range, meta_range, at)                                \
	M(RANGE_BYTES, meta_range, meta_range, bytes)

/* magazine/cpu_region.c */
#define DESCRIBED_CPU_REGIONS(M, V, C, B)                                      \
	V(REGIONS, cpu_regions)                                                \
	B(REGION_BYTES, region, region)                                        \
	M(REGION_BLOCKS, region, region, blocks)                               \
	M(REGION_COMMITTED, region, region, committed)                         \
	M(REGION_NEXT, region, region, next)

/* umem/cache/import.c */
#define DESCRIBED_IMPORT(M, V, C, B)                                           \
	B(IMPORT_BYTES, import, import)                                        \
	M(CACHE_IMPORT, cache, umem_cache, import)                             \
	M(IMPORT_POOL, import, import, arrays.pool)                            \
	M(IMPORT_NPOOL, import, import, npool)

/* umem/debug/debug_large.c */
#define DESCRIBED_DEBUG_LARGE(M, V, C, B)                                      \
	V(DEBUG_LARGE_CACHE, debug_large_cache)

/*
 * umem/debug/freed.c.  The command copies the arrays of the rings because they
 * are described.
 */
#define DESCRIBED_FREED_RINGS(M, V, C, B)                                      \
	V(FREED_LARGE, freed_large)                                            \
	V(FREED_FIREWALL, freed_firewall)                                      \
	V(LARGE_BUFCTLS, freed_large_bufctls)                                  \
	V(FIREWALL_BUFCTLS, freed_firewall_bufctls)                            \
	B(FREED_RING_BYTES, freed_ring, freed_ring)                            \
	M(FREED_RING_BUFCTL, freed_ring, freed_ring, bufctl)                   \
	M(FREED_RING_SIZE, freed_ring, freed_ring, size)                       \
	M(FREED_RING_NPUT, freed_ring, freed_ring, nput)

/* umem/debug/stack.c; its address is 0 if libc lacks it. */
#define DESCRIBED_STACK(M, V, C, B) V(LIBC_STACK_END, libc_stack_end)

/* umem/malloc/alloc.c */
#define DESCRIBED_ALLOC(M, V, C, B)                                            \
	V(ALLOC_FAST, alloc_fast)                                              \
	M(FAST_SMALL_END, alloc_fast, alloc_fast, small_end)

/* umem/profile/sample.c */
#define DESCRIBED_SAMPLES(M, V, C, B)                                          \
	V(SAMPLING, sampling)                                                  \
	V(SAMPLES, samples)                                                    \
	V(NSAMPLES, nsamples)                                                  \
	V(NTAKEN, ntaken)                                                      \
	V(NLOST, nlost)                                                        \
	V(NHALVED, nhalved)                                                    \
	C(SAMPLES_MAX)                                                         \
	C(PAGE_MAP_SIZE_BITS)                                                  \
	C(SAMPLE_LIVE)                                                         \
	C(SAMPLE_FREED)                                                        \
	C(SAMPLE_WAITING)                                                      \
	B(SAMPLE_BYTES, sample, sample)                                        \
	M(SAMPLING_MEAN, sampling, sampling, mean)                             \
	M(SAMPLING_ABLE, sampling, sampling, is_allowed)                       \
	M(SAMPLING_COUNTED_END, sampling, sampling, counted_end)               \
	M(SAMPLING_CHOSEN, sampling, sampling, chosen)                         \
	M(SAMPLE_BLOCK, sample, sample, block)                                 \
	M(SAMPLE_CACHE, sample, sample, cache)                                 \
	M(SAMPLE_SPAN, sample, sample, span)                                   \
	M(SAMPLE_OWN_UNIT, sample, sample, own_unit)                           \
	M(SAMPLE_SIZE, sample, sample, size)                                   \
	M(SAMPLE_COUNTED, sample, sample, counted)                             \
	M(SAMPLE_MEAN, sample, sample, mean)                                   \
	M(SAMPLE_TIME, sample, sample, time)                                   \
	M(SAMPLE_THREAD, sample, sample, thread)                               \
	M(SAMPLE_FREED_TIME, sample, sample, freed_time)                       \
	M(SAMPLE_FREED_THREAD, sample, sample, freed_thread)                   \
	M(SAMPLE_STATE, sample, sample, state)                                 \
	M(SAMPLE_GUARDED, sample, sample, is_guarded)                          \
	M(SAMPLE_COUNTED_NOW, sample, sample, is_counted)                      \
	M(SAMPLE_STACK, sample, sample, stack)                                 \
	M(SAMPLE_FREED_STACK, sample, sample, freed_stack)                     \
	C(SAMPLE_FRAMES)                                                       \
	B(SAMPLE_STACK_BYTES, sample_stack, sample_stack)                      \
	M(SAMPLE_STACK_DEPTH, sample_stack, sample_stack, depth)               \
	M(SAMPLE_STACK_PCS, sample_stack, sample_stack, pc[0])                 \
	V(SIZE_CLASSES, size_classes)                                          \
	M(CLASSES_N, size_classes, size_classes, n)                            \
	M(CLASSES_BYTES, size_classes, size_classes, bytes)

/* umem/upkeep/snapshot.c */
#define DESCRIBED_SNAPSHOT(M, V, C, B)                                         \
	V(SNAPSHOT, snapshot)                                                  \
	C(SNAPSHOT_NONE)                                                       \
	C(SNAPSHOT_ASKED)                                                      \
	C(SNAPSHOT_READY)                                                      \
	C(SNAPSHOT_GO)                                                         \
	M(SNAPSHOT_STATE, snapshot, snapshot, state)                           \
	M(SNAPSHOT_THREAD, snapshot, snapshot, thread)                         \
	M(SNAPSHOT_SLEEPS_ON, snapshot, snapshot, sleeps_on)                   \
	M(SNAPSHOT_WAKING, snapshot, snapshot, waking)

/* umem/rcu/grace.c */
#define DESCRIBED_GRACE(M, V, C, B)                                            \
	V(DOMAINS, domains)                                                    \
	C(DEFER_OBJECT)                                                        \
	C(DEFER_MALLOC)                                                        \
	C(DEFER_FOREIGN)                                                       \
	B(DOMAIN_BYTES, domain, domain)                                        \
	B(DEFER_BYTES, defer, defer)                                           \
	M(DOMAIN_KEY, domain, domain, key)                                     \
	M(DOMAIN_NEXT, domain, domain, next)                                   \
	M(DOMAIN_LAYERS, domain, domain, layers)                               \
	M(DOMAIN_BROKEN, domain, domain, is_broken)                            \
	M(DOMAIN_IN_GRACE, domain, domain, nsynchronizing)                     \
	M(DOMAIN_NGRACES, domain, domain, ngraces)                             \
	M(DOMAIN_NRELEASED, domain, domain, nreleased)                         \
	M(DEFER_HOT, defer, defer, mags.hot)                                   \
	M(DEFER_COLD, defer, defer, mags.cold)                                 \
	M(DEFER_PENDING, defer, defer, mags.pending)                           \
	M(DEFER_WAITING, defer, defer, mags.waiting)                           \
	M(DEFER_NSUBMITTED, defer, defer, mags.nsubmitted)                     \
	M(DEFER_CACHE, defer, defer, cache)                                    \
	M(DEFER_NEXT, defer, defer, next)                                      \
	M(DEFER_UNIT, defer, defer, mags.object_bytes)                         \
	M(DEFER_KIND, defer, defer, kind)

/* umem/option_table.c */
#define DESCRIBED_OPTIONS(M, V, C, B)                                          \
	V(OPTION_TABLE, option_table)                                          \
	V(OPTION_LISTS, option_word_lists)                                     \
	V(OPTION_TARGETS, option_targets)                                      \
	C(OPTION_FLAG)                                                         \
	C(OPTION_SIZE)                                                         \
	C(OPTION_SECONDS)                                                      \
	C(OPTION_MILLISECONDS)                                                 \
	C(OPTION_WORD)                                                         \
	C(OPTION_PATH)                                                         \
	B(OPTION_BYTES, option, option)                                        \
	B(OPTION_WORD_BYTES, option_word, option_word)                         \
	B(OPTION_LIST_BYTES, option_list, option_list)                         \
	B(OPTION_TARGET_BYTES, option_variable_at, option_variable_at)         \
	M(OPTION_NAME, option, option, name)                                   \
	M(OPTION_TYPE, option, option, type)                                   \
	M(OPTION_TARGET, option, option, target)                               \
	M(OPTION_LIST, option, option, words)                                  \
	M(OPTION_LIVE, option, option, is_live)                                \
	M(OPTION_CLAMPED, option, option, is_clamped)                          \
	M(OPTION_SHARE, option, option, takes_share)                           \
	M(OPTION_WRONG, option, option, wrong)                                 \
	M(OPTION_INITIAL, option, option, initial)                             \
	M(OPTION_INITIAL_TEXT, option, option, initial_text)                   \
	M(OPTION_MINIMUM, option, option, minimum)                             \
	M(OPTION_MAXIMUM, option, option, maximum)                             \
	M(OPTION_WORD_NAME, option_word, option_word, name)                    \
	M(OPTION_WORD_VALUE, option_word, option_word, value)                  \
	M(OPTION_TARGET_AT, option_variable_at, option_variable_at, distance)  \
	M(OPTION_TARGET_SIZE, option_variable_at, option_variable_at, bytes)

/* umem/init.c */
#define DESCRIBED_BOOT(M, V, C, B)                                             \
	V(BOOTSTRAP, bootstrap)                                                \
	V(BOOTSTRAP_USED, bootstrap_used)

/* umem/describe.c: structures and variables that headers declare. */
#define DESCRIBED_HEADERS(M, V, C, B)                                          \
	V(UMEM_STATE, umem_state)                                              \
	V(CACHE_LIST, cache_list)                                              \
	V(CACHE_DESTROYED_LIST, cache_destroyed_list)                          \
	V(PAGE_MAP, page_map)                                                  \
	V(CPU_LAYER, cpu_layer)                                                \
	V(HEAP_WINDOW, heap_window)                                            \
	V(DEBUG, debug)                                                        \
	V(LOGS, logs)                                                          \
	V(ERROR_BUFFER, umem_error_buffer)                                     \
	V(ERROR_BEGIN, umem_error_begin)                                       \
	V(ERROR_TIME, umem_error_time)                                         \
	V(ABORT_INFO, umem_abort_info)                                         \
	M(ABORT_TIME, umem_abort_info, error_info, time)                       \
	M(ABORT_BUFFER, umem_abort_info, error_info, buffer)                   \
	V(IMAGE_END, image_end)                                                \
	C(BUFCTL_NEVER)                                                        \
	C(BUFCTL_ALLOCATED)                                                    \
	C(BUFCTL_FREE)                                                         \
	C(BUFCTL_RETIRED)                                                      \
	C(BUFCTL_WAITING)                                                      \
	C(LOG_TRANSACTION)                                                     \
	C(LOG_FAIL)                                                            \
	C(LOG_SLAB)                                                            \
	C(UMEM_READY)                                                          \
	C(HEAP_UNIT)                                                           \
	C(CPU_BLOCK)                                                           \
	C(SLAB_BINS)                                                           \
	C(RSEQ_NONE)                                                           \
	C(CPU_CLAIMED)                                                         \
	C(BUFTAG_ALLOCATED)                                                    \
	C(BUFTAG_FREE)                                                         \
	C(PATTERN_REDZONE)                                                     \
	C(PATTERN_END)                                                         \
	C(REDZONE_FACTOR)                                                      \
	C(REDZONE_ADDEND)                                                      \
	C(UMF_AUDIT)                                                           \
	C(UMF_DEADBEEF)                                                        \
	C(UMF_CONTENTS)                                                        \
	C(UMF_CHECKSIGNAL)                                                     \
	C(UMF_FIREWALL)                                                        \
	C(UMF_LITE)                                                            \
	C(UMF_RANDOMIZE)                                                       \
	C(UMF_RCU_WRITES)                                                      \
	C(API_RESERVED)                                                        \
	B(BUFCTL_BYTES, bufctl, bufctl)                                        \
	B(AUDIT_BYTES, bufctl_audit, bufctl_audit)                             \
	B(CHOICE_BYTES, debug_choice, debug_choice)                            \
	B(LOG_BYTES, log, log)                                                 \
	B(LOG_CPU_BYTES, log_cpu, log_cpu)                                     \
	B(ARENA_BYTES, arena, vmem)                                            \
	B(CACHE_BYTES, cache, umem_cache)                                      \
	B(HOT_BYTES, cpu_hot, cpu_hot)                                         \
	B(COLD_BYTES, cpu_cold, cpu_cold)                                      \
	B(DEPOT_BYTES, depot, depot)                                           \
	B(MAGAZINE_BYTES, magazine, magazine)                                  \
	B(SEGMENT_BYTES, segment, segment)                                     \
	B(SLAB_BYTES, slab, slab)                                              \
	B(CLAIM_BYTES, slab_claim, slab_claim)                                 \
	B(LIST_BYTES, list, list)                                              \
	B(TAG_BYTES, buftag, buftag)                                           \
	M(LIST_NEXT, list, list, next)                                         \
	M(SLAB_LINK, slab, slab, link)                                         \
	M(SLAB_STORE, slab, slab, store)                                       \
	M(SLAB_SPAN, slab, slab, span)                                         \
	M(SLAB_FIRST, slab, slab, first)                                       \
	M(SLAB_BITS, slab, slab, bits[0])                                      \
	M(SLAB_RECORDS, slab, slab, records)                                   \
	M(CLAIM_SLAB, slab_claim, slab_claim, slab)                            \
	M(CLAIM_MASK, slab_claim, slab_claim, mask)                            \
	M(CLAIM_WORD, slab_claim, slab_claim, word)                            \
	M(CACHE_HOT, cache, umem_cache, mag.hot)                               \
	M(CACHE_COLD, cache, umem_cache, mag.cold)                             \
	M(CACHE_DEPOT_FULL, cache, umem_cache, mag.depot.full.head)            \
	M(CACHE_DEPOT_EMPTY, cache, umem_cache, mag.depot.empty.head)          \
	M(CACHE_DEPOT_NFULL, cache, umem_cache, mag.depot.full.n)              \
	M(CACHE_NCONTENDED, cache, umem_cache, mag.depot.ncontended)           \
	M(CACHE_SHARDS, cache, umem_cache, mag.nshards)                        \
	M(CACHE_MORE_SHARDS, cache, umem_cache, mag.more)                      \
	M(DEPOT_FULL, depot, depot, full.head)                                 \
	M(DEPOT_EMPTY, depot, depot, empty.head)                               \
	M(DEPOT_NFULL, depot, depot, full.n)                                   \
	M(DEPOT_NCONTENDED, depot, depot, ncontended)                          \
	M(CACHE_HAS_MAGAZINES, cache, umem_cache, has_magazines)               \
	M(CACHE_CLASS, cache, umem_cache, class)                               \
	M(CACHE_FLAGS, cache, umem_cache, flags)                               \
	M(CACHE_DEBUG, cache, umem_cache, debug)                               \
	M(CACHE_SLACK_MAX, cache, umem_cache, slack_most)                      \
	M(CACHE_TAGGED, cache, umem_cache, tagged)                             \
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
	M(BUFCTL_SUM, bufctl, bufctl, sum)                                     \
	M(BUFCTL_ADDR, bufctl, bufctl, addr)                                   \
	M(BUFCTL_SLAB, bufctl, bufctl, slab)                                   \
	M(BUFCTL_CACHE, bufctl, bufctl, cache)                                 \
	M(BUFCTL_SIZE, bufctl, bufctl, size)                                   \
	M(BUFCTL_STATE, bufctl, bufctl, state)                                 \
	M(BUFCTL_API, bufctl, bufctl, api)                                     \
	M(BUFCTL_DEPTH, bufctl, bufctl, depth)                                 \
	M(AUDIT_TIMESTAMP, bufctl_audit, bufctl_audit, timestamp)              \
	M(AUDIT_THREAD, bufctl_audit, bufctl_audit, thread)                    \
	M(AUDIT_ALLOCATED_TIME, bufctl_audit, bufctl_audit, allocated_time)    \
	M(AUDIT_ALLOCATED_THREAD, bufctl_audit, bufctl_audit,                  \
	    allocated_thread)                                                  \
	M(AUDIT_ALLOCATED_DEPTH, bufctl_audit, bufctl_audit, allocated_depth)  \
	M(AUDIT_STACK, bufctl_audit, bufctl_audit, stack[0])                   \
	M(TAG_REDZONE, buftag, buftag, redzone)                                \
	M(TAG_BUFCTL, buftag, buftag, bufctl)                                  \
	M(TAG_BXSTAT, buftag, buftag, bxstat)                                  \
	M(DEBUG_NFRAMES, debug, debug, nframes)                                \
	M(DEBUG_VERIFY_MAX, debug, debug, verify_max)                          \
	M(DEBUG_NOABORT, debug, debug, noabort)                                \
	M(DEBUG_CHECKNULL, debug, debug, checknull)                            \
	M(DEBUG_MTBF, debug, debug, mtbf)                                      \
	M(DEBUG_NCHOICES, debug, debug, nchoices)                              \
	M(DEBUG_CHOICE, debug, debug, choice)                                  \
	M(CHOICE_FLAGS, debug_choice, debug_choice, flags)                     \
	M(CHOICE_FIREWALL, debug_choice, debug_choice, firewall_min)           \
	M(CHOICE_PATTERNS, debug_choice, debug_choice, patterns)               \
	M(LOG_BASE, log, log, base)                                            \
	M(LOG_SIZE, log, log, bytes)                                           \
	M(LOG_SUBBUF_BYTES, log, log, subbuf_bytes)                            \
	M(LOG_NSUBBUFS, log, log, nsubbufs)                                    \
	M(LOG_NCPUS, log, log, ncpus)                                          \
	M(LOG_CPU, log, log, cpu)                                              \
	M(HOT_TOP, cpu_hot, cpu_hot, top)                                      \
	M(COLD_LOADED, cpu_cold, cpu_cold, loaded)                             \
	M(COLD_PREVIOUS, cpu_cold, cpu_cold, previous)                         \
	M(COLD_NLOADS, cpu_cold, cpu_cold, nloads)                             \
	M(COLD_NPREVIOUS, cpu_cold, cpu_cold, nprevious)                       \
	M(COLD_NREFILLS, cpu_cold, cpu_cold, nrefills)                         \
	M(COLD_NRECEIVED, cpu_cold, cpu_cold, nreceived)                       \
	M(MAGAZINE_NEXT, magazine, magazine, next)                             \
	M(MAGAZINE_CAPACITY, magazine, magazine, capacity)                     \
	M(MAGAZINE_NROUNDS, magazine, magazine, nrounds)                       \
	M(MAGAZINE_ROUND, magazine, magazine, round[0])                        \
	M(LAYER_OWNER, cpu_layer, cpu_layer, rseq.owner)                       \
	M(LAYER_BY_MM_CID, cpu_layer, cpu_layer, rseq.by_mm_cid)               \
	M(LAYER_NSLOTS, cpu_layer, cpu_layer, nslots)                          \
	M(LAYER_NWANTED, cpu_layer, cpu_layer, nwanted)                        \
	M(LAYER_NUSED, cpu_layer, cpu_layer, nused)                            \
	M(MAP_ENTRY, page_map, page_map, entry)                                \
	M(MAP_OWNER, page_map, page_map, owner)                                \
	M(WINDOW_BASE, heap_window, heap_window, base)                         \
	M(WINDOW_UNITS, heap_window, heap_window, units)                       \
	M(ARENA_LINK, arena, vmem, link)                                       \
	M(ARENA_NAME, arena, vmem, name)                                       \
	M(ARENA_QUANTUM, arena, vmem, quantum)                                 \
	M(ARENA_SOURCE, arena, vmem, source)                                   \
	M(ARENA_HEAD, arena, vmem, head)                                       \
	M(ARENA_INUSE, arena, vmem, stats.inuse)                               \
	M(ARENA_TOTAL, arena, vmem, stats.total)                               \
	M(ARENA_IMPORTED, arena, vmem, stats.imported)                         \
	M(ARENA_NALLOCS, arena, vmem, stats.nallocs)                           \
	M(ARENA_NFAILS, arena, vmem, stats.nfails)                             \
	M(SEGMENT_START, segment, segment, start)                              \
	M(SEGMENT_SIZE, segment, segment, size)                                \
	M(SEGMENT_ANEXT, segment, segment, anext)                              \
	M(SEGMENT_TYPE, segment, segment, type)

/* All entries. */
#define DESCRIBED_ALL(M, V, C, B)                                              \
	DESCRIBED_ARENA_LIST(M, V, C, B)                                       \
	DESCRIBED_ACCOUNT(M, V, C, B)                                          \
	DESCRIBED_HEAP(M, V, C, B)                                             \
	DESCRIBED_COMMIT(M, V, C, B)                                           \
	DESCRIBED_HEAP_LIMIT(M, V, C, B)                                       \
	DESCRIBED_PROBES(M, V, C, B)                                           \
	DESCRIBED_STATES(M, V, C, B)                                           \
	DESCRIBED_META(M, V, C, B)                                             \
	DESCRIBED_CPU_REGIONS(M, V, C, B)                                      \
	DESCRIBED_IMPORT(M, V, C, B)                                           \
	DESCRIBED_DEBUG_LARGE(M, V, C, B)                                      \
	DESCRIBED_FREED_RINGS(M, V, C, B)                                      \
	DESCRIBED_STACK(M, V, C, B)                                            \
	DESCRIBED_ALLOC(M, V, C, B)                                            \
	DESCRIBED_SAMPLES(M, V, C, B)                                          \
	DESCRIBED_SNAPSHOT(M, V, C, B)                                         \
	DESCRIBED_GRACE(M, V, C, B)                                            \
	DESCRIBED_OPTIONS(M, V, C, B)                                          \
	DESCRIBED_BOOT(M, V, C, B)                                             \
	DESCRIBED_HEADERS(M, V, C, B)

#endif
