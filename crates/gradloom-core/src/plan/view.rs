//! A plan combined with its graph for display, which adds names, source locations, producers and consumers.
//!
//! The text, JSON and HTML forms of a plan are written from its [`LaunchView`]s.

use super::{Buffer, Cost, Plan, cost, report};
use crate::collections::{IdMap, sort};
use crate::ir::{Graph, Id, Op, Origin, ValueId};
use crate::kernel::{Access, Kernel, Launch, Phase};

/// A plan and the graph from which it was made.
#[derive(Debug)]
pub struct PlanView<'p> {
    plan: &'p Plan,
    graph: &'p Graph,
    names: Names,
    producers: Vec<Vec<usize>>,
    consumers: Vec<Vec<usize>>,
}

impl Plan {
    /// Combines the plan with names and source locations of its graph. `graph` is the graph that was planned.
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
    /// Returns the viewed plan.
    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    /// Returns all launches in order.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = LaunchView<'_>> {
        (0..self.plan.launches.len()).map(|i| self.launch(i))
    }

    /// Returns the launch with this index.
    ///
    /// # Panics
    /// Panics if the index is out of range.
    pub fn launch(&self, index: usize) -> LaunchView<'_> {
        LaunchView { view: self, index, launch: &self.plan.launches[index] }
    }

    /// Returns the name of a value in the text form of the graph, such as `%3`. Copies added by lowering or
    /// planning are named `copy 0`, `copy 1`, ..
    pub fn value_name(&self, value: ValueId) -> String {
        self.names.of(value)
    }

    /// Returns the plan as a JSON object; see [`Plan::to_json`].
    pub fn to_json(&self) -> String {
        self.plan.to_json(self.graph)
    }

    /// Returns the name of a buffer: a leaf's name, or the op that computes it with its source location.
    pub fn label(&self, buffer: &Buffer) -> String {
        report::label(self.graph, buffer)
    }
}

/// Prints the totals, the largest values of the step arena, and every launch; see [`Plan::report`].
impl std::fmt::Display for PlanView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.plan.report(self.graph))
    }
}

/// A launch of a plan.
#[derive(Clone, Copy, Debug)]
pub struct LaunchView<'v> {
    view: &'v PlanView<'v>,
    index: usize,
    launch: &'v Launch,
}

impl<'v> LaunchView<'v> {
    /// Returns the launch's index in the order of launches.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the launch with its accesses.
    pub fn launch(&self) -> &'v Launch {
        self.launch
    }

    /// Returns the phase of the launch.
    pub fn phase(&self) -> Phase {
        self.launch.phase
    }

    /// Returns a short description, such as `row [1024 x 128]` or `group of 148 map`. The names of other
    /// kernels are followed by the type of their first result, such as `attention f32[2, 4, 8, 16]`.
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

    /// Returns the op that produced the launch.
    pub fn op(&self) -> &'v Op {
        &self.view.graph.ops[self.launch.op]
    }

    /// Returns the location of the op in the user's source.
    pub fn origin(&self) -> Option<&'v Origin> {
        self.view.graph.origin(self.op())
    }

    /// Returns the distinct buffers that the launch reads, in the order of its reads.
    pub fn inputs(&self) -> Vec<&'v Buffer> {
        self.buffers(&self.launch.reads)
    }

    /// Returns the distinct buffers that the launch writes, in the order of its writes.
    pub fn outputs(&self) -> Vec<&'v Buffer> {
        self.buffers(&self.launch.writes)
    }

    /// Returns the launches that wrote the operands of this one, in order. Operands that exist before the
    /// step have no producer.
    pub fn producers(&self) -> &'v [usize] {
        &self.view.producers[self.index]
    }

    /// Returns the launches that read the results of this one, in order.
    pub fn consumers(&self) -> &'v [usize] {
        &self.view.consumers[self.index]
    }

    /// Returns the minimum number of floating-point operations and bytes.
    pub fn cost(&self) -> Cost {
        cost(self.view.plan, self.launch)
    }

    /// Returns the expression of a fused kernel, with one line per node, or an empty string for other
    /// kernels.
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

/// Names of values as in the text form of a graph without blocks. Values added by lowering or planning are
/// named `copy 0`, `copy 1`, ..
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
