//! Replay of a step: the nodes of its CUDA graphs and their dependencies.
//!
//! In: a plan and its kernels. Out: a [`Replay`]. Invariants: the nodes may run in order, or in any order
//! that respects the dependencies; launches on the host run between segments, each of which is a graph.

use super::exchange::{COUNTER_BYTES, Payload};
use super::launch::{CudaKernel, Span, Work};
use crate::edges::{Touches, edges};
use crate::simt::custom::on_host;
use crate::step::{Owner, STEP_WORDS, host_steps};
use gradloom_core::ir::Graph;
use gradloom_core::kernel::{Access, Kernel};
use gradloom_core::plan::{Plan, Region};
use std::fmt;
use std::ops::Range;

/// Index of the scratch memory among the memories that kernels access; lower indices are those of the plan's
/// regions.
const WORKSPACE: usize = 3;
/// Index of the status words among these memories.
const STATUS: usize = 4;
/// Index of the step counter and the copied header among these memories.
const EXCHANGE: usize = 5;
/// Index of the connection to the other ranks among these memories, which orders the kernels that use it.
const CONNECTION: usize = 6;

/// Number of launches for which freed bytes are not reused ([`Plan::side_by_side`]). For GPT-2, a distance of
/// two permits as many parallel branches as no reuse at all, and increases memory by 1%.
pub const REUSE_DISTANCE: usize = 2;

/// Maximum number of blocks of a kernel that starts early although it has nothing to load. On an H100, such
/// kernels reduce the time for the next token of GPT-2 124M from 0.356 ms to 0.342 ms for one text. If
/// kernels of up to eight blocks also start early, the time for 16 texts increases from 0.51 ms to 0.56 ms.
const FEW_BLOCKS: usize = 4;

/// Purpose of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// Copies the step's inputs to the device.
    Begin,
    /// Kernel of the plan.
    Planned(Owner),
    /// Copies the results to the host, between the phases.
    Results,
}

/// Kernel or library product of a step.
#[derive(Clone, Debug)]
pub struct ReplayNode {
    /// Purpose of the node.
    pub member: Member,
    /// Index of the node's unit, if the node belongs to the plan.
    pub unit: Option<usize>,
    /// Memory that the node accesses.
    pub touches: Touches,
    /// True if the node benefits from starting before the preceding nodes are done.
    pub gains: bool,
    /// True if the node benefits only while almost nothing else runs, because it loads little in the
    /// meantime.
    pub is_light: bool,
}

/// Launch that runs on the host between two segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Index of the launch in the plan.
    pub launch: usize,
    /// Reason why the launch runs on the host.
    pub reason: String,
}

/// Nodes of a step.
#[derive(Clone, Debug)]
pub struct Replay {
    /// All nodes, in order.
    #[doc(hidden)]
    pub nodes: Vec<ReplayNode>,
    /// Ranges of nodes between launches on the host, each of which is a graph.
    pub segments: Vec<Range<usize>>,
    /// Launches that run on the host, one after each segment except the last.
    pub cuts: Vec<Cut>,
    /// Number of launches of the plan's step.
    pub launches: usize,
    /// Number of nodes that are library products.
    pub products: usize,
}

impl Replay {
    /// Creates the replay of a plan and its [`units`](super::units).
    pub fn new(plan: &Plan, graph: &Graph, units: &[CudaKernel]) -> Self {
        // Skip kernels without workgroups, which are not launched.
        let runs = |unit: &CudaKernel| !matches!(unit.work, Work::Function { groups: 0, .. });
        let of_step = |unit: &CudaKernel| !matches!(unit.owner, Owner::Hoisted(_));
        let step = units.iter().enumerate().filter(|(_, unit)| of_step(unit) && runs(unit));
        let planned: Vec<(usize, &CudaKernel)> = step.collect();
        let owners: Vec<Owner> = planned.iter().map(|(_, unit)| unit.owner).collect();
        let commits =
            |owner: &Owner| matches!(owner, Owner::Launch(launch) if *launch >= plan.first_commit());
        let pause = owners.iter().position(commits).unwrap_or(owners.len());

        let is_product = |unit: &CudaKernel| matches!(unit.work, Work::Product(_));
        let own = |member, touches| ReplayNode { member, unit: None, touches, gains: false, is_light: false };
        let mut nodes = vec![own(Member::Begin, taken_over(plan))];
        nodes.extend(planned.iter().map(|(number, unit)| ReplayNode {
            member: Member::Planned(unit.owner),
            unit: Some(*number),
            touches: touches(unit),
            gains: gains(unit),
            is_light: is_light(unit, plan),
        }));
        // Kernels load early from the store and the constants, which this phase must not write.
        let kept = |(memory, _): &(usize, Range<u64>)| *memory < Region::Step as usize;
        debug_assert!(!nodes[1..=pause].iter().flat_map(|node| &node.touches.writes).any(kept));
        nodes.insert(pause + 1, own(Member::Results, handed_out(plan)));

        let hosted = host_steps(graph, plan, &owners);
        let mut first = 0;
        // The first node precedes the kernels, so their indices among the nodes are higher by 1. The node of
        // the results has no effect on them, because no op runs on the host after it.
        let ends = hosted.iter().map(|(_, before)| before + 1).chain([nodes.len()]);
        let segments = ends.map(|end| std::mem::replace(&mut first, end)..end).collect();
        let cuts = hosted.iter().map(|&(launch, _)| {
            let op = on_host(&plan.launches[launch], graph).map_or("an op", |op| op.name());
            Cut { launch, reason: format!("`{op}` has no GPU kernel, and runs on the host") }
        });
        let products = planned.iter().filter(|(_, unit)| is_product(unit)).count();
        Self { cuts: cuts.collect(), nodes, segments, launches: plan.launches.len(), products }
    }

