//! Sums that are computed in parts, which a kernel that follows takes together.
//!
//! In: a kernel, and into how many parts the target cuts its sums. Out: the kernel with parts as its results,
//! and later one group that finishes all the sums that wait: those of biases and of small weights are needed
//! only when the backward pass is over. Always holds: parts are combined in order, so the same program gives
//! the same bits.

use super::{Lowering, Split, Target};
use gradloom_core::ir::{BinaryOp, DType, DotAxes, OpId, OpKind, ReduceOp, Shape, Type};
use gradloom_core::kernel::{
    Access, Body, Kernel, Layout, Level, Node, NodeId, NodeKind, Part, Schedule, Store,
};

/// Bytes of the parts of one sum that may wait: they take memory until they are finished.
const MOST_WAITING: usize = 1 << 20;

/// A result of which there are parts.
pub(super) struct Unfinished {
    op: OpId,
    reduce: ReduceOp,
    /// `[parts, elements]`, contiguous.
    parts: Access,
    whole: Access,
}

impl Unfinished {
    fn bytes(&self) -> usize {
        self.parts.layout.shape.elements() * self.parts.dtype.bytes()
    }
}

impl<T: Target> Lowering<'_, T> {
    /// Finishes all sums if a read needs one of them.
    pub(super) fn finish_for(&mut self, reads: &[Access]) {
        let waits = |read: &Access| self.unfinished.iter().any(|sum| sum.whole.buffer == read.buffer);
        if reads.iter().any(waits) {
            self.finish();
        }
    }

    /// Cuts what a kernel sums up, if the target wants that.
    pub(super) fn cut(&mut self, op: OpId, kernel: &mut Kernel, reads: &mut [Access], writes: &mut [Access]) {
        // Windows of one buffer are filled by one launch.
        let whole = |write: &Access| {
            write.layout.shape.elements() == self.lowered.buffers[&write.buffer].shape.elements()
        };
        if !writes.iter().all(whole) {
            return;
        }
        match kernel {
            Kernel::Loop(body) => {
                let parts = self.target.column_parts(body, reads, writes);
                let columns = body.columns;
                for store in &mut body.stores {
                    if let Store::ColumnReduce { op: reduce, write, parts: of_store, .. } = store
                        && parts > 1
                    {
                        *of_store = parts;
                        writes[*write] = self.parts(op, *reduce, [parts, columns], &writes[*write]);
                    }
                }
            }
            Kernel::Op(OpKind::Dot(axes)) => {
                if let Some(cut) = self.cut_product(op, axes, reads, writes) {
                    *axes = cut;
                }
            }
            Kernel::Dot { axes, epilogue } if is_plain(epilogue) => {
                if let Some(cut) = self.cut_product(op, axes, reads, writes) {
                    *kernel = Kernel::Op(OpKind::Dot(cut));
                }
            }
            _ => {}
        }
    }

    /// A place for the parts of a result.
    fn parts(&mut self, op: OpId, reduce: ReduceOp, shape: [usize; 2], whole: &Access) -> Access {
        let parts = self.lowered.temporary(Type::new(whole.dtype, shape));
        self.unfinished.push(Unfinished { op, reduce, parts: parts.clone(), whole: whole.clone() });
        parts
    }

    /// Makes a batch of a product, whose results are the parts of its sums; gives its axes.
    fn cut_product(
        &mut self,
        op: OpId,
        axes: &DotAxes,
        reads: &mut [Access],
        writes: &mut [Access],
    ) -> Option<DotAxes> {
        let parts = self.target.product_parts(axes, reads);
        let elements = writes[0].layout.shape.elements();
        if parts <= 1 || parts * elements * 4 > MOST_WAITING {
            return None;
        }
        let (cut, [lhs, rhs]) = cut_terms(axes, parts, [&reads[0].layout, &reads[1].layout])?;
        let layout = Layout::contiguous(&cut.result_shape(&lhs.shape, &rhs.shape));
        (reads[0].layout, reads[1].layout) = (lhs, rhs);
        let sums = self.parts(op, ReduceOp::Sum, [parts, elements], &writes[0]);
        writes[0] = Access { layout, ..sums };
        Some(cut)
    }

    /// A product as a batch of several whose results are the parts of its sums, and a loop that adds these up
    /// and goes on with what follows, if the target wants that.
    pub(super) fn dot_in_parts(
        &mut self,
        axes: &DotAxes,
        epilogue: &Body,
        reads: &[Access],
        writes: &[Access],
    ) -> Option<Split> {
        let parts = if self.commits { 1 } else { self.target.parts_with_epilogue(axes, reads) };
        if parts <= 1 {
            return None;
        }
        let (cut, layouts) = cut_terms(axes, parts, [&reads[0].layout, &reads[1].layout])?;
        let shape = cut.result_shape(&layouts[0].shape, &layouts[1].shape);
        let sums = self.lowered.temporary(Type::new(DType::F32, shape));
        let operands = reads.iter().zip(layouts).map(|(read, layout)| Access { layout, ..read.clone() });
        let positions: Shape = [epilogue.rows, epilogue.columns].into();
        let part = |number: usize| {
            let layout = Layout { offset: number * positions.elements(), ..Layout::contiguous(&positions) };
            Access { layout, ..sums.clone() }
        };
        let mut loads = reads[2..].to_vec();
        loads.extend((0..parts).map(part));
        let body = with_sums(epilogue, parts, reads.len() - 2);
        Some([
            (Kernel::Op(OpKind::Dot(cut)), operands.collect(), vec![sums]),
            (Kernel::Loop(body), loads, writes.to_vec()),
        ])
    }

    /// Finishes those sums whose parts are too large to wait.
    pub(super) fn finish_large(&mut self) {
        let (large, wait): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.unfinished).into_iter().partition(|sum| sum.bytes() > MOST_WAITING);
        self.unfinished = wait;
        self.finish_all(large);
    }

    /// Finishes all sums of which there are parts.
    pub(super) fn finish(&mut self) {
        let all = std::mem::take(&mut self.unfinished);
        self.finish_all(all);
    }

    fn finish_all(&mut self, sums: Vec<Unfinished>) {
        let Some(op) = sums.first().map(|sum| sum.op) else { return };
        let part = |(i, sum): (usize, &Unfinished)| Part {
            kernel: Kernel::Loop(sum_of_parts(sum)),
            reads: i..i + 1,
            writes: i..i + 1,
            schedule: Schedule::Whole,
            workspace: 0..0,
        };
        let parts = sums.iter().enumerate().map(part).collect();
        let (reads, writes) = sums.into_iter().map(|sum| (sum.parts, sum.whole)).unzip();
        self.push(op, Kernel::Group(parts), reads, writes);
    }
}

