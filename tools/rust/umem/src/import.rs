//! Caches of resources that are not memory.

use std::any::Any;
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::{self, ManuallyDrop};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::os::raw::{c_int, c_void};
use std::os::unix::io::{FromRawFd, IntoRawFd, OwnedFd};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Arc;

use umem_sys::*;

use crate::cache::{AbortOnDrop, Running};
use crate::stats::{c_string, last_error};

/// A value that an [`ImportCache`] can hold as one word that is not 0.
///
/// # Safety
/// [`Resource::from_word`] of the result of [`Resource::into_word`] is the same
/// resource, and two resources that exist have different words.
pub unsafe trait Resource: Send + 'static {
    /// Returns the word of the resource, which is not dropped.
    fn into_word(self) -> NonZeroUsize;

    /// Returns the resource of a word.
    ///
    /// # Safety
    /// The word is from [`Resource::into_word`], and is not used again.
    unsafe fn from_word(word: NonZeroUsize) -> Self;
}

// SAFETY: addresses of boxes that exist differ, and none is 0. A box of a type
// without a size has no memory, so that two would be equal: into_word() refuses.
unsafe impl<T: Send + 'static> Resource for Box<T> {
    fn into_word(self) -> NonZeroUsize {
        assert_ne!(mem::size_of::<T>(), 0, "a resource without a size");
        // SAFETY: the address of a box is not 0.
        unsafe { NonZeroUsize::new_unchecked(Box::into_raw(self) as usize) }
    }

    unsafe fn from_word(word: NonZeroUsize) -> Box<T> {
        Box::from_raw(word.get() as *mut T)
    }
}

// SAFETY: descriptors that are open differ, and none is negative.
unsafe impl Resource for OwnedFd {
    fn into_word(self) -> NonZeroUsize {
        // SAFETY: a descriptor is 0 or more.
        unsafe { NonZeroUsize::new_unchecked(self.into_raw_fd() as usize + 1) }
    }

    unsafe fn from_word(word: NonZeroUsize) -> OwnedFd {
        OwnedFd::from_raw_fd((word.get() - 1) as i32)
    }
}

type Import<R> = Box<dyn Fn() -> io::Result<R> + Send + Sync>;

/// Why the import of this thread's request has delivered nothing.
enum Failure {
    Error(io::Error),
    Panic(Box<dyn Any + Send>),
}

thread_local! {
    static FAILURE: Cell<Option<Failure>> = const { Cell::new(None) };
}

fn take_failure() -> Option<Failure> {
    FAILURE.try_with(Cell::take).ok().flatten()
}

/// # Safety
/// `function` is the cache's `Arc<Import<R>>`, and `store` has room for one word.
unsafe extern "C" fn import<R: Resource>(
    function: *mut c_void,
    store: *mut *mut c_void,
    _: usize,
    _: c_int,
) -> usize {
    let bomb = AbortOnDrop;
    let function = &*function.cast::<Import<R>>();
    let failure = match panic::catch_unwind(AssertUnwindSafe(|| function().map(R::into_word))) {
        Ok(Ok(word)) => {
            store.write(word.get() as *mut c_void);
            mem::forget(bomb);
            return 1;
        }
        Ok(Err(error)) => Failure::Error(error),
        Err(payload) => Failure::Panic(payload),
    };

    let _ = FAILURE.try_with(|cell| cell.set(Some(failure)));
    mem::forget(bomb);
    0
}

/// # Safety
/// `store` has `n` idle resources; `function` as for `import()`.
unsafe extern "C" fn release<R: Resource>(
    function: *mut c_void,
    store: *const *mut c_void,
    n: usize,
) {
    let bomb = AbortOnDrop;

    Running::call(function, || {
        for i in 0..n {
            drop(resource_of::<R>(*store.add(i)));
        }
    });
    mem::forget(bomb);
}

/// # Safety
/// The word is that of an idle resource, and is not used again.
unsafe fn resource_of<R: Resource>(word: *mut c_void) -> R {
    R::from_word(NonZeroUsize::new_unchecked(word as usize))
}

/// A cache of resources: descriptors, connections, buffers that the kernel knows.
///
/// A request takes an idle resource, from the magazines of its CPU without a lock,
/// or imports one. The library drops idle resources that were not used for some
/// time, in any thread; a panic of that drop ends the process.
///
/// ```
/// use std::fs::File;
/// use std::os::unix::io::OwnedFd;
///
/// let files = umem::ImportCache::new("null", 8, || Ok(OwnedFd::from(File::open("/dev/null")?)))?;
/// let first = files.take()?;
/// drop(first);
/// let again = files.take()?;
/// # let _: &OwnedFd = &again;
/// # drop(again);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ImportCache<R: Resource> {
    raw: NonNull<umem_cache_t>,
    import: Arc<Import<R>>,
}

