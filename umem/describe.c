/*
 * describe.c - the library's description of itself, for tools
 *
 * The description is a table that tools find without symbols: they search the
 * writable mappings of a process's files for the magic of its header, at
 * multiples of 64 bytes.  The header contains its own address, by which tools
 * tell it from a copy.  It points to the entries that this file and others have
 * put into the section (vmem/describe.h).
 *
 * The layout of the header changes only with a new version.  Entries come and
 * go, and a tool reports the entries that it lacks.  The description is in
 * writable data, although nothing writes to it, because core files leave out
 * pages that cannot be written to.
 */
#include "vmem/describe.h"
#include "magazine/magazine.h"
#include "umem/base/addr_map.h"
#include "umem/cache/cache.h"
#include "umem/debug/debug.h"
#include "umem/debug/error.h"
#include "umem/base/ready.h"
#include "umem/debug/log.h"
#include "umem/upkeep/update.h"
#include "vmem/arena.h"
#include "vmem/heap.h"

#define DESCRIBE_VERSION 1

struct description {
	char magic[16];
	uint32_t version;
	uint32_t entry_bytes;
	struct description *self;
	struct describe_entry *entries;
	struct describe_entry *entries_end;
	char library[16]; /* version of the library */
};

extern struct describe_entry __start_umem_describe[]
    __attribute__((visibility("hidden")));
extern struct describe_entry __stop_umem_describe[]
    __attribute__((visibility("hidden")));

static struct description description
    __attribute__((used, section(".data"), aligned(64))) = {
	.magic = "umem described\n",
	.version = DESCRIBE_VERSION,
	.entry_bytes = sizeof(struct describe_entry),
	.self = &description,
	.entries = __start_umem_describe,
	.entries_end = __stop_umem_describe,
	.library = UMEM_VERSION,
};

#define MEMBER(type, member) DESCRIBE_MEMBER(#type, struct type, member)
#define CACHE(member)        DESCRIBE_MEMBER("cache", struct umem_cache, member)
#define ARENA(member)        DESCRIBE_MEMBER("arena", struct vmem, member)

/* Defined by the linker: the end of this file's data. */
extern char _end[] __attribute__((visibility("hidden")));

DESCRIBE_TABLE(variables) = {
    {"&image_end", {.address = _end}, 0},
    DESCRIBE_VARIABLE(umem_state),
    DESCRIBE_VARIABLE(cache_list),
    DESCRIBE_VARIABLE(addr_map),
    DESCRIBE_VARIABLE(size_classes),
    DESCRIBE_VARIABLE(cpu_layer),
    DESCRIBE_VARIABLE(heap_slot),
    DESCRIBE_VARIABLE(update_interval_ns),
    DESCRIBE_VARIABLE(debug),
    DESCRIBE_VARIABLE(cache_checked),
    DESCRIBE_VARIABLE(logs),
    DESCRIBE_VARIABLE(umem_abort_info),
    DESCRIBE_VARIABLE(umem_error_buffer),
    DESCRIBE_VARIABLE(umem_error_begin),
    DESCRIBE_CONSTANT(BUFCTL_NEVER),
    DESCRIBE_CONSTANT(BUFCTL_ALLOCATED),
    DESCRIBE_CONSTANT(BUFCTL_FREE),
    DESCRIBE_CONSTANT(BUFCTL_LOST),
    DESCRIBE_CONSTANT(BUFCTL_WAITING),
    DESCRIBE_CONSTANT(KIND_OBJECT),
    DESCRIBE_CONSTANT(KIND_MALLOC),
    DESCRIBE_CONSTANT(LOG_TRANSACTION),
    DESCRIBE_CONSTANT(LOG_CONTENTS),
    DESCRIBE_CONSTANT(LOG_FAIL),
    DESCRIBE_CONSTANT(LOG_SLAB),
    DESCRIBE_BYTES("bufctl", struct bufctl),
    DESCRIBE_BYTES("bufctl_audit", struct bufctl_audit),
    DESCRIBE_BYTES("debug_choice", struct debug_choice),
    DESCRIBE_BYTES("log", struct log),
    DESCRIBE_BYTES("log_cpu", struct log_cpu),
    DESCRIBE_CONSTANT(UMEM_READY),
    DESCRIBE_CONSTANT(HEAP_UNIT),
    DESCRIBE_CONSTANT(CPU_BLOCK),
    DESCRIBE_CONSTANT(SLAB_BINS),
    DESCRIBE_CONSTANT(RSEQ_NONE),
    DESCRIBE_CONSTANT(RSEQ_OWN),
    DESCRIBE_BYTES("arena", struct vmem),
    DESCRIBE_BYTES("cache", struct umem_cache),
    DESCRIBE_BYTES("cpu_hot", struct cpu_hot),
    DESCRIBE_BYTES("cpu_cold", struct cpu_cold),
    DESCRIBE_BYTES("depot", struct depot),
    DESCRIBE_BYTES("magazine", struct magazine),
    DESCRIBE_BYTES("segment", struct segment),
    DESCRIBE_BYTES("slab", struct slab),
    DESCRIBE_BYTES("slab_claim", struct slab_claim),
};

