//! The global allocator: the tests of this file run on it.

use std::alloc::{alloc, alloc_zeroed, dealloc, realloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::thread;

#[global_allocator]
static GLOBAL: umem::Umem = umem::Umem;

const SIZES: [usize; 12] = [1, 7, 8, 15, 16, 24, 64, 100, 4096, 5000, 65536, 70_000];
const ALIGNS: [usize; 7] = [1, 8, 16, 32, 64, 4096, 1 << 16];

/// Distance of the bytes that are written and checked.
const STEP: usize = 7;

fn fill(block: *mut u8, size: usize, seed: usize) {
    for i in (0..size).step_by(STEP) {
        // SAFETY: the block has this size.
        unsafe { block.add(i).write((i * 31 + seed) as u8) };
    }
}

fn check(block: *mut u8, size: usize, seed: usize) {
    for i in (0..size).step_by(STEP) {
        // SAFETY: the block has this size, and was filled.
        assert_eq!(unsafe { block.add(i).read() }, (i * 31 + seed) as u8);
    }
}

#[test]
fn each_size_has_each_alignment() {
    for size in SIZES {
        for align in ALIGNS {
            let layout = Layout::from_size_align(size, align).unwrap();
            let mut blocks = Vec::new();

            for i in 0..5 {
                // SAFETY: the layout has a size.
                let block = unsafe { alloc(layout) };
                assert_eq!(block as usize % align, 0, "{:?}", layout);
                fill(block, size, i);
                blocks.push(block);
            }
            for (i, block) in blocks.into_iter().enumerate() {
                check(block, size, i);
                // SAFETY: the block is of this layout.
                unsafe { dealloc(block, layout) };
            }
        }
    }
}

#[test]
fn zeroed_blocks_are_zero() {
    for size in SIZES {
        for align in ALIGNS {
            let layout = Layout::from_size_align(size, align).unwrap();

            for _ in 0..2 {
                // SAFETY: the layout has a size, and the block has it.
                unsafe {
                    let block = alloc_zeroed(layout);
                    assert_eq!(block as usize % align, 0);
                    assert!((0..size).all(|i| block.add(i).read() == 0));
                    fill(block, size, 1);
                    dealloc(block, layout);
                }
            }
        }
    }
}

#[test]
fn realloc_keeps_contents_and_alignment() {
    for old in SIZES {
        for new in SIZES {
            for align in ALIGNS {
                let layout = Layout::from_size_align(old, align).unwrap();

                // SAFETY: the layouts have sizes, and are those of the blocks.
                unsafe {
                    let block = alloc(layout);
                    fill(block, old, 3);
                    let block = realloc(block, layout, new);
                    assert_eq!(block as usize % align, 0);
                    check(block, old.min(new), 3);
                    dealloc(block, Layout::from_size_align(new, align).unwrap());
                }
            }
        }
    }
}

#[test]
fn too_large_requests_fail() {
    let mut bytes: Vec<u8> = Vec::new();

    assert!(bytes.try_reserve_exact(isize::MAX as usize).is_err());
    assert!(bytes.try_reserve(1 << 50).is_err());
    bytes.push(1);
}

#[test]
fn collections_of_many_threads() {
    let threads: Vec<_> = (0..4)
        .map(|seed: u64| {
            thread::spawn(move || {
                let mut map = HashMap::new();
                let mut tree = BTreeMap::new();
                for i in 0..2000 {
                    map.insert(i * seed, format!("{}", i));
                    tree.insert(i, vec![i; (i % 60) as usize]);
                }
                (map, tree)
            })
        })
        .collect();

    // The blocks are freed by another thread than allocated them.
    for thread in threads {
        let (map, tree) = thread.join().unwrap();
        assert!(map.values().any(|text| text == "1999"));
        assert_eq!(tree.values().map(Vec::len).max(), Some(59));
    }
    assert!(umem::stats().heap_bytes > 0);
    assert_eq!(umem::stats().nwrong_sizes, 0);
}
