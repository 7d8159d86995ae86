//! A small thread pool that runs the tasks of one caller at a time.
//!
//! In: a number of tasks and a function of the task's index. Out: the function has been called once for each
//! index, by the caller and the workers. The assignment of tasks to threads is nondeterministic, so tasks
//! must not depend on it. Invariant: a run allocates nothing; no thread accesses the function after
//! [`Pool::run`] has returned; idle workers sleep after a few microseconds, so that a machine with more pools
//! than cores stays responsive.

use std::any::Any;
use std::cell::Cell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time for which a thread spins for work, or for the last task, before it sleeps: longer than most pauses in
/// a step, shorter than a scheduler's time slice.
const SPIN: Duration = Duration::from_micros(20);

/// True if the target can start threads; otherwise the compiler removes the code for them.
const CAN_START_THREADS: bool = cfg!(any(not(target_family = "wasm"), target_os = "wasi"));

thread_local! {
    /// Index of this thread in its current run.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Returns the index of this thread in its current run, as passed by [`Pool::run_with_worker`]; 0 outside of
/// runs.
pub fn current_worker() -> usize {
    WORKER.get().unwrap_or(0)
}

type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// A run in progress, on the stack of its caller.
struct Job {
    /// The caller's function with its lifetime erased; called only while the caller waits.
    task: *const Task<'static>,
    tasks: usize,
}

/// Keeps counters that different threads write on separate cache lines. The alignment is two cache lines,
/// because prefetchers fetch pairs of lines.
#[repr(align(128))]
struct Padded<T>(T);

struct Shared {
    /// The job of the current run. A thread that has claimed a task may read it until it decrements
    /// `unfinished` for that task.
    job: AtomicPtr<Job>,
    unclaimed: Padded<AtomicUsize>,
    /// Number of tasks that have not ended.
    unfinished: Padded<AtomicUsize>,
    /// Number of workers that sleep or are about to.
    sleepers: AtomicUsize,
    /// True if the caller sleeps or is about to.
    caller_sleeps: AtomicBool,
    closing: AtomicBool,
    /// Prevents missed wake-ups: a thread locks it between changing the state and notifying others.
    sleep: Mutex<()>,
    wake_workers: Condvar,
    wake_caller: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A pool of threads that share the tasks of a run with its caller.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Locked while a run uses the workers.
    running: Mutex<()>,
}

impl Pool {
    /// Creates a pool of `threads` threads, at least one, including the caller. The pool is smaller if the
    /// system refuses to start threads.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            job: AtomicPtr::new(ptr::null_mut()),
            unclaimed: Padded(AtomicUsize::new(0)),
            unfinished: Padded(AtomicUsize::new(0)),
            sleepers: AtomicUsize::new(0),
            caller_sleeps: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            sleep: Mutex::new(()),
            wake_workers: Condvar::new(),
            wake_caller: Condvar::new(),
            panic: Mutex::new(None),
        });
        let start = |worker| {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(format!("gradloom-{worker}"));
            builder.spawn(move || shared.work(worker)).ok()
        };
        let workers = if CAN_START_THREADS { (1..threads).map_while(start).collect() } else { Vec::new() };
        Self { shared, workers, running: Mutex::new(()) }
    }

    /// Returns the number of threads, including the caller.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(0)`, .., `task(tasks - 1)` once each, and returns when all have ended.
    ///
    /// The calling thread runs all tasks itself if there is only one thread or task, if it is inside a task,
    /// or if another thread is using the pool.
    ///
    /// # Panics
    /// Panics if a task panics, with its payload, after the other tasks have ended.
    pub fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        self.run_with_worker(tasks, &|index, _| task(index));
    }

    /// Like [`Pool::run`], but also passes the index of the thread to `task`. The index is less than
    /// [`Pool::threads`] and differs between concurrent tasks. It is meant for selecting scratch memory;
    /// results must not depend on it.
    ///
    /// # Panics
    /// Same as [`Pool::run`].
    pub fn run_with_worker(&self, tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        if !self.try_run(tasks, task) {
            (0..tasks).for_each(|index| task(index, 0));
        }
    }

    /// Like [`Pool::run_with_worker`], but returns `false` without having run anything if another thread is
    /// using the pool.
    ///
    /// # Panics
    /// Same as [`Pool::run`].
    pub fn try_run(&self, tasks: usize, task: &(dyn Fn(usize, usize) + Sync)) -> bool {
        let nested = WORKER.get();
        let claimed = if !CAN_START_THREADS || tasks <= 1 || self.workers.is_empty() || nested.is_some() {
            None
        } else {
            match self.running.try_lock() {
                Ok(guard) => Some(guard),
                // A run that panicked poisons the lock, but all of its tasks have ended, so the workers are
                // free.
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => return false,
            }
        };
        if let Some(guard) = claimed {
            let panic = self.run_on_all(tasks, task);
            drop(guard);
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
        } else {
            let worker = nested.unwrap_or(0);
            (0..tasks).for_each(|index| task(index, worker));
        }
        true
    }

    fn run_on_all(&self, tasks: usize, task: &Task<'_>) -> Option<Box<dyn Any + Send>> {
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. A thread uses the job only between claiming a task and
        // decrementing `unfinished` for it, and this function returns only once `unfinished` is 0.
        let task = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(task) };
        let mut job = Job { task, tasks };
        shared.job.store(&raw mut job, SeqCst);
        shared.unfinished.0.store(tasks, SeqCst);
        shared.unclaimed.0.store(tasks, SeqCst);
        shared.wake(tasks - 1);
        WORKER.set(Some(0));
        while shared.run_one(0) {}
        WORKER.set(None);
        shared.wait_for_the_last_task();
        lock(&shared.panic).take()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        drop(lock(&self.shared.sleep));
        self.shared.wake_workers.notify_all();
        for worker in self.workers.drain(..) {
            // Ignore the result, because workers catch the panics of tasks and do not panic themselves.
            let _ = worker.join();
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads()).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls `done` for 20 microseconds; returns `true` once it holds.
pub fn spin_until(done: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            if done() {
                return true;
            }
            spin_loop();
        }
        if start.elapsed() > SPIN {
            return false;
        }
    }
}

