//! Worker threads that survive a fork of the host process.
//!
//! A forked child inherits the memory of its parent's pool but none of its threads, so work handed
//! to that pool would wait for ever. Each process therefore appends a pool of its own to a lock-free
//! list the first time it has enough work, and leaves its ancestors' entries alone. Nothing that outlives
//! a call is locked, because a lock held by another thread during the fork stays locked in the child.
//! A process is known by its number; one that inherits a used pool *and* has its ancestor's number (the
//! first process of a new pid namespace, forked by the first of another) is taken for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::race::OnceBox;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::settings;

/// Chunks of fewer raw bytes are done by the calling thread: waking the workers costs more.
const PARALLEL_BYTES: u64 = 1 << 20;
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
        static GLOBAL: OnceBox<Pool> = OnceBox::new();
        GLOBAL.get_or_init(|| Box::new(Pool::new(settings::or_default().threads.unwrap_or_else(fair_share))))
    }

    /// Number of pieces into which work on `raw_bytes` is best cut; 1 means serial.
    pub fn pieces(&self, raw_bytes: u64) -> usize {
        if self.threads < 2 || raw_bytes < PARALLEL_BYTES || self.workers().is_none() {
            return 1;
        }
        self.threads * PIECES_PER_WORKER
    }

    /// Calls `work` on every item, which are begun in order, and returns the results in order. If there are
    /// several items, workers help the calling thread, which begins at once.
    pub fn map<I: Send, R: Send>(&self, items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
        let n_items = items.len();
        // Asking for the workers starts them, so one item must not ask.
        let Some(workers) = (n_items > 1).then(|| self.workers()).flatten() else {
            return items.into_iter().map(work).collect();
        };
        let queue = Mutex::new(items.into_iter().enumerate());
        let done = Mutex::new(Vec::with_capacity(n_items));
        let help = || {
            loop {
                let next = lock(&queue).next();
                let Some((index, item)) = next else { return };
                let result = work(item);
                lock(&done).push((index, result));
                Self::let_others_work();
            }
        };
        workers.in_place_scope(|scope| {
            for _ in 1..self.threads.min(n_items) {
                scope.spawn(|_| help());
            }
            help();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|&(index, _)| index);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// To be called between two items: a worker looks for another caller's work, who would else have to wait until
    /// this caller's is all done. Nothing on other threads.
    pub(super) fn let_others_work() {
        let _ = rayon::yield_now();
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

impl ProcessPool {
    fn start(pid: u32, threads: usize) -> Self {
        let built = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("gridz-{i}")).build();
        if let Err(error) = &built {
            settings::log(settings::LogLevel::Info, || format!("working serially: no threads ({error})"));
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic leaves behind is not used: the panic goes on to the caller.
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

    #[test]
    fn small_work_and_one_thread_are_serial() {
        assert_eq!(Pool::new(4).pieces(PARALLEL_BYTES - 1), 1);
        assert_eq!(Pool::new(1).pieces(1 << 40), 1);
        assert_eq!(Pool::new(4).pieces(PARALLEL_BYTES), 16);
    }
}