/// The kernel that takes the parts of a sum together.
fn sum_of_parts(sum: &Unfinished) -> Body {
    let shape = &sum.parts.layout.shape;
    Body {
        rows: shape[0],
        columns: shape[1],
        nodes: vec![Node { kind: NodeKind::Load(0), dtype: sum.parts.dtype, level: Level::Element }],
        stores: vec![Store::ColumnReduce { op: sum.reduce, node: NodeId(0), write: 0, parts: 1 }],
    }
}

/// The epilogue of a product as a loop over the parts of its sums, which are operands from this one on; those
/// of the product itself are gone.
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

/// Whether nothing follows from a product but that it is stored.
fn is_plain(epilogue: &Body) -> bool {
    let stored = matches!(epilogue.stores[..], [Store::Value { level: Level::Element, .. }]);
    stored && matches!(epilogue.nodes[..], [Node { kind: NodeKind::Accumulator, .. }])
}

/// A product whose terms are cut into equal parts, which are its first batch axes; `None` if they cannot be
/// cut so.
fn cut_terms(axes: &DotAxes, parts: usize, layouts: [&Layout; 2]) -> Option<(DotAxes, [Layout; 2])> {
    // Whole axes while they divide the number of parts, and a share of the next one.
    let (mut whole, mut share) = (0, parts);
    while share > 1 {
        let extent = layouts[0].shape[*axes.lhs_contract.get(whole)?];
        if share % extent != 0 {
            break;
        }
        share /= extent;
        whole += 1;
    }
    let side =
        |layout: &Layout, batch: &[usize], contract: &[usize]| -> Option<(Layout, Vec<usize>, Vec<usize>)> {
            let mut extents: Vec<usize> = layout.shape.to_vec();
            let (mut batch, mut contract) = (batch.to_vec(), contract.to_vec());
            let mut first: Vec<usize> = contract.drain(..whole).collect();
            if share > 1 {
                let axis = contract[0];
                if !extents[axis].is_multiple_of(share) {
                    return None;
                }
                extents.splice(axis..=axis, [share, extents[axis] / share]);
                for other in first.iter_mut().chain(&mut batch).chain(&mut contract) {
                    *other += usize::from(*other >= axis);
                }
                first.push(axis);
            }
            first.extend(batch);
            Some((layout.reshape(&extents.into())?, first, contract))
        };
    let (lhs, lhs_batch, lhs_contract) = side(layouts[0], &axes.lhs_batch, &axes.lhs_contract)?;
    let (rhs, rhs_batch, rhs_contract) = side(layouts[1], &axes.rhs_batch, &axes.rhs_contract)?;
    Some((DotAxes { lhs_batch, rhs_batch, lhs_contract, rhs_contract }, [lhs, rhs]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weight's gradient: [batch, time, m]ᵀ [batch, time, n].
    fn gradient() -> DotAxes {
        DotAxes { lhs_contract: vec![0, 1], rhs_contract: vec![0, 1], ..DotAxes::default() }
    }

    fn cut(parts: usize) -> Option<(DotAxes, [Layout; 2])> {
        let layouts =
            [Shape::from([4, 6, 5]), Shape::from([4, 6, 7])].map(|shape| Layout::contiguous(&shape));
        cut_terms(&gradient(), parts, [&layouts[0], &layouts[1]])
    }

    #[test]
    fn parts_are_the_first_batch_axes() {
        for (parts, shape) in
            [(2, vec![2, 5, 7]), (4, vec![4, 5, 7]), (8, vec![4, 2, 5, 7]), (24, vec![4, 6, 5, 7])]
        {
            let (axes, [lhs, rhs]) = cut(parts).expect("it divides the terms");
            assert_eq!(axes.result_shape(&lhs.shape, &rhs.shape), Shape::from(&shape[..]), "{parts} parts");
            let terms: usize = axes.lhs_contract.iter().map(|&axis| lhs.shape[axis]).product();
            assert_eq!(terms * parts, 24);
        }
    }

    #[test]
    fn parts_that_would_differ_are_not_made() {
        assert_eq!([3, 5, 16, 48].map(|parts| cut(parts).is_some()), [false; 4]);
    }
}