impl Shared {
    /// Runs tasks as a worker until the pool closes.
    fn work(&self, worker: usize) {
        WORKER.set(Some(worker));
        let called = || self.unclaimed.0.load(SeqCst) > 0 || self.closing.load(SeqCst);
        loop {
            while self.run_one(worker) {}
            if self.closing.load(SeqCst) {
                return;
            }
            if spin_until(called) {
                continue;
            }
            let mut guard = lock(&self.sleep);
            // Incremented before the last check: `wake` changes the state before it reads `sleepers`, so at
            // least one of the two threads sees the other's change.
            self.sleepers.fetch_add(1, SeqCst);
            while !called() {
                guard = self.wake_workers.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleepers.fetch_sub(1, SeqCst);
        }
    }

    /// Claims and runs a task of the current job, if any is left; returns `false` if none is left.
    fn run_one(&self, worker: usize) -> bool {
        // Decrementing `unclaimed` claims a task. Only then may the job be read: the run cannot end before
        // this task is subtracted from `unfinished`. The claim is valid even if the loaded count belonged to
        // an earlier run.
        let claim = self.unclaimed.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        let Ok(left) = claim else { return false };
        // SAFETY: the claimed task has not ended, so the caller is still waiting in `run_on_all`, and its
        // `Job` and function are alive.
        let result = unsafe {
            let job = &*self.job.load(SeqCst);
            let task = &*job.task;
            catch_unwind(AssertUnwindSafe(|| task(job.tasks - left, worker)))
        };
        if let Err(panic) = result {
            lock(&self.panic).get_or_insert(panic);
        }
        if self.unfinished.0.fetch_sub(1, SeqCst) == 1 && self.caller_sleeps.load(SeqCst) {
            drop(lock(&self.sleep));
            self.wake_caller.notify_one();
        }
        true
    }

    /// Wakes at most `wanted` sleeping workers.
    fn wake(&self, wanted: usize) {
        let sleepers = self.sleepers.load(SeqCst);
        if sleepers == 0 {
            return;
        }
        drop(lock(&self.sleep));
        if wanted >= sleepers {
            self.wake_workers.notify_all();
        } else {
            (0..wanted).for_each(|_| self.wake_workers.notify_one());
        }
    }

    fn wait_for_the_last_task(&self) {
        let ended = || self.unfinished.0.load(SeqCst) == 0;
        if spin_until(ended) {
            return;
        }
        let mut guard = lock(&self.sleep);
        self.caller_sleeps.store(true, SeqCst);
        while !ended() {
            guard = self.wake_caller.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.caller_sleeps.store(false, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pool: &Pool, tasks: usize) -> Vec<usize> {
        let counts: Vec<_> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        pool.run(tasks, &|i| {
            counts[i].fetch_add(1, SeqCst);
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [0, 1, 2, 5] {
            let pool = Pool::new(threads);
            for tasks in [0, 1, 2, 3, 17, 1000] {
                assert_eq!(counts(&pool, tasks), vec![1; tasks], "{tasks} tasks on {threads} threads");
            }
        }
    }

    #[test]
    fn many_short_runs_with_and_without_sleep_between() {
        // Run fewer rounds in Miri, which is about a thousand times slower.
        let rounds = if cfg!(miri) { 100 } else { 2000 };
        let pool = Pool::new(4);
        let total = AtomicUsize::new(0);
        for round in 0..rounds {
            pool.run(1 + round % 7, &|_| {
                total.fetch_add(1, SeqCst);
            });
            if round % (rounds / 10) == 0 {
                std::thread::sleep(10 * SPIN);
            }
        }
        assert_eq!(total.into_inner(), (0..rounds).map(|round| 1 + round % 7).sum::<usize>());
    }

    #[test]
    fn workers_take_part_and_have_distinct_numbers() {
        let pool = Pool::new(3);
        let together = std::sync::Barrier::new(3);
        let seen = Mutex::new(Vec::new());
        pool.run_with_worker(3, &|_, worker| {
            together.wait();
            seen.lock().unwrap().push(worker);
        });
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        let pool = Pool::new(3);
        for at in [0, 5, 9] {
            let ended = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, &|i| {
                    assert!(i != at, "task {i} fails");
                    ended.fetch_add(1, SeqCst);
                });
            }));
            let payload = result.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>().unwrap(), &format!("task {at} fails"));
            assert_eq!(ended.into_inner(), 9);
            assert_eq!(counts(&pool, 100), vec![1; 100]);
        }
    }

    #[test]
    fn a_nested_run_stays_in_its_thread() {
        let pool = Pool::new(3);
        let total = AtomicUsize::new(0);
        pool.run_with_worker(6, &|_, outer| {
            pool.run_with_worker(4, &|_, inner| {
                assert_eq!(outer, inner);
                total.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(total.into_inner(), 24);
    }

    #[test]
    fn two_callers_share_a_pool() {
        let runs = if cfg!(miri) { 30 } else { 300 };
        let pool = Pool::new(2);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..runs).for_each(|_| assert_eq!(counts(&pool, 5), vec![1; 5])));
            }
        });
    }
}
