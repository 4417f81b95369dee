//! Memory that threads cache from one call to the next, so that calls for small chunks neither
//! allocate nor clear memory.
//!
//! A thread caches at most [`MOST_BYTES`], until it ends or calls [`release`]. The least recently
//! used object is dropped first.

use std::any::Any;
use std::cell::RefCell;

use crate::error::{Error, Result};

/// Maximum bytes that a thread caches. With less, every call for an array of 16 MB by `multigrid` would
/// wait for new pages.
pub const MOST_BYTES: usize = 64 << 20;

thread_local! {
    /// This thread's cache: at most one object of each type, the least recently used one first.
    static ALL: RefCell<Vec<One>> = const { RefCell::new(Vec::new()) };
}

/// A cached object.
struct One {
    n_bytes: usize,
    memory: Box<dyn Any>,
}

/// A type whose objects a thread may cache.
pub trait Cacheable: Default + 'static {
    /// Larger objects are not cached.
    const MOST_BYTES: usize = MOST_BYTES;

    /// Approximate number of bytes that it owns.
    fn n_bytes(&self) -> usize;
}

impl<T: 'static> Cacheable for Vec<T> {
    fn n_bytes(&self) -> usize {
        bytes_of(self)
    }
}

/// Bytes of a vector's memory.
pub fn bytes_of<T>(memory: &Vec<T>) -> usize {
    memory.capacity() * size_of::<T>()
}

/// Frees the calling thread's cache.
pub fn release() {
    // Dropped after the borrow has ended.
    let all = ALL.try_with(|all| std::mem::take(&mut *all.borrow_mut()));
    drop(all);
}

/// Extends a vector for a block to at least `n` elements; the new ones have the default value.
///
/// # Errors
/// `OutOfMemory`.
pub fn at_least<T: Clone + Default>(memory: &mut Vec<T>, n: usize) -> Result<()> {
    let missing = n.saturating_sub(memory.len());
    let bytes = (n as u64).saturating_mul(size_of::<T>() as u64);
    memory.try_reserve_exact(missing).map_err(|_| Error::out_of_memory(bytes, "a block"))?;
    memory.resize(memory.len() + missing, T::default());
    Ok(())
}

/// This thread's cached object of a type, with arbitrary contents, or the default object. Dropping
/// it returns it to the cache.
pub struct ThreadCache<T: Cacheable>(Option<Box<T>>);

impl<T: Cacheable> ThreadCache<T> {
    /// Takes the object from this thread's cache.
    pub fn take() -> Self {
        let take = |all: &RefCell<Vec<One>>| {
            let mut all = all.borrow_mut();
            let at = all.iter().position(|one| one.memory.is::<T>())?;
            all.remove(at).memory.downcast().ok()
        };
        // At the end of a thread the cache may be gone already.
        Self(Some(ALL.try_with(take).ok().flatten().unwrap_or_default()))
    }
}

impl<T: Cacheable> std::ops::Deref for ThreadCache<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl<T: Cacheable> std::ops::DerefMut for ThreadCache<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("there until it is dropped")
    }
}

impl<T: Cacheable> Drop for ThreadCache<T> {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let n_bytes = memory.n_bytes();
        if n_bytes > T::MOST_BYTES.min(MOST_BYTES) {
            return;
        }
        let _ = ALL.try_with(|all| {
            let mut all = all.borrow_mut();
            // If two were in use at once, one is enough. If there is no memory for the list,
            // nothing is cached.
            if all.iter().any(|one| one.memory.is::<T>()) || all.try_reserve(1).is_err() {
                return;
            }
            while n_bytes + all.iter().map(|one| one.n_bytes).sum::<usize>() > MOST_BYTES {
                all.remove(0);
            }
            all.push(One { n_bytes, memory });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Owns no memory, but reports this many bytes.
    #[derive(Default)]
    struct Sized<const N: u8> {
        size: usize,
    }

    impl<const N: u8> Cacheable for Sized<N> {
        fn n_bytes(&self) -> usize {
            self.size
        }
    }

    /// The sizes that this thread has cached for three types; 0 for a type that is not in the
    /// cache.
    fn kept() -> [usize; 3] {
        ALL.with(|all| {
            let all = all.borrow();
            let of =
                |find: fn(&dyn Any) -> Option<usize>| all.iter().find_map(|one| find(&*one.memory)).unwrap_or(0);
            [
                of(|one| one.downcast_ref::<Sized<0>>().map(|one| one.size)),
                of(|one| one.downcast_ref::<Sized<1>>().map(|one| one.size)),
                of(|one| one.downcast_ref::<Sized<2>>().map(|one| one.size)),
            ]
        })
    }

    #[test]
    fn one_of_each_type_is_kept_as_it_was() {
        let (mut first, second) = (ThreadCache::<Vec<u8>>::take(), ThreadCache::<Vec<u8>>::take());
        first.extend([1, 2, 3]);
        let place = first.as_ptr();
        drop((first, second));
        assert!(ThreadCache::<Vec<u16>>::take().is_empty());
        let again = ThreadCache::<Vec<u8>>::take();
        assert!(*again == [1, 2, 3] && again.as_ptr() == place);
        assert!(ThreadCache::<Vec<u8>>::take().is_empty());
        ALL.with(|all| assert_eq!(all.borrow().len(), 2));
    }

    #[test]
    fn a_thread_keeps_no_more_than_its_limit() {
        let (half, all) = (MOST_BYTES / 2, MOST_BYTES);
        ThreadCache::<Sized<0>>::take().size = half;
        ThreadCache::<Sized<1>>::take().size = half;
        assert_eq!(kept(), [half, half, 0]);
        // The least recently used is dropped.
        drop(ThreadCache::<Sized<0>>::take());
        ThreadCache::<Sized<2>>::take().size = 1;
        assert_eq!(kept(), [half, 0, 1]);
        ThreadCache::<Sized<1>>::take().size = all;
        assert_eq!(kept(), [0, all, 0]);
        ThreadCache::<Sized<2>>::take().size = all + 1;
        assert_eq!(kept(), [0, all, 0]);
        release();
        assert_eq!(kept(), [0, 0, 0]);
    }
}
