//! Concatenates outputs that several threads make, although their lengths are not known beforehand
//! ([`concatenate`]), and does other work in order ([`in_turn`]).
//!
//! Workers take the items in order. The place of an output is known once all outputs before it have
//! been *measured*. If it is known, the output is made there. Otherwise it is made in scratch
//! memory of the thread, small enough to stay in its cache. It is copied as soon as its place is
//! known; several threads can copy at once. The first unfinished item never waits, so there is
//! always progress, however few workers really run.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::cpu::pool::{Pool, lock, none_yet};
use crate::cpu::thread_cache::{Cacheable, ThreadCache, bytes_of};

/// Maximum scratch memory that a thread caches between calls.
const KEPT_BYTES: usize = 2 << 20;

/// Makes the outputs of all items, contiguous from the start of `out`. Returns their bytes, and the
/// results of `place` in the order of the items.
///
/// `make` writes the output of an item, at most `most_bytes`, to the start of its slice. Its second
/// argument is the offset of the output in `out`, if that is known already. It returns the output's
/// length and a value for `place`. `place` receives the item, this value, the offset and the
/// output, which is still in the cache.
///
/// # Panics
/// If `make` or `place` panics, or the outputs are longer than `out` or `most_bytes`.
pub fn concatenate<I: Send, M, R: Send>(
    pool: &Pool,
    items: Vec<I>,
    most_bytes: usize,
    out: &mut [u8],
    make: impl Fn(&mut I, Option<usize>, &mut [u8]) -> (usize, M) + Sync,
    place: impl Fn(I, M, usize, &[u8]) -> R + Sync,
) -> (usize, Vec<R>) {
    let n_items = items.len();
    let n_workers = pool.threads().min(n_items);
    if n_workers < 2 {
        let mut end = 0;
        let mut results = Vec::with_capacity(n_items);
        for mut item in items {
            let out = &mut out[end..];
            let (n_bytes, made) = make(&mut item, Some(end), out);
            results.push(place(item, made, end, &out[..n_bytes]));
            end += n_bytes;
        }
        return (end, results);
    }

    let queue = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(none_yet(n_items));
    let tickets = TicketLock::new((0, out));
    // Does one item; false if none is left, or if the turn of this one never comes.
    let step = || {
        let next = lock(&queue).next();
        let Some((index, mut item)) = next else { return false };
        // Without scratch memory, outputs are made in their places, one after the other.
        let scratch = if tickets.is_turn_of(index) { None } else { Scratch::with(most_bytes) };
        let (start, made, output): (_, _, &[u8]);
        match scratch {
            Some(mut scratch) => {
                let n_bytes;
                (n_bytes, made) = make(&mut item, None, &mut scratch.bytes);
                if !tickets.wait_turn(index) {
                    return false;
                }
                let (at, rest) = tickets.take_rest();
                let (mine, rest) = rest.split_at_mut(n_bytes);
                tickets.give_back(index, at + n_bytes, rest);
                mine.copy_from_slice(&scratch.bytes[..n_bytes]);
                (start, output) = (at, mine);
            }
            None => {
                if !tickets.wait_turn(index) {
                    return false;
                }
                let (at, rest) = tickets.take_rest();
                let n_bytes;
                (n_bytes, made) = make(&mut item, Some(at), rest);
                let (mine, rest) = rest.split_at_mut(n_bytes);
                tickets.give_back(index, at + n_bytes, rest);
                (start, output) = (at, mine);
            }
        }
        let result = place(item, made, start, output);
        lock(&results)[index] = Some(result);
        true
    };
    tickets.run_shared(pool, n_workers, step);
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let results: Vec<_> = results.into_iter().flatten().collect();
    assert_eq!(results.len(), n_items, "a worker gave up, and no panic says why");
    (tickets.end(), results)
}

