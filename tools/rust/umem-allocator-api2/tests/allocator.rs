//! Containers of allocator-api2, and its functions, on the allocator.

use std::alloc::Layout;
use std::thread;

use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use umem_allocator_api2::Umem;

#[test]
fn containers_hold_what_they_get() {
    let mut numbers: Vec<u64, Umem> = Vec::new_in(Umem);
    for n in 0..100_000 {
        numbers.push(n);
    }
    numbers.truncate(1000);
    numbers.shrink_to_fit();
    assert!(numbers.iter().copied().eq(0..1000));

    let mut units: Vec<(), Umem> = Vec::new_in(Umem);
    units.extend([(); 10]);
    assert_eq!(units.len(), 10);

    let text = Box::new_in(String::from("text"), Umem);
    let other = thread::spawn(move || text.len()).join().unwrap();
    assert_eq!(other, 4);
}

#[test]
fn a_type_may_have_any_alignment() {
    #[repr(align(8192))]
    struct Aligned(u8);

    let mut several: Vec<Aligned, Umem> = Vec::new_in(Umem);
    for n in 0..20 {
        several.push(Aligned(n));
        assert_eq!(several.as_ptr() as usize % 8192, 0);
    }
    several.truncate(3);
    several.shrink_to_fit();
    assert_eq!(several.iter().map(|one| one.0).sum::<u8>(), 3);
}

/// Each size and alignment, resized to each other.
#[test]
fn a_resized_block_keeps_its_bytes() {
    let sizes = [0, 1, 8, 24, 64, 4096, 100_000];
    let aligns = [1, 16, 64, 8192];
    let layouts = || {
        sizes.iter().flat_map(|&size| {
            aligns
                .iter()
                .map(move |&align| Layout::from_size_align(size, align).unwrap())
        })
    };

    for old in layouts() {
        for new in layouts() {
            // SAFETY: each block is used within its size, and freed once with its
            // layout.
            unsafe {
                let from = Umem.allocate_zeroed(old).unwrap().cast::<u8>();
                assert!((0..old.size()).all(|i| *from.as_ptr().add(i) == 0));
                from.as_ptr().write_bytes(7, old.size());
                let to = if new.size() >= old.size() {
                    Umem.grow_zeroed(from, old, new)
                } else {
                    Umem.shrink(from, old, new)
                };
                let to = to.unwrap().cast::<u8>();
                assert_eq!(to.as_ptr() as usize % new.align(), 0);
                for i in 0..new.size() {
                    let expected = if i < old.size() { 7 } else { 0 };
                    assert_eq!(*to.as_ptr().add(i), expected, "{:?} {:?}", old, new);
                }
                Umem.deallocate(to, new);
            }
        }
    }
}

#[test]
fn a_block_that_cannot_be_is_an_error() {
    let huge = Layout::from_size_align(1 << 62, 8).unwrap();

    assert!(Umem.allocate(huge).is_err());
    assert!(Umem.allocate_zeroed(huge).is_err());
}
