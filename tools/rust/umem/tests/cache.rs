//! Caches, slots and arenas.

use std::cell::Cell;
use std::io::ErrorKind;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use std::{env, mem, thread};

use umem::{Arena, Builder, Cache, Kept, Request, Slot};

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_send_and_sync<T: Send + Sync>() {}

#[test]
fn types_are_send_and_sync_as_their_objects() {
    is_send_and_sync::<Cache<Rc<u8>>>();
    is_send_and_sync::<Cache<Mutex<u8>, Kept>>();
    is_send_and_sync::<Slot<'_, u8>>();
    is_send_and_sync::<Arena>();
}

#[test]
fn a_slot_drops_its_object_once() {
    let ndrops = AtomicUsize::new(0);
    let cache = Cache::new();

    drop(cache.make(Counted(&ndrops)));
    assert_eq!(ndrops.load(Ordering::Relaxed), 1);
    let inner = Slot::into_inner(cache.make(Counted(&ndrops)));
    assert_eq!(ndrops.load(Ordering::Relaxed), 1);
    drop(inner);
    assert_eq!(ndrops.load(Ordering::Relaxed), 2);
}

#[test]
fn objects_differ_and_are_aligned() {
    #[derive(Clone, Copy)]
    #[repr(align(128))]
    struct Wide(u8);
    let cache = Cache::new();
    let slots: Vec<_> = (0..200).map(|i| cache.make(Wide(i))).collect();

    for (i, slot) in slots.iter().enumerate() {
        assert_eq!(&**slot as *const Wide as usize % 128, 0);
        assert_eq!(slot.0, i as u8);
    }
}

#[test]
fn types_without_size_have_slots() {
    let cache = Cache::new();
    let mut slots: Vec<Slot<()>> = (0..10).map(|_| cache.make(())).collect();

    *slots[0] = ();
}

#[test]
fn a_panic_leaves_no_object_in_use() {
    let cache = Builder::new().limit(1).build::<u64>().unwrap();
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        drop(cache.try_make_with(Request::DEFAULT, || panic!("on purpose")));
    }));

    assert!(result.is_err());
    assert_eq!(cache.limits().in_use, 0);
    assert_eq!(*cache.make(1), 1);
}

#[test]
fn a_panic_of_a_drop_frees_the_object() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let cache = Builder::new().limit(1).build::<Bad>().unwrap();
    let slot = cache.make(Bad);

    assert!(panic::catch_unwind(AssertUnwindSafe(|| drop(slot))).is_err());
    assert_eq!(cache.limits().in_use, 0);
}

