//! Counts the inputs of a target that reach the code under test, and those that it accepts. The totals are printed to stderr
//! when the process exits; `run.sh` asserts that both are above 0.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one target's inputs.
pub struct Reach {
    reached: AtomicU64,
    accepted: AtomicU64,
}

/// The counters of this target.
pub static REACH: Reach = Reach { reached: AtomicU64::new(0), accepted: AtomicU64::new(0) };

impl Reach {
    /// Counts an input that reached the code under test.
    pub fn reached(&self) {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(|| {
            // SAFETY: the function has no arguments and does not unwind.
            unsafe { atexit(print) };
        });
        self.reached.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an input that was accepted.
    pub fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn print() {
    let [reached, accepted] = [&REACH.reached, &REACH.accepted].map(|count| count.load(Ordering::Relaxed));
    eprintln!("reach: {reached} inputs reached the code under test, {accepted} accepted");
}
