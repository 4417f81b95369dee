//! Pipeline of ordered tasks: the calling thread begins and finishes them in order, and all threads
//! work on them in between.
//!
//! The calling thread does the first of these that is possible:
//!
//! 1. Begin a task, if none waits for a worker and the window of tasks in flight is not full.
//! 2. Finish the oldest task, if its work is done.
//! 3. Begin a task, if the window is not full.
//! 4. Work on a task itself, if that helps.
//! 5. Wait.
//!
//! So there is always progress, however few workers run, and memory use is limited by the window.
//! The calling thread does not work on tasks if beginning and finishing them keeps it busy:
//! finished work would have to wait for it. This is decided by measured times.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gridz_codecs::cpu::pool::{Pool, lock};
use gridz_codecs::error::{Error, Result};

/// Timeout after which the waiting calling thread looks again for something to do.
const PATIENCE: Duration = Duration::from_millis(10);

/// Tasks in flight.
struct Tasks<T, D> {
    /// Numbered tasks that were begun and wait for a worker.
    waiting: VecDeque<(u64, T)>,
    /// Results of the tasks in flight, oldest first. `None` until the work is done.
    done: VecDeque<Option<Result<D>>>,
    /// Number of the oldest task in flight.
    oldest: u64,
    /// Number of tasks that a thread works on.
    n_working: usize,
    /// Total time of the work so far, and its number of tasks.
    work: Duration,
    n_worked: u32,
}

impl<T, D> Tasks<T, D> {
    fn new() -> Self {
        let (waiting, done) = (VecDeque::new(), VecDeque::new());
        Self { waiting, done, oldest: 0, n_working: 0, work: Duration::ZERO, n_worked: 0 }
    }

    /// Whether the calling thread should work on a task itself, after spending `own` on beginning
    /// and finishing tasks. True if no thread works on any, or if per task the workers take at
    /// least twice the calling thread's own time.
    fn wants_help(&self, own: Duration, threads: usize) -> bool {
        let of_task = |time: Duration, n: u64| time.as_secs_f64() / n.max(1) as f64;
        let work = of_task(self.work, self.n_worked.into());
        self.n_working == 0 || 2.0 * of_task(own, self.oldest) * (threads - 1) as f64 <= work
    }
}

/// Calls `begin` until it returns no more tasks, `work` on each task, and `finish` on each result
/// of `work`. The calling thread calls `begin` and `finish`, in the order of the tasks. At most
/// `window` tasks are in flight.
///
/// # Errors
/// The first error that the calling thread sees: of `begin` at once, of `work` and `finish` in the
/// order of the tasks. No task is begun or finished after that.
pub fn run<T: Send, D: Send>(
    pool: &Pool,
    window: usize,
    mut begin: impl FnMut() -> Result<Option<T>>,
    work: impl Fn(T) -> Result<D> + Sync,
    mut finish: impl FnMut(D) -> Result<()>,
) -> Result<()> {
    let tasks = Mutex::new(Tasks::new());
    let is_done = Condvar::new();
    // Works on the next waiting task. Returns false if there is none.
    let step = || {
        let next = {
            let mut now = lock(&tasks);
            let next = now.waiting.pop_front();
            now.n_working += usize::from(next.is_some());
            next
        };
        let Some((number, task)) = next else { return false };
        let unless_returned = Report { tasks: &tasks, is_done: &is_done, number };
        let begin = Instant::now();
        let result = work(task);
        std::mem::forget(unless_returned);
        report(&tasks, &is_done, number, result, begin.elapsed());
        true
    };
    pool.run_with_helpers(&step, |call_worker| {
        let mut lead = || -> Result<()> {
            let (mut number, mut is_last, mut own) = (0, false, Duration::ZERO);
            loop {
                let begin_own = Instant::now();
                let mut now = lock(&tasks);
                let may_begin = !is_last && number - now.oldest < window.max(1) as u64;
                let is_urgent = may_begin && now.waiting.is_empty();
                if !is_urgent && now.done.front().is_some_and(Option::is_some) {
                    let result = now.done.pop_front().flatten();
                    now.oldest += 1;
                    drop(now);
                    finish(result.expect("a result")?)?;
                    own += begin_own.elapsed();
                } else if may_begin {
                    drop(now);
                    match begin()? {
                        None => is_last = true,
                        Some(task) => {
                            let mut now = lock(&tasks);
                            now.waiting.push_back((number, task));
                            now.done.push_back(None);
                            drop(now);
                            number += 1;
                            call_worker();
                        }
                    }
                    own += begin_own.elapsed();
                } else if now.done.is_empty() {
                    return Ok(());
                } else if !now.waiting.is_empty() && now.wants_help(own, pool.threads()) {
                    drop(now);
                    step();
                } else {
                    let is_waiting = |now: &mut Tasks<T, D>| now.done.front().is_some_and(Option::is_none);
                    // Workers may leave for other work. After a timeout the calling thread helps.
                    let waited = is_done.wait_timeout_while(now, PATIENCE, is_waiting);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
            }
        };
        let result = lead();
        // After an error no work is begun on the remaining tasks.
        lock(&tasks).waiting.clear();
        result
    })
}

fn report<T, D>(tasks: &Mutex<Tasks<T, D>>, is_done: &Condvar, number: u64, result: Result<D>, time: Duration) {
    let mut now = lock(tasks);
    now.n_working -= 1;
    now.n_worked += 1;
    now.work += time;
    let place = (number - now.oldest) as usize;
    now.done[place] = Some(result);
    is_done.notify_one();
}

/// Reports a panic of the work on a task when dropped. It is forgotten if the work returns.
struct Report<'a, T, D> {
    tasks: &'a Mutex<Tasks<T, D>>,
    is_done: &'a Condvar,
    number: u64,
}

