//! Object caches.

use std::any::{self, Any};
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ops::{BitOr, Deref, DerefMut};
use std::os::raw::{c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::process;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use umem_sys::*;

use crate::stats::{c_string, check, last_error};

/// The limit and the reserve of a cache, as they are now.
pub use umem_sys::umem_cache_limits as Limits;

/// The way of a request for an object; `|` combines two.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Request(c_int);

impl Request {
    /// Waits at the cache's limit, if the cache has a wait.
    pub const DEFAULT: Request = Request(UMEM_DEFAULT);
    /// Does not wait at the cache's limit.
    pub const NOWAIT: Request = Request(UMEM_NOWAIT);
    /// May take an object from the cache's reserve.
    pub const RESERVE: Request = Request(UMEM_RESERVE);
}

impl BitOr for Request {
    type Output = Request;

    fn bitor(self, other: Request) -> Request {
        Request(self.0 | other.0)
    }
}

/// A kind of cache: [`Made`] or [`Kept`].
pub trait Kind: sealed::Sealed {
    #[doc(hidden)]
    const IS_MADE: bool;
}

/// Objects are made by each request, and dropped with their [`Slot`].
#[derive(Debug)]
pub enum Made {}

/// Objects are constructed once and stay so between uses.
#[derive(Debug)]
pub enum Kept {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Made {}
    impl Sealed for super::Kept {}
}

impl Kind for Made {
    const IS_MADE: bool = true;
}

impl Kind for Kept {
    const IS_MADE: bool = false;
}

type Construct<T> = Box<dyn Fn() -> T + Send + Sync>;
type Reclaim = Box<dyn Fn() + Send + Sync>;

/// The functions of the program that the library calls for a cache.
struct Callbacks<T> {
    construct: Option<Construct<T>>,
    reclaim: Option<Reclaim>,
}

/// Ends the process if it is dropped, that is, if a callback panics. A panic
/// must not unwind through the library.
pub(crate) struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        process::abort();
    }
}

thread_local! {
    /// The panic of a constructor that this thread's request has called.
    static PANIC: Cell<Option<Box<dyn Any + Send>>> = Cell::new(None);
    /// The innermost call of this thread for an idle object.
    static RUNNING: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// A constructor or a drop of a kept object, or the drop of an idle resource, that
/// runs, on the stack of its thread. The library does not expect that one of them
/// destroys its own cache.
pub(crate) struct Running {
    callbacks: *const c_void,
    outer: *const Running,
}

impl Running {
    /// Calls a function for a cache, which its callbacks identify.
    pub(crate) fn call<R>(callbacks: *const c_void, function: impl FnOnce() -> R) -> R {
        let outer = RUNNING.try_with(Cell::get).unwrap_or(ptr::null());
        let running = Running { callbacks, outer };

        let _ = RUNNING.try_with(|cell| cell.set(&running));
        let result = function();
        let _ = RUNNING.try_with(|cell| cell.set(outer));
        result
    }

    /// Ends the process if one of them runs for a cache, in this thread.
    pub(crate) fn refuse(callbacks: *const c_void, name: impl FnOnce() -> String) {
        let mut at = RUNNING.try_with(Cell::get).unwrap_or(ptr::null());

        // SAFETY: each of them is on the stack of this thread, in a function that
        // has not returned; a panic of the function it calls does not leave it.
        while let Some(running) = unsafe { at.as_ref() } {
            if running.callbacks == callbacks {
                eprintln!("umem: cache {}: dropped by one of its objects", name());
                process::abort();
            }
            at = running.outer;
        }
    }
}

/// Takes the panic of this thread's last constructor, if there was one.
fn take_panic() -> Option<Box<dyn Any + Send>> {
    PANIC.try_with(Cell::take).ok().flatten()
}

/// Borrows the callbacks of a cache, also beyond a call that drops it.
///
/// # Safety
/// `callbacks` is the cache's, and the cache exists.
unsafe fn callbacks_of<T>(callbacks: *mut c_void) -> Arc<Callbacks<T>> {
    let of_cache = ManuallyDrop::new(Arc::from_raw(callbacks.cast::<Callbacks<T>>()));

    Arc::clone(&of_cache)
}

/// # Safety
/// `memory` is raw memory for a T; `callbacks` as for `callbacks_of()`.
unsafe extern "C" fn construct<T>(memory: *mut c_void, callbacks: *mut c_void, _: c_int) -> c_int {
    let bomb = AbortOnDrop;
    let functions = callbacks_of::<T>(callbacks);
    let result = Running::call(callbacks, || {
        panic::catch_unwind(AssertUnwindSafe(|| {
            functions.construct.as_ref().map(|f| f())
        }))
    });
    let status = match result {
        Ok(Some(object)) => {
            memory.cast::<T>().write(object);
            0
        }
        Ok(None) => -1,
        Err(payload) => {
            let _ = PANIC.try_with(|cell| cell.set(Some(payload)));
            -1
        }
    };

    mem::forget(bomb);
    status
}

/// # Safety
/// `object` is a T that nobody uses.
unsafe extern "C" fn destruct<T>(object: *mut c_void, callbacks: *mut c_void) {
    let bomb = AbortOnDrop;

    Running::call(callbacks, || ptr::drop_in_place(object.cast::<T>()));
    mem::forget(bomb);
}

/// # Safety
/// As for `callbacks_of()`.
unsafe extern "C" fn reclaim<T>(callbacks: *mut c_void) {
    let bomb = AbortOnDrop;

    if let Some(function) = &callbacks_of::<T>(callbacks).reclaim {
        function();
    }
    mem::forget(bomb);
}

/// The attributes of a new cache.
///
/// ```
/// use std::time::Duration;
///
/// let cache = umem::Builder::new()
///     .name("connection")
///     .limit(2)
///     .wait(Duration::from_millis(1))
///     .build::<[u8; 100]>()?;
/// let first = cache.make([0; 100]);
/// let second = cache.make([0; 100]);
/// assert!(cache.try_make([0; 100]).is_err());
/// assert_eq!(cache.limits().in_use, 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct Builder {
    name: Option<String>,
    limit: usize,
    limit_wait: c_int,
    reserve: usize,
    reclaim: Option<Reclaim>,
}

