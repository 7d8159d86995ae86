//! Tests the scheduler on random graphs, with threads that stall at random.

use super::scheduler::{Scheduler, Work};
use gradloom_device::host::Pool;
use gradloom_testing::Random;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A random graph, and the state of a run: the number of ended tasks of each node, and whether it has ended.
struct Record<'a> {
    tasks: &'a [usize],
    edges: &'a [Vec<usize>],
    done: Vec<AtomicUsize>,
    ended: Vec<AtomicUsize>,
    stalls: AtomicUsize,
}

impl Work for Record<'_> {
    fn run(&self, node: usize, task: usize) {
        assert!(task < self.tasks[node].max(1));
        for &other in &self.edges[node] {
            assert_eq!(self.ended[other].load(SeqCst), 1, "{node} began before {other} ended");
        }
        match self.stalls.fetch_add(7, SeqCst) % 61 {
            0 => std::thread::sleep(Duration::from_micros(50)),
            1..8 => std::thread::yield_now(),
            _ => {}
        }
        self.done[node].fetch_add(1, SeqCst);
    }

    fn end(&self, node: usize) {
        assert_eq!(self.done[node].load(SeqCst), self.tasks[node].max(1), "{node} ended early");
        self.ended[node].fetch_add(1, SeqCst);
    }
}

#[test]
fn tasks_run_once_and_after_those_before_them_while_threads_stall() {
    let (graphs, runs) = if cfg!(miri) { (3, 2) } else { (100, 100) };
    let pools = [1, 2, 3, 8].map(Pool::new);
    let mut random = Random::new(5);
    for graph in 0..graphs {
        let nodes = random.below(if graph % 10 == 0 { 200 } else { 20 });
        let tasks: Vec<usize> = (0..nodes).map(|_| random.below(5)).collect();
        let mut before = |node: usize| {
            let mut before: Vec<usize> = (0..random.below(3)).map(|_| random.below(node.max(1))).collect();
            before.retain(|&other| other < node);
            before.sort_unstable();
            before.dedup();
            before
        };
        let edges: Vec<Vec<usize>> = (0..nodes).map(&mut before).collect();
        let scheduler = Scheduler::new(&tasks, &edges);
        for run in 0..runs {
            let zeros = || (0..nodes).map(|_| AtomicUsize::new(0)).collect();
            let record = Record {
                tasks: &tasks,
                edges: &edges,
                done: zeros(),
                ended: zeros(),
                stalls: AtomicUsize::new(run),
            };
            let pool = &pools[run % pools.len()];
            scheduler.begin();
            pool.run(pool.threads(), &|_| scheduler.work(&record));
            assert!(record.ended.iter().all(|ended| ended.load(SeqCst) == 1), "graph {graph}, run {run}");
        }
    }
}

#[test]
#[should_panic(expected = "waits for earlier ones only")]
fn a_cycle_is_refused() {
    let _ = Scheduler::new(&[1, 1], &[vec![1], vec![0]]);
}
