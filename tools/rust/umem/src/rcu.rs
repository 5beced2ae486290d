//! Frees that wait for a grace period of liburcu, of its flavour memb.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;

use umem_sys::*;

use crate::cache::{Cache, Kind};
use crate::stats::check;

/// The registration of a thread with liburcu, which wants one for all readers of
/// the thread. It ends with the last reader, or with the thread: liburcu's list has
/// the memory of the thread, also if the program has forgotten a reader.
struct Registration {
    nreaders: Cell<usize>,
}

impl Registration {
    fn add_reader(&self) {
        if self.nreaders.get() == 0 {
            // SAFETY: the thread is not registered by this crate. Its
            // registration by other code is that code's to count.
            unsafe { urcu_memb_register_thread() }
        }
        self.nreaders.set(self.nreaders.get() + 1);
    }

    fn remove_reader(&self) {
        self.nreaders.set(self.nreaders.get() - 1);
        if self.nreaders.get() == 0 {
            // SAFETY: the thread is registered. Sections borrow readers, so the
            // program uses nothing that one of them protects.
            unsafe { urcu_memb_unregister_thread() }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.nreaders.get() != 0 {
            // SAFETY: the thread is registered. It runs nothing more in a section:
            // Reader::lock() needs the registration.
            unsafe { urcu_memb_unregister_thread() }
        }
    }
}

thread_local! {
    static REGISTRATION: Registration = const {
        Registration { nreaders: Cell::new(0) }
    };
}

/// A thread that reads what other threads retire.
///
/// ```
/// use std::ptr::NonNull;
/// use std::sync::atomic::{AtomicPtr, Ordering};
/// use umem::rcu::Reader;
/// use umem::Slot;
///
/// let cache = umem::Cache::new();
/// let head = AtomicPtr::new(Slot::leak(cache.make(1)) as *mut u64);
///
/// // A reader.
/// let reader = Reader::new();
/// let section = reader.lock();
/// // SAFETY: the object is retired, not freed, and this section has not ended.
/// assert_eq!(unsafe { *head.load(Ordering::Acquire) }, 1);
/// drop(section);
///
/// // An updater.
/// let old = head.swap(Slot::leak(cache.make(2)), Ordering::AcqRel);
/// // SAFETY: no reader that begins now can find the object.
/// unsafe { cache.retire(NonNull::new(old).unwrap()) }?;
/// umem::rcu::barrier()?;
/// # let last = NonNull::new(head.into_inner()).unwrap();
/// # unsafe { cache.retire(last) }?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Reader {
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Reader {
    /// Registers the thread with liburcu.
    ///
    /// # Panics
    /// At the end of the thread, after its local that has the registration.
    pub fn new() -> Reader {
        REGISTRATION.with(Registration::add_reader);
        Reader {
            thread: PhantomData,
        }
    }

    /// Begins a read-side critical section. Sections may be nested.
    ///
    /// # Panics
    /// As [`Reader::new`].
    pub fn lock(&self) -> Section<'_> {
        REGISTRATION.with(|_| ());
        // SAFETY: the thread is registered.
        unsafe { urcu_memb_read_lock() }
        Section {
            reader: PhantomData,
        }
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Otherwise the registration has ended with the thread.
        let _ = REGISTRATION.try_with(Registration::remove_reader);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// A read-side critical section, which ends when it is dropped.
#[must_use]
pub struct Section<'r> {
    reader: PhantomData<(&'r Reader, *const ())>,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        // SAFETY: the section was begun in this thread.
        unsafe { urcu_memb_read_unlock() }
    }
}

impl fmt::Debug for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Section")
    }
}

impl<T, K: Kind> Cache<T, K> {
    /// Frees an object of [`Slot::leak`](crate::Slot::leak) after a grace
    /// period, without a drop: it is kept, or has nothing to drop.
    ///
    /// # Safety
    /// The object is of this cache and in use. No reader that begins later can
    /// find it, and after this call only readers in sections that have begun use
    /// it.
    ///
    /// # Errors
    /// EAGAIN in a section while much waits for a grace period already; the
    /// object is still the caller's.
    ///
    /// # Panics
    /// If the object has something to drop.
    pub unsafe fn retire(&self, object: NonNull<T>) -> io::Result<()> {
        assert!(
            !K::IS_MADE || !mem::needs_drop::<T>(),
            "an object is retired without a drop"
        );
        check(umem_cache_free_rcu_flavor(
            self.as_raw(),
            object.as_ptr().cast(),
            &urcu_memb_flavor,
        ))
    }
}

/// Waits until all objects that were retired before the call are free. Not in a
/// section.
///
/// # Errors
/// EDEADLK in a section.
pub fn barrier() -> io::Result<()> {
    // SAFETY: the flavour exists as long as the process.
    check(unsafe { umem_rcu_barrier_flavor(&urcu_memb_flavor) })
}
