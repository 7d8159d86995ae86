//! Tests the scheduler on random graphs, with threads that stall at random, and the panels of launches.

use super::scheduler::{Scheduler, Work};
use super::{Failure, PreparedLaunch, Step};
use crate::kernel::{Call, FirstFault, Tasks, Trap};
use crate::prepare;
use crate::testing::{Job, Random, Tensor};
use gradloom_codegen::cpu::{DotPlan, dot_workspace, loop_workspace};
use gradloom_core::ir::{BinaryOp, DType, DotAxes, Graph, OpKind, ReduceOp, Shape};
use gradloom_core::kernel::{Body, Kernel, Launch, Layout, Level, Node, NodeId, NodeKind, Schedule, Store};
use gradloom_device::cancel::Stop;
use gradloom_device::host::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A random graph, and the state of a run: the number of ended tasks of each node, and whether it has ended.
struct Record<'a> {
    tasks: &'a [usize],
    edges: &'a [Vec<usize>],
    done: Vec<AtomicUsize>,
    ended: Vec<AtomicUsize>,
    stalls: AtomicUsize,
    /// Number of tasks that began, and of nodes that ended, too early.
    early: AtomicUsize,
}

impl Work for Record<'_> {
    fn run(&self, node: usize, task: usize) {
        self.early.fetch_add(usize::from(task >= self.tasks[node].max(1)), SeqCst);
        // A failed assertion would leave the other threads waiting.
        let is_early = self.edges[node].iter().any(|&other| self.ended[other].load(SeqCst) != 1);
        self.early.fetch_add(usize::from(is_early), SeqCst);
        match self.stalls.fetch_add(7, SeqCst) % 61 {
            0 => std::thread::sleep(Duration::from_micros(50)),
            1..8 => std::thread::yield_now(),
            _ => {}
        }
        self.done[node].fetch_add(1, SeqCst);
    }

    fn end(&self, node: usize) {
        let is_early = self.done[node].load(SeqCst) != self.tasks[node].max(1);
        self.early.fetch_add(usize::from(is_early), SeqCst);
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
                early: AtomicUsize::new(0),
            };
            let pool = &pools[run % pools.len()];
            scheduler.begin();
            pool.run(pool.threads(), &|_| scheduler.work(&record));
            assert_eq!(record.early.load(SeqCst), 0, "graph {graph}, run {run}");
            assert!(record.ended.iter().all(|ended| ended.load(SeqCst) == 1), "graph {graph}, run {run}");
        }
    }
}

/// Kernel whose first task records a fault, and whose second one waits until another kernel has failed.
struct Faulty {
    is_first: bool,
    fault: FirstFault,
    /// 0 if nothing fails in this run; 1 at its start, 2 once the second kernel has recorded its fault, 3
    /// once the first has failed.
    state: Arc<AtomicUsize>,
}

impl Faulty {
    fn wait_for(&self, state: usize) {
        let began = Instant::now();
        while (1..state).contains(&self.state.load(SeqCst)) && began.elapsed() < Duration::from_secs(60) {
            std::thread::yield_now();
        }
    }
}

impl Tasks for Faulty {
    fn count(&self, _: usize) -> usize {
        2 - usize::from(self.is_first)
    }

