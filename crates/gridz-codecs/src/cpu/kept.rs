//! Memory that threads keep from one call to the next, so that calls for small chunks neither allocate nor clear any.
//!
//! A thread keeps at most [`MOST_BYTES`] until it ends or [`release`] is called; the least recently used object is dropped first.

use std::any::Any;
use std::cell::RefCell;

use crate::error::{Error, Result};

/// Bytes that a thread keeps in all. Less would make every call for an array of 16 MB by `mgard` wait for new pages.
pub const MOST_BYTES: usize = 64 << 20;

thread_local! {
    /// What this thread has kept, at most one of each type, the least recently used first.
    static ALL: RefCell<Vec<One>> = const { RefCell::new(Vec::new()) };
}

/// An object that is kept.
struct One {
    n_bytes: usize,
    memory: Box<dyn Any>,
}

/// What a thread may keep.
pub trait Keep: Default + 'static {
    /// An object with more bytes is not kept.
    const MOST_BYTES: usize = MOST_BYTES;

    /// The bytes that it owns, nearly.
    fn n_bytes(&self) -> usize;
}

impl<T: 'static> Keep for Vec<T> {
    fn n_bytes(&self) -> usize {
        bytes_of(self)
    }
}

/// Bytes of a vector's memory.
pub fn bytes_of<T>(memory: &Vec<T>) -> usize {
    memory.capacity() * size_of::<T>()
}

/// Frees what the calling thread has kept.
pub fn release() {
    // Dropped when nothing is borrowed any more.
    let all = ALL.try_with(|all| std::mem::take(&mut *all.borrow_mut()));
    drop(all);
}

/// Makes a vector for a block at least so long; what is new in it is zero.
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

/// What this thread has kept of a type, with anything in it, until it is kept again; or what there is of it by default.
pub struct Kept<T: Keep>(Option<Box<T>>);

impl<T: Keep> Kept<T> {
    /// That of this thread.
    pub fn take() -> Self {
        let take = |all: &RefCell<Vec<One>>| {
            let mut all = all.borrow_mut();
            let at = all.iter().position(|one| one.memory.is::<T>())?;
            all.remove(at).memory.downcast().ok()
        };
        // At the end of a thread there may be nothing kept any more.
        Self(Some(ALL.try_with(take).ok().flatten().unwrap_or_default()))
    }
}

impl<T: Keep> std::ops::Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("there until it is dropped")
    }
}

impl<T: Keep> std::ops::DerefMut for Kept<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("there until it is dropped")
    }
}

impl<T: Keep> Drop for Kept<T> {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let n_bytes = memory.n_bytes();
        if n_bytes > T::MOST_BYTES.min(MOST_BYTES) {
            return;
        }
        let _ = ALL.try_with(|all| {
            let mut all = all.borrow_mut();
            // Two that were in use at a time: one is enough. Without memory for the list, nothing is kept.
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

    /// Owns nothing, and says that it owns this many bytes.
    #[derive(Default)]
    struct Sized<const N: u8> {
        size: usize,
    }

    impl<const N: u8> Keep for Sized<N> {
        fn n_bytes(&self) -> usize {
            self.size
        }
    }

    /// What this thread keeps of three sizes; 0 for those that it does not keep.
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
        let (mut first, second) = (Kept::<Vec<u8>>::take(), Kept::<Vec<u8>>::take());
        first.extend([1, 2, 3]);
        let place = first.as_ptr();
        drop((first, second));
        assert!(Kept::<Vec<u16>>::take().is_empty());
        let again = Kept::<Vec<u8>>::take();
        assert!(*again == [1, 2, 3] && again.as_ptr() == place);
        assert!(Kept::<Vec<u8>>::take().is_empty());
        ALL.with(|all| assert_eq!(all.borrow().len(), 2));
    }

    #[test]
    fn a_thread_keeps_no_more_than_its_limit() {
        let (half, all) = (MOST_BYTES / 2, MOST_BYTES);
        Kept::<Sized<0>>::take().size = half;
        Kept::<Sized<1>>::take().size = half;
        assert_eq!(kept(), [half, half, 0]);
        // The least recently used is dropped.
        drop(Kept::<Sized<0>>::take());
        Kept::<Sized<2>>::take().size = 1;
        assert_eq!(kept(), [half, 0, 1]);
        Kept::<Sized<1>>::take().size = all;
        assert_eq!(kept(), [0, all, 0]);
        Kept::<Sized<2>>::take().size = all + 1;
        assert_eq!(kept(), [0, all, 0]);
        release();
        assert_eq!(kept(), [0, 0, 0]);
    }
}
