//! How often the calling thread has made a plan and a layout: tests see to it that a call makes each once. Counted
//! only where there are debug assertions; a release does nothing here.

use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    static PLANS: Cell<u64> = const { Cell::new(0) };
    static LAYOUTS: Cell<u64> = const { Cell::new(0) };
}

/// Plans and layouts so far.
pub fn so_far() -> (u64, u64) {
    (PLANS.get(), LAYOUTS.get())
}

/// A codec plans.
#[inline]
pub fn a_plan() {
    count(&PLANS);
}

/// A codec computes where everything is.
#[inline]
pub fn a_layout() {
    count(&LAYOUTS);
}

#[inline]
fn count(of: &'static LocalKey<Cell<u64>>) {
    if cfg!(debug_assertions) {
        // In the last moments of a thread there is nothing to count in any more.
        let _ = of.try_with(|n| n.set(n.get() + 1));
    }
}
