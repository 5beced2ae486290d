//! Arenas: allocators of ranges of integers.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::raw::c_void;
use std::ptr::{self, NonNull};

use umem_sys::*;

use crate::stats::{c_string, last_error};

/// An allocator of ranges of integers, which are identifiers, offsets or
/// addresses, as the program decides. No integer is 0.
///
/// An allocation takes constant time, except for [`Arena::allocate_within`],
/// which may examine every free segment. Any thread may call a function at any
/// time. If an arena is dropped while segments are in use (forgotten ones), the
/// library prints one line with their size.
///
/// ```
/// let ports = umem::Arena::new("ports", 40_000..50_000, 1)?;
/// let pair = ports.allocate(2)?;
/// assert_eq!(pair.range().len(), 2);
/// drop(pair);
/// assert_eq!(ports.free_units(), 10_000);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Arena {
    raw: NonNull<vmem_t>,
}

// SAFETY: every function of the library may be called in any thread.
unsafe impl Send for Arena {}
unsafe impl Sync for Arena {}

/// Constraints of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Within {
    /// A power of two; 0: the quantum.
    pub align: usize,
    /// The segment starts this many units above a multiple of `align`.
    pub phase: usize,
    /// The segment crosses no multiple of this power of two; 0: no constraint.
    pub nocross: usize,
    /// The lowest start; 0: no constraint.
    pub min: usize,
    /// The exclusive upper bound; 0: no constraint.
    pub max: usize,
}

/// An integer in the form that the library takes; it is never an address here.
fn pointer_of(n: usize) -> *mut c_void {
    n as *mut c_void
}

impl Arena {
    /// Creates an arena with one span; an empty one gives an arena without a
    /// span, see [`Arena::add`]. Sizes are rounded up to the quantum.
    ///
    /// # Errors
    /// EINVAL if the quantum is not a power of two, if the span is not of
    /// multiples of it, or if it contains 0; ENOMEM.
    pub fn new(name: &str, span: Range<usize>, quantum: usize) -> io::Result<Arena> {
        Arena::with_cache(name, span, quantum, 0)
    }

    /// Creates an arena that caches segments of up to `cached` units, and at
    /// most 16 quanta, for each CPU.
    ///
    /// # Errors
    /// Those of [`Arena::new`].
    pub fn with_cache(
        name: &str,
        span: Range<usize>,
        quantum: usize,
        cached: usize,
    ) -> io::Result<Arena> {
        let name = c_string(name)?;

        // SAFETY: the name ends in 0. An arena without a source calls no function
        // and accesses no memory of the span.
        let raw = unsafe {
            vmem_create(
                name.as_ptr(),
                pointer_of(span.start),
                span.len(),
                quantum,
                None,
                None,
                ptr::null_mut(),
                cached,
                VM_NOSLEEP | VMC_IDENTIFIER,
            )
        };
        NonNull::new(raw)
            .map(|raw| Arena { raw })
            .ok_or_else(last_error)
    }

    /// Adds a span.
    ///
    /// # Errors
    /// EINVAL if it is empty, overlaps another span, or is not of multiples of
    /// the quantum; ENOMEM.
    pub fn add(&self, span: Range<usize>) -> io::Result<()> {
        // SAFETY: the arena exists, and accesses no memory of the span.
        let added = unsafe {
            vmem_add(
                self.raw.as_ptr(),
                pointer_of(span.start),
                span.len(),
                VM_NOSLEEP,
            )
        };
        if added.is_null() {
            Err(last_error())
        } else {
            Ok(())
        }
    }

    /// Allocates a segment.
    ///
    /// # Errors
    /// EINVAL for a size of 0, ENOMEM if no free segment is large enough.
    pub fn allocate(&self, size: usize) -> io::Result<Segment<'_>> {
        // SAFETY: the arena exists.
        let start = unsafe { vmem_alloc(self.raw.as_ptr(), size, VM_NOSLEEP) };

        self.segment(start, size, false)
    }

    /// Allocates a segment under constraints.
    ///
    /// ```
    /// use umem::{Arena, Within};
    ///
    /// let offsets = Arena::new("offsets", 1..1000, 1)?;
    /// let page = offsets.allocate_within(64, Within { align: 256, min: 300, ..Within::default() })?;
    /// assert_eq!(page.range(), 512..576);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// EINVAL for a size of 0 and for constraints that nothing fulfils, ENOMEM.
    pub fn allocate_within(&self, size: usize, within: Within) -> io::Result<Segment<'_>> {
        // SAFETY: the arena exists.
        let start = unsafe {
            vmem_xalloc(
                self.raw.as_ptr(),
                size,
                within.align,
                within.phase,
                within.nocross,
                pointer_of(within.min),
                pointer_of(within.max),
                VM_NOSLEEP,
            )
        };
        self.segment(start, size, true)
    }

    /// Returns the number of allocated units; idle segments that a CPU caches
    /// count as allocated.
    pub fn allocated_units(&self) -> usize {
        // SAFETY: the arena exists.
        unsafe { vmem_size(self.raw.as_ptr(), VMEM_ALLOC) }
    }

    /// Returns the number of free units.
    pub fn free_units(&self) -> usize {
        // SAFETY: the arena exists.
        unsafe { vmem_size(self.raw.as_ptr(), VMEM_FREE) }
    }

    /// Is a range part of one span?
    pub fn contains(&self, range: Range<usize>) -> bool {
        // SAFETY: the arena exists.
        unsafe { vmem_contains(self.raw.as_ptr(), pointer_of(range.start), range.len()) != 0 }
    }

    fn segment(
        &self,
        start: *mut c_void,
        size: usize,
        is_constrained: bool,
    ) -> io::Result<Segment<'_>> {
        if start.is_null() {
            return Err(last_error());
        }
        Ok(Segment {
            arena: self,
            start: start as usize,
            size,
            is_constrained,
        })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: segments borrow the arena, so no thread uses it.
        unsafe { vmem_destroy(self.raw.as_ptr()) }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("allocated", &self.allocated_units())
            .field("free", &self.free_units())
            .finish()
    }
}

/// A segment of an arena, which it frees when it is dropped.
#[derive(Debug)]
pub struct Segment<'a> {
    arena: &'a Arena,
    start: usize,
    size: usize,
    is_constrained: bool,
}

impl Segment<'_> {
    /// Returns the first integer, a multiple of the quantum.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns the integers that were requested.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.size
    }
}

impl Drop for Segment<'_> {
    fn drop(&mut self) {
        let (arena, start) = (self.arena.raw.as_ptr(), pointer_of(self.start));

        // SAFETY: the segment is of this arena, and is freed once, by the function
        // that belongs to its allocation.
        unsafe {
            if self.is_constrained {
                vmem_xfree(arena, start, self.size);
            } else {
                vmem_free(arena, start, self.size);
            }
        }
    }
}
