//! From a graph to launches for the CPU: one kernel an op; views become layouts.
//!
//! In: a graph without block ops. Out: [`Lowered`]. Always holds: a copy is made only where the kernel that reads a view cannot index
//! through it (a reshape that no strides can say, a matrix operand without single strides, a user's op).

use super::{DotProblem, attention_workspace, copied_layout, dot_copies, dot_workspace};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{DotAxes, Graph, Op, OpId, OpKind, Type, UnaryOp};
use gradloom_core::kernel::{Access, Kernel, Launch, Layout, Lowered, Phase};

/// Lowers a graph for a CPU with this many threads, which decide about scratch, never about results.
///
/// # Errors
/// When a block op is left: passes expand them first.
pub fn lower(graph: &Graph, threads: usize) -> Result<Lowered> {
    let mut lowering = Lowering { graph, threads, lowered: Lowered::leaves(graph) };
    for (id, op) in graph.entry_ops() {
        if op.kind.block().is_some() {
            return Err(Error::new(
                ErrorKind::Internal,
                format!("{} was not expanded before lowering", op.kind.name()),
            ));
        }
        lowering.op(id, op);
    }
    Ok(lowering.lowered)
}

struct Lowering<'g> {
    graph: &'g Graph,
    threads: usize,
    lowered: Lowered,
}

impl Lowering<'_> {
    fn op(&mut self, id: OpId, op: &Op) {
        let operand = |lowering: &Self, i: usize| lowering.lowered.access[&op.operands[i]].clone();
        let view = |access: Access, layout: Layout| Access { layout, ..access };
        let alias = match &op.kind {
            OpKind::Constant { .. } | OpKind::Iota { .. } => return,
            kind if kind.is_external_leaf() => return,
            OpKind::Reshape { shape } => {
                let x = operand(self, 0);
                match x.layout.reshape(shape) {
                    Some(layout) => view(x, layout),
                    None => view(self.copy(id, &x), Layout::contiguous(shape)),
                }
            }
            OpKind::Permute { perm } => {
                let x = operand(self, 0);
                let layout = x.layout.permute(perm);
                view(x, layout)
            }
            OpKind::Broadcast { shape } => {
                let x = operand(self, 0);
                let layout = x.layout.broadcast(shape);
                view(x, layout)
            }
            OpKind::Slice { start, limit, step } => {
                let x = operand(self, 0);
                let layout = x.layout.slice(start, limit, step);
                view(x, layout)
            }
            OpKind::Unary(UnaryOp::Detach) => operand(self, 0),
            _ => return self.launch(id, op),
        };
        self.lowered.access.insert(op.results[0], alias);
    }

    fn launch(&mut self, id: OpId, op: &Op) {
        let mut reads: Vec<Access> =
            op.operands.iter().map(|value| self.lowered.access[value].clone()).collect();
        let mut workspace = 0;
        match &op.kind {
            OpKind::Dot(axes) => {
                self.fit_dot_operands(id, axes, &mut reads);
                let problem = DotProblem::new(axes, &reads[0].layout, &reads[1].layout)
                    .expect("the operands were copied to fit");
                workspace = dot_workspace(&problem);
            }
            OpKind::Attention(spec) | OpKind::AttentionGrad(spec) => {
                workspace = attention_workspace(spec, op, self.graph, self.threads);
            }
            OpKind::Custom(_) => {
                for read in reads.iter_mut().filter(|read| !read.layout.is_contiguous()) {
                    *read = self.copy(id, read);
                }
            }
            _ => {}
        }
        let writes: Vec<Access> = op
            .results
            .iter()
            .map(|&value| {
                let ty = self.graph.ty(value);
                self.lowered.own(value, ty.clone(), Layout::contiguous(&ty.shape))
            })
            .collect();
        self.lowered.launches.push(Launch {
            op: id,
            kernel: Kernel::Op(op.kind.clone()),
            may_alias: aliases(&op.kind, &reads, &writes),
            reads,
            writes,
            workspace,
            phase: Phase::Compute,
        });
    }

    fn fit_dot_operands(&mut self, id: OpId, axes: &DotAxes, reads: &mut [Access]) {
        let copies = dot_copies(axes, &reads[0].layout, &reads[1].layout);
        // A product of a value with itself copies it once.
        let mut last: Option<(Access, Access)> = None;
        for (read, order) in reads.iter_mut().zip([copies.lhs, copies.rhs]) {
            let Some(order) = order else { continue };
            let shape = read.layout.shape.clone();
            let from = Access { layout: read.layout.permute(&order), ..read.clone() };
            let to = match last.take() {
                Some((known, copy)) if known == from => copy,
                _ => self.copy(id, &from),
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
fn aliases(kind: &OpKind, reads: &[Access], writes: &[Access]) -> Vec<(usize, usize)> {
    match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. } => {
            let same_size = |read: &Access| read.dtype.bytes() == writes[0].dtype.bytes();
            (0..reads.len()).filter(|&i| same_size(&reads[i])).map(|i| (0, i)).collect()
        }
        OpKind::ScatterAdd { .. } | OpKind::DynamicUpdateSlice => vec![(0, 0)],
        _ => Vec::new(),
    }
}
