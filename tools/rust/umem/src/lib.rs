//! umem for Rust: a global allocator, typed object caches and arenas.
//!
//! - [`Umem`] is a global allocator.
//! - [`Cache`] makes objects of one type, or keeps them constructed; [`Slot`] owns
//!   one; [`Builder`] sets limits, a reserve and a reclaim callback.
//! - [`ImportCache`] keeps idle resources that are not memory.
//! - [`Arena`] allocates ranges of integers.
//! - With the feature `rcu`, the module `rcu` frees objects after a grace period
//!   of liburcu.
//! - [`stats()`], [`metrics()`], [`sample()`] and [`dump()`] show the use of
//!   memory; [`set_option()`] changes options.
//!
//! ```
//! assert!(umem::stats().mapped_bytes >= umem::stats().own_bytes);
//! assert!(umem::metrics()?.ends_with("# EOF\n"));
//! umem::sample(1 << 20)?;
//! umem::dump(&std::io::stderr(), umem::Report::Stats)?;
//! umem::set_option("soft_limit", "1g")?;
//! assert_eq!(umem::option("soft_limit")?, "1g");
//! umem::reap();
//! assert_eq!(umem::version(), env!("CARGO_PKG_VERSION"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The library is linked statically. It reads its options from the variables
//! `UMEM_OPTIONS` and `UMEM_DEBUG`, see umem_options(7) and umem_debug(3).

mod arena;
mod cache;
mod global;
mod import;
#[cfg(feature = "rcu")]
pub mod rcu;
mod stats;

pub use arena::{Arena, Segment, Within};
pub use cache::{Builder, Cache, Kept, Kind, Limits, Made, Request, Slot};
pub use global::Umem;
pub use import::{ImportCache, Resource, Taken};
pub use stats::{dump, metrics, option, reap, sample, set_option, stats, version, Report, Stats};
