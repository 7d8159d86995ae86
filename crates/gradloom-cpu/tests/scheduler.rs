//! Tries every order of the scheduler's atomic operations on small graphs: no task is lost or run twice, none
//! begins early, and no thread sleeps forever.

#[path = "../src/flow/scheduler.rs"]
mod scheduler;

/// The scheduler's primitives, by a model checker. Threads never spin, so that every wait is a sleep.
mod sync {
    pub(super) use loom::sync::atomic::{
        AtomicU32, AtomicU64, AtomicUsize,
        Ordering::{Relaxed, SeqCst},
    };
    pub(super) use loom::sync::{Condvar, Mutex};

    pub(super) fn spin(done: impl Fn() -> bool) -> bool {
        done()
    }
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use scheduler::{Scheduler, Work};

struct Record {
    edges: &'static [&'static [usize]],
    runs: Vec<AtomicUsize>,
    ended: Vec<AtomicUsize>,
}

impl Work for Record {
    fn run(&self, node: usize, _: usize) {
        for &other in self.edges[node] {
            assert_eq!(self.ended[other].load(SeqCst), 1, "{node} began before {other} ended");
        }
        self.runs[node].fetch_add(1, SeqCst);
    }

    fn end(&self, node: usize) {
        self.ended[node].fetch_add(1, SeqCst);
    }
}

/// Runs a graph on `threads` threads in every order with at most `preemptions` preemptions; `None` if any
/// number is tried.
fn check(
    tasks: &'static [usize],
    edges: &'static [&'static [usize]],
    threads: usize,
    preemptions: Option<usize>,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(move || {
        let lists: Vec<Vec<usize>> = edges.iter().map(|before| before.to_vec()).collect();
        let zeros = || tasks.iter().map(|_| AtomicUsize::new(0)).collect();
        let record = Record { edges, runs: zeros(), ended: zeros() };
        let shared = Arc::new((Scheduler::new(tasks, &lists), record));
        shared.0.begin();
        // A run may begin on one thread.
        shared.0.work_alone(&shared.1);
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || shared.0.work(&shared.1))
        };
        let others: Vec<_> = (1..threads).map(spawn).collect();
        shared.0.work(&shared.1);
        others.into_iter().for_each(|other| other.join().unwrap());
        for (node, &tasks) in tasks.iter().enumerate() {
            assert_eq!(shared.1.runs[node].load(SeqCst), tasks.max(1), "tasks of {node}");
            assert_eq!(shared.1.ended[node].load(SeqCst), 1, "end of {node}");
        }
    });
}

#[test]
fn a_chain_with_a_wide_node() {
    check(&[1, 2, 1], &[&[], &[0], &[1]], 2, Some(5));
}

#[test]
fn a_node_without_tasks() {
    check(&[1, 0, 1], &[&[], &[0], &[1]], 2, Some(5));
}

#[test]
fn two_branches_that_meet() {
    check(&[1, 1, 1, 1], &[&[], &[0], &[0], &[1, 2]], 2, Some(5));
}

#[test]
fn three_threads() {
    check(&[1, 2, 1], &[&[], &[0], &[1]], 3, Some(3));
}
