//! Outputs that follow each other without gaps, made by several threads though nobody knows their lengths
//! beforehand.
//!
//! Workers take the items in order. Each makes its output in memory of its own, small enough to stay in its
//! cache, and then waits until the outputs before it have been *measured*, which tells its place; they are
//! copied there side by side. The first item that is not done never waits, so there is always progress,
//! however few workers really run. With one thread every output is made in its place at once.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu::pool::Pool;
use crate::error::{Error, Result};

/// Scratch memory that a thread keeps between calls, at most.
const KEPT_BYTES: usize = 2 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Makes the output of every item, one behind the other from the start of `out`, and returns their bytes
/// and what else was made of them, in order.
///
/// `make` writes the output of an item, of at most `most_bytes`, to the start of the slice that it gets, and
/// returns its length and a result. `place` is told where in `out` that output begins.
///
/// # Errors
/// `OutOfMemory`.
///
/// # Panics
/// If `make` or `place` panics, or the outputs are longer than `out` or `most_bytes`.
pub fn concatenate<I: Send, R: Send>(
    pool: &Pool,
    items: Vec<I>,
    most_bytes: usize,
    out: &mut [u8],
    make: impl Fn(&mut I, &mut [u8]) -> (usize, R) + Sync,
    place: impl Fn(I, usize) + Sync,
) -> Result<(usize, Vec<R>)> {
    let n_items = items.len();
    let n_workers = pool.threads().min(n_items);
    if n_workers < 2 {
        let mut end = 0;
        let mut results = Vec::new();
        results.try_reserve_exact(n_items).map_err(|_| Error::out_of_memory(n_items as u64, "bookkeeping"))?;
        for mut item in items {
            let (n_bytes, result) = make(&mut item, &mut out[end..]);
            place(item, end);
            end += n_bytes;
            results.push(result);
        }
        return Ok((end, results));
    }

    let queue = Mutex::new(items.into_iter().enumerate());
    let line = Line::new(out);
    let work = |_| -> Result<Vec<(usize, R)>> {
        let mut scratch = Scratch::new(most_bytes)?;
        let mut results = Vec::new();
        results.try_reserve(n_items).map_err(|_| Error::out_of_memory(n_items as u64, "bookkeeping"))?;
        let _opened = line.open_on_panic();
        loop {
            let next = lock(&queue).next();
            let Some((index, mut item)) = next else { return Ok(results) };
            let (n_bytes, result) = make(&mut item, &mut scratch.bytes);
            let Some((start, place_in_out)) = line.take(index, n_bytes) else { return Ok(results) };
            place_in_out.copy_from_slice(&scratch.bytes[..n_bytes]);
            place(item, start);
            results.push((index, result));
        }
    };
    let mut results = Vec::new();
    results.try_reserve_exact(n_items).map_err(|_| Error::out_of_memory(n_items as u64, "bookkeeping"))?;
    let mut failed = None;
    for made in pool.map((0..n_workers).collect(), work) {
        match made {
            Ok(made) => results.extend(made),
            Err(error) => failed = Some(error),
        }
    }
    // A worker without memory has taken no item, so the others have done them all, unless there were none.
    if let (true, Some(error)) = (results.len() < n_items, failed) {
        return Err(error);
    }
    results.sort_unstable_by_key(|&(index, _)| index);
    Ok((line.end(), results.into_iter().map(|(_, result)| result).collect()))
}

/// The output, handed out in order.
struct Line<'a> {
    /// Whose turn it is.
    turn: AtomicUsize,
    /// Somebody has panicked, so some turn never comes.
    is_broken: AtomicBool,
    /// Where the next output begins, and the output from there on.
    rest: Mutex<(usize, &'a mut [u8])>,
}

impl<'a> Line<'a> {
    fn new(out: &'a mut [u8]) -> Self {
        Self { turn: AtomicUsize::new(0), is_broken: AtomicBool::new(false), rest: Mutex::new((0, out)) }
    }

    /// Waits for the turn of item `index`, and takes its `n_bytes`. `None` if the turn never comes.
    fn take(&self, index: usize, n_bytes: usize) -> Option<(usize, &'a mut [u8])> {
        let mut n_spins = 0;
        while self.turn.load(Ordering::Acquire) != index {
            if self.is_broken.load(Ordering::Relaxed) {
                return None;
            }
            // The one before is mostly nearly done; if its thread does not run, it gets this one's time.
            n_spins += 1;
            if n_spins < 1000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let mut rest = lock(&self.rest);
        let (start, out) = std::mem::take(&mut *rest);
        let (mine, after) = out.split_at_mut(n_bytes);
        *rest = (start + n_bytes, after);
        drop(rest);
        self.turn.store(index + 1, Ordering::Release);
        Some((start, mine))
    }

    fn end(&self) -> usize {
        lock(&self.rest).0
    }

    fn open_on_panic(&self) -> OpenOnPanic<'_> {
        OpenOnPanic(&self.is_broken)
    }
}

/// Lets the others go on when its thread panics.
struct OpenOnPanic<'a>(&'a AtomicBool);

impl Drop for OpenOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A thread's scratch memory, with anything in it.
struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    fn new(n_bytes: usize) -> Result<Self> {
        let mut bytes = SCRATCH.take();
        if bytes.len() < n_bytes {
            bytes.clear();
            bytes.try_reserve_exact(n_bytes).map_err(|_| Error::out_of_memory(n_bytes as u64, "scratch memory"))?;
            bytes.resize(n_bytes, 0);
        }
        Ok(Self { bytes })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.bytes.len() <= KEPT_BYTES {
            SCRATCH.set(std::mem::take(&mut self.bytes));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic leaves behind is not used: the panic goes on to the caller.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Item i becomes i % 50 bytes of value i.
    fn make(item: &mut usize, out: &mut [u8]) -> (usize, usize) {
        let n_bytes = *item % 50;
        out[..n_bytes].fill(*item as u8);
        (n_bytes, *item)
    }

    #[test]
    fn outputs_follow_each_other_in_order() {
        for threads in [1, 2, 3, 8] {
            for n_items in [0, 1, 2, 3, 1000] {
                let mut out = vec![0xee; 50 * n_items + 7];
                let starts = Mutex::new(vec![0; n_items]);
                let items: Vec<usize> = (0..n_items).collect();
                let place = |item, start| starts.lock().unwrap()[item] = start;
                let (end, results) = concatenate(&Pool::new(threads), items, 50, &mut out, make, place).unwrap();
                let mut at = 0;
                for item in 0..n_items {
                    assert_eq!((results[item], starts.lock().unwrap()[item]), (item, at));
                    assert!(out[at..at + item % 50].iter().all(|&byte| byte == item as u8));
                    at += item % 50;
                }
                assert_eq!(end, at);
                assert!(threads == 1 || out[at..].iter().all(|&byte| byte == 0xee));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_nobody_waits_for_ever() {
        let result = std::panic::catch_unwind(|| {
            let make = |item: &mut usize, out: &mut [u8]| {
                assert!(*item != 17, "the seventeenth");
                make(item, out)
            };
            concatenate(&Pool::new(4), (0..100).collect(), 50, &mut [0; 5000], make, |_, _| ()).map(|(end, _)| end)
        });
        assert!(result.is_err());
    }
}
