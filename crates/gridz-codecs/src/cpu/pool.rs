//! Worker threads that survive a fork of the host process.
//!
//! A forked child inherits the memory of its parent's pool but none of its threads, so work handed
//! to that pool would wait for ever. Therefore each process appends its own pool to a lock-free
//! list the first time it has enough work, and leaves its ancestors' entries alone. Nothing that
//! outlives a call is locked, because a lock held by another thread during the fork stays locked in
//! the child.
//!
//! A process is identified by its pid. So a process is mistaken for its ancestor if it inherits a
//! used pool *and* has the ancestor's pid. That happens if the first process of a pid namespace
//! forks the first process of another.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::race::OnceBox;
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::cpu::pages::can_map;
use crate::cpu::thread_cache;
use crate::settings;

/// Smaller chunks of raw bytes are done by the calling thread: waking the workers would cost more.
const PARALLEL_BYTES: u64 = 1 << 20;
/// The same limit for work that takes several times as long for each byte.
const PARALLEL_BYTES_SLOW: u64 = PARALLEL_BYTES / 4;
/// Memory that must be available for each new thread: its stack of 2 MiB, and its variables and
/// heap.
const THREAD_BYTES: usize = 3 << 20;
/// Pieces per worker, so that one slow worker does not hold up the rest.
const PIECES_PER_WORKER: usize = 4;

/// Some number of worker threads, started when first needed.
#[derive(Debug)]
pub struct Pool {
    threads: usize,
    first: OnceBox<ProcessPool>,
}

#[derive(Debug)]
struct ProcessPool {
    pid: u32,
    /// `None`: the threads could not be started; this process works serially.
    workers: Option<ThreadPool>,
    /// The pool of a forked child.
    next: OnceBox<ProcessPool>,
}

static GLOBAL: OnceBox<Pool> = OnceBox::new();

impl Pool {
    /// A pool of `threads` workers; 1 means that the calling thread does everything.
    pub fn new(threads: usize) -> Self {
        Self { threads, first: OnceBox::new() }
    }

