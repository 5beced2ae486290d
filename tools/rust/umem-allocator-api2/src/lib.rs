//! umem as an allocator of allocator-api2.
#![doc = include_str!("../README.md")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator};

/// An allocator on `umem_alloc()`, as [`umem::Umem`] is, for one container.
///
/// It has no state: any copy frees the blocks of any other.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Umem;

/// A block, of size 0 at any address that is not 0; an error if it is at 0.
fn block(at: *mut u8, size: usize) -> Result<NonNull<[u8]>, AllocError> {
    NonNull::new(ptr::slice_from_raw_parts_mut(at, size)).ok_or(AllocError)
}

impl Umem {
    /// Resizes a block.
    ///
    /// # Safety
    /// As for [`Allocator::grow`] if the new size is not below the old one,
    /// otherwise as for [`Allocator::shrink`].
    #[inline]
    unsafe fn resize(
        self,
        at: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.align() == new.align() && old.size() != 0 && new.size() != 0 {
            return block(umem::Umem.realloc(at.as_ptr(), old, new.size()), new.size());
        }
        let to = self.allocate(new)?;
        let n = old.size().min(new.size());

        ptr::copy_nonoverlapping(at.as_ptr(), to.cast().as_ptr(), n);
        self.deallocate(at, old);
        Ok(to)
    }
}

// SAFETY: a block of umem::Umem has size and alignment of its layout, and stays
// until it is freed, by any copy, because there is no state. Layouts without a
// size never reach it. A layout fits a block only if it is the block's, because
// each block is as long as requested.
unsafe impl Allocator for Umem {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return block(layout.align() as *mut u8, 0);
        }
        // SAFETY: the layout has a size.
        block(unsafe { umem::Umem.alloc(layout) }, layout.size())
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return block(layout.align() as *mut u8, 0);
        }
        // SAFETY: the layout has a size.
        block(unsafe { umem::Umem.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn deallocate(&self, at: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            umem::Umem.dealloc(at.as_ptr(), layout);
        }
    }

    #[inline]
    unsafe fn grow(
        &self,
        at: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(at, old, new)
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        at: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let to = self.resize(at, old, new)?;
        let rest = to.cast::<u8>().as_ptr().add(old.size());

        ptr::write_bytes(rest, 0, new.size() - old.size());
        Ok(to)
    }

    #[inline]
    unsafe fn shrink(
        &self,
        at: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        self.resize(at, old, new)
    }
}