#[test]
fn a_limit_refuses_or_waits() {
    let cache: &'static Cache<u32> = Builder::new()
        .name("limited")
        .limit(1)
        .wait(Duration::from_millis(20))
        .build()
        .unwrap()
        .leak();
    let slot = cache.make(1);

    assert_eq!(cache.name(), "limited");
    let error = cache.try_make_with(Request::NOWAIT, || 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let error = cache.try_make(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    cache.set_limit(2).unwrap();
    let second = cache.make(2);
    let (to, from) = mpsc::channel();
    let thread = thread::spawn(move || {
        to.send(()).unwrap();
        loop {
            if let Ok(third) = cache.try_make(3) {
                return *third;
            }
        }
    });
    from.recv().unwrap();
    drop(slot);
    assert_eq!(thread.join().unwrap(), 3);
    assert_eq!(*second, 2);
    assert!(Cache::<u32>::new().set_limit(1).is_err());
}

#[test]
fn slots_move_between_threads() {
    let cache = Cache::new();
    let (to, from) = mpsc::channel::<Slot<String>>();

    thread::scope(|scope| {
        scope.spawn(|| {
            let to = to;
            for i in 0..20_000 {
                to.send(cache.make(i.to_string())).unwrap();
            }
        });
        for (i, slot) in from.into_iter().enumerate() {
            assert_eq!(*slot, i.to_string());
        }
    });
}

#[test]
fn kept_objects_stay_constructed() {
    let nmade = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&nmade);
    let cache = Builder::new()
        .reserve(3)
        .build_kept(move || {
            count.fetch_add(1, Ordering::Relaxed);
            Mutex::new(Vec::<u8>::with_capacity(100))
        })
        .unwrap();

    assert_eq!(cache.limits().ready, 3);
    for _ in 0..1000 {
        let object = cache.take();
        assert!(object.lock().unwrap().capacity() >= 100);
    }
    let made = nmade.load(Ordering::Relaxed);
    assert!((1..100).contains(&made), "{} objects", made);
    drop(cache);
    // The closure is gone with the cache.
    assert_eq!(Arc::strong_count(&nmade), 1);
}

#[test]
fn kept_objects_are_dropped_with_the_cache() {
    static NDROPS: AtomicUsize = AtomicUsize::new(0);
    static NMADE: AtomicUsize = AtomicUsize::new(0);
    let cache = Builder::new()
        .build_kept(|| {
            NMADE.fetch_add(1, Ordering::Relaxed);
            Counted(&NDROPS)
        })
        .unwrap();
    let objects: Vec<_> = (0..50).map(|_| cache.take()).collect();

    drop(objects);
    drop(cache);
    assert_eq!(
        NMADE.load(Ordering::Relaxed),
        NDROPS.load(Ordering::Relaxed)
    );
    assert!(NDROPS.load(Ordering::Relaxed) >= 50);
}

#[test]
fn a_panic_of_a_constructor_leaves_the_request() {
    thread_local!(static BAD: Cell<bool> = const { Cell::new(true) });
    let cache = Builder::new()
        .build_kept(|| {
            if BAD.with(Cell::get) {
                panic!("on purpose");
            }
            7
        })
        .unwrap();
    let payload = panic::catch_unwind(AssertUnwindSafe(|| drop(cache.take()))).unwrap_err();

    assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    BAD.with(|cell| cell.set(false));
    assert_eq!(*cache.take(), 7);
}

#[test]
fn reclaim_is_called() {
    let store: Arc<Mutex<Vec<Vec<u8>>>> = Arc::new(Mutex::new(vec![vec![0; 100]; 10]));
    let reclaimed = Arc::clone(&store);
    let cache = Builder::new()
        .reclaim(move || reclaimed.lock().unwrap().clear())
        .build::<u64>()
        .unwrap();

    cache.reap();
    assert!(store.lock().unwrap().is_empty());
}

#[test]
fn wrong_arguments_are_errors() {
    #[repr(align(1048576))]
    struct Huge;
    let error = Builder::new().build::<Huge>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(Builder::new().name("a\0b").build::<u8>().is_err());
    assert!(Arena::new("a", 0..10, 1).is_err());
    assert!(Arena::new("a", 1..10, 3).is_err());
}

#[test]
fn segments_of_an_arena_do_not_overlap() {
    let arena = Arena::with_cache("ids", 1..1001, 1, 8).unwrap();
    let mut segments = Vec::new();

    while let Ok(segment) = arena.allocate(1 + segments.len() % 20) {
        segments.push(segment);
    }
    let mut ranges: Vec<_> = segments.iter().map(|segment| segment.range()).collect();
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!(pair[0].end <= pair[1].start);
    }
    assert!(arena.contains(1..1001) && !arena.contains(1..1002));
    drop(segments);
    arena.add(2000..2100).unwrap();
    assert_eq!(arena.allocate(1000).unwrap().range(), 1..1001);
}

/// Runs the test "in_child" in a process, and returns its error output.
fn child(case: &str) -> (bool, String) {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "in_child", "--nocapture"])
        .env("UMEM_CASE", case)
        .output()
        .unwrap();

    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn in_child() {
    match env::var("UMEM_CASE").as_deref() {
        Ok("forget") => {
            let cache = Builder::new().name("forgotten").build().unwrap();
            let text = Box::leak(Box::new(String::from("stays")));
            let object: *const &String = Slot::leak(cache.make(&*text));
            mem::forget(cache.make(&*text));
            drop(cache);
            // SAFETY: a cache keeps the memory of objects in use.
            assert_eq!(unsafe { (*object).as_str() }, "stays");
        }
        Ok("panic") => {
            struct Bad;
            impl Drop for Bad {
                fn drop(&mut self) {
                    panic!("on purpose");
                }
            }
            let cache = Builder::new().build_kept(|| Bad).unwrap();
            drop(cache.take());
            drop(cache);
        }
        Ok("own") => {
            struct Owner(Option<Arc<Cache<Mutex<Owner>, Kept>>>);
            let cache = Builder::new()
                .build_kept(|| Mutex::new(Owner(None)))
                .unwrap();
            let cache = Arc::new(cache);
            cache.take().lock().unwrap().0 = Some(Arc::clone(&cache));
            let raw = Arc::into_raw(cache);
            // SAFETY: the object holds the reference that stays; the cache is
            // there for the time of the call, since its end is an abort.
            unsafe {
                Arc::decrement_strong_count(raw);
                (*raw).reap();
            }
        }
        _ => (),
    }
}

#[test]
fn a_cache_with_objects_in_use_says_so() {
    let (success, stderr) = child("forget");

    assert!(success, "{}", stderr);
    assert!(
        stderr.contains("'forgotten'") && stderr.contains("2 objects in use"),
        "{}",
        stderr
    );
}

#[test]
fn a_panic_in_a_callback_ends_the_process() {
    assert!(!child("panic").0);
}

#[test]
fn a_cache_dropped_by_its_object_ends_the_process() {
    let (success, stderr) = child("own");

    assert!(
        !success && stderr.contains("dropped by one of its objects"),
        "{}",
        stderr
    );
}
