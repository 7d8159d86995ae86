//! Runs launches in any order that their dependencies allow.
//!
//! In: a range of a plan's launches, prepared. Out: the same results as one launch after the other, on any
//! number of threads. The phases of launches, or the panels of a phase, are the nodes of a graph, whose edges
//! follow from the bytes that they access. Invariants: a run allocates nothing unless it fails; of several
//! launches that trap, the first of the plan is reported.

mod scheduler;
mod sync;
#[cfg(test)]
mod tests;

use super::kernel::ForgetOnPanic;
use super::{Call, Pool, Prepared, Tasks};
use gradloom_codegen::cpu::{CpuKernel, Panel, panels};
use gradloom_codegen::edges::{Touches, edges};
use gradloom_core::error::Error;
use gradloom_core::ir::OpKind;
use gradloom_core::kernel::{Access, Kernel, Launch};
use gradloom_core::plan::{Plan, cost};
use gradloom_device::cancel::Stop;
use scheduler::{Scheduler, Work};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// A launch with its addresses.
pub(super) struct PreparedLaunch {
    pub(super) kernel: Box<dyn Prepared>,
    pub(super) reads: Vec<*const u8>,
    pub(super) writes: Vec<*mut u8>,
    pub(super) scratch: *mut u8,
}

// SAFETY: these are only addresses; `Call` documents who may dereference them.
unsafe impl Sync for PreparedLaunch {}
// SAFETY: as above.
unsafe impl Send for PreparedLaunch {}

impl PreparedLaunch {
    /// Returns the addresses for one run of the kernel.
    pub(super) fn call<'a>(&'a self, pool: &'a Pool) -> Call<'a> {
        Call { pool, reads: &self.reads, writes: &self.writes, scratch: self.scratch }
    }

    fn tasks(&self) -> &dyn Tasks {
        self.kernel.tasks().expect("launches without tasks run alone")
    }

    /// Runs all tasks on this thread.
    fn run_here(&self, pool: &Pool) -> Result<(), super::Trap> {
        let (call, tasks) = (self.call(pool), self.tasks());
        for phase in 0..tasks.phases() {
            let forget = ForgetOnPanic { tasks, call: &call, phase };
            // SAFETY: the caller of `Flow::run` guarantees the addresses; each task runs once.
            (0..tasks.count(phase)).for_each(|task| unsafe { tasks.run_task(&call, phase, task) });
            drop(forget);
            tasks.outcome(&call, phase)?;
        }
        Ok(())
    }
}

/// The launches of a plan, their kernels, and these with their addresses.
pub(super) struct Launches<'a> {
    pub(super) plan: &'a Plan,
    pub(super) kernels: &'a [CpuKernel],
    pub(super) prepared: &'a [PreparedLaunch],
}

/// A range of a plan's launches, in the order in which they run.
pub(super) struct Flow {
    parts: Vec<Part>,
}

enum Part {
    /// A launch that is not divided into tasks, and runs alone.
    Alone(usize),
    /// Launches that the caller runs one after the other, because no two tasks can run at the same time, or
    /// because they take less time than waking a thread.
    InOrder(Range<usize>),
    Graph(Graph),
}

/// Launches that run together.
struct Graph {
    steps: Vec<Step>,
    scheduler: Scheduler,
}

/// A phase of a launch, or a part of one.
struct Step {
    launch: usize,
    phase: usize,
    /// Tasks of the phase.
    tasks: Vec<usize>,
}

/// The reason why a run ended early.
pub(super) enum Failure {
    /// The launch trapped.
    Trap(usize, super::Trap),
    /// The caller's token ended the run.
    Stopped(Error),
}

impl Flow {
    /// Creates the order of the launches `range`. Launches that take less than `worth_waking` nanoseconds
    /// together use one thread.
    pub(super) fn new(launches: &Launches<'_>, range: Range<usize>, worth_waking: usize) -> Self {
        let (mut parts, mut first) = (Vec::new(), range.start);
        for launch in range.clone() {
            if launches.prepared[launch].kernel.tasks().is_none() {
                parts.extend(Part::new(launches, first..launch, worth_waking));
                parts.push(Part::Alone(launch));
                first = launch + 1;
            }
        }
        parts.extend(Part::new(launches, first..range.end, worth_waking));
        Self { parts }
    }

