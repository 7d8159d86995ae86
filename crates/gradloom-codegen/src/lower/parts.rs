//! Sums that are computed in parts, which a later kernel combines.
//!
//! In: kernels. Out: kernels whose results are parts of sums, and later one group that combines the parts of
//! all pending sums. Sums for biases and small weights are only needed after the backward pass. Invariant:
//! parts are combined in order, so a program always computes the same bits.

use super::library::part;
use super::{Draft, Lowering};
use crate::limits::Limits;
use crate::product::{DotProblem, fold_batch};
use crate::schedule::{group, rows};
use gradloom_core::fuse::KernelSpec;
use gradloom_core::ir::{DotAxes, OpId, OpKind, ReduceOp, Type};
use gradloom_core::kernel::{Access, Body, Kernel, Layout, Level, Node, NodeId, NodeKind, Store};

/// Maximum size of the parts of one pending sum, in bytes. They occupy memory until they are combined.
const MOST_WAITING: usize = 1 << 20;

/// A result whose parts are not combined yet.
struct Unfinished {
    op: OpId,
    reduce: ReduceOp,
    /// Parts of the result, `[parts, elements]`, contiguous.
    parts: Access,
    whole: Access,
}

impl Unfinished {
    fn is_of(&self, read: &Access) -> bool {
        self.whole.buffer == read.buffer
    }

    fn bytes(&self) -> usize {
        self.parts.layout.shape.elements() * self.parts.dtype.bytes()
    }
}

/// Cuts the sums that kernels compute into parts.
pub(super) fn cut(lowering: &mut Lowering<'_>) {
    let (mut unfinished, mut kernels) = (Vec::new(), Vec::with_capacity(lowering.kernels.len()));
    for mut draft in std::mem::take(&mut lowering.kernels) {
        // Finish pending sums before a kernel that reads one of them, and before kernels that only updates
        // need, which come last.
        let waits = |read: &Access| unfinished.iter().any(|sum: &Unfinished| sum.is_of(read));
        if draft.commit || draft.reads.iter().any(waits) {
            kernels.extend(finish(std::mem::take(&mut unfinished)));
        }
        if !draft.once && !draft.is_read_next && !lowering.is_for_library(&draft) {
            lowering.cut(&mut draft, &mut unfinished);
        }
        let commit = draft.commit;
        kernels.push(draft);
        let (due, wait): (Vec<_>, _) =
            unfinished.into_iter().partition(|sum| commit || sum.bytes() > MOST_WAITING);
        kernels.extend(finish(due));
        unfinished = wait;
    }
    kernels.extend(finish(unfinished));
    lowering.kernels = kernels;
}

/// Returns the kernel that combines the parts of these sums.
fn finish(sums: Vec<Unfinished>) -> Option<Draft> {
    let op = sums.first()?.op;
    let part = |(i, sum): (usize, &Unfinished)| part(Kernel::Loop(sum_of_parts(sum)), i..i + 1, i);
    let kernel = Kernel::Group(sums.iter().enumerate().map(part).collect());
    let (reads, writes) = sums.into_iter().map(|sum| (sum.parts, sum.whole)).unzip();
    Some(KernelSpec { op, kernel, reads, writes, commit: false, once: false }.into())
}