impl Builder {
    /// A cache without a limit, a reserve and a reclaim callback.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// The name in reports and tools, cut to 31 bytes; by default that of the
    /// type.
    pub fn name(mut self, name: &str) -> Builder {
        self.name = Some(name.to_string());
        self
    }

    /// The maximum number of objects in use; 0: no limit.
    pub fn limit(mut self, objects: usize) -> Builder {
        self.limit = objects;
        self
    }

    /// The time for which a request waits at the limit before it fails, in
    /// whole milliseconds. By default a request does not wait.
    pub fn wait(mut self, time: Duration) -> Builder {
        self.limit_wait = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
        self
    }

    /// A request at the limit waits as long as necessary.
    pub fn wait_forever(mut self) -> Builder {
        self.limit_wait = -1;
        self
    }

    /// The number of objects for requests with [`Request::RESERVE`] that find no
    /// memory.
    pub fn reserve(mut self, objects: usize) -> Builder {
        self.reserve = objects;
        self
    }

    /// A function that frees objects which the program can make again. The
    /// library calls it when memory is short, in any thread.
    ///
    /// A panic of it ends the process.
    pub fn reclaim(mut self, function: impl Fn() + Send + Sync + 'static) -> Builder {
        self.reclaim = Some(Box::new(function));
        self
    }

    /// Creates a cache whose objects are made by each request.
    ///
    /// # Errors
    /// EINVAL for an alignment above the page size or a name with a NUL, EAGAIN
    /// or ENOMEM for want of memory.
    pub fn build<T>(self) -> io::Result<Cache<T>> {
        self.create(None)
    }

