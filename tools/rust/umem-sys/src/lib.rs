//! Declarations of umem, a memory allocator with object caches and arenas.
//!
//! `umem.h` and `vmem.h`, which are in the folder `c` of this crate, document
//! each function. The crate `umem` has safe types over them.
//!
//! ```
//! use umem_sys::{umem_alloc, umem_free, UMEM_DEFAULT};
//!
//! // SAFETY: the block is used within its size, and freed once with it.
//! unsafe {
//!     let block = umem_alloc(100, UMEM_DEFAULT).cast::<u8>();
//!     assert!(!block.is_null());
//!     block.write(1);
//!     umem_free(block.cast(), 100);
//! }
//! ```
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_int, c_uint, c_void};

/// An object cache.
#[repr(C)]
pub struct umem_cache_t {
    opaque: [u8; 0],
}

/// An arena.
#[repr(C)]
pub struct vmem_t {
    opaque: [u8; 0],
}

pub type umem_constructor_t = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;
pub type umem_destructor_t = unsafe extern "C" fn(*mut c_void, *mut c_void);
pub type umem_reclaim_t = unsafe extern "C" fn(*mut c_void);
pub type umem_import_t = unsafe extern "C" fn(*mut c_void, *mut *mut c_void, usize, c_int) -> usize;
pub type umem_release_t = unsafe extern "C" fn(*mut c_void, *const *mut c_void, usize);
pub type umem_nofail_callback_t = unsafe extern "C" fn() -> c_int;
pub type vmem_alloc_t = unsafe extern "C" fn(*mut vmem_t, usize, c_int) -> *mut c_void;
pub type vmem_free_t = unsafe extern "C" fn(*mut vmem_t, *mut c_void, usize);

/// Flags of a request.
pub const UMEM_DEFAULT: c_int = 0;
pub const UMEM_NOFAIL: c_int = 0x100;
pub const UMEM_NOWAIT: c_int = 0x200;
pub const UMEM_RESERVE: c_int = 0x400;

/// Flags of a cache.
pub const UMC_NOTOUCH: c_int = 0x1_0000;
pub const UMC_NODEBUG: c_int = 0x2_0000;
pub const UMC_NOMAGAZINE: c_int = 0x4_0000;
pub const UMC_TYPESAFE_BY_RCU: c_int = 0x20_0000;

/// The longest name of a cache.
pub const UMEM_CACHE_NAMELEN: usize = 31;

/// Flags of arenas and their requests.
pub const VM_NOSLEEP: c_int = 1;
pub const VM_BESTFIT: c_int = 0x100;
pub const VM_FIRSTFIT: c_int = 0x200;
pub const VM_NEXTFIT: c_int = 0x400;
pub const VMC_IDENTIFIER: c_int = 0x4_0000;

/// Types of segments, for `vmem_size()` and `vmem_walk()`.
pub const VMEM_ALLOC: c_int = 1;
pub const VMEM_FREE: c_int = 2;
pub const VMEM_SPAN: c_int = 0x10;

/// The attributes of a cache; 0 is the default of each.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umem_cache_args {
    pub size: usize,
    pub align: usize,
    pub constructor: Option<umem_constructor_t>,
    pub destructor: Option<umem_destructor_t>,
    pub reclaim: Option<umem_reclaim_t>,
    pub priv_: *mut c_void,
    pub source: *mut vmem_t,
    pub cflags: c_int,
    pub limit_wait: c_int,
    pub limit: usize,
    pub reserve: usize,
}

/// The limit and the reserve of a cache, in objects and requests.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct umem_cache_limits {
    /// Maximum number of objects; 0: none.
    pub limit: usize,
    /// Objects that count; 0 if the cache counts none.
    pub in_use: usize,
    /// Requests that wait now.
    pub waiting: usize,
    /// Requests that have waited.
    pub waits: u64,
    /// Requests that failed at the limit.
    pub failures: u64,
    /// Objects that the reserve should have.
    pub reserve: usize,
    /// Objects that it has.
    pub ready: usize,
    /// Objects that requests took from it.
    pub used: u64,
}

