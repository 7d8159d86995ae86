//! Runs the tasks of a graph on any number of threads, each as soon as the nodes before it have ended.
//!
//! In: nodes, each with a number of tasks and the nodes that it waits for. Out: every task has run once, on
//! one of the threads that called [`Scheduler::work`]. A node is *open* if it waits for no other and has
//! tasks that no thread has claimed. Threads claim tasks of the first open node, one at a time, and the
//! thread that ends the last task of a node opens those that waited for it. A thread that is late thus delays
//! only what depends on its task. Invariants: a run allocates nothing; threads that find no open node spin
//! for a moment, then sleep.

use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, Relaxed, SeqCst, spin};

/// The tasks of a graph's nodes.
pub(crate) trait Work: Sync {
    /// Runs a task of a node. Must not panic.
    fn run(&self, node: usize, task: usize);

    /// Called once per node, after all its tasks, and before any task of a node that waits for it. Must not
    /// panic.
    fn end(&self, node: usize);
}

const UNPOISONED: &str = "no thread panics while it holds the lock";

/// A node. Nodes are on separate cache lines, because different threads write them.
#[repr(align(64))]
struct Node {
    /// Number of tasks, at least 1.
    tasks: u32,
    /// Number of nodes that it waits for.
    before: u32,
    /// Nodes that wait for it.
    next: Box<[usize]>,
    /// Number of nodes before it that have not ended in this run.
    waits: AtomicU32,
    /// Number of claims, which may exceed the number of tasks.
    claims: AtomicU32,
    /// Number of tasks that have not ended in this run.
    unfinished: AtomicU32,
}

/// A graph of tasks, and the state of its run.
pub(crate) struct Scheduler {
    nodes: Box<[Node]>,
    /// Bit set of the open nodes.
    open: Box<[AtomicU64]>,
    /// Number of nodes that have not ended.
    unfinished: AtomicUsize,
    /// Number of threads that sleep. A thread checks the state while it holds the lock before it sleeps, and
    /// others change the state before they lock, so that no wake-up is missed.
    sleepers: Mutex<usize>,
    wake: Condvar,
}

impl Scheduler {
    /// Creates a graph. `tasks` is the number of tasks of each node, and `edges` the nodes that it waits for,
    /// which must precede it. A node without tasks has one all the same, so that it ends.
    ///
    /// # Panics
    /// Panics if a node waits for a later one, or has 2³¹ tasks or more.
    pub(crate) fn new(tasks: &[usize], edges: &[Vec<usize>]) -> Self {
        let mut next = vec![Vec::new(); tasks.len()];
        for (node, before) in edges.iter().enumerate() {
            for &other in before {
                assert!(other < node, "a node waits for earlier ones only");
                next[other].push(node);
            }
        }
        let count =
            |number: usize| u32::try_from(number).ok().filter(|&n| n < 1 << 31).expect("too many tasks");
        let node = |((next, &tasks), before): ((Vec<usize>, &usize), &Vec<usize>)| Node {
            tasks: count(tasks.max(1)),
            before: count(before.len()),
            next: next.into(),
            waits: AtomicU32::new(0),
            claims: AtomicU32::new(0),
            unfinished: AtomicU32::new(0),
        };
        let nodes: Box<[Node]> = next.into_iter().zip(tasks).zip(edges).map(node).collect();
        Self {
            open: (0..nodes.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            nodes,
            unfinished: AtomicUsize::new(0),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    /// Begins a run. No thread may be in [`Scheduler::work`].
    pub(crate) fn begin(&self) {
        self.unfinished.store(self.nodes.len(), SeqCst);
        for (number, node) in self.nodes.iter().enumerate() {
            // Whatever starts the other threads makes these stores visible to them.
            node.waits.store(node.before, Relaxed);
            node.claims.store(0, Relaxed);
            node.unfinished.store(node.tasks, Relaxed);
            if node.before == 0 {
                self.open(number);
            }
        }
    }

    /// Runs tasks until all nodes have ended. Any number of threads may call it, at any time of a run; one is
    /// enough.
    pub(crate) fn work(&self, work: &dyn Work) {
        let is_called =
            || self.unfinished.load(SeqCst) == 0 || self.open.iter().any(|word| word.load(SeqCst) != 0);
        loop {
            while let Some((node, task)) = self.claim() {
                work.run(node, task);
                self.end_task(node, work);
            }
            if self.unfinished.load(SeqCst) == 0 {
                return;
            }
            if spin(is_called) {
                continue;
            }
            let mut sleepers = self.sleepers.lock().expect(UNPOISONED);
            while !is_called() {
                *sleepers += 1;
                sleepers = self.wake.wait(sleepers).expect(UNPOISONED);
                *sleepers -= 1;
            }
        }
    }

    /// Runs one task, on a run's only thread. Returns `false` if all nodes have ended.
    pub(crate) fn work_alone(&self, work: &dyn Work) -> bool {
        let Some((node, task)) = self.claim() else { return false };
        work.run(node, task);
        self.end_task(node, work);
        true
    }

    /// Claims a task of the first open node.
    fn claim(&self) -> Option<(usize, usize)> {
        for (number, word) in self.open.iter().enumerate() {
            let mut bits = word.load(SeqCst);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                let index = 64 * number + bit.trailing_zeros() as usize;
                let node = &self.nodes[index];
                let claim = node.claims.fetch_add(1, SeqCst);
                // Whoever finds that no task is left closes the node, so that no thread waits for another to
                // do so.
                if claim + 1 >= node.tasks {
                    word.fetch_and(!bit, SeqCst);
                }
                if claim < node.tasks {
                    return Some((index, claim as usize));
                }
                bits &= !bit;
            }
        }
        None
    }

    /// Records that a task of a node has ended, and opens the nodes that waited for the last one.
    fn end_task(&self, number: usize, work: &dyn Work) {
        let node = &self.nodes[number];
        if node.unfinished.fetch_sub(1, SeqCst) != 1 {
            return;
        }
        work.end(number);
        let mut opened = 0_u32;
        for &next in &node.next {
            let waiting = &self.nodes[next];
            if waiting.waits.fetch_sub(1, SeqCst) == 1 {
                self.open(next);
                opened = opened.saturating_add(waiting.tasks);
            }
        }
        let is_last = self.unfinished.fetch_sub(1, SeqCst) == 1;
        // This thread claims one of the tasks itself.
        if (is_last || opened > 1) && *self.sleepers.lock().expect(UNPOISONED) > 0 {
            self.wake.notify_all();
        }
    }

    fn open(&self, node: usize) {
        self.open[node / 64].fetch_or(1 << (node % 64), SeqCst);
    }
}
