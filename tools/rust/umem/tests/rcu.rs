//! Retired objects. The feature rcu.
#![cfg(feature = "rcu")]

use std::cell::RefCell;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use umem::rcu::{self, Reader};
use umem::{Builder, Cache, Kept, Slot};

/// Two words that are equal while the object is in use.
struct Pair(u64, u64);

#[test]
fn a_reader_finds_no_object_that_is_used_again() {
    let cache = Cache::new();
    let head = AtomicPtr::new(Slot::leak(cache.make(Pair(0, 0))) as *mut Pair);
    let stop = AtomicBool::new(false);

    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = Reader::new();
                let again = Reader::new();

                drop(again);
                while !stop.load(Ordering::Relaxed) {
                    let section = reader.lock();
                    // SAFETY: the object stays until this section ends.
                    let pair = unsafe { &*head.load(Ordering::Acquire) };
                    let nested = reader.lock();
                    assert_eq!(pair.0, pair.1);
                    drop(nested);
                    drop(section);
                }
            });
        }
        for n in 1..20_000 {
            let new = Slot::leak(cache.make(Pair(n, n))) as *mut Pair;
            let old = NonNull::new(head.swap(new, Ordering::AcqRel)).unwrap();

            // SAFETY: no reader that begins now can find it.
            unsafe { cache.retire(old) }.unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    // SAFETY: there are no readers.
    unsafe { cache.retire(NonNull::new(head.into_inner()).unwrap()) }.unwrap();
    rcu::barrier().unwrap();
    assert_eq!(cache.limits().in_use, 0);
}

#[test]
fn a_kept_object_is_retired_as_it_is() {
    let cache: Cache<Vec<u8>, Kept> = Builder::new().build_kept(|| vec![1u8; 10]).unwrap();
    let first = NonNull::from(Slot::leak(cache.take()));

    // SAFETY: there are no readers.
    unsafe { cache.retire(first) }.unwrap();
    rcu::barrier().unwrap();
    assert_eq!(cache.take().len(), 10);
}

#[test]
#[should_panic(expected = "without a drop")]
fn what_has_something_to_drop_is_not_retired() {
    let cache = Cache::new();
    let object = NonNull::from(Slot::leak(cache.make(String::from("text"))));

    // SAFETY: there are no readers.
    let _ = unsafe { cache.retire(object) };
}

#[test]
fn a_barrier_in_a_section_fails() {
    let cache = Cache::new();
    let object = NonNull::from(Slot::leak(cache.make(1)));
    let reader = Reader::new();

    // SAFETY: there are no readers.
    unsafe { cache.retire(object) }.unwrap();
    let _section = reader.lock();
    assert!(rcu::barrier().is_err());
}

/// liburcu's list of readers has no thread that has ended.
#[test]
fn a_thread_with_a_forgotten_reader_ends_as_others_do() {
    let (done, wait) = mpsc::channel();

    thread::spawn(move || {
        for _ in 0..20 {
            let ends = || {
                let reader = Reader::new();

                mem::forget(reader.lock());
                mem::forget(reader);
            };
            thread::spawn(ends).join().unwrap();
        }
        let cache = Cache::new();
        let object = NonNull::from(Slot::leak(cache.make(1)));

        // SAFETY: there are no readers.
        unsafe { cache.retire(object) }.unwrap();
        rcu::barrier().unwrap();
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(20))
        .expect("the grace period ends");
}

/// Locals of a thread are destroyed in the order opposite to their creation.
#[test]
fn a_reader_in_a_local_of_its_thread_may_be_the_last() {
    thread_local! {
        static LAST: RefCell<Option<Reader>> = const { RefCell::new(None) };
    }
    thread::spawn(|| {
        LAST.with(|last| last.borrow_mut().is_none());
        let reader = Reader::new();

        drop(reader.lock());
        LAST.with(|last| *last.borrow_mut() = Some(reader));
    })
    .join()
    .unwrap();
    Reader::new();
}
