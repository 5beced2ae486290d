//! Caches of resources.

use std::any::Any;
use std::env;
use std::fs::File;
use std::io;
use std::os::unix::io::{AsRawFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use umem::{ImportCache, Taken};

/// Counts those that exist.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Box<Counted> {
        count.fetch_add(1, Ordering::Relaxed);
        Box::new(Counted(Arc::clone(count)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn an_idle_resource_is_taken_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let ours = Arc::clone(&count);
    let cache = ImportCache::new("counted", 0, move || Ok(Counted::new(&ours))).unwrap();
    let mut first = cache.take().unwrap();
    let at = &mut **first as *mut Counted;

    drop(first);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    assert_eq!(&mut **cache.take().unwrap() as *mut Counted, at);
    assert_eq!(cache.name(), "counted");
    cache.reap();
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let several: Vec<Taken<_>> = (0..100).map(|_| cache.take().unwrap()).collect();
    assert_eq!(count.load(Ordering::Relaxed), 100);
    drop(several);
    drop(cache);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn the_limit_of_idle_resources_holds() {
    let count = Arc::new(AtomicUsize::new(0));
    let ours = Arc::clone(&count);
    let cache = ImportCache::new("few", 3, move || Ok(Counted::new(&ours))).unwrap();

    drop((0..50).map(|_| cache.take().unwrap()).collect::<Vec<_>>());
    assert!(count.load(Ordering::Relaxed) <= 3);
}

#[test]
fn descriptors_are_resources() {
    let cache =
        ImportCache::new("null", 4, || Ok(OwnedFd::from(File::open("/dev/null")?))).unwrap();
    let one = cache.take().unwrap();
    let two = cache.take().unwrap();

    assert!(one.as_raw_fd() >= 0);
    assert_ne!(one.as_raw_fd(), two.as_raw_fd());
}

#[test]
fn a_failure_of_the_import_is_that_of_the_request() {
    let fails = Arc::new(AtomicBool::new(true));
    let ours = Arc::clone(&fails);
    let cache = ImportCache::new("fails", 0, move || {
        if ours.load(Ordering::Relaxed) {
            Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "no server",
            ))
        } else {
            Ok(Box::new(7u64))
        }
    })
    .unwrap();
    let error = cache.take().unwrap_err();

    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(error.to_string(), "no server");
    fails.store(false, Ordering::Relaxed);
    assert_eq!(**cache.take().unwrap(), 7);
    assert_eq!(
        ImportCache::<Box<u8>>::new("a\0b", 0, || Ok(Box::new(1)))
            .unwrap_err()
            .kind(),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn a_panic_of_the_import_reaches_the_request() {
    let cache = ImportCache::<Box<u64>>::new("panics", 0, || panic!("no resource")).unwrap();
    let result = panic::catch_unwind(AssertUnwindSafe(|| drop(cache.take())));

    assert_eq!(
        *result.unwrap_err().downcast_ref::<&str>().unwrap(),
        "no resource"
    );
}

#[test]
fn threads_share_a_cache() {
    let count = Arc::new(AtomicUsize::new(0));
    let ours = Arc::clone(&count);
    let cache = ImportCache::new("shared", 0, move || Ok(Counted::new(&ours))).unwrap();

    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let one = cache.take().unwrap();
                    let two = cache.take().unwrap();
                    assert!(!std::ptr::eq(&**one, &**two));
                }
            });
        }
    });
    drop(cache);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

/// A resource with a reference to its cache.
struct Owner(Mutex<Option<Box<dyn Any + Send>>>);

/// The test below in a process of its own.
#[test]
fn in_child() {
    if env::var_os("UMEM_CASE").is_none() {
        return;
    }
    let import = || Ok(Box::new(Owner(Mutex::new(None))));
    let cache = Arc::new(ImportCache::new("owner", 0, import).unwrap());
    *cache.take().unwrap().0.lock().unwrap() = Some(Box::new(Arc::clone(&cache)));
    let raw = Arc::into_raw(cache);

    // SAFETY: the resource holds the reference that stays; the cache is there for
    // the time of the call, since its end is an abort.
    unsafe {
        Arc::decrement_strong_count(raw);
        (*raw).reap();
    }
}

#[test]
fn a_cache_dropped_by_its_resource_ends_the_process() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "in_child", "--nocapture"])
        .env("UMEM_CASE", "own")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);

    assert!(!output.status.success(), "{}", stderr);
    assert!(
        stderr.contains("dropped by one of its objects"),
        "{}",
        stderr
    );
}