/// The memory of the library; sizes are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct umem_stats {
    /// `heap_bytes` + `own_bytes`.
    pub mapped_bytes: usize,
    /// Heap memory that is not returned to the kernel: the sum of `live_bytes`,
    /// `cached_bytes`, `waiting_bytes`, `dirty_bytes` and `sampled_bytes`.
    pub heap_bytes: usize,
    /// Blocks and objects that the program holds, except samples.
    pub live_bytes: usize,
    /// Free blocks and objects.
    pub cached_bytes: usize,
    /// Freed objects that wait for a grace period.
    pub waiting_bytes: usize,
    /// Part of `cached_bytes`: slabs.
    pub slab_bytes: usize,
    /// Free pages, which will be returned.
    pub dirty_bytes: usize,
    /// Structures of the library.
    pub own_bytes: usize,
    /// Part of `live_bytes`: large blocks.
    pub large_bytes: usize,
    /// Number of large blocks and samples.
    pub nlarge: usize,
    /// Pages of samples.
    pub sampled_bytes: usize,
    /// Part of `live_bytes`: arenas of the program.
    pub arena_bytes: usize,
    /// Largest size of the heap so far.
    pub committed_bytes: usize,
    /// Sampling interval; 0: off.
    pub sample_bytes: usize,
    /// Number of free blocks and objects, cached and waiting ones included.
    pub nfree: usize,
    /// Number of caches, size classes included.
    pub ncaches: usize,
    /// Allocations that failed.
    pub nfailures: u64,
    /// Limit on `heap_bytes`; 0: none.
    pub soft_limit_bytes: usize,
    /// Releases because of it.
    pub nsoft_limit: u64,
    /// Limit on `limited_bytes`; 0: none.
    pub hard_limit_bytes: usize,
    /// Allocations that failed because of it.
    pub nhard_limit: u64,
    /// `heap_bytes`, and memory that the program gets back without a request.
    pub limited_bytes: usize,
    /// Part of `cached_bytes`: magazines of CPUs.
    pub cpu_bytes: usize,
    /// Part of `cached_bytes`: depots, reserves, and the quarantine of
    /// `UMEM_DEBUG`.
    pub depot_bytes: usize,
    /// Frees with a size that does not fit.
    pub nwrong_sizes: u64,
    /// Estimate from samples: allocated since sampling began.
    pub allocated_bytes: u64,
    /// Blocks and objects of these.
    pub nallocated: u64,
    /// Estimate from samples: freed of these.
    pub freed_bytes: u64,
    /// Blocks and objects of these.
    pub nfreed: u64,
}

/// The mode of the library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct umem_mode {
    pub mode: c_int,
    pub index: c_int,
    pub ncpus: c_uint,
    pub reason: *const c_char,
}

/// Reports of `umem_dump()`.
pub const UMEM_DUMP_STATS: c_int = 0;
pub const UMEM_DUMP_OPTIONS: c_int = 1;

