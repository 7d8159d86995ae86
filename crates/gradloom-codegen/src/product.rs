//! A generalized dot product as matrix products over strided operands.
//!
//! In: the axes of a [`Dot`](gradloom_core::ir::OpKind::Dot) and the layouts of its operands. Out: a
//! [`DotProblem`], in which each operand has one stride for the free index and one for the contracted index,
//! or, from [`dot_copies`], the operands to copy first and the order of their axes.

use gradloom_core::collections::sort_by_key;
use gradloom_core::ir::{DotAxes, OpKind, Shape, inverse_permutation};
use gradloom_core::kernel::{Access, AttentionChoice, Body, Kernel, Layout, Schedule};

/// A matrix in a buffer. Element (free i, contracted p) is at `offset + i·free_stride + p·contract_stride`,
/// in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixView {
    /// Offset of the first element of the first matrix.
    pub offset: usize,
    /// Stride of the free index.
    pub free_stride: usize,
    /// Stride of the contracted index.
    pub contract_stride: usize,
}

/// An axis over which a product is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchAxis {
    /// Number of products.
    pub extent: usize,
    /// Stride of the left operand, in elements.
    pub lhs_stride: usize,
    /// Stride of the right operand, in elements.
    pub rhs_stride: usize,
}

/// `batch` products of `[m, k]` and `[k, n]` matrices. The results `[batch.., m, n]` are contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DotProblem {
    /// Batch axes, outermost first, merged where possible; empty for a single product.
    pub batch: Vec<BatchAxis>,
    /// Number of rows of the result: the product of the left operand's free extents.
    pub m: usize,
    /// Number of columns of the result: the product of the right operand's free extents.
    pub n: usize,
    /// Length of the contracted axis.
    pub k: usize,
    /// The left operand.
    pub lhs: MatrixView,
    /// The right operand.
    pub rhs: MatrixView,
}

/// Offsets of the elements of an operand whose free or contracted index has several strides, such as the
/// windows of a convolution. Each index is a list of (extent, stride) pairs, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteppedView {
    /// Extents and strides of the free index.
    pub free: Vec<(usize, usize)>,
    /// Extents and strides of the contracted index.
    pub contract: Vec<(usize, usize)>,
}

impl SteppedView {
    /// Returns the offset from the first element to the element at `index` along these axes.
    pub fn offset(axes: &[(usize, usize)], mut index: usize) -> usize {
        let mut offset = 0;
        for &(extent, stride) in axes.iter().rev() {
            offset += index % extent * stride;
            index /= extent;
        }
        offset
    }
}

/// Operands of a dot product that must be copied to contiguous memory first, each with the order of its axes
/// (outermost first).
///
/// The copy of an operand with layout `x` is `x.permute(order)`, stored contiguously. [`copied_layout`]
/// returns the layout of the copy with the axes in their original order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DotCopies {
    /// Order of the left operand's axes, if it must be copied.
    pub lhs: Option<Vec<usize>>,
    /// Order of the right operand's axes, if it must be copied.
    pub rhs: Option<Vec<usize>>,
}

impl DotProblem {
    /// Returns the number of elements of the results.
    pub fn results(&self) -> usize {
        self.batch_count() * self.m * self.n
    }

