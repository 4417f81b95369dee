//! The state of floating-point arithmetic. Programs may call from threads that round in other
//! directions, or that flush small numbers to zero. Every program does the latter that has loaded a
//! library built for speed (`-ffast-math`). The encoded bytes must not depend on this state. Only
//! x86-64 has such a state here; on other machines nothing is changed.

#![allow(unsafe_code)] // the register of the state

/// While this lives, arithmetic is that of IEEE 754: rounding to nearest, with subnormal numbers.
pub struct Ieee {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

/// All exceptions masked, no flag set, rounding to nearest, no flushing to zero.
#[cfg(target_arch = "x86_64")]
const DEFAULT: u32 = 0x1f80;
/// The flags of past exceptions; they have no effect.
#[cfg(target_arch = "x86_64")]
const SEEN: u32 = 0x3f;

impl Ieee {
    /// Sets this thread's floating-point state to the default, if it differs.
    #[inline]
    pub fn begin() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let before = state();
            if before & !SEEN != DEFAULT {
                set_state(DEFAULT);
            }
            Self { before }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self {}
    }
}

impl Drop for Ieee {
    /// Restores the state.
    #[inline]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if self.before & !SEEN != DEFAULT {
            set_state(self.before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn state() -> u32 {
    let mut state = 0u32;
    // SAFETY: the register is written to a word.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
    state
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn set_state(state: u32) {
    // SAFETY: the state is the default one, which Rust expects, or the one that this thread had.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, preserves_flags)) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_state_is_the_default_one_and_put_back() {
        // Rounding up with results and operands flushed to zero; then each alone, and rounding
        // down.
        for hostile in [0xdfc0, 0x5f80, 0x9f80, 0x1fc0, 0x3f80] {
            let before = state();
            set_state(hostile);
            let ieee = Ieee::begin();
            // The results are used here, so that they are not computed later.
            let sum = black_box(black_box(1f32) + black_box(1e-20));
            let small = black_box(black_box(1e-38f32) * black_box(0.5));
            drop(ieee);
            let after = state();
            set_state(before);
            assert_eq!((sum, small), (1.0, 5e-39), "{hostile:x}");
            assert_eq!(after & !SEEN, hostile & !SEEN, "{hostile:x}");
        }
    }
}
