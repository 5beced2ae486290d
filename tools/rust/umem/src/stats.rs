//! Figures and settings of the library.
//!
//! The example of the crate's documentation has one of each.

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::unix::io::{AsFd, AsRawFd};
use std::ptr;

use umem_sys::*;

/// The memory of the library, by its use.
pub use umem_sys::umem_stats as Stats;

/// The error for errno, which a function of the library has set.
pub(crate) fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// The result of a function that returns 0, or -1 with errno set.
pub(crate) fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(last_error())
    }
}

/// A copy of a string for the library.
pub(crate) fn c_string(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Returns how much memory the library holds.
///
/// The time grows with the number of caches and CPUs, about 0.1 ms on a small
/// machine.
pub fn stats() -> Stats {
    let mut stats = Stats::default();

    // SAFETY: the library writes one structure of the given size. It refuses
    // only a size that it does not know, and it is of the same version.
    unsafe { umem_stats(&mut stats, mem::size_of::<Stats>()) };
    stats
}

/// Returns the statistics as OpenMetrics text, for Prometheus.
///
/// # Errors
/// ENOMEM.
pub fn metrics() -> io::Result<String> {
    let mut text: Vec<u8> = Vec::with_capacity(16384);

    loop {
        // SAFETY: the library writes at most capacity() bytes.
        let written = unsafe { umem_metrics(text.as_mut_ptr().cast(), text.capacity()) };
        if written < 0 {
            return Err(last_error());
        }
        let length = written as usize;
        if length < text.capacity() {
            // SAFETY: the library has written this many bytes and a final 0.
            unsafe { text.set_len(length) };
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        // The text may grow until the next call.
        text.reserve(length + 1024);
    }
}

/// Sets the mean number of allocated bytes between two samples; 0 ends sampling.
///
/// The command `umem` and [`dump()`] show the callers of samples that are live.
///
/// # Errors
/// ENOTSUP if every block is checked already, by `UMEM_DEBUG` or
/// `UMEM_OPTIONS=hardened`.
pub fn sample(bytes: usize) -> io::Result<()> {
    // SAFETY: the function takes any number.
    check(unsafe { umem_sample(bytes) })
}

/// The reports of [`dump()`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report {
    /// The samples as a heap profile for pprof, then the metrics.
    Stats,
    /// All options and their values.
    Options,
}

/// Writes a report about the library to an open file, pipe or socket.
///
/// # Errors
/// Those of write(2); a part of the report may have been written.
pub fn dump(to: &impl AsFd, report: Report) -> io::Result<()> {
    let what = match report {
        Report::Stats => UMEM_DUMP_STATS,
        Report::Options => UMEM_DUMP_OPTIONS,
    };

    // SAFETY: the function takes any descriptor; `to` keeps it open.
    check(unsafe { umem_dump(to.as_fd().as_raw_fd(), what) })
}

/// Returns the value of an option, a word of `UMEM_OPTIONS` or `UMEM_DEBUG`.
///
/// # Errors
/// ENOENT for an unknown option.
pub fn option(name: &str) -> io::Result<String> {
    let name = c_string(name)?;
    // Longer than a path of Linux.
    let mut value = vec![0u8; 4200];

    // SAFETY: the name ends in 0, and the library writes at most len() bytes.
    check(unsafe {
        umem_ctl(
            name.as_ptr(),
            ptr::null(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    })?;
    value.truncate(value.iter().position(|&byte| byte == 0).unwrap_or(0));
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// Changes an option while the program runs.
///
/// # Errors
/// ENOENT for an unknown option, EPERM for one that cannot
/// change, EINVAL for a malformed value.
pub fn set_option(name: &str, value: &str) -> io::Result<()> {
    let (name, value) = (c_string(name)?, c_string(value)?);

    // SAFETY: both strings end in 0; the old value is not asked for.
    check(unsafe { umem_ctl(name.as_ptr(), value.as_ptr(), ptr::null_mut(), 0) })
}

/// Releases memory that no object uses, of all caches.
///
/// If the library has an upkeep thread, that thread does the work later.
pub fn reap() {
    // SAFETY: the function has no arguments.
    unsafe { umem_reap() }
}

/// Returns the version of the library.
pub fn version() -> &'static str {
    // SAFETY: the result is a static string.
    unsafe { CStr::from_ptr(umem_version()) }
        .to_str()
        .unwrap_or("")
}