impl Lowering<'_> {
    /// Cuts the sums of a kernel into parts, if that pays off on the target.
    fn cut(&mut self, draft: &mut Draft, unfinished: &mut Vec<Unfinished>) {
        // A sum that is only a window of a buffer is not cut, because one launch must write all windows.
        let whole = |write: &Access| {
            write.layout.shape.elements() == self.memory.buffers[&write.buffer].shape.elements()
        };
        let KernelSpec { op, kernel, reads, writes, .. } = &mut draft.spec;
        if !writes.iter().all(whole) {
            return;
        }
        match kernel {
            Kernel::Loop(body) => {
                let parts = column_parts(body, reads, writes, &self.target.limits);
                let columns = body.columns;
                for store in &mut body.stores {
                    if let Store::ColumnReduce { op: reduce, write, parts: of_store, .. } = store
                        && parts > 1
                    {
                        *of_store = parts;
                        let sum = self.parts(*op, *reduce, [parts, columns], &writes[*write]);
                        writes[*write] = sum.parts.clone();
                        unfinished.push(sum);
                    }
                }
            }
            Kernel::Op(OpKind::Dot(axes)) => {
                if let Some((cut, sum)) = self.cut_product(*op, axes, reads, writes) {
                    *axes = cut;
                    unfinished.push(sum);
                }
            }
            Kernel::Dot { axes, epilogue } if is_plain(epilogue) => {
                if let Some((cut, sum)) = self.cut_product(*op, axes, reads, writes) {
                    *kernel = Kernel::Op(OpKind::Dot(cut));
                    unfinished.push(sum);
                }
            }
            _ => {}
        }
    }

    /// Allocates the parts of a result.
    fn parts(&mut self, op: OpId, reduce: ReduceOp, shape: [usize; 2], whole: &Access) -> Unfinished {
        let parts = self.memory.temporary(Type::new(whole.dtype, shape));
        Unfinished { op, reduce, parts, whole: whole.clone() }
    }

    /// Turns a product into a batch of products that compute parts of its sums, if that pays off on the
    /// target. Returns its new axes and the pending sums.
    fn cut_product(
        &mut self,
        op: OpId,
        axes: &DotAxes,
        reads: &mut [Access],
        writes: &mut [Access],
    ) -> Option<(DotAxes, Unfinished)> {
        let parts = self.product_parts(axes, reads);
        let elements = writes[0].layout.shape.elements();
        if parts <= 1 || parts * elements * 4 > MOST_WAITING {
            return None;
        }
        let (cut, [lhs, rhs]) = cut_terms(axes, parts, [&reads[0].layout, &reads[1].layout])?;
        let layout = Layout::contiguous(&cut.result_shape(&lhs.shape, &rhs.shape));
        (reads[0].layout, reads[1].layout) = (lhs, rhs);
        let sums = self.parts(op, ReduceOp::Sum, [parts, elements], &writes[0]);
        writes[0] = Access { layout, ..sums.parts.clone() };
        Some((cut, sums))
    }

    /// Returns the number of parts that the sums of a product are cut into; 1 for whole sums.
    fn product_parts(&self, axes: &DotAxes, reads: &[Access]) -> usize {
        if !self.cuts_products {
            return 1;
        }
        // Products with operands that must be copied first are not cut, because the layouts of the copies are
        // not known yet.
        let Some(problem) = DotProblem::new(axes, &reads[0].layout, &reads[1].layout) else { return 1 };
        self.target.choices.product(&fold_batch(problem), &self.target.limits).parts as usize
    }
}

/// Returns the number of parts that the column sums of a body are cut into; 1 for whole sums.
fn column_parts(body: &Body, reads: &[Access], writes: &[Access], limits: &Limits) -> usize {
    if !body.has_column_reductions() || group::is_short(body, reads, writes) {
        return 1;
    }
    rows(body, limits).groups.max(1)
}

/// Returns the body that combines the parts of a sum.
fn sum_of_parts(sum: &Unfinished) -> Body {
    let shape = &sum.parts.layout.shape;
    Body {
        rows: shape[0],
        columns: shape[1],
        nodes: vec![Node { kind: NodeKind::Load(0), dtype: sum.parts.dtype, level: Level::Element }],
        stores: vec![Store::ColumnReduce { op: sum.reduce, node: NodeId(0), write: 0, parts: 1 }],
    }
}

/// Returns `true` if the epilogue only stores the product.
fn is_plain(epilogue: &Body) -> bool {
    let stored = matches!(epilogue.stores[..], [Store::Value { level: Level::Element, .. }]);
    stored && matches!(epilogue.nodes[..], [Node { kind: NodeKind::Accumulator, .. }])
}

/// Cuts the contracted axes of a product into equal parts, which become its first batch axes. Returns `None`
/// if the extents or the layouts do not allow it.
pub(super) fn cut_terms(
    axes: &DotAxes,
    parts: usize,
    layouts: [&Layout; 2],
) -> Option<(DotAxes, [Layout; 2])> {
    // Takes whole axes while their extents divide the number of parts, then a share of the next one.
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
    use gradloom_core::ir::Shape;

    /// Returns the axes of a weight's gradient: [batch, time, m]ᵀ [batch, time, n].
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