    unsafe fn run_task(&self, _: &Call<'_>, _: usize, task: usize) {
        match (self.is_first, task) {
            _ if self.state.load(SeqCst) == 0 => {}
            (true, _) => {
                self.wait_for(2);
                self.fault.record(1);
            }
            (false, 0) => {
                self.fault.record(2);
                self.state.store(2, SeqCst);
            }
            _ => {
                self.wait_for(3);
                // Lets the first kernel's failure be recorded.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn outcome(&self, _: &Call<'_>, _: usize) -> Result<(), Trap> {
        let Some(fault) = self.fault.take() else { return Ok(()) };
        if self.is_first {
            self.state.store(3, SeqCst);
        }
        Err(Trap::new(fault.to_string()))
    }
}

#[test]
fn a_fault_of_a_skipped_launch_is_not_found_by_the_next_run() {
    let state = Arc::new(AtomicUsize::new(1));
    let launch = |is_first| PreparedLaunch {
        kernel: Box::new(Faulty { is_first, fault: FirstFault::new(), state: Arc::clone(&state) }),
        reads: Vec::new(),
        writes: Vec::new(),
        scratch: std::ptr::null_mut(),
    };
    let launches = [launch(true), launch(false)];
    let step = |launch: usize, tasks| Step { launch, phase: 0, tasks };
    let graph = super::Graph {
        steps: vec![step(0, vec![0]), step(1, vec![0, 1])],
        scheduler: Scheduler::new(&[1, 2], &[vec![], vec![]]),
    };
    let pool = Pool::new(2);
    let failed = graph.run(&pool, &launches, Stop::default());
    assert!(matches!(failed, Err(Failure::Trap(0, trap)) if trap.message == "1"));
    state.store(0, SeqCst);
    assert!(graph.run(&pool, &launches, Stop::default()).is_ok());
}

#[test]
#[should_panic(expected = "waits for earlier ones only")]
fn a_cycle_is_refused() {
    let _ = Scheduler::new(&[1, 1], &[vec![1], vec![0]]);
}

/// Returns a node of level `Element`.
fn node(kind: NodeKind) -> Node {
    Node { kind, dtype: DType::F32, level: Level::Element }
}

/// Returns the number of panels of a job, after checking each.
fn panels_of(job: &Job) -> usize {
    let kernel = prepare(&job.launch(), &Graph::new());
    job.check_panels(&*kernel, &job.run_on(&*kernel, &Pool::new(1)).unwrap())
}

#[test]
fn panels_of_loops_access_what_they_say() {
    let mut random = Random(3);
    let (rows, columns) = (500, 120);
    let shape = Shape::from([rows, columns]);
    let add = NodeKind::Binary(BinaryOp::Add, [NodeId(0), NodeId(1)]);
    let row = Node { level: Level::Row, ..node(NodeKind::Reduce(ReduceOp::Sum, NodeId(2))) };
    let spread = NodeKind::Binary(BinaryOp::Sub, [NodeId(2), NodeId(4)]);
    let nodes = vec![
        node(NodeKind::Load(0)),
        node(NodeKind::Load(1)),
        node(add),
        row,
        node(NodeKind::Repeat(NodeId(3))),
        node(spread),
    ];
    let value = |node, level, write| Store::Value { node: NodeId(node), level, write };
    let body = Body {
        rows,
        columns,
        nodes,
        stores: vec![
            value(5, Level::Element, 0),
            value(3, Level::Row, 1),
            Store::ColumnReduce { op: ReduceOp::Sum, node: NodeId(5), write: 2, parts: 1 },
        ],
    };
    for in_place in [None, Some(0)] {
        for permuted in [false, true] {
            let x = Tensor::dense(&mut random, &shape);
            let order = if permuted { [1, 0] } else { [0, 1] };
            let y = Tensor::in_order(&mut random, &shape, &order);
            let contiguous = |extents: &[usize]| Layout::contiguous(&extents.into());
            let first = in_place.map_or_else(|| contiguous(&[rows, columns]), |_| x.layout.clone());
            let job = Job {
                kernel: Kernel::Loop(body.clone()),
                results: vec![
                    (DType::F32, first, in_place),
                    (DType::F32, contiguous(&[rows]), None),
                    (DType::F32, contiguous(&[columns]), None),
                ],
                reads: vec![x, y],
                schedule: Schedule::Whole,
                workspace: loop_workspace(&body),
            };
            assert!(panels_of(&job) > 2);
        }
    }
}

#[test]
fn panels_of_products_access_what_they_say() {
    let mut random = Random(4);
    for [batch, m, n, k] in [[1, 1200, 130, 70], [3, 700, 64, 90], [40, 60, 64, 33]] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2]] {
            let lhs = Tensor::in_order(&mut random, &[batch, m, k].into(), &order);
            let rhs = Tensor::dense(&mut random, &[batch, k, n].into());
            let residual = Tensor::dense(&mut random, &[batch, m, n].into());
            let axes = DotAxes {
                lhs_batch: vec![0],
                rhs_batch: vec![0],
                lhs_contract: vec![2],
                rhs_contract: vec![1],
            };
            let add = NodeKind::Binary(BinaryOp::Add, [NodeId(0), NodeId(1)]);
            let epilogue = Body {
                rows: batch * m,
                columns: n,
                nodes: vec![node(NodeKind::Accumulator), node(NodeKind::Load(2)), node(add)],
                stores: vec![Store::Value { node: NodeId(2), level: Level::Element, write: 0 }],
            };
            let kinds = [OpKind::Dot(axes.clone())];
            for (kernel, reads) in [
                (Kernel::Op(kinds[0].clone()), vec![lhs.clone(), rhs.clone()]),
                (Kernel::Dot { axes, epilogue }, vec![lhs, rhs, residual]),
            ] {
                let result = (DType::F32, [batch, m, n].into());
                let mut job = Job { kernel, ..Job::of_op(kinds[0].clone(), reads, &[result]) };
                let Job { kernel, .. } = &job;
                let Launch { reads, writes, may_alias, schedule, .. } = job.launch();
                let operands = schedule.operands();
                if DotPlan::new(kernel, &reads, &writes, &may_alias, operands).is_none() {
                    continue;
                }
                job.workspace = dot_workspace(kernel, &reads, &writes, &may_alias, operands, 3);
                assert!(panels_of(&job) > 1, "{batch} of {m}x{n}x{k}");
            }
        }
    }
}