    /// Creates a cache whose objects stay constructed between uses.
    ///
    /// The library calls the function for each object that a request returns for
    /// the first time, and for those of the reserve. The function must not
    /// use the cache itself. The library drops an object that was not used for
    /// some time, in any thread; a panic of that drop ends the process.
    ///
    /// # Errors
    /// Those of [`Builder::build`]. If the function panics for an object of the
    /// reserve, so does this one.
    pub fn build_kept<T: Send + 'static>(
        self,
        function: impl Fn() -> T + Send + Sync + 'static,
    ) -> io::Result<Cache<T, Kept>> {
        self.create(Some(Box::new(function)))
    }

    fn create<T, K: Kind>(self, function: Option<Construct<T>>) -> io::Result<Cache<T, K>> {
        let name = match &self.name {
            Some(name) => c_string(name)?,
            None => c_string(any::type_name::<T>())?,
        };
        let is_reclaimed = self.reclaim.is_some();
        let callbacks = Arc::into_raw(Arc::new(Callbacks {
            construct: function,
            reclaim: self.reclaim,
        }));
        let args = umem_cache_args {
            size: mem::size_of::<T>().max(1),
            align: mem::align_of::<T>(),
            constructor: (!K::IS_MADE).then_some(construct::<T> as umem_constructor_t),
            destructor: (!K::IS_MADE).then_some(destruct::<T> as umem_destructor_t),
            reclaim: is_reclaimed.then_some(reclaim::<T> as umem_reclaim_t),
            priv_: callbacks as *mut c_void,
            source: ptr::null_mut(),
            cflags: 0,
            limit_wait: self.limit_wait,
            limit: self.limit,
            reserve: self.reserve,
        };
        drop(take_panic());
        // SAFETY: the name ends in 0, the structure has the given size, and the
        // callbacks stay until the cache is destroyed.
        let raw = unsafe {
            umem_cache_create_args(name.as_ptr(), &args, mem::size_of::<umem_cache_args>())
        };

        match NonNull::new(raw) {
            Some(raw) => Ok(Cache {
                raw,
                callbacks,
                objects: PhantomData,
                kind: PhantomData,
            }),
            None => {
                let error = last_error();

                // SAFETY: the pointer is from Arc::into_raw(), and no cache has it.
                drop(unsafe { Arc::from_raw(callbacks) });
                match take_panic() {
                    Some(payload) => panic::resume_unwind(payload),
                    None => Err(error),
                }
            }
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("limit", &self.limit)
            .field("reserve", &self.reserve)
            .finish_non_exhaustive()
    }
}

/// The error for errno, or the panic of the constructor that has failed.
fn failure() -> io::Error {
    let error = last_error();

    if let Some(payload) = take_panic() {
        panic::resume_unwind(payload);
    }
    error
}

/// A cache of objects of one type.
///
/// Any thread may make or free objects at any time; on the fast path, without a
/// lock and without an atomic instruction.
///
/// A [`Slot`] borrows the cache, so the cache outlives it. For threads that live
/// longer than a function, share a cache by [`Cache::leak`]. If slots were
/// forgotten ([`mem::forget`], [`Slot::leak`]) and the cache is dropped, the
/// library prints one line with their number, and their memory stays.
///
/// ```
/// use umem::{Cache, Slot};
///
/// let cache = Cache::new();
/// let mut job: Slot<(u64, String)> = cache.make((1, "first".to_string()));
/// job.0 += 1;
/// assert_eq!(job.0, 2);
/// ```
///
/// A cache of the kind [`Kept`] constructs an object once. A request takes it as
/// it was left, with its locks and buffers:
///
/// ```
/// let cache = umem::Builder::new().build_kept(|| Vec::<u8>::with_capacity(4096))?;
/// let mut buffer = cache.take();
/// buffer.clear();
/// buffer.extend(b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Cache<T, K: Kind = Made> {
    raw: NonNull<umem_cache_t>,
    callbacks: *const Callbacks<T>,
    // Invariant in T: an object that was taken as a subtype is taken again as T.
    objects: PhantomData<fn(T) -> T>,
    kind: PhantomData<K>,
}

// SAFETY: every function of the library may be called in any thread. A cache of
// made objects holds only raw memory, so T does not matter. Kept objects move
// from thread to thread, and build_kept() requires that T is Send. The callbacks
// are Send and Sync.
unsafe impl<T, K: Kind> Send for Cache<T, K> {}
unsafe impl<T, K: Kind> Sync for Cache<T, K> {}

impl<T> Cache<T> {
    /// Creates a cache with the name of the type.
    ///
    /// # Panics
    /// For want of memory, and for an alignment above the page size.
    pub fn new() -> Cache<T> {
        Builder::new()
            .build()
            .unwrap_or_else(|error| panic!("umem::Cache::new(): {}", error))
    }