    /// Creates the problem of a dot product, or returns `None` if an operand must be copied first (see
    /// [`dot_copies`]).
    pub fn new(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> Option<Self> {
        let (lhs_free, rhs_free) = free_axes(axes, lhs, rhs);
        let order = contract_order(&axes.lhs_contract, lhs);
        let pick = |list: &[usize]| order.iter().map(|&i| list[i]).collect::<Vec<_>>();
        let view = |layout: &Layout, free: &[usize], contract: &[usize]| {
            Some(MatrixView {
                offset: layout.offset,
                free_stride: single_stride(layout, free)?,
                contract_stride: single_stride(layout, contract)?,
            })
        };
        Some(Self {
            batch: batch_axes(axes, lhs, rhs),
            m: extent(lhs, &lhs_free),
            n: extent(rhs, &rhs_free),
            k: extent(lhs, &axes.lhs_contract),
            lhs: view(lhs, &lhs_free, &pick(&axes.lhs_contract))?,
            rhs: view(rhs, &rhs_free, &pick(&axes.rhs_contract))?,
        })
    }

    /// Creates the problem of a dot product whose right operand may have any layout, and returns the offsets
    /// of that operand's elements. The strides of the problem's right view are those of the innermost axes.
    /// Returns `None` if the left operand must be copied first.
    pub fn packing(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> Option<(Self, SteppedView)> {
        let (lhs_free, rhs_free) = free_axes(axes, lhs, rhs);
        let order = contract_order(&axes.lhs_contract, lhs);
        let pick = |list: &[usize]| order.iter().map(|&i| list[i]).collect::<Vec<_>>();
        let steps = SteppedView {
            free: part(rhs, &rhs_free).collapsed(),
            contract: part(rhs, &pick(&axes.rhs_contract)).collapsed(),
        };
        let innermost = |axes: &[(usize, usize)]| axes.last().map_or(1, |&(_, stride)| stride);
        let problem = Self {
            batch: batch_axes(axes, lhs, rhs),
            m: extent(lhs, &lhs_free),
            n: extent(rhs, &rhs_free),
            k: extent(lhs, &axes.lhs_contract),
            lhs: MatrixView {
                offset: lhs.offset,
                free_stride: single_stride(lhs, &lhs_free)?,
                contract_stride: single_stride(lhs, &pick(&axes.lhs_contract))?,
            },
            rhs: MatrixView {
                offset: rhs.offset,
                free_stride: innermost(&steps.free),
                contract_stride: innermost(&steps.contract),
            },
        };
        Some((problem, steps))
    }

    /// Returns the problem with the operands exchanged, whose `[n, m]` results are the transposes of the
    /// original ones.
    pub fn transposed(self) -> Self {
        let swap =
            |axis: BatchAxis| BatchAxis { lhs_stride: axis.rhs_stride, rhs_stride: axis.lhs_stride, ..axis };
        Self {
            batch: self.batch.into_iter().map(swap).collect(),
            m: self.n,
            n: self.m,
            k: self.k,
            lhs: self.rhs,
            rhs: self.lhs,
        }
    }

    /// Returns the number of products.
    pub fn batch_count(&self) -> usize {
        self.batch.iter().map(|axis| axis.extent).product()
    }

    /// Returns the offsets of both operands of product `index` (row-major over the batch axes), in elements
    /// from the start of their buffers.
    pub fn batch_offsets(&self, mut index: usize) -> (usize, usize) {
        let (mut lhs, mut rhs) = (self.lhs.offset, self.rhs.offset);
        for axis in self.batch.iter().rev() {
            let position = index % axis.extent;
            index /= axis.extent;
            lhs += position * axis.lhs_stride;
            rhs += position * axis.rhs_stride;
        }
        (lhs, rhs)
    }
}

/// Returns the operands that must be copied before the product. There are none if and only if
/// [`DotProblem::new`] returns a problem.
///
/// If both operands need no copy on their own, but require different orders of the contracted axes, the
/// smaller one is copied.
pub fn dot_copies(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> DotCopies {
    if DotProblem::new(axes, lhs, rhs).is_some() {
        return DotCopies::default();
    }
    let (lhs_free, rhs_free) = free_axes(axes, lhs, rhs);
    let fits = |layout: &Layout, free: &[usize], contract: &[usize], order: &[usize]| {
        let contract: Vec<usize> = order.iter().map(|&i| contract[i]).collect();
        single_stride(layout, free).is_some() && single_stride(layout, &contract).is_some()
    };
    let (lhs_order, rhs_order) =
        (contract_order(&axes.lhs_contract, lhs), contract_order(&axes.rhs_contract, rhs));
    let keep_lhs = fits(lhs, &lhs_free, &axes.lhs_contract, &lhs_order);
    let keep_rhs = fits(rhs, &rhs_free, &axes.rhs_contract, &rhs_order);
    let lhs_larger = lhs.shape.elements() >= rhs.shape.elements();
    let copy = |batch: &[usize], free: &[usize], contract: &[usize], order: &[usize]| {
        Some([batch, free, &order.iter().map(|&i| contract[i]).collect::<Vec<_>>()].concat())
    };
    let copy_lhs = |order: &[usize]| copy(&axes.lhs_batch, &lhs_free, &axes.lhs_contract, order);
    let copy_rhs = |order: &[usize]| copy(&axes.rhs_batch, &rhs_free, &axes.rhs_contract, order);
    match (keep_lhs, keep_rhs) {
        (true, keep_rhs) if lhs_larger || !keep_rhs => DotCopies { lhs: None, rhs: copy_rhs(&lhs_order) },
        (_, true) => DotCopies { lhs: copy_lhs(&rhs_order), rhs: None },
        _ => DotCopies { lhs: copy_lhs(&lhs_order), rhs: copy_rhs(&lhs_order) },
    }
}

/// Returns the layout of a contiguous copy that was written with the axes of `shape` permuted by `order`. The
/// layout has the axes in their original order.
pub fn copied_layout(shape: &Shape, order: &[usize]) -> Layout {
    let written: Shape = order.iter().map(|&axis| shape[axis]).collect::<Vec<_>>().into();
    Layout::contiguous(&written).permute(&inverse_permutation(order))
}

fn free_axes(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> (Vec<usize>, Vec<usize>) {
    (
        DotAxes::free(lhs.shape.rank(), &axes.lhs_batch, &axes.lhs_contract),
        DotAxes::free(rhs.shape.rank(), &axes.rhs_batch, &axes.rhs_contract),
    )
}

fn extent(layout: &Layout, axes: &[usize]) -> usize {
    axes.iter().map(|&axis| layout.shape[axis]).product()
}

/// Returns the contracted axes of an operand, as indices in `contract`, from the largest stride to the
/// smallest one. Axes of extent 1 come first.
fn contract_order(contract: &[usize], layout: &Layout) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contract.len()).collect();
    let stride = |i: usize| match layout.shape[contract[i]] {
        1 => usize::MAX,
        _ => layout.strides[contract[i]],
    };
    sort_by_key(&mut order, |&i| std::cmp::Reverse(stride(i)));
    order
}

/// Returns the stride of these axes merged into one in the given order, or `None` if they have no common
/// stride.
fn single_stride(layout: &Layout, axes: &[usize]) -> Option<usize> {
    if layout.shape.elements() == 0 {
        return Some(1);
    }
    match part(layout, axes).collapsed()[..] {
        [] => Some(1),
        [(_, stride)] => Some(stride),
        _ => None,
    }
}

/// Returns a layout with only these axes, in the given order.
fn part(layout: &Layout, axes: &[usize]) -> Layout {
    Layout {
        offset: 0,
        shape: axes.iter().map(|&axis| layout.shape[axis]).collect::<Vec<_>>().into(),
        strides: axes.iter().map(|&axis| layout.strides[axis]).collect(),
    }
}

/// Returns the batch axes of a product. Neighboring axes are merged if their strides in both operands allow
/// it.
fn batch_axes(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> Vec<BatchAxis> {
    let mut merged: Vec<BatchAxis> = Vec::new();
    for (&l, &r) in axes.lhs_batch.iter().zip(&axes.rhs_batch) {
        let axis = BatchAxis { extent: lhs.shape[l], lhs_stride: lhs.strides[l], rhs_stride: rhs.strides[r] };
        if axis.extent == 1 {
            continue;
        }
        match merged.last_mut() {
            Some(outer)
                if outer.lhs_stride == axis.lhs_stride * axis.extent
                    && outer.rhs_stride == axis.rhs_stride * axis.extent =>
            {
                *outer = BatchAxis { extent: outer.extent * axis.extent, ..axis };
            }
            _ => merged.push(axis),
        }
    }
    merged
}

/// Merges the innermost batch axes into the rows of the left operand, if the right operand is broadcast along
/// them and the strides of the left one allow it.
///
/// Only the innermost axes are merged, so the position of each result, `(batch·m + row)·n + column`, stays
/// the same.
pub fn fold_batch(mut problem: DotProblem) -> DotProblem {
    while let Some(&axis) = problem.batch.last() {
        let continues = problem.m == 1 || axis.lhs_stride == problem.m * problem.lhs.free_stride;
        if axis.extent != 1 && (axis.rhs_stride != 0 || !continues) {
            break;
        }
        if problem.m == 1 && axis.extent != 1 {
            problem.lhs.free_stride = axis.lhs_stride;
        }
        problem.m *= axis.extent;
        problem.batch.pop();
    }
    problem
}

/// Returns the offsets of the last elements of both operands.
pub(crate) fn last_elements(problem: &DotProblem) -> [usize; 2] {
    let last = |view: &MatrixView, free: usize, stride: fn(&BatchAxis) -> usize| {
        let batch =
            problem.batch.iter().map(|axis| axis.extent.saturating_sub(1) * stride(axis)).sum::<usize>();
        let (free, contract) = (free.saturating_sub(1), problem.k.saturating_sub(1));
        view.offset + free * view.free_stride + contract * view.contract_stride + batch
    };
    [
        last(&problem.lhs, problem.m, |axis| axis.lhs_stride),
        last(&problem.rhs, problem.n, |axis| axis.rhs_stride),
    ]
}

/// Returns the product of a launch with merged batch axes, as kernels compute it.
///
/// # Panics
/// Panics if an operand must be copied first.
pub(crate) fn folded(axes: &DotAxes, lhs: &Layout, rhs: &Layout) -> DotProblem {
    fold_batch(DotProblem::new(axes, lhs, rhs).expect("operands were made to fit"))
}

/// Returns the product of a launch, or `None` if its kernel is not a product.
pub(crate) fn problem_of(kernel: &Kernel, reads: &[Access]) -> Option<DotProblem> {
    match kernel {
        Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. } => {
            Some(folded(axes, &reads[0].layout, &reads[1].layout))
        }
        _ => None,
    }
}

/// Returns a flag for each operand of a product or of attention, without the operands of epilogues. A flag is
/// true if the kernel loads the operand in groups of four neighbors. The list is empty for other kernels.
pub fn reads_vectors(kernel: &Kernel, schedule: &Schedule, reads: &[Access]) -> Vec<bool> {
    if let Schedule::Attention(attention) = schedule {
        let by_fours = |(_, choice): &(_, AttentionChoice)| {
            !matches!(choice, AttentionChoice::Block(_) | AttentionChoice::Own { .. })
        };
        let fours = |read: &Access| {
            read.layout.shape.rank() == 4 && read.dtype.is_float() && rows_are_groups(&read.layout, 4)
        };
        // Leave out the operands of the epilogue, which attention itself does not read.
        let own = match kernel {
            Kernel::Attention { spec, .. } => 3 + spec.extra_operands(),
            _ => reads.len(),
        };
        return match attention.kernels.iter().any(by_fours) {
            true => reads.iter().take(own).map(fours).collect(),
            false => Vec::new(),
        };
    }
    let (Kernel::Op(OpKind::Dot(axes)) | Kernel::Dot { axes, .. }) = kernel else { return Vec::new() };
    let problem = DotProblem::new(axes, &reads[0].layout, &reads[1].layout).map(fold_batch);
    problem.map_or_else(Vec::new, |problem| Side::both(&problem).map(|side| side.has_fours).to_vec())
}

/// Returns `true` if a loop can access an operand or result in groups of four neighbors: it has a float
/// element for each position, and each of its rows consists of groups that start at multiples of four. The
/// last group may be incomplete if the rows of the operand or result are those of the loop.
pub fn is_in_fours(body: &Body, access: &Access) -> bool {
    let layout = &access.layout;
    let axes = layout.collapsed();
    let Some((&(run, 1), outer)) = axes.split_last() else { return false };
    let multiples = outer.iter().map(|(_, stride)| stride).chain([&layout.offset]);
    let whole = [run, body.columns].iter().all(|number| number.is_multiple_of(4));
    access.dtype.is_float()
        && layout.shape.elements() == body.rows * body.columns
        && (run == body.columns || whole)
        && multiples.copied().all(|number| number.is_multiple_of(4))
}

/// Returns `true` if each row, along the last axis, consists of groups of `size` neighbors that start at
/// multiples of `size`.
pub(crate) fn rows_are_groups(layout: &Layout, size: usize) -> bool {
    let Some((&last, others)) = layout.strides.split_last() else { return false };
    let mut multiples = others.iter().chain([&layout.offset]).chain(layout.shape.last());
    last == 1 && multiples.all(|number| number.is_multiple_of(size))
}

/// The axis of an operand along which neighbors are loaded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    /// Rows of the left operand, columns of the right one.
    Free,
    /// The contracted axis.
    Contract,
}

/// An operand's matrix and the properties that decide how it is loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) view: MatrixView,
    /// Number of rows of the left operand, or of columns of the right one.
    pub(crate) free: usize,
    /// Length of the contracted axis.
    pub(crate) contract: usize,
    pub(crate) along: Along,
    /// True if neighbors along the axis `along` can be loaded in groups of four: the axis is contiguous, and
    /// its extent, the offset and the other strides are multiples of four.
    pub(crate) has_fours: bool,
}

