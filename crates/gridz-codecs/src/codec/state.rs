//! A codec's per-shape state. It is type-erased and stored inline, so that the engine can carry it
//! from planning to execution without allocating.
#![allow(unsafe_code, reason = "a value in bytes, which is read as what it was written as")]

use std::any::TypeId;
use std::mem::MaybeUninit;

/// Words of the largest value that fits.
const WORDS: usize = 48;

/// A value of some plain type, stored inline.
#[derive(Clone, Copy)]
pub struct CodecState {
    id: TypeId,
    words: [MaybeUninit<u64>; WORDS],
}

impl CodecState {
    /// Stores `value`.
    pub fn new<T: Copy + Send + Sync + 'static>(value: T) -> Self {
        const { assert!(size_of::<T>() <= 8 * WORDS && align_of::<T>() <= 8, "too large for a codec state") };
        let mut words = [MaybeUninit::uninit(); WORDS];
        // SAFETY: there is room for it, as asserted above.
        unsafe { words.as_mut_ptr().cast::<T>().write(value) };
        Self { id: TypeId::of::<T>(), words }
    }

    /// Returns the value.
    ///
    /// # Panics
    /// If the value has another type. A codec must get the state that it made itself.
    pub fn get<T: Copy + 'static>(&self) -> &T {
        assert!(self.id == TypeId::of::<T>(), "a codec got the state of another codec");
        // SAFETY: `new` wrote a value of this type there.
        unsafe { &*self.words.as_ptr().cast::<T>() }
    }
}

impl std::fmt::Debug for CodecState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CodecState")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_what_they_are() {
        let state = CodecState::new([1u64, 2, 3]);
        let copy = state;
        assert_eq!((state.get::<[u64; 3]>(), copy.get::<[u64; 3]>()), (&[1, 2, 3], &[1, 2, 3]));
        assert_eq!(CodecState::new(()).get::<()>(), &());
        assert!(std::panic::catch_unwind(|| *state.get::<[u32; 6]>()).is_err());
    }
}
