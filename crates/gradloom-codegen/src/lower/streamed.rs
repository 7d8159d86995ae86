//! Products of few rows whose sums are cut into parts, which a loop after them adds up.
//!
//! In: kernels. Out: such a product as a batch of products that compute parts of its sums, and a loop that
//! adds the parts and computes the epilogue. Invariant: parts are added in order.

use super::apart::Split;
use super::parts::cut_terms;
use super::{Draft, Lowering};
use crate::product::{DotProblem, fold_batch};
use crate::schedule::product::streamed_parts;
use gradloom_core::ir::{BinaryOp, DType, DotAxes, OpKind, Shape, Type};
use gradloom_core::kernel::{Access, Body, Kernel, Layout, Level, Node, NodeId, NodeKind, Store};

/// Cuts the sums of products of few rows into parts.
pub(super) fn in_parts(lowering: &mut Lowering<'_>) {
    lowering.take_apart(|lowering, draft| match &draft.kernel {
        Kernel::Dot { axes, epilogue } if !draft.commit => lowering.dot_in_parts(draft, axes, epilogue),
        _ => None,
    });
}

impl Lowering<'_> {
    fn dot_in_parts(&mut self, draft: &Draft, axes: &DotAxes, epilogue: &Body) -> Option<Split> {
        let (reads, limits) = (&draft.reads, &self.target.limits);
        let problem = fold_batch(DotProblem::new(axes, &reads[0].layout, &reads[1].layout)?);
        let parts = streamed_parts(&problem, limits.operands(self.target.precision())?, limits);
        if parts <= 1 {
            return None;
        }
        let (cut, layouts) = cut_terms(axes, parts, [&reads[0].layout, &reads[1].layout])?;
        let shape = cut.result_shape(&layouts[0].shape, &layouts[1].shape);
        let sums = self.memory.temporary(Type::new(DType::F32, shape));
        let operands = reads.iter().zip(layouts).map(|(read, layout)| Access { layout, ..read.clone() });
        let positions: Shape = [epilogue.rows, epilogue.columns].into();
        let part = |number: usize| {
            let layout = Layout { offset: number * positions.elements(), ..Layout::contiguous(&positions) };
            Access { layout, ..sums.clone() }
        };
        let mut loads = reads[2..].to_vec();
        loads.extend((0..parts).map(part));
        let body = with_sums(epilogue, parts, reads.len() - 2);
        let product = draft.beside(Kernel::Op(OpKind::Dot(cut)), operands.collect(), vec![sums]);
        let map = draft.beside(Kernel::Loop(body), loads, draft.writes.clone());
        Some(Split { product: Draft { is_read_next: true, ..product }, map: Some(map) })
    }
}

/// Returns the epilogue of a product as a loop over the parts of its sums, which are the operands from index
/// `first` on. The operands of the product itself are removed.
fn with_sums(epilogue: &Body, parts: usize, first: usize) -> Body {
    let node = |kind| Node { kind, dtype: DType::F32, level: Level::Element };
    let mut nodes = vec![node(NodeKind::Load(first))];
    for part in 1..parts {
        let sum = NodeId::new(nodes.len() - 1);
        nodes.push(node(NodeKind::Load(first + part)));
        nodes.push(node(NodeKind::Binary(BinaryOp::Add, [sum, NodeId::new(nodes.len() - 1)])));
    }
    let (sum, moved) = (NodeId::new(nodes.len() - 1), nodes.len());
    let after = |id: NodeId| NodeId::new(id.index() + moved);
    for mut node in epilogue.nodes.iter().cloned() {
        match &mut node.kind {
            NodeKind::Accumulator => node.kind = NodeKind::Repeat(sum),
            NodeKind::Load(read) => *read -= 2,
            kind => kind.operands_mut().iter_mut().for_each(|operand| *operand = after(*operand)),
        }
        nodes.push(node);
    }
    let mut stores = epilogue.stores.clone();
    for store in &mut stores {
        let (Store::Value { node, .. } | Store::ColumnReduce { node, .. }) = store;
        *node = after(*node);
    }
    Body { nodes, stores, ..*epilogue }
}