    /// Number of workers.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The pool of this process, with `GRIDZ_THREADS` workers or a fair share of the machine.
    pub fn global() -> &'static Pool {
        GLOBAL.get_or_init(|| Box::new(Pool::new(settings::or_default().threads.unwrap_or_else(fair_share))))
    }

    /// Makes every worker of this process's global pool call `work` once it is idle. Starts no
    /// worker and waits for none.
    pub fn when_idle(work: fn()) {
        let Some(pool) = GLOBAL.get() else { return };
        let pid = std::process::id();
        let mut entries = std::iter::successors(pool.first.get(), |entry| entry.next.get());
        if let Some(workers) = entries.find(|entry| entry.pid == pid).and_then(|entry| entry.workers.as_ref()) {
            workers.spawn_broadcast(move |_| work());
        }
    }

    /// Number of pieces into which work on `raw_bytes` is best cut; 1 means serial.
    pub fn pieces(&self, raw_bytes: u64) -> usize {
        self.pieces_from(PARALLEL_BYTES, raw_bytes)
    }

    /// Like [`Pool::pieces`], for work at a quarter of the usual speed.
    pub fn pieces_of_slow(&self, raw_bytes: u64) -> usize {
        self.pieces_from(PARALLEL_BYTES_SLOW, raw_bytes)
    }

    fn pieces_from(&self, least_bytes: u64, raw_bytes: u64) -> usize {
        if self.threads < 2 || raw_bytes < least_bytes || self.workers().is_none() {
            return 1;
        }
        self.threads * PIECES_PER_WORKER
    }

    /// Calls `work` on every item and returns the results in order. Items are begun in order. If
    /// there are several, workers help the calling thread, which begins at once.
    pub fn map<I: Send, R: Send>(&self, items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
        self.map_by(items, &work)
    }

    /// [`Pool::map`], compiled once for all work on items of a type.
    fn map_by<I: Send, R: Send>(&self, items: Vec<I>, work: &(dyn Fn(I) -> R + Sync)) -> Vec<R> {
        let n_items = items.len();
        // Asking for the workers starts them, so do not ask for a single item.
        if n_items < 2 || self.workers().is_none() {
            return items.into_iter().map(work).collect();
        }
        let queue = Mutex::new(items.into_iter().enumerate());
        let done = Mutex::new(none_yet(n_items));
        self.run_shared(n_items, &|| {
            let next = lock(&queue).next();
            let Some((index, item)) = next else { return false };
            let result = work(item);
            lock(&done)[index] = Some(result);
            true
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
    }

    /// Calls `step` until it returns false, on the calling thread, which begins at once, and on
    /// workers. `step` does one item of `n_items`, and returns false if there was none.
    pub(super) fn run_shared(&self, n_items: usize, step: &(dyn Fn() -> bool + Sync)) {
        let Some(workers) = self.workers() else {
            while step() {}
            return;
        };
        workers.in_place_scope(|scope| {
            for _ in 1..self.threads.min(n_items) {
                scope.spawn(move |scope| worker_loop(scope, step));
            }
            while step() {}
        });
    }

    /// Runs `body` on the calling thread. `body` may call its argument to request one more worker,
    /// unless all are helping already. That worker calls `step` until it returns false; `step` does
    /// one item, and returns false if there was none. Without workers, requests have no effect, so
    /// `body` must be able to do everything itself.
    pub fn run_with_helpers<R>(&self, step: &(dyn Fn() -> bool + Sync), body: impl FnOnce(&dyn Fn()) -> R) -> R {
        let Some(workers) = self.workers() else { return body(&|| {}) };
        let n_called = &AtomicUsize::new(0);
        workers.in_place_scope(|scope| {
            body(&|| {
                // The calling thread is one of the threads.
                let one_more = |n| Some(n + 1).filter(|&n| n < self.threads);
                if n_called.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
                    scope.spawn(move |scope| {
                        worker_loop(scope, step);
                        n_called.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            })
        })
    }

    fn workers(&self) -> Option<&ThreadPool> {
        if self.threads < 2 {
            return None;
        }
        let pid = std::process::id();
        let mut pool = &self.first;
        loop {
            let entry = pool.get_or_init(|| Box::new(ProcessPool::start(pid, self.threads)));
            if entry.pid == pid {
                return entry.workers.as_ref();
            }
            pool = &entry.next;
        }
    }
}

thread_local! {
    /// True while this worker helps a caller.
    static IS_HELPING: Cell<bool> = const { Cell::new(false) };
}

/// A worker's part of shared work. Between two items it yields to a helper of another caller. That
/// does one item, leaves and waits for its turn again. So no caller waits for more than one item of
/// another caller, and there are at most two helpers on one stack.
fn worker_loop<'s>(scope: &Scope<'s>, step: &'s (dyn Fn() -> bool + Sync)) {
    if IS_HELPING.get() {
        if step() {
            scope.spawn(move |scope| worker_loop(scope, step));
        }
        return;
    }
    /// Clears the flag, also if a step panics.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            IS_HELPING.set(false);
        }
    }
    IS_HELPING.set(true);
    let _leave = Leave;
    while step() {
        let _ = rayon::yield_now();
    }
}

impl ProcessPool {
    fn start(pid: u32, threads: usize) -> Self {
        let serially = |why: &dyn std::fmt::Display| {
            settings::log(settings::LogLevel::Info, || {
                format!("no worker threads ({why}); working on the calling thread only")
            });
        };
        // A new thread that gets no memory for its thread-local variables or its signal stack ends
        // the process. So memory for all threads must be available before the first one starts.
        if !can_map(threads.saturating_mul(THREAD_BYTES)) {
            serially(&"their memory could not be allocated");
            return Self { pid, workers: None, next: OnceBox::new() };
        }
        let built = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("gridz-{i}")).build();
        match &built {
            // Makes all workers allocate their memory before the caller can use it up.
            Ok(workers) => drop(workers.broadcast(|_| thread_cache::release())),
            Err(error) => serially(error),
        }
        Self { pid, workers: built.ok(), next: OnceBox::new() }
    }
}

