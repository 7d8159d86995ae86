//! A plan together with its graph, for display: names, places in the source, producers and consumers.
//!
//! In: a [`Plan`] and the graph that it was made of. Out: [`LaunchView`]s, which the text, JSON and HTML
//! forms of a plan are written from.

use super::{Buffer, Cost, Plan, cost, report};
use crate::collections::{IdMap, sort};
use crate::ir::{Graph, Id, Op, Origin, ValueId};
use crate::kernel::{Access, Kernel, Launch, Phase};

/// A plan and the graph that it was made of.
#[derive(Debug)]
pub struct PlanView<'p> {
    plan: &'p Plan,
    graph: &'p Graph,
    names: Names,
    producers: Vec<Vec<usize>>,
    consumers: Vec<Vec<usize>>,
}

impl Plan {
    /// Returns the plan with the names and places that its graph knows. `graph` is the one that was
    /// planned.
    pub fn view<'p>(&'p self, graph: &'p Graph) -> PlanView<'p> {
        let mut producers = vec![Vec::new(); self.launches.len()];
        let mut consumers = vec![Vec::new(); self.launches.len()];
        let mut writer: IdMap<ValueId, usize> = IdMap::new();
        for (i, launch) in self.launches.iter().enumerate() {
            for producer in launch.reads.iter().filter_map(|read| writer.get(&read.buffer).copied()) {
                if !producers[i].contains(&producer) {
                    producers[i].push(producer);
                    consumers[producer].push(i);
                }
            }
            sort(&mut producers[i]);
            writer.extend(launch.writes.iter().map(|write| (write.buffer, i)));
        }
        PlanView { plan: self, graph, names: Names::new(graph), producers, consumers }
    }
}

impl<'p> PlanView<'p> {
    /// Returns the plan that is viewed.
    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// Returns all launches, in order.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = LaunchView<'_>> {
        (0..self.plan.launches.len()).map(|i| self.launch(i))
    }

    /// Returns a launch by its place in the order; panics if there is none.
    pub fn launch(&self, index: usize) -> LaunchView<'_> {
        LaunchView { view: self, index, launch: &self.plan.launches[index] }
    }

    /// Returns the number of a value in the text form of the graph, `%3`; `copy 0`, `copy 1`, .. for copies
    /// that lowering or the plan added.
    pub fn value_name(&self, value: ValueId) -> String {
        self.names.of(value)
    }

    /// Returns the plan as one JSON object: [`Plan::to_json`].
    pub fn to_json(&self) -> String {
        self.plan.to_json(self.graph)
    }

    /// Returns the name of a buffer: a leaf's name, or the op that computes it with its place in the
    /// source.
    pub fn label(&self, buffer: &Buffer) -> String {
        report::label(self.graph, buffer)
    }
}

/// Totals, the largest values of the step arena, and every launch: [`Plan::report`].
impl std::fmt::Display for PlanView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.plan.report(self.graph))
    }
}

/// One launch of a plan.
#[derive(Clone, Copy, Debug)]
pub struct LaunchView<'v> {
    view: &'v PlanView<'v>,
    index: usize,
    launch: &'v Launch,
}

impl<'v> LaunchView<'v> {
    /// Returns the launch's position in the order of launches.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the launch, with all of its accesses.
    pub fn launch(&self) -> &'v Launch {
        self.launch
    }

    /// Returns the phase: before or after the guards are checked.
    pub fn phase(&self) -> Phase {
        self.launch.phase
    }

    /// Returns a short description: `row [1024 x 128]`, `group of 148 map`; of other kernels with their
    /// first result, as `attention f32[2, 4, 8, 16]`.
    pub fn name(&self) -> String {
        match (&self.launch.kernel, self.launch.writes.first()) {
            (Kernel::Group(_), _) => {
                format!("{} {}", self.launch.kernel.title(), self.launch.kernel.name())
            }
            (Kernel::Loop(_) | Kernel::Dot { .. }, _) | (_, None) => self.launch.kernel.title(),
            (Kernel::Attention { .. }, _) => self.launch.kernel.title(),
            (kernel, Some(write)) => {
                format!("{} {}{}", kernel.title(), write.dtype, write.layout.shape)
            }
        }
    }

    /// Returns the op that asked for it.
    pub fn op(&self) -> &'v Op {
        &self.view.graph.ops[self.launch.op]
    }

    /// Returns the place of that op in the user's source.
    pub fn origin(&self) -> Option<&'v Origin> {
        self.view.graph.origin(self.op())
    }

    /// Returns the buffers that it reads, each once, in the order of the reads.
    pub fn inputs(&self) -> Vec<&'v Buffer> {
        self.buffers(&self.launch.reads)
    }

    /// Returns the buffers that it writes, each once, in the order of the writes.
    pub fn outputs(&self) -> Vec<&'v Buffer> {
        self.buffers(&self.launch.writes)
    }

    /// Returns the launches that wrote what it reads, in order. What exists before the step has none.
    pub fn producers(&self) -> &'v [usize] {
        &self.view.producers[self.index]
    }

    /// Returns the launches that read what it wrote, in order.
    pub fn consumers(&self) -> &'v [usize] {
        &self.view.consumers[self.index]
    }

    /// Returns the floating-point operations and bytes that it takes at the least.
    pub fn cost(&self) -> Cost {
        cost(self.view.plan, self.launch)
    }

    /// Returns the expression of a fused kernel, one line for each node; nothing for other kernels.
    pub fn listing(&self) -> String {
        self.launch.kernel.listing()
    }

    fn buffers(&self, accesses: &[Access]) -> Vec<&'v Buffer> {
        let mut buffers: Vec<&Buffer> = Vec::new();
        for buffer in accesses.iter().filter_map(|access| self.view.plan.buffer(access.buffer)) {
            if !buffers.iter().any(|known| known.value == buffer.value) {
                buffers.push(buffer);
            }
        }
        buffers
    }
}

/// Numbers of values as in the text form of a graph without blocks; `copy 0`, `copy 1`, .. for the plan's
/// own.
#[derive(Debug)]
pub(super) struct Names {
    numbers: IdMap<ValueId, usize>,
    values: usize,
}

impl Names {
    pub(super) fn new(graph: &Graph) -> Self {
        let results = graph.entry_ops().flat_map(|(_, op)| &op.results);
        Self {
            numbers: results.enumerate().map(|(i, &value)| (value, i)).collect(),
            values: graph.values.len(),
        }
    }

    pub(super) fn of(&self, value: ValueId) -> String {
        match self.numbers.get(&value) {
            Some(number) => format!("%{number}"),
            None => format!("copy {}", value.index().saturating_sub(self.values)),
        }
    }
}
