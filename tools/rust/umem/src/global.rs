//! The global allocator.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use umem_sys::*;

/// The global allocator of a program, on `umem_alloc()`.
///
/// A free gives the size of the block, so the library need not look it up. A
/// vector that grows stays in place where the library allows it. Each alignment
/// is allowed.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: umem::Umem = umem::Umem;
///
/// let numbers: Vec<u32> = (0..1000).collect();
/// assert_eq!(numbers.iter().sum::<u32>(), 499_500);
/// assert!(umem::stats().live_bytes >= 4000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Umem;

/// Does `umem_alloc()` align every block of this size enough?
#[inline]
fn is_aligned_by_size(size: usize, align: usize) -> bool {
    align <= 8 || (align <= 16 && size >= 16) || (align <= 64 && size % 64 == 0)
}

// SAFETY: a block of umem_alloc() or umem_alloc_align() is as large as requested
// and belongs to the caller until it is freed. Its alignment is at least that of
// the layout: umem_alloc_align() promises it, and is_aligned_by_size() says where
// umem_alloc() promises it, too. The two families of functions are never mixed,
// because is_aligned_by_size() depends on the layout alone, which GlobalAlloc
// requires to be the same for the allocation and the free; its contract also
// excludes a size of 0. Failures give NULL, and no function of the library
// unwinds.
unsafe impl GlobalAlloc for Umem {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());

        if is_aligned_by_size(size, align) {
            umem_alloc(size, UMEM_DEFAULT).cast()
        } else {
            umem_alloc_align(size, align, UMEM_DEFAULT).cast()
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_aligned_by_size(layout.size(), layout.align()) {
            umem_free(block.cast(), layout.size());
        } else {
            umem_free_align(block.cast(), layout.size());
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();

        if is_aligned_by_size(size, layout.align()) {
            return umem_zalloc(size, UMEM_DEFAULT).cast();
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            ptr::write_bytes(block, 0, size);
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, align) = (layout.size(), layout.align());

        if is_aligned_by_size(old, align) && is_aligned_by_size(size, align) {
            return umem_realloc(block.cast(), old, size, UMEM_DEFAULT).cast();
        }
        // The contract of realloc() makes this layout valid.
        let new = self.alloc(Layout::from_size_align_unchecked(size, align));
        if !new.is_null() {
            ptr::copy_nonoverlapping(block, new, old.min(size));
            self.dealloc(block, layout);
        }
        new
    }
}