// SAFETY: every function of the library may be called in any thread, resources
// are Send, and the import function is Send and Sync.
unsafe impl<R: Resource> Send for ImportCache<R> {}
unsafe impl<R: Resource> Sync for ImportCache<R> {}

impl<R: Resource> ImportCache<R> {
    /// Creates a cache. At most `max_idle` resources are idle; 0: no limit.
    ///
    /// The function imports one resource, in the thread of a request. It must not
    /// use the cache itself.
    ///
    /// # Errors
    /// EINVAL for a name with a NUL, EAGAIN for want of memory.
    pub fn new(
        name: &str,
        max_idle: usize,
        function: impl Fn() -> io::Result<R> + Send + Sync + 'static,
    ) -> io::Result<ImportCache<R>> {
        let name = c_string(name)?;
        let boxed: Import<R> = Box::new(function);
        let function = Arc::new(boxed);

        // SAFETY: the name ends in 0, and the function stays until the cache is
        // destroyed.
        let raw = unsafe {
            umem_import_cache_create(
                name.as_ptr(),
                import::<R>,
                release::<R>,
                Arc::as_ptr(&function) as *mut c_void,
                max_idle,
                0,
            )
        };
        NonNull::new(raw)
            .map(|raw| ImportCache {
                raw,
                import: function,
            })
            .ok_or_else(last_error)
    }

    /// Takes an idle resource, or imports one.
    ///
    /// # Errors
    /// That of the import function; ENOMEM.
    ///
    /// # Panics
    /// If the import function panics and no resource is idle.
    pub fn take(&self) -> io::Result<Taken<'_, R>> {
        drop(take_failure());
        // SAFETY: the cache exists.
        let word = unsafe { umem_cache_alloc(self.raw.as_ptr(), UMEM_DEFAULT) };

        if !word.is_null() {
            return Ok(Taken {
                // SAFETY: the resource is this request's.
                resource: ManuallyDrop::new(unsafe { resource_of(word) }),
                cache: self,
            });
        }
        let error = last_error();
        match take_failure() {
            Some(Failure::Panic(payload)) => panic::resume_unwind(payload),
            Some(Failure::Error(error)) => Err(error),
            None => Err(error),
        }
    }

    /// Returns the name, cut to 31 bytes.
    pub fn name(&self) -> String {
        // SAFETY: the name ends in 0, and stays as long as the cache.
        unsafe { CStr::from_ptr(umem_cache_name(self.raw.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// Drops the idle resources.
    pub fn reap(&self) {
        // SAFETY: the cache exists.
        unsafe { umem_cache_reap_now(self.raw.as_ptr()) }
    }
}

impl<R: Resource> Drop for ImportCache<R> {
    fn drop(&mut self) {
        Running::refuse(Arc::as_ptr(&self.import).cast(), || self.name());
        // SAFETY: taken resources borrow the cache, so no thread uses it. The
        // import function is dropped after it.
        unsafe { umem_cache_destroy(self.raw.as_ptr()) }
    }
}

impl<R: Resource> fmt::Debug for ImportCache<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportCache")
            .field("name", &self.name())
            .field("import", &Arc::as_ptr(&self.import))
            .finish()
    }
}

/// A resource that was taken from an [`ImportCache`], to which its drop returns
/// it.
///
/// ```compile_fail
/// let cache = umem::ImportCache::new("boxes", 0, || Ok(Box::new(1)))?;
/// let one = cache.take()?;
/// drop(cache);
/// drop(one);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Taken<'c, R: Resource> {
    resource: ManuallyDrop<R>,
    cache: &'c ImportCache<R>,
}

impl<R: Resource> Deref for Taken<'_, R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.resource
    }
}

impl<R: Resource> DerefMut for Taken<'_, R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.resource
    }
}

impl<R: Resource> Drop for Taken<'_, R> {
    fn drop(&mut self) {
        // SAFETY: this is the last use of the resource here.
        let word = unsafe { ManuallyDrop::take(&mut self.resource) }.into_word();

        // SAFETY: the resource is of this cache, and nobody uses it.
        unsafe { umem_cache_free(self.cache.raw.as_ptr(), word.get() as *mut c_void) }
    }
}

impl<R: Resource + fmt::Debug> fmt::Debug for Taken<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
