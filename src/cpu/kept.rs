//! Memory that threads keep from one call to the next, so that calls for small chunks neither allocate nor clear any.

use std::any::Any;
use std::cell::RefCell;

use crate::error::{Error, Result};

thread_local! {
    /// What this thread has kept, at most one of each type.
    static ALL: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// What a thread may keep.
pub trait Keep: Default + 'static {
    /// Whether it is not too large for that.
    fn is_small(&self) -> bool {
        true
    }
}

impl<T: 'static> Keep for Vec<T> {}
impl<T: 'static> Keep for Option<T> {}

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
        let take = |all: &RefCell<Vec<Box<dyn Any>>>| {
            let mut all = all.borrow_mut();
            let at = all.iter().position(|one| one.is::<T>())?;
            all.swap_remove(at).downcast().ok()
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
        let Some(memory) = self.0.take().filter(|memory| memory.is_small()) else { return };
        let _ = ALL.try_with(|all| {
            let mut all = all.borrow_mut();
            // Two that were in use at a time: one is enough.
            if !all.iter().any(|one| one.is::<T>()) {
                all.push(memory);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Large {
        bytes: Vec<u8>,
    }

    impl Keep for Large {
        fn is_small(&self) -> bool {
            self.bytes.len() < 10
        }
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
    fn what_is_large_is_not_kept() {
        for (n, kept) in [(20, 0), (9, 9)] {
            Kept::<Large>::take().bytes.resize(n, 0);
            assert_eq!(Kept::<Large>::take().bytes.len(), kept);
        }
    }
}