impl Drop for ProcessPool {
    fn drop(&mut self) {
        // An ancestor's threads do not exist here; stopping them would wait for ever.
        if self.pid != std::process::id() {
            std::mem::forget(self.workers.take());
        }
    }
}

/// Empty places for `n_items` results, which arrive in any order.
pub(super) fn none_yet<R>(n_items: usize) -> Vec<Option<R>> {
    std::iter::repeat_with(|| None).take(n_items).collect()
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The state that a panic leaves is not used: the panic propagates to the caller.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Available cores ÷ MPI ranks on this node, at least 1.
fn fair_share() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / settings::local_ranks()).clamp(1, settings::MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_from_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = Pool::new(threads);
            let squares = pool.map((0..1000usize).collect(), |i| i * i);
            assert!(squares.iter().enumerate().all(|(i, &s)| s == i * i), "{threads} threads");
        }
    }

    #[test]
    fn callers_share_the_workers() {
        let pool = Pool::new(3);
        std::thread::scope(|scope| {
            for caller in 0..8usize {
                let pool = &pool;
                scope.spawn(move || {
                    for n in [2, 50, 1000] {
                        let sums = pool.map((0..n).collect(), |i: usize| i + caller);
                        assert!(sums.iter().enumerate().all(|(i, &sum)| sum == i + caller));
                    }
                });
            }
        });
    }

    /// Two callers have all the workers when a third one arrives, whose work takes longer. A worker
    /// that helps the third caller, too, must not make the first two wait.
    #[test]
    fn nobody_waits_for_the_end_of_anothers_work() {
        use std::time::Duration;
        let pool = Pool::new(2);
        let done = [const { AtomicUsize::new(0) }; 3];
        let run = |caller: usize, n_items: usize| {
            pool.map((0..n_items).collect(), |_| {
                std::thread::sleep(Duration::from_millis(1));
                done[caller].fetch_add(1, Ordering::Relaxed);
            });
        };
        std::thread::scope(|scope| {
            let run = &run;
            let first = [0, 1].map(|caller| scope.spawn(move || run(caller, 200)));
            while done.iter().take(2).any(|done| done.load(Ordering::Relaxed) < 20) {
                std::thread::yield_now();
            }
            scope.spawn(move || run(2, 2000));
            first.into_iter().for_each(|caller| caller.join().unwrap());
            assert!(done[2].load(Ordering::Relaxed) < 1500);
        });
        assert_eq!(done.map(|done| done.into_inner()), [200, 200, 2000]);
    }

    #[test]
    fn idle_workers_of_the_process_are_called() {
        static CALLED: AtomicUsize = AtomicUsize::new(0);
        let pool = Pool::global();
        let n_workers = pool.workers().map_or(0, |_| pool.threads());
        Pool::when_idle(|| {
            CALLED.fetch_add(1, Ordering::Relaxed);
        });
        while CALLED.load(Ordering::Relaxed) < n_workers {
            std::thread::yield_now();
        }
        assert_eq!(CALLED.load(Ordering::Relaxed), n_workers);
    }

    #[test]
    fn small_work_and_one_thread_are_serial() {
        assert_eq!(Pool::new(4).pieces(PARALLEL_BYTES - 1), 1);
        assert_eq!(Pool::new(1).pieces(1 << 40), 1);
        assert_eq!(Pool::new(4).pieces(PARALLEL_BYTES), 16);
        assert_eq!(Pool::new(4).pieces_of_slow(PARALLEL_BYTES_SLOW - 1), 1);
        assert_eq!(Pool::new(4).pieces_of_slow(PARALLEL_BYTES_SLOW), 16);
    }
}
