//! From a graph to launches for the CPU: one kernel an op; views become layouts.
//!
//! In: a graph without block ops. Out: [`Lowered`]. Always holds: a copy is made only where the kernel that reads a view cannot index
//! through it (a reshape that no strides can say, a matrix operand without single strides, a user's op).

use super::{DotProblem, attention_workspace, copied_layout, dot_copies, dot_workspace};
use gradloom_core::error::{Error, ErrorKind, Result};
use gradloom_core::ir::{BinaryOp, DType, DotAxes, Graph, Op, OpId, OpKind, Type, UnaryOp};
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
                let layout = x.layout.reshape(shape).unwrap_or_else(|| Layout::contiguous(shape));
                let x = if x.layout.reshape(shape).is_some() { x } else { self.copy(id, &x) };
                view(x, layout)
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
        let writes = op
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
            may_alias: aliases(&op.kind, &reads, self.graph.ty(op.results[0])),
            reads,
            writes,
            workspace,
            phase: Phase::Compute,
        });
    }

    fn fit_dot_operands(&mut self, id: OpId, axes: &DotAxes, reads: &mut [Access]) {
        let copies = dot_copies(axes, &reads[0].layout, &reads[1].layout);
        for (read, order) in reads.iter_mut().zip([copies.lhs, copies.rhs]) {
            let Some(order) = order else { continue };
            let shape = read.layout.shape.clone();
            let permuted = Access { layout: read.layout.permute(&order), ..read.clone() };
            *read = Access { layout: copied_layout(&shape, &order), ..self.copy(id, &permuted) };
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

/// Which reads the result may overwrite.
fn aliases(kind: &OpKind, reads: &[Access], result: &Type) -> Vec<(usize, usize)> {
    let same_size = |read: &Access| read.dtype.bytes() == result.dtype.bytes();
    let mut pairs: Vec<(usize, usize)> = match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Compare(_) | OpKind::Select | OpKind::Cast { .. } => {
            (0..reads.len()).filter(|&i| same_size(&reads[i])).map(|i| (0, i)).collect()
        }
        OpKind::ScatterAdd { .. } | OpKind::DynamicUpdateSlice => vec![(0, 0)],
        _ => Vec::new(),
    };
    // A kernel that can fail must not have overwritten what a later launch still needs; its operands die with the step anyway,
    // but a parameter or state written in place would not.
    if matches!(kind, OpKind::Binary(BinaryOp::Div | BinaryOp::Rem)) && result.dtype != DType::F32 {
        pairs.clear();
    }
    pairs
}