    /// Makes an object.
    ///
    /// # Panics
    /// At the limit and for want of memory.
    #[inline]
    pub fn make(&self, value: T) -> Slot<'_, T> {
        self.try_make(value)
            .unwrap_or_else(|error| self.fail(error))
    }

    /// Makes an object, or drops the value.
    ///
    /// # Errors
    /// EAGAIN at the limit, ETIMEDOUT after the wait, ENOMEM.
    #[inline]
    pub fn try_make(&self, value: T) -> io::Result<Slot<'_, T>> {
        self.try_make_with(Request::DEFAULT, || value)
    }

    /// Makes an object of the result of a function, which is called if there is
    /// memory.
    ///
    /// # Errors
    /// Those of [`Cache::try_make`].
    #[inline]
    pub fn try_make_with(
        &self,
        request: Request,
        function: impl FnOnce() -> T,
    ) -> io::Result<Slot<'_, T>> {
        let memory = Memory {
            cache: self,
            at: self.allocate(request)?,
        };

        // SAFETY: the cache has size and alignment of T, and the memory is the
        // caller's. If the function panics, Memory frees it.
        unsafe { memory.at.as_ptr().write(function()) };
        Ok(Slot {
            object: ManuallyDrop::new(memory).at,
            cache: self,
        })
    }
}

impl<T> Default for Cache<T> {
    fn default() -> Cache<T> {
        Cache::new()
    }
}

impl<T> Cache<T, Kept> {
    /// Takes an object as it was left.
    ///
    /// # Panics
    /// At the limit, for want of memory, and if the constructor panics.
    #[inline]
    pub fn take(&self) -> Slot<'_, T, Kept> {
        self.try_take(Request::DEFAULT)
            .unwrap_or_else(|error| self.fail(error))
    }

    /// Takes an object as it was left.
    ///
    /// # Errors
    /// Those of [`Cache::try_make`].
    ///
    /// # Panics
    /// If the constructor panics.
    #[inline]
    pub fn try_take(&self, request: Request) -> io::Result<Slot<'_, T, Kept>> {
        Ok(Slot {
            object: self.allocate(request)?,
            cache: self,
        })
    }
}

impl<T, K: Kind> Cache<T, K> {
    /// Lets the cache live until the process ends, for objects of any lifetime.
    pub fn leak(self) -> &'static Cache<T, K>
    where
        T: 'static,
        K: 'static,
    {
        Box::leak(Box::new(self))
    }

    /// Returns the name, cut to 31 bytes.
    pub fn name(&self) -> String {
        // SAFETY: the name ends in 0, and stays as long as the cache.
        unsafe { CStr::from_ptr(umem_cache_name(self.raw.as_ptr())) }
            .to_string_lossy()
            .into_owned()
    }

    /// Changes the limit.
    ///
    /// # Errors
    /// ENOTSUP if the cache was created without limit and wait.
    pub fn set_limit(&self, objects: usize) -> io::Result<()> {
        // SAFETY: the cache exists.
        check(unsafe { umem_cache_set_limit(self.raw.as_ptr(), objects) })
    }

    /// Changes the number of objects in reserve. The exclusive borrow is for the
    /// library's rule of one such call at a time.
    ///
    /// # Errors
    /// ENOMEM.
    ///
    /// # Panics
    /// If the constructor panics.
    pub fn set_reserve(&mut self, objects: usize) -> io::Result<()> {
        drop(take_panic());
        // SAFETY: the cache exists, and no other thread makes this call for it.
        match unsafe { umem_cache_set_reserve(self.raw.as_ptr(), objects) } {
            0 => Ok(()),
            _ => Err(failure()),
        }
    }

    /// Returns the limit and the reserve as they are now.
    pub fn limits(&self) -> Limits {
        let mut limits = Limits::default();

        // SAFETY: the library writes one structure of the given size.
        unsafe {
            umem_cache_limits(self.raw.as_ptr(), &mut limits, mem::size_of::<Limits>());
        }
        limits
    }

    /// Calls the reclaim callback, and releases the memory that the cache does
    /// not use, in time linear in the idle objects.
    pub fn reap(&self) {
        // SAFETY: the cache exists.
        unsafe { umem_cache_reap_now(self.raw.as_ptr()) }
    }

    #[cfg(feature = "rcu")]
    pub(crate) fn as_raw(&self) -> *mut umem_cache_t {
        self.raw.as_ptr()
    }

    #[inline]
    fn allocate(&self, request: Request) -> io::Result<NonNull<T>> {
        if !K::IS_MADE {
            // An earlier request may have succeeded after a constructor's panic.
            drop(take_panic());
        }
        // SAFETY: the cache exists.
        let object = unsafe { umem_cache_alloc(self.raw.as_ptr(), request.0) };

        NonNull::new(object.cast()).ok_or_else(if K::IS_MADE { last_error } else { failure })
    }

