//! From fused kernels to launches for the CPU.
//!
//! In: a graph without block ops, fused. Out: [`Lowered`]. Always holds: a copy is made only where the kernel that reads a view cannot index
//! through it (a matrix operand without single strides, a user's op).

use super::{attention_workspace, copied_layout, dot_copies, dot_workspace, loop_workspace};
use gradloom_core::error::Result;
use gradloom_core::fuse::{Fused, Fusion, KernelSpec, fuse};
use gradloom_core::ir::{DotAxes, Graph, OpId, OpKind, Type};
use gradloom_core::kernel::{Access, Body, Kernel, Launch, Level, Lowered, NodeKind, Part, Phase, Store};
use gradloom_core::plan::ALIGNMENT;

/// Fuses a graph and lowers it for a CPU with this many threads, which decide about scratch, never about results.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, threads: usize) -> Result<Lowered> {
    Ok(lower_fused(graph, fuse(graph, Fusion::On)?, threads))
}

/// Lowers kernels for a CPU with this many threads.
pub fn lower_fused(graph: &Graph, fused: Fused, threads: usize) -> Lowered {
    let mut lowering = Lowering { graph, threads, lowered: fused.memory };
    for spec in fused.kernels {
        lowering.kernel(spec);
    }
    lowering.lowered
}

struct Lowering<'g> {
    graph: &'g Graph,
    threads: usize,
    lowered: Lowered,
}

impl Lowering<'_> {
    fn kernel(&mut self, spec: KernelSpec) {
        let KernelSpec { op, mut kernel, mut reads, writes, .. } = spec;
        let (may_alias, workspace) = match &mut kernel {
            Kernel::Group(parts) => self.group(op, parts, &mut reads, &writes),
            kernel => {
                let workspace = self.prepare(op, kernel, &mut reads, &writes);
                (aliases(kernel, &reads, &writes), workspace)
            }
        };
        self.lowered.launches.push(Launch {
            op,
            kernel,
            reads,
            writes,
            may_alias,
            workspace,
            phase: Phase::Compute,
        });
    }

    /// Makes the operands fit the kernel; gives the scratch that it needs.
    fn prepare(&mut self, op: OpId, kernel: &Kernel, reads: &mut [Access], writes: &[Access]) -> usize {
        match kernel {
            Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
                self.fit_dot_operands(op, axes, reads);
                dot_workspace(kernel, reads, writes, &aliases(kernel, reads, writes), self.threads)
            }
            Kernel::Loop(body) => loop_workspace(body),
            Kernel::Op(OpKind::Attention(spec) | OpKind::AttentionGrad(spec)) => {
                attention_workspace(spec, &self.graph.ops[op], self.graph, self.threads)
            }
            Kernel::Op(OpKind::Custom(_)) => {
                for read in reads.iter_mut().filter(|read| !read.layout.is_contiguous()) {
                    *read = self.copy(op, read);
                }
                0
            }
            _ => 0,
        }
    }

    /// Prepares the parts of a group, whose scratch stands side by side.
    fn group(
        &mut self,
        op: OpId,
        parts: &mut [Part],
        reads: &mut [Access],
        writes: &[Access],
    ) -> (Vec<(usize, usize)>, usize) {
        let mut may_alias = Vec::new();
        let mut workspace = 0;
        for part in parts {
            let writes = &writes[part.writes.clone()];
            let bytes = self.prepare(op, &part.kernel, &mut reads[part.reads.clone()], writes);
            part.workspace = workspace..workspace + bytes;
            workspace = part.workspace.end.next_multiple_of(ALIGNMENT);
            let pairs = aliases(&part.kernel, &reads[part.reads.clone()], writes);
            may_alias.extend(pairs.into_iter().map(|(w, r)| (part.writes.start + w, part.reads.start + r)));
        }
        (may_alias, workspace)
    }

    fn fit_dot_operands(&mut self, op: OpId, axes: &DotAxes, reads: &mut [Access]) {
        let copies = dot_copies(axes, &reads[0].layout, &reads[1].layout);
        // A product of a value with itself copies it once.
        let mut last: Option<(Access, Access)> = None;
        for (read, order) in reads.iter_mut().zip([copies.lhs, copies.rhs]) {
            let Some(order) = order else { continue };
            let shape = read.layout.shape.clone();
            let from = Access { layout: read.layout.permute(&order), ..read.clone() };
            let to = match last.take() {
                Some((known, copy)) if known == from => copy,
                _ => self.copy(op, &from),
            };
            *read = Access { layout: copied_layout(&shape, &order), ..to.clone() };
            last = Some((from, to));
        }
    }

    /// A contiguous copy.
    fn copy(&mut self, op: OpId, from: &Access) -> Access {
        let to = self.lowered.temporary(Type::new(from.dtype, from.layout.shape.clone()));
        self.lowered.launches.push(Launch {
            op,
            kernel: Kernel::Copy,
            reads: vec![from.clone()],
            writes: vec![to.clone()],
            may_alias: Vec::new(),
            workspace: 0,
            phase: Phase::Compute,
        });
        to
    }
}

/// Which reads the results may overwrite. A kernel that can trap is no exception: it is never launched in the commit, and the
/// temporaries that it overwrites die with the step.
fn aliases(kernel: &Kernel, reads: &[Access], writes: &[Access]) -> Vec<(usize, usize)> {
    match kernel {
        Kernel::Op(
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. },
        ) => {
            let same_size = |read: &Access| read.dtype.bytes() == writes[0].dtype.bytes();
            (0..reads.len()).filter(|&i| same_size(&reads[i])).map(|i| (0, i)).collect()
        }
        Kernel::Op(OpKind::ScatterAdd { .. } | OpKind::DynamicUpdateSlice) => vec![(0, 0)],
        Kernel::Loop(body) => body_aliases(body, reads, writes),
        // Several blocks of columns read what a row has.
        Kernel::Dot { epilogue, .. } => {
            let pairs = body_aliases(epilogue, reads, writes).into_iter();
            pairs
                .filter(|&(w, _)| matches!(epilogue.stores[w], Store::Whole { level: Level::Element, .. }))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// A position's operands are read before its results are written, if both have an element for each position (or each row).
fn body_aliases(body: &Body, reads: &[Access], writes: &[Access]) -> Vec<(usize, usize)> {
    let loads: Vec<(usize, Level)> = body
        .nodes
        .iter()
        .filter_map(|node| match node.kind {
            NodeKind::Load(read) => Some((read, node.level)),
            _ => None,
        })
        .collect();
    let mut pairs = Vec::new();
    for store in &body.stores {
        let Store::Whole { level, write, .. } = *store else { continue };
        for &(read, at) in &loads {
            let alike = at == level && (level != Level::Uniform || body.elements(Level::Element) == 1);
            if alike && reads[read].dtype.bytes() == writes[write].dtype.bytes() {
                pairs.push((write, read));
            }
        }
    }
    pairs
}