DESCRIBE_TABLE(members) = {
    DESCRIBE_MEMBER("list", struct list, next),
    MEMBER(slab, link),
    MEMBER(slab, store),
    MEMBER(slab, span),
    MEMBER(slab, first),
    MEMBER(slab, nfree),
    MEMBER(slab, high),
    DESCRIBE_MEMBER("slab", struct slab, bits[0]),
    MEMBER(slab, records),
    MEMBER(slab_claim, slab),
    MEMBER(slab_claim, mask),
    MEMBER(slab_claim, word),
    CACHE(mag.hot),
    CACHE(mag.cold),
    CACHE(mag.rounds),
    CACHE(mag.depot.full.head),
    CACHE(mag.depot.full.n),
    CACHE(mag.depot.empty.head),
    CACHE(mag.depot.empty.n),
    CACHE(mag.depot.ncontended),
    CACHE(mag.nshards),
    CACHE(mag.more),
    DESCRIBE_MEMBER("depot", struct depot, full.head),
    DESCRIBE_MEMBER("depot", struct depot, empty.head),
    DESCRIBE_MEMBER("depot", struct depot, ncontended),
    CACHE(has_magazines),
    CACHE(class),
    CACHE(flags),
    CACHE(debug),
    CACHE(tagged),
    CACHE(tag_offset),
    CACHE(pattern_bytes),
    CACHE(free_pattern),
    CACHE(limit.counts),
    CACHE(limit.most),
    CACHE(limit.nheld),
    CACHE(limit.nwaiting),
    CACHE(limit.nwaits),
    CACHE(limit.nrefused),
    CACHE(reserve.objects),
    CACHE(reserve.want),
    CACHE(reserve.nready),
    CACHE(reserve.nused),
    CACHE(quarantine.slot),
    CACHE(quarantine.nslots),
    CACHE(bufsize),
    CACHE(align),
    CACHE(construct),
    CACHE(destruct),
    CACHE(reclaim),
    CACHE(priv),
    CACHE(destroyed),
    CACHE(nfailed),
    CACHE(nrefused),
    CACHE(link),
    CACHE(name),
    CACHE(slabs),
    CACHE(slabs.nwaited),
    CACHE(slabs.layout.chunk),
    CACHE(slabs.layout.slab_bytes),
    CACHE(slabs.layout.nchunks),
    CACHE(slabs.source),
    CACHE(slabs.record_bytes),
    CACHE(slabs.constructs),
    CACHE(slabs.partial),
    CACHE(slabs.full),
    CACHE(slabs.empty),
    CACHE(slabs.retired),
    CACHE(slabs.nslabs),
    CACHE(slabs.nused),
    CACHE(slabs.ncreated),
    MEMBER(bufctl, sum),
    MEMBER(bufctl, addr),
    MEMBER(bufctl, slab),
    MEMBER(bufctl, cache),
    MEMBER(bufctl, size),
    MEMBER(bufctl, state),
    MEMBER(bufctl, kind),
    MEMBER(bufctl, depth),
    MEMBER(bufctl_audit, timestamp),
    MEMBER(bufctl_audit, thread),
    MEMBER(bufctl_audit, lastlog),
    MEMBER(bufctl_audit, contents),
    DESCRIBE_MEMBER("bufctl_audit", struct bufctl_audit, stack[0]),
    MEMBER(buftag, redzone),
    MEMBER(buftag, bufctl),
    MEMBER(buftag, bxstat),
    MEMBER(debug, on),
    MEMBER(debug, nframes),
    MEMBER(debug, verify_max),
    MEMBER(debug, hardened),
    MEMBER(debug, noabort),
    MEMBER(debug, checknull),
    MEMBER(debug, mtbf),
    MEMBER(debug, nchoices),
    MEMBER(debug, choice),
    MEMBER(debug_choice, flags),
    MEMBER(debug_choice, firewall_min),
    MEMBER(debug_choice, patterns),
    MEMBER(log, base),
    MEMBER(log, bytes),
    MEMBER(log, chunk_bytes),
    MEMBER(log, nchunks),
    MEMBER(log, ncpus),
    MEMBER(log, cpu),
    MEMBER(log_cpu, chunk),
    MEMBER(log_cpu, nchunks),
    MEMBER(cpu_hot, top),
    MEMBER(cpu_hot, bottom),
    MEMBER(cpu_hot, limit),
    MEMBER(cpu_cold, loaded),
    MEMBER(cpu_cold, previous),
    MEMBER(cpu_cold, nloads),
    MEMBER(cpu_cold, nunloads),
    MEMBER(cpu_cold, nbypassed),
    MEMBER(magazine, next),
    MEMBER(magazine, capacity),
    MEMBER(magazine, nrounds),
    DESCRIBE_MEMBER("magazine", struct magazine, round[0]),
    MEMBER(cpu_layer, rseq.owner),
    MEMBER(cpu_layer, rseq.by_mm_cid),
    MEMBER(cpu_layer, nslots),
    MEMBER(cpu_layer, nwanted),
    MEMBER(cpu_layer, nused),
    MEMBER(addr_map, base),
    MEMBER(addr_map, units),
    MEMBER(addr_map, entry),
    MEMBER(addr_map, owner),
    MEMBER(heap_slot, base),
    MEMBER(heap_slot, units),
    MEMBER(size_classes, n),
    MEMBER(size_classes, bytes),
    ARENA(link),
    ARENA(name),
    ARENA(quantum),
    ARENA(source),
    ARENA(cflags),
    ARENA(head),
    ARENA(qcache),
    ARENA(nqcaches),
    ARENA(stats.inuse),
    ARENA(stats.total),
    ARENA(stats.imported),
    ARENA(stats.nallocs),
    ARENA(stats.nfrees),
    ARENA(stats.nfails),
    ARENA(stats.nimports),
    MEMBER(segment, start),
    MEMBER(segment, size),
    MEMBER(segment, anext),
    MEMBER(segment, type),
    MEMBER(segment, imported),
};