    /// Runs all launches.
    ///
    /// # Safety
    /// The addresses of the launches must meet the requirements documented on [`Call`], and nothing else may
    /// access their memory.
    ///
    /// # Errors
    /// Returns the failure that ended the run.
    pub(super) unsafe fn run(
        &self,
        pool: &Pool,
        launches: &[PreparedLaunch],
        stop: Stop<'_>,
    ) -> Result<(), Failure> {
        for part in &self.parts {
            match part {
                Part::Alone(launch) => {
                    stop.check().map_err(Failure::Stopped)?;
                    let done = launches[*launch].kernel.run(&launches[*launch].call(pool));
                    done.map_err(|trap| Failure::Trap(*launch, trap))?;
                }
                Part::InOrder(range) => {
                    for launch in range.clone() {
                        stop.check().map_err(Failure::Stopped)?;
                        launches[launch].run_here(pool).map_err(|trap| Failure::Trap(launch, trap))?;
                    }
                }
                Part::Graph(graph) => graph.run(pool, launches, stop)?,
            }
        }
        Ok(())
    }
}

impl Part {
    /// Creates the order of launches that are divided into tasks; `None` if there are none.
    fn new(launches: &Launches<'_>, range: Range<usize>, worth_waking: usize) -> Option<Self> {
        if range.is_empty() {
            return None;
        }
        let costs = range.clone().map(|launch| nanoseconds(launches.plan, launch));
        if costs.fold(0, usize::saturating_add) < worth_waking {
            return Some(Self::InOrder(range));
        }
        Some(Graph::new(launches, range.clone()).map_or(Self::InOrder(range), Self::Graph))
    }
}

impl Graph {
    /// Creates the graph of some launches; `None` if no two of their tasks can run at the same time.
    fn new(launches: &Launches<'_>, range: Range<usize>) -> Option<Self> {
        let (mut steps, mut touches) = (Vec::new(), Vec::new());
        for launch in range {
            let tasks = launches.prepared[launch].tasks();
            for phase in 0..tasks.phases() {
                let count = tasks.count(phase);
                let all = launches.accesses(launch);
                let panels = match count {
                    0 => Vec::new(),
                    _ => panels(&launches.plan.launches[launch], &launches.kernels[launch], phase),
                };
                let group = touches.len();
                debug_assert!(panels.is_empty() || are_all(&panels, count), "each task is in one panel");
                for panel in &panels {
                    touches.push(Touches { group: Some(group), ..launches.panel(launch, &all, panel) });
                    steps.push(Step { launch, phase, tasks: panel.tasks.clone() });
                }
                // The first phase may check operands without any task.
                if panels.is_empty() && (phase == 0 || count > 0) {
                    touches.push(all);
                    steps.push(Step { launch, phase, tasks: (0..count).collect() });
                }
            }
        }
        let edges = edges(touches.iter());
        let is_in_order =
            |(number, before): (usize, &Vec<usize>)| number == 0 || before.contains(&(number - 1));
        let counts: Vec<usize> = steps.iter().map(|step| step.tasks.len()).collect();
        let is_chain = counts.iter().all(|&count| count <= 1) && edges.iter().enumerate().all(is_in_order);
        (!is_chain).then(|| Self { scheduler: Scheduler::new(&counts, &edges), steps })
    }

    fn run(&self, pool: &Pool, launches: &[PreparedLaunch], stop: Stop<'_>) -> Result<(), Failure> {
        let run = Run {
            graph: self,
            pool,
            launches,
            stop,
            last: AtomicUsize::new(usize::MAX),
            end: Mutex::default(),
        };
        self.scheduler.begin();
        // While another caller uses the pool, this thread goes on alone.
        while !pool.try_run(pool.threads(), &|_, _| self.scheduler.work(&run)) {
            if !self.scheduler.work_alone(&run) {
                break;
            }
        }
        match run.end.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((_, End::Failure(failure))) => Err(failure),
            Some((_, End::Panic(panic))) => resume_unwind(panic),
        }
    }
}

/// The reason why a run ended early.
enum End {
    Failure(Failure),
    Panic(Box<dyn Any + Send>),
}

/// A run of a graph.
struct Run<'a> {
    graph: &'a Graph,
    pool: &'a Pool,
    launches: &'a [PreparedLaunch],
    stop: Stop<'a>,
    /// First step that failed. Those after it are skipped; earlier ones still run, because they may fail,
    /// too.
    last: AtomicUsize,
    /// First step that failed.
    end: Mutex<Option<(usize, End)>>,
}