    /// Returns, for each node of a segment, the nodes of the segment on which it depends.
    pub fn edges(&self, segment: &Range<usize>) -> Vec<Vec<usize>> {
        edges(self.nodes[segment.clone()].iter().map(|node| &node.touches))
    }

    /// Returns, for each node of a segment, `true` if it starts as soon as the only node on which it depends
    /// has started its last block (programmatic dependent launch). This requires a graph that is mostly a
    /// chain, in which an early node does not take resources from another. Devices before compute capability
    /// 9.0, and CUDA before 12.3, do not support it.
    pub fn early(&self, segment: &Range<usize>, edges: &[Vec<usize>]) -> Vec<bool> {
        let nodes = &self.nodes[segment.clone()];
        let shape = Shape::of(edges);
        let is_early = |(node, before): (&ReplayNode, &Vec<usize>)| match before[..] {
            // The first kernel of a step has no unit: its writes must be visible to nodes that load early.
            [other] => {
                let is_row = if node.is_light { shape.is_thin() } else { shape.is_row() };
                is_row && node.gains && nodes[other].unit.is_some()
            }
            _ => false,
        };
        nodes.iter().zip(edges).map(is_early).collect()
    }

    /// Returns the shape of each segment's graph.
    pub fn shapes(&self) -> Vec<Shape> {
        let of = |segment: &Range<usize>| {
            let edges = self.edges(segment);
            let early = self.early(segment, &edges).into_iter().filter(|early| *early).count();
            Shape { early, ..Shape::of(&edges) }
        };
        self.segments.iter().map(of).collect()
    }

    /// Returns the number of the step's launches that the graphs contain; the others run on the host.
    pub fn covered(&self) -> usize {
        self.launches - self.cuts.len()
    }
}

/// Shape of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of kernels and library products.
    pub nodes: usize,
    /// Number of direct dependencies.
    pub edges: usize,
    /// Number of nodes in the longest chain.
    pub depth: usize,
    /// Maximum number of nodes at the same depth, which can run in parallel.
    pub branches: usize,
    /// Number of nodes that start early, see [`Replay::early`].
    pub early: usize,
}

impl Shape {
    fn of(edges: &[Vec<usize>]) -> Self {
        let mut depths: Vec<usize> = Vec::with_capacity(edges.len());
        let mut levels: Vec<usize> = Vec::new();
        for before in edges {
            let depth = before.iter().map(|&other| depths[other] + 1).max().unwrap_or(0);
            depths.push(depth);
            levels.resize(levels.len().max(depth + 1), 0);
            levels[depth] += 1;
        }
        Self {
            nodes: edges.len(),
            edges: edges.iter().map(Vec::len).sum(),
            depth: levels.len(),
            branches: levels.into_iter().max().unwrap_or(0),
            early: 0,
        }
    }

    /// Returns `true` if at least three quarters of the nodes form a chain.
    fn is_row(&self) -> bool {
        self.depth * 4 >= self.nodes * 3
    }