extern "C" {
    pub fn umem_alloc(size: usize, flags: c_int) -> *mut c_void;
    pub fn umem_zalloc(size: usize, flags: c_int) -> *mut c_void;
    pub fn umem_free(buf: *const c_void, size: usize);
    pub fn umem_realloc(buf: *mut c_void, old: usize, size: usize, flags: c_int) -> *mut c_void;
    pub fn umem_good_size(size: usize) -> usize;
    pub fn umem_alloc_align(size: usize, align: usize, flags: c_int) -> *mut c_void;
    pub fn umem_free_align(buf: *mut c_void, size: usize);
    pub fn umem_alloc_bulk(size: usize, n: usize, blocks: *mut *mut c_void, flags: c_int) -> usize;
    pub fn umem_free_bulk(n: usize, blocks: *const *mut c_void, size: usize);
    pub fn umem_nofail_callback(callback: Option<umem_nofail_callback_t>);
    pub fn umem_sample(bytes: usize) -> c_int;
    pub fn umem_reap();

    pub fn umem_cache_create_args(
        name: *const c_char,
        args: *const umem_cache_args,
        args_size: usize,
    ) -> *mut umem_cache_t;
    pub fn umem_import_cache_create(
        name: *const c_char,
        import: umem_import_t,
        release: umem_release_t,
        arg: *mut c_void,
        max_idle: usize,
        cflags: c_int,
    ) -> *mut umem_cache_t;
    pub fn umem_cache_destroy(cache: *mut umem_cache_t);
    pub fn umem_cache_size(cache: *const umem_cache_t) -> usize;
    pub fn umem_cache_name(cache: *const umem_cache_t) -> *const c_char;
    pub fn umem_cache_set_limit(cache: *mut umem_cache_t, n: usize) -> c_int;
    pub fn umem_cache_set_limit_wait(cache: *mut umem_cache_t, ms: c_int) -> c_int;
    pub fn umem_cache_set_reserve(cache: *mut umem_cache_t, n: usize) -> c_int;
    pub fn umem_cache_limits(
        cache: *const umem_cache_t,
        out: *mut umem_cache_limits,
        bytes: usize,
    ) -> c_int;
    pub fn umem_cache_alloc(cache: *mut umem_cache_t, flags: c_int) -> *mut c_void;
    pub fn umem_cache_zalloc(cache: *mut umem_cache_t, flags: c_int) -> *mut c_void;
    pub fn umem_cache_free(cache: *mut umem_cache_t, buf: *mut c_void);
    pub fn umem_cache_alloc_bulk(
        cache: *mut umem_cache_t,
        n: usize,
        objects: *mut *mut c_void,
        flags: c_int,
    ) -> usize;
    pub fn umem_cache_free_bulk(cache: *mut umem_cache_t, n: usize, objects: *const *mut c_void);
    pub fn umem_cache_reap_now(cache: *mut umem_cache_t);
    pub fn umem_cache_shrink(cache: *mut umem_cache_t) -> c_int;

    pub fn umem_mode(out: *mut umem_mode, bytes: usize) -> c_int;
    pub fn umem_stats(out: *mut umem_stats, bytes: usize) -> c_int;
    pub fn umem_dump(fd: c_int, what: c_int) -> c_int;
    pub fn umem_metrics(buffer: *mut c_char, bytes: usize) -> isize;
    pub fn umem_ctl(
        name: *const c_char,
        value: *const c_char,
        old: *mut c_char,
        bytes: usize,
    ) -> c_int;
    pub fn umem_version() -> *const c_char;

    pub fn vmem_create(
        name: *const c_char,
        base: *mut c_void,
        size: usize,
        quantum: usize,
        import: Option<vmem_alloc_t>,
        release: Option<vmem_free_t>,
        source: *mut vmem_t,
        qcache_max: usize,
        vmflag: c_int,
    ) -> *mut vmem_t;
    pub fn vmem_destroy(arena: *mut vmem_t);
    pub fn vmem_add(
        arena: *mut vmem_t,
        addr: *mut c_void,
        size: usize,
        vmflag: c_int,
    ) -> *mut c_void;
    pub fn vmem_alloc(arena: *mut vmem_t, size: usize, vmflag: c_int) -> *mut c_void;
    pub fn vmem_free(arena: *mut vmem_t, addr: *mut c_void, size: usize);
    pub fn vmem_xalloc(
        arena: *mut vmem_t,
        size: usize,
        align: usize,
        phase: usize,
        nocross: usize,
        minaddr: *mut c_void,
        maxaddr: *mut c_void,
        vmflag: c_int,
    ) -> *mut c_void;
    pub fn vmem_xfree(arena: *mut vmem_t, addr: *mut c_void, size: usize);
    pub fn vmem_contains(arena: *mut vmem_t, addr: *mut c_void, size: usize) -> c_int;
    pub fn vmem_walk(
        arena: *mut vmem_t,
        typemask: c_int,
        func: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
        arg: *mut c_void,
    );
    pub fn vmem_size(arena: *mut vmem_t, typemask: c_int) -> usize;
    pub fn vmem_heap_arena(
        import: *mut Option<vmem_alloc_t>,
        release: *mut Option<vmem_free_t>,
    ) -> *mut vmem_t;
}

/// A flavour of liburcu.
#[cfg(feature = "rcu")]
#[repr(C)]
pub struct rcu_flavor_struct {
    opaque: [u8; 0],
}

// SAFETY: liburcu's structure is constant.
#[cfg(feature = "rcu")]
unsafe impl Sync for rcu_flavor_struct {}

#[cfg(feature = "rcu")]
extern "C" {
    pub fn umem_cache_free_rcu_flavor(
        cache: *mut umem_cache_t,
        object: *mut c_void,
        flavor: *const rcu_flavor_struct,
    ) -> c_int;
    pub fn umem_free_rcu_flavor(
        block: *mut c_void,
        size: usize,
        flavor: *const rcu_flavor_struct,
    ) -> c_int;
    pub fn umem_rcu_barrier_flavor(flavor: *const rcu_flavor_struct) -> c_int;
    pub fn umem_cache_rcu_flavor(
        cache: *mut umem_cache_t,
        flavor: *const rcu_flavor_struct,
    ) -> c_int;

    pub static urcu_memb_flavor: rcu_flavor_struct;
    pub fn urcu_memb_register_thread();
    pub fn urcu_memb_unregister_thread();
    pub fn urcu_memb_read_lock();
    pub fn urcu_memb_read_unlock();
}