    #[cold]
    fn fail(&self, error: io::Error) -> ! {
        panic!("umem: cache {}: {}", self.name(), error)
    }
}

impl<T, K: Kind> Drop for Cache<T, K> {
    fn drop(&mut self) {
        Running::refuse(self.callbacks.cast(), || self.name());
        // SAFETY: slots borrow the cache, so no thread uses it. After its
        // destruction the library calls none of the callbacks any more; a
        // reclaim callback that has dropped the cache has its own reference.
        unsafe {
            umem_cache_destroy(self.raw.as_ptr());
            drop(Arc::from_raw(self.callbacks));
        }
    }
}

impl<T, K: Kind> fmt::Debug for Cache<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cache").field(&self.name()).finish()
    }
}

/// Memory of a cache that is no object yet.
struct Memory<'c, T> {
    cache: &'c Cache<T>,
    at: NonNull<T>,
}

impl<T> Drop for Memory<'_, T> {
    fn drop(&mut self) {
        // SAFETY: the memory is of this cache, and no object is in it.
        unsafe { umem_cache_free(self.cache.raw.as_ptr(), self.at.as_ptr().cast()) }
    }
}

/// An owner of an object of a cache, as `Box` is of one of the heap.
///
/// ```compile_fail
/// let cache = umem::Cache::new();
/// let slot = cache.make(1);
/// drop(cache);
/// drop(slot);
/// ```
///
/// ```compile_fail
/// let cache = umem::Cache::new();
/// let slot = cache.make(std::rc::Rc::new(1));
/// std::thread::scope(|scope| {
///     scope.spawn(|| drop(slot));
/// });
/// ```
pub struct Slot<'c, T, K: Kind = Made> {
    object: NonNull<T>,
    cache: &'c Cache<T, K>,
}

// SAFETY: a slot owns its object, as Box does, and any thread may free it.
unsafe impl<T: Send, K: Kind> Send for Slot<'_, T, K> {}
unsafe impl<T: Sync, K: Kind> Sync for Slot<'_, T, K> {}

impl<'c, T> Slot<'c, T> {
    /// Moves the value out, and frees the object.
    ///
    /// ```
    /// let cache = umem::Cache::new();
    /// assert_eq!(umem::Slot::into_inner(cache.make(7)), 7);
    /// ```
    pub fn into_inner(slot: Slot<'c, T>) -> T {
        let slot = ManuallyDrop::new(slot);
        let _memory = Memory {
            cache: slot.cache,
            at: slot.object,
        };

        // SAFETY: the slot owns the object, and drops neither it nor the memory.
        unsafe { slot.object.as_ptr().read() }
    }
}

impl<'c, T, K: Kind> Slot<'c, T, K> {
    /// Lets the object live as long as the borrow of its cache; it is not
    /// dropped.
    pub fn leak(slot: Slot<'c, T, K>) -> &'c mut T {
        // SAFETY: the slot owns the object, and is not dropped. The cache keeps
        // the memory.
        unsafe { ManuallyDrop::new(slot).object.as_mut() }
    }
}

impl<T, K: Kind> Deref for Slot<'_, T, K> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the slot owns the object.
        unsafe { self.object.as_ref() }
    }
}

impl<T, K: Kind> DerefMut for Slot<'_, T, K> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the slot owns the object.
        unsafe { self.object.as_mut() }
    }
}

impl<T, K: Kind> Drop for Slot<'_, T, K> {
    #[inline]
    fn drop(&mut self) {
        /// Frees the object also if its drop panics.
        struct Free(NonNull<umem_cache_t>, *mut c_void);

        impl Drop for Free {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the object is of this cache, and nobody uses it.
                unsafe { umem_cache_free(self.0.as_ptr(), self.1) }
            }
        }

        let object = self.object.as_ptr();
        let _free = Free(self.cache.raw, object.cast());

        if K::IS_MADE {
            // SAFETY: the slot owns the object, and this is its end.
            unsafe { ptr::drop_in_place(object) }
        }
    }
}

impl<T: fmt::Debug, K: Kind> fmt::Debug for Slot<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display, K: Kind> fmt::Display for Slot<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T, K: Kind> AsRef<T> for Slot<'_, T, K> {
    fn as_ref(&self) -> &T {
        self
    }
}

impl<T, K: Kind> AsMut<T> for Slot<'_, T, K> {
    fn as_mut(&mut self) -> &mut T {
        self
    }
}