    /// Returns `true` if at least nine tenths of the nodes form a chain.
    fn is_thin(&self) -> bool {
        self.depth * 10 >= self.nodes * 9
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graphs = match self.segments.len() {
            1 => "a graph".to_string(),
            graphs => format!("{graphs} graphs"),
        };
        let (covered, launches) = (self.covered(), self.launches);
        let products = match self.products {
            0 => String::new(),
            products => format!("; {products} nodes are products by cuBLASLt"),
        };
        writeln!(out, "replay: {covered} of {launches} launches in {graphs}{products}")?;
        for (i, Shape { nodes, edges, depth, branches, early }) in self.shapes().into_iter().enumerate() {
            let early = match early {
                0 => String::new(),
                early => format!("; {early} may start before those before them are done"),
            };
            writeln!(
                out,
                "  {nodes} nodes, {edges} edges: {depth} deep, up to {branches} side by side{early}"
            )?;
            if let Some(Cut { launch, reason }) = self.cuts.get(i) {
                writeln!(out, "  launch {launch}: {reason}")?;
            }
        }
        Ok(())
    }
}

/// Returns `true` if a kernel benefits from starting before the preceding ones are done: it loads operands in
/// the meantime, or has so few blocks that it occupies little and allows its successors to start.
fn gains(unit: &CudaKernel) -> bool {
    match unit.work {
        Work::Function { loads_early, groups, .. } => loads_early || groups <= FEW_BLOCKS,
        Work::Product(_) | Work::Collective(_) => false,
    }
}

/// Returns `true` if a unit is a loop of more than a few blocks, which loads at most the weights of a norm
/// early. On an H200, norms that start early make the next token of 64 texts 3% faster. But for 16 tokens of
/// a prompt, whose attention consists of two parallel kernels, they increase the time from 0.83 ms to 1.20
/// ms.
fn is_light(unit: &CudaKernel, plan: &Plan) -> bool {
    let is_loop = |launch: usize| matches!(plan.launches[launch].kernel, Kernel::Loop(_));
    let has_many = matches!(unit.work, Work::Function { groups, .. } if groups > FEW_BLOCKS);
    has_many && matches!(unit.owner, Owner::Launch(launch) if is_loop(launch))
}

/// Returns the memory that the first kernel of a step writes.
fn taken_over(plan: &Plan) -> Touches {
    let items = Payload::new(plan).items.into_iter().map(|item| match item.buffer {
        None => (Region::Step as usize, 0..plan.scalar_bytes()),
        Some(number) => whole(plan, number),
    });
    let own = [(STATUS, 0..STEP_WORDS as u64 * 4), (EXCHANGE, 0..COUNTER_BYTES)];
    Touches { writes: own.into_iter().chain(items).collect(), ..Touches::default() }
}

fn whole(plan: &Plan, buffer: usize) -> (usize, Range<u64>) {
    let buffer = &plan.buffers[buffer];
    (buffer.region as usize, buffer.offset..buffer.offset + buffer.bytes)
}

/// Returns the memory that a kernel of the plan accesses.
fn touches(unit: &CudaKernel) -> Touches {
    let spans = &unit.spans;
    let place = |span: &Span| match span {
        Span::Memory(region, range) => (*region as usize, range.clone()),
        Span::Workspace(range) => (WORKSPACE, range.clone()),
    };
    let mut touches = Touches {
        reads: spans.reads.iter().map(place).collect(),
        writes: spans.writes.iter().map(place).collect(),
        group: None,
    };
    // Kernels that report faults need no order among themselves, because any of their reports may be
    // recorded. Those that read the verdict depend on the kernel that writes it.
    let verdict: Range<u64> = 0..4;
    if spans.awaits_traps {
        touches.writes.push((STATUS, verdict));
    } else if spans.traps || spans.gated {
        touches.reads.push((STATUS, verdict));
    }
    if matches!(unit.work, Work::Collective(_)) {
        touches.writes.push((CONNECTION, 0..1));
    }
    touches
}

/// Returns the memory that the kernel of the results reads.
fn handed_out(plan: &Plan) -> Touches {
    let range = |access: &Access| whole(plan, plan.buffer_of[&access.buffer]);
    let mut reads: Vec<_> =
        plan.outputs.iter().chain(&plan.guards).map(|(_, access)| range(access)).collect();
    reads.extend([(STATUS, 0..4), (EXCHANGE, 0..4)]);
    Touches { reads, ..Touches::default() }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn a_diamond_is_three_deep_and_two_wide() {
        let shape = Shape::of(&[vec![], vec![0], vec![0], vec![1, 2]]);
        assert_eq!(shape, Shape { nodes: 4, edges: 4, depth: 3, branches: 2, early: 0 });
        assert!(shape.is_row() && !shape.is_thin());
        assert!(Shape::of(&[vec![], vec![0], vec![1]]).is_thin());
        assert_eq!(Shape::of(&[]), Shape { nodes: 0, edges: 0, depth: 0, branches: 0, early: 0 });
        assert!(!Shape::of(&[vec![], vec![0], vec![0]]).is_row());
    }
}