impl Run<'_> {
    fn fail(&self, step: usize, end: End) {
        self.last.fetch_min(step, SeqCst);
        let mut first = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(known, _)| step < *known) {
            *first = Some((step, end));
        }
    }

    /// Calls `run` with the tasks of a step and its addresses. A panic fails the step.
    fn on_step<R>(&self, step: usize, run: impl FnOnce(&Step, &dyn Tasks, &Call<'_>) -> R) -> Option<R> {
        let of = &self.graph.steps[step];
        let launch = &self.launches[of.launch];
        let run = || run(of, launch.tasks(), &launch.call(self.pool));
        catch_unwind(AssertUnwindSafe(run)).map_err(|panic| self.fail(step, End::Panic(panic))).ok()
    }
}

impl Work for Run<'_> {
    fn run(&self, step: usize, task: usize) {
        if step > self.last.load(SeqCst) {
            return;
        }
        if task == 0
            && let Err(error) = self.stop.check()
        {
            return self.fail(step, End::Failure(Failure::Stopped(error)));
        }
        self.on_step(step, |of, tasks, call| {
            // A step without tasks has one for the scheduler.
            if let Some(&task) = of.tasks.get(task) {
                // SAFETY: the caller of `Flow::run` guarantees the addresses. The scheduler runs each task
                // once, and a step after those whose bytes it accesses.
                unsafe { tasks.run_task(call, of.phase, task) };
            }
        });
    }

    fn end(&self, step: usize) {
        // Asks for the outcome even if an earlier step failed: tasks that ran before may have recorded a
        // fault, which the next run must not find.
        let outcome = self.on_step(step, |of, tasks, call| {
            let outcome = tasks.outcome(call, of.phase);
            outcome.map_err(|trap| Failure::Trap(of.launch, trap))
        });
        if let (Some(Err(failure)), true) = (outcome, step <= self.last.load(SeqCst)) {
            self.fail(step, End::Failure(failure));
        }
    }
}

/// Returns `true` if each of `count` tasks is in exactly one panel.
fn are_all(panels: &[Panel], count: usize) -> bool {
    let mut tasks: Vec<usize> = panels.iter().flat_map(|panel| panel.tasks.iter().copied()).collect();
    tasks.sort_unstable();
    tasks.into_iter().eq(0..count)
}

/// Time of a user's op, whose cost is unknown, or of a collective op, which waits for others, in nanoseconds:
/// worth a thread of its own.
const CUSTOM: usize = 100_000;

/// Returns the approximate time of a launch on one core in nanoseconds.
fn nanoseconds(plan: &Plan, launch: usize) -> usize {
    let launch = &plan.launches[launch];
    if matches!(launch.kernel, Kernel::Op(OpKind::Custom(_) | OpKind::Collective { .. })) {
        return CUSTOM;
    }
    let cost = cost(plan, launch);
    // 160 GFLOP/s and 48 GB/s.
    usize::try_from(cost.flops / 160 + cost.bytes() / 48).unwrap_or(usize::MAX)
}

/// Index of the workspace among the memories of a plan.
const WORKSPACE: usize = usize::MAX;
/// Index of the connection to the other ranks among these memories, which orders the launches that use it.
const CONNECTION: usize = usize::MAX - 1;

impl Launches<'_> {
    /// Returns the bytes that a launch accesses.
    fn accesses(&self, launch: usize) -> Touches {
        let Launch { kernel, reads, writes, workspace, .. } = &self.plan.launches[launch];
        let start = self.plan.scratch[launch];
        let bytes = |access: &Access| {
            let buffer = &self.plan.buffers[self.plan.buffer_of[&access.buffer]];
            (buffer.region as usize, buffer.offset + access.start()..buffer.offset + access.end())
        };
        let scratch = (WORKSPACE, start..start + workspace);
        let connection =
            matches!(kernel, Kernel::Op(OpKind::Collective { .. })).then_some((CONNECTION, 0..1));
        Touches {
            reads: reads.iter().map(bytes).collect(),
            writes: writes.iter().map(bytes).chain([scratch]).chain(connection).collect(),
            group: None,
        }
    }

    /// Returns the bytes that a panel of a launch accesses, given those that the whole launch does.
    fn panel(&self, launch: usize, all: &Touches, panel: &Panel) -> Touches {
        let Launch { reads, writes, .. } = &self.plan.launches[launch];
        let mut part = all.clone();
        let own = part.reads.iter_mut().zip(reads).zip(&panel.reads);
        for (((_, bytes), access), elements) in
            own.chain(part.writes.iter_mut().zip(writes).zip(&panel.writes))
        {
            if let Some(elements) = elements {
                let start = self.plan.buffers[self.plan.buffer_of[&access.buffer]].offset;
                let at = |element: usize| start + (element * access.dtype.bytes()) as u64;
                *bytes = at(elements.start)..at(elements.end);
            }
        }
        part
    }
}