impl<T, D> Drop for Report<'_, T, D> {
    fn drop(&mut self) {
        // The panic itself propagates to the caller.
        let error = Error::internal("a worker thread panicked");
        report(self.tasks, self.is_done, self.number, Err(error), Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn tasks_are_begun_and_finished_in_order() {
        for threads in [1, 2, 3, 8] {
            for (n, window) in [(0, 3), (1, 1), (1000, 1), (1000, 5)] {
                let (mut begun, mut finished) = (0..n, Vec::new());
                let under_way = AtomicUsize::new(0);
                let result = run(
                    &Pool::new(threads),
                    window,
                    || {
                        assert!(under_way.fetch_add(1, Ordering::Relaxed) < window);
                        let next = begun.next();
                        if next.is_none() {
                            under_way.fetch_sub(1, Ordering::Relaxed);
                        }
                        Ok(next)
                    },
                    |i: usize| Ok((i, i * i)),
                    |(i, square)| {
                        under_way.fetch_sub(1, Ordering::Relaxed);
                        assert_eq!(square, i * i);
                        finished.push(i);
                        Ok(())
                    },
                );
                assert!(result.is_ok() && finished.into_iter().eq(0..n), "{threads} threads");
            }
        }
    }

    #[test]
    fn the_first_error_ends_it() {
        for threads in [1, 3] {
            for bad in [0, 17, 99] {
                for place in 0..3 {
                    let error =
                        |at, i| if (at, i) == (place, bad) { Err(Error::invalid("this one")) } else { Ok(()) };
                    let (mut begun, mut finished) = (0..100, 0);
                    let result = run(
                        &Pool::new(threads),
                        4,
                        || begun.next().map(|i| error(0, i).map(|()| i)).transpose(),
                        |i| error(1, i).map(|()| i),
                        |i| {
                            error(2, i)?;
                            finished += 1;
                            Ok(())
                        },
                    );
                    assert_eq!(result.unwrap_err().context(), "this one");
                    assert!(finished <= bad && (place == 0 || finished == bad), "{finished} of {bad}");
                }
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for threads in [1, 4] {
            let result = std::panic::catch_unwind(|| {
                let mut begun = 0..100;
                let work = |i: usize| {
                    assert!(i != 17, "the seventeenth");
                    Ok(i)
                };
                run(&Pool::new(threads), 6, || Ok(begun.next()), work, |_| Ok(()))
            });
            assert!(result.is_err());
        }
    }
}