/// Calls `make` for each of `n_items` items, in parallel. `turn` then does the sequential part of
/// each item: it is called in the order of the items, with exclusive access to `common`. `finish`
/// does the remaining work, in parallel again. Returns `common`.
///
/// # Panics
/// If one of these panics.
pub fn in_turn<S: Send, M, T>(
    pool: &Pool,
    n_items: usize,
    mut common: S,
    make: impl Fn(usize) -> M + Sync,
    turn: impl Fn(M, &mut S) -> T + Sync,
    finish: impl Fn(T) + Sync,
) -> S {
    let n_workers = pool.threads().min(n_items);
    if n_workers < 2 {
        for index in 0..n_items {
            finish(turn(make(index), &mut common));
        }
        return common;
    }
    let next = AtomicUsize::new(0);
    let tickets = TicketLock::new(common);
    let step = || {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= n_items {
            return false;
        }
        let made = make(index);
        if !tickets.wait_turn(index) {
            return false;
        }
        let left = turn(made, &mut lock(&tickets.common));
        tickets.end_turn(index);
        finish(left);
        true
    };
    tickets.run_shared(pool, n_workers, step);
    assert_eq!(tickets.turn.into_inner(), n_items, "a worker gave up, and no panic says why");
    tickets.common.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A ticket lock: items wait for their turns, and the item whose turn it is may use `common`.
struct TicketLock<S> {
    /// The item whose turn it is.
    turn: AtomicUsize,
    /// A thread has panicked, so some turn never comes.
    is_poisoned: AtomicBool,
    common: Mutex<S>,
}

impl<S> TicketLock<S> {
    fn new(common: S) -> Self {
        Self { turn: AtomicUsize::new(0), is_poisoned: AtomicBool::new(false), common: Mutex::new(common) }
    }

    /// Calls `step` on `n_workers` threads until it returns false. `step` does one item, and
    /// returns false if there was none.
    fn run_shared(&self, pool: &Pool, n_workers: usize, step: impl Fn() -> bool + Sync)
    where
        S: Send,
    {
        pool.run_shared(n_workers, &|| {
            let unless_finished = PoisonOnPanic(&self.is_poisoned);
            let was_done = step();
            std::mem::forget(unless_finished);
            was_done
        });
    }

    /// Whether the turns of all items before `index` are over.
    fn is_turn_of(&self, index: usize) -> bool {
        self.turn.load(Ordering::Acquire) == index
    }

    /// Waits for the turn of item `index`. False if it never comes.
    fn wait_turn(&self, index: usize) -> bool {
        let mut n_spins = 0;
        while !self.is_turn_of(index) {
            if self.is_poisoned.load(Ordering::Relaxed) {
                return false;
            }
            // The item before is usually almost done. If its thread does not run, it soon gets this
            // thread's time.
            n_spins += 1;
            match n_spins {
                0..50 => std::hint::spin_loop(),
                50..10_000 => std::thread::yield_now(),
                // That thread may have a lower priority, so that it gets no time by yielding.
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
        true
    }

    /// Ends the turn of item `index`.
    fn end_turn(&self, index: usize) {
        self.turn.store(index + 1, Ordering::Release);
    }
}

/// The start of the next output, and `out` from there on.
impl<'a> TicketLock<(usize, &'a mut [u8])> {
    /// Takes both. The caller's turn must have come; it then gives back the part after its own
    /// output.
    fn take_rest(&self) -> (usize, &'a mut [u8]) {
        std::mem::take(&mut *lock(&self.common))
    }

    /// Gives back the rest of `out`, and ends the turn of item `index`.
    fn give_back(&self, index: usize, start: usize, rest: &'a mut [u8]) {
        *lock(&self.common) = (start, rest);
        self.end_turn(index);
    }

    fn end(&self) -> usize {
        lock(&self.common).0
    }
}

/// Unless it is forgotten, its drop reports to the other threads that this one has panicked.
struct PoisonOnPanic<'a>(&'a AtomicBool);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Scratch memory of a thread, with arbitrary contents.
#[derive(Default)]
struct Scratch {
    bytes: Vec<u8>,
}

impl Cacheable for Scratch {
    const MOST_BYTES: usize = KEPT_BYTES;

    fn n_bytes(&self) -> usize {
        bytes_of(&self.bytes)
    }
}

impl Scratch {
    /// Scratch memory of at least `n_bytes`; `None` if there is not enough memory.
    fn with(n_bytes: usize) -> Option<ThreadCache<Self>> {
        let mut scratch = ThreadCache::<Self>::take();
        let bytes = &mut scratch.bytes;
        if bytes.len() < n_bytes {
            bytes.clear();
            bytes.try_reserve_exact(n_bytes).ok()?;
            bytes.resize(n_bytes, 0);
        }
        Some(scratch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Item i becomes i % 50 bytes of value i.
    fn make(item: &mut usize, start: Option<usize>, out: &mut [u8]) -> (usize, Option<usize>) {
        let n_bytes = *item % 50;
        out[..n_bytes].fill(*item as u8);
        (n_bytes, start)
    }

    #[test]
    fn outputs_follow_each_other_in_order() {
        for threads in [1, 2, 3, 8] {
            for n_items in [0, 1, 2, 3, 1000] {
                let mut out = vec![0xee; 50 * n_items + 7];
                let items: Vec<usize> = (0..n_items).collect();
                let place = |item, announced: Option<usize>, start, output: &[u8]| {
                    assert!(announced.is_none_or(|announced| announced == start));
                    assert!(output.len() == item % 50 && output.iter().all(|&byte| byte == item as u8));
                    (item, start)
                };
                let (end, results) = concatenate(&Pool::new(threads), items, 50, &mut out, make, place);
                let mut at = 0;
                for item in 0..n_items {
                    assert_eq!(results[item], (item, at));
                    assert!(out[at..at + item % 50].iter().all(|&byte| byte == item as u8));
                    at += item % 50;
                }
                assert_eq!(end, at);
                assert!(threads == 1 || out[at..].iter().all(|&byte| byte == 0xee));
            }
        }
    }

    /// Calls by destructors work normally while a panic unwinds the caller's stack.
    #[test]
    fn a_caller_that_unwinds_is_served() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                for _ in 0..100 {
                    let (end, results) =
                        concatenate(&Pool::new(4), (0..100).collect(), 50, &mut [0; 5000], make, |_, _, _, _| ());
                    assert_eq!((end, results.len()), (2450, 100));
                }
            }
        }
        let result = std::panic::catch_unwind(|| {
            let _last = Last;
            panic!("on purpose");
        });
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    }

    #[test]
    fn turns_are_in_order() {
        for threads in [1, 2, 3, 8] {
            for n_items in [0, 1, 2, 3, 1000] {
                let n_finished = AtomicUsize::new(0);
                let turn = |item: usize, seen: &mut Vec<usize>| {
                    seen.push(item);
                    item
                };
                let finish = |_| {
                    n_finished.fetch_add(1, Ordering::Relaxed);
                };
                let seen = in_turn(&Pool::new(threads), n_items, Vec::new(), |index| index, turn, finish);
                assert!(seen.into_iter().eq(0..n_items) && n_finished.into_inner() == n_items);
            }
        }
        let make = |item| assert!(item != 17, "the seventeenth");
        let broken = std::panic::catch_unwind(|| in_turn(&Pool::new(4), 100, (), make, |_, _| (), |_| ()));
        assert!(broken.is_err());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_nobody_waits_for_ever() {
        let result = std::panic::catch_unwind(|| {
            let make = |item: &mut usize, start: Option<usize>, out: &mut [u8]| {
                assert!(*item != 17, "the seventeenth");
                make(item, start, out)
            };
            concatenate(&Pool::new(4), (0..100).collect(), 50, &mut [0; 5000], make, |_, _, _, _| ()).0
        });
        assert!(result.is_err());
    }
}