impl Side {
    /// Returns the left and the right operand.
    pub(crate) fn both(problem: &DotProblem) -> [Self; 2] {
        let DotProblem { batch, m, n, k, lhs, rhs } = problem;
        [
            Self::new(*lhs, *m, *k, batch.iter().map(|axis| axis.lhs_stride)),
            Self::new(*rhs, *n, *k, batch.iter().map(|axis| axis.rhs_stride)),
        ]
    }

    fn new(
        view: MatrixView,
        free: usize,
        contract: usize,
        mut batch_strides: impl Iterator<Item = usize>,
    ) -> Self {
        let by_contract = view.contract_stride == 1 && contract > 1 || free == 1;
        let by_free = view.free_stride == 1 && free > 1;
        // If neither axis is contiguous, the choice does not matter.
        let along = if by_contract || !by_free { Along::Contract } else { Along::Free };
        let (step, extent, (others, stride)) = match along {
            Along::Contract => (view.contract_stride, contract, (free, view.free_stride)),
            Along::Free => (view.free_stride, free, (contract, view.contract_stride)),
        };
        let aligned = |stride: usize| stride.is_multiple_of(4);
        let has_fours = step == 1
            && aligned(extent)
            && aligned(view.offset)
            && (others <= 1 || aligned(stride))
            && batch_strides.all(aligned);
        Self { view, free, contract, along, has_fours }
    }
}
