//! Matrix products by the vendor library, cuBLASLt.
//!
//! In: a product with the layouts of its operands and its result. Out: the [`LibraryProduct`] to request from
//! the library, if its layouts suit the tensor-core kernels: each matrix has contiguous rows or contiguous
//! columns, which start at multiples of 16 bytes.

use crate::product::{BatchAxis, DotProblem, MatrixView, fold_batch};
use crate::schedule::precision::Precision;
use gradloom_core::ir::{DType, DotAxes, Graph, OpKind, Shape};
use gradloom_core::kernel::{Access, Layout, LibrarySchedule};
use std::fmt;

/// Minimum size of a product's scratch memory, in bytes.
const LEAST_WORKSPACE: u64 = 64 << 10;
/// Maximum size of a product's scratch memory, in bytes: the size that NVIDIA recommends for its GPUs from
/// Hopper on.
const MOST_WORKSPACE: u64 = 32 << 20;

/// Minimum number of multiplications, on tensor cores, for which a library call and a separate kernel for the
/// epilogue pay off. On an H100, training steps of the models S and M take 15% and 40% less time than with a
/// minimum of 2^30.
pub const LARGE_PRODUCT: usize = 1 << 24;

/// Ratio of the minimum number of multiplications of f32 products, which use no tensor cores, to that of
/// products on tensor cores. With a minimum of 2^24 multiplications, the step of model S takes 1.5 times as
/// long; with 2^30, that of GPT-2 124M takes 10% less time.
const F32_FACTOR: usize = 64;

/// Alignment of extents for the tensor-core kernels, in elements. Other extents use kernels that run at a
/// seventh of the speed.
pub const EXTENT_ALIGNMENT: usize = 8;

/// Alignment of the start of each row, in bytes.
pub const ROW_ALIGNMENT: usize = 16;

/// Number of bytes after each device allocation that the library may read while it computes padding columns
/// of a result.
pub const ROOM_BEHIND: usize = 64 << 10;

/// `batch` products of `[m, k]` and `[k, n]` matrices, accumulated in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibraryProduct {
    /// Number of products.
    pub batch: usize,
    /// Number of rows of the result.
    pub m: usize,
    /// Number of columns of the result.
    pub n: usize,
    /// Length of the contracted axis.
    pub k: usize,
    /// The left operand.
    pub lhs: LibraryMatrix,
    /// The right operand.
    pub rhs: LibraryMatrix,
    /// The result.
    pub result: LibraryMatrix,
    /// True if a vector with the type of the result is added to each of its rows.
    pub has_bias: bool,
    /// True if f32 operands are rounded to TF32.
    pub rounds: bool,
    /// Size of the scratch memory, in bytes.
    pub workspace: u64,
}

/// Padding of a matrix: elements after each row (or column, whichever is contiguous), and rows (or columns)
/// after the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Number of elements after each row or column.
    pub elements: usize,
    /// Number of rows or columns after the last one.
    pub lines: usize,
}

impl Room {
    /// Returns the number of padding rows and of padding columns. `rows` is true if the matrix's rows are
    /// contiguous.
    fn by(self, rows: bool) -> [usize; 2] {
        if rows { [self.lines, self.elements] } else { [self.elements, self.lines] }
    }
}

/// A matrix in memory whose rows or columns are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibraryMatrix {
    /// Type of its elements.
    pub dtype: DType,
    /// True if its rows are contiguous, false if its columns are.
    pub by_rows: bool,
    /// Leading dimension: number of elements from the start of one row (or column) to that of the next.
    pub stride: usize,
    /// Number of elements from one matrix of a batch to the next.
    pub batch_stride: usize,
}

impl LibraryProduct {
    /// Creates the product of operands with these layouts and elements of type `dtype`. Returns `None` if the
    /// library does not support the layouts or the types.
    pub fn new(
        axes: &DotAxes,
        [lhs, rhs]: [&Layout; 2],
        dtype: DType,
        (result, result_dtype): (&Layout, DType),
    ) -> Option<Self> {
        // Reject 16-bit results of f32 operands, which the library cannot compute and lowering never
        // requires.
        if dtype == DType::F32 && result_dtype != DType::F32 {
            return None;
        }
        let problem = fold_batch(DotProblem::new(axes, lhs, rhs)?);
        let axis = match problem.batch[..] {
            [] => BatchAxis { extent: 1, lhs_stride: 0, rhs_stride: 0 },
            [axis] => axis,
            _ => return None,
        };
        let (m, n, k) = (problem.m, problem.n, problem.k);
        let operand = |view: &MatrixView, free: usize, free_is_row: bool, batch_stride| {
            let (by_rows, stride, line) = match (view.free_stride, view.contract_stride) {
                (stride, 1) => (free_is_row, stride, k),
                (1, stride) => (!free_is_row, stride, free),
                _ => return None,
            };
            // Reject rows (or columns) that overlap or coincide, as the library does.
            if stride < line {
                return None;
            }
            matrix(dtype, by_rows, [view.offset, stride, batch_stride])
        };
        let stride = row_stride(result, axis.extent * m, n)?;
        Some(Self {
            batch: axis.extent,
            m,
            n,
            k,
            lhs: operand(&problem.lhs, m, true, axis.lhs_stride)?,
            rhs: operand(&problem.rhs, n, false, axis.rhs_stride)?,
            result: matrix(result_dtype, true, [result.offset, stride, m * stride])?,
            has_bias: false,
            rounds: false,
            workspace: 0,
        })
    }

    /// Returns the product with its extents rounded up to multiples of [`EXTENT_ALIGNMENT`] where the padding
    /// allows it. The padding along the contracted axis must be zeros. The padding after the right operand's
    /// columns may contain any values, and the padding of the result is never read. A batch of several
    /// products is returned unchanged.
    #[must_use]
    pub fn rounded_up(mut self, lhs: Room, rhs: Room, result: Room) -> Self {
        if self.batch > 1 {
            return self;
        }
        let [lhs_free, lhs_contract] = lhs.by(self.lhs.by_rows);
        let [rhs_contract, mut rhs_free] = rhs.by(self.rhs.by_rows);
        if !self.rhs.by_rows && takes_lines_behind(self.rhs.stride, self.rhs.dtype) {
            rhs_free = EXTENT_ALIGNMENT;
        }
        let [result_rows, result_columns] = result.by(true);
        let up = |extent: usize, rooms: [usize; 2]| {
            let more = extent.next_multiple_of(EXTENT_ALIGNMENT);
            if rooms.into_iter().all(|room| more - extent <= room) { more } else { extent }
        };
        self.m = up(self.m, [lhs_free, result_rows]);
        self.n = up(self.n, [rhs_free, result_columns]);
        self.k = up(self.k, [lhs_contract, rhs_contract]);
        self
    }

    /// Returns the number of bytes of scratch that the product can use for split-K, by which the library cuts
    /// long sums of few results into parts.
    pub(crate) fn scratch(&self) -> u64 {
        let (results, parts) = (self.batch * self.m * self.n, (self.k / 256).clamp(1, 16));
        (results as u64).saturating_mul(4 * parts as u64).clamp(LEAST_WORKSPACE, MOST_WORKSPACE)
    }

    /// Returns the number of multiplications of a product of operands with these shapes.
    pub(crate) fn multiplications(axes: &DotAxes, lhs: &Shape, rhs: &Shape) -> usize {
        let shared =
            axes.rhs_batch.iter().chain(&axes.rhs_contract).map(|&axis| rhs[axis]).product::<usize>();
        lhs.elements().saturating_mul(rhs.elements() / shared.max(1))
    }

    /// Returns the reason why the library cannot compute a product of operands with these layouts and
    /// elements of type `dtype`; `None` if it can.
    pub(crate) fn obstacle(
        axes: &DotAxes,
        operands: [&Layout; 2],
        dtype: DType,
        (result, result_dtype): (&Layout, DType),
    ) -> Option<String> {
        if Self::new(axes, operands, dtype, (result, result_dtype)).is_some() {
            return None;
        }
        let all = [("left operand", operands[0], dtype), ("right operand", operands[1], dtype)];
        let misaligned = |(name, layout, dtype): (&str, &Layout, DType)| {
            let steps = layout.strides.iter().chain([&layout.offset]);
            let mut bytes = steps.filter(|step| **step != 1).map(|step| step * dtype.bytes());
            let step = bytes.find(|bytes| !bytes.is_multiple_of(ROW_ALIGNMENT))?;
            Some(format!(
                "the {name} has an offset or stride of {step} bytes, not a multiple of {ROW_ALIGNMENT}"
            ))
        };
        let found = all.into_iter().chain([("result", result, result_dtype)]).find_map(misaligned);
        Some(found.unwrap_or_else(|| {
            "the library does not support the layouts or types of the operands and the result".to_string()
        }))
    }

    /// Returns the library product of a launch, or `None` if the library does not support it. A third operand
    /// is a bias.
    pub fn of(axes: &DotAxes, reads: &[Access], write: &Access, schedule: &LibrarySchedule) -> Option<Self> {
        let layouts = [&reads[0].layout, &reads[1].layout];
        let product = Self::new(axes, layouts, reads[0].dtype, (&write.layout, write.dtype))?;
        let LibrarySchedule { extents: [m, n, k], rounds, workspace } = *schedule;
        Some(Self { m, n, k, rounds, workspace, has_bias: reads.len() > 2, ..product })
    }
}

/// Returns `true` if the rows (or columns) that round a right operand's extent up to a multiple of
/// [`EXTENT_ALIGNMENT`] lie within [`ROOM_BEHIND`]. `stride` is its leading dimension.
pub(crate) fn takes_lines_behind(stride: usize, dtype: DType) -> bool {
    stride.saturating_mul((EXTENT_ALIGNMENT - 1) * dtype.bytes()) <= ROOM_BEHIND
}

/// Returns the minimum number of multiplications for which the library computes a product in this precision,
/// where `least` is the minimum on tensor cores. Returns `None` if the library never does.
pub(crate) fn least_product(precision: Precision, least: usize) -> Option<usize> {
    match precision {
        Precision::Tf32x3 => None,
        Precision::F32 => Some(least.saturating_mul(F32_FACTOR)),
        Precision::F16 | Precision::Bf16 | Precision::Tf32 => Some(least),
    }
}

/// Returns `true` if a graph has a product that is large enough for the library, where `least` is the minimum
/// number of multiplications on tensor cores.
pub fn may_use_library(graph: &Graph, precision: Precision, least: usize) -> bool {
    let Some(least) = least_product(precision, least) else { return false };
    graph.ops.iter().any(|(_, op)| match &op.kind {
        OpKind::Dot(axes) => {
            let [lhs, rhs] = [0, 1].map(|i| &graph.ty(op.operands[i]).shape);
            LibraryProduct::multiplications(axes, lhs, rhs) >= least
        }
        _ => false,
    })
}

impl fmt::Display for LibraryProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, m, n, k, lhs, rhs, result, has_bias, rounds, workspace: _ } = self;
        let rounded = if *rounds { ", in TF32" } else { "" };
        let bias = if *has_bias { " + bias" } else { "" };
        write!(
            f,
            "cuBLASLt: {batch} x {result}[{m} x {n}] = {lhs}[{m} x {k}] {rhs}[{k} x {n}]{bias}{rounded}"
        )
    }
}

impl fmt::Display for LibraryMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dtype, by_rows, stride, batch_stride } = *self;
        let lines = if by_rows { "rows" } else { "columns" };
        write!(f, "{dtype} {lines}, {stride} apart")?;
        if batch_stride > 0 { write!(f, " (matrices {batch_stride}), ") } else { f.write_str(", ") }
    }
}

/// Returns the matrix if its offset and its strides are multiples of [`ROW_ALIGNMENT`].
fn matrix(dtype: DType, by_rows: bool, [offset, stride, batch_stride]: [usize; 3]) -> Option<LibraryMatrix> {
    let aligned = |elements: usize| (elements * dtype.bytes()).is_multiple_of(ROW_ALIGNMENT);
    let all = [offset, stride, batch_stride].into_iter().all(aligned);
    all.then_some(LibraryMatrix { dtype, by_rows, stride, batch_stride })
}

/// Returns the stride between the rows of a layout that consists of `rows` contiguous rows of `columns`
/// elements, or `None` for other layouts.
fn row_stride(layout: &Layout, rows: usize, columns: usize) -> Option<usize> {
    match layout.collapsed()[..] {
        [(_, 1)] => Some(columns),
        [(extent, stride), (columns_, 1)] if extent == rows && columns_ == columns => Some(stride),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the product of a `[64, 32]` matrix with these strides and a contiguous `[32, 16]` matrix.
    fn product(strides: [usize; 2]) -> Option<LibraryProduct> {
        let axes =
            DotAxes { lhs_batch: vec![], rhs_batch: vec![], lhs_contract: vec![1], rhs_contract: vec![0] };
        let lhs = Layout { offset: 0, shape: [64, 32].into(), strides: strides.to_vec() };
        let [rhs, result] = [[32, 16], [64, 16]].map(|shape| Layout::contiguous(&shape.into()));
        LibraryProduct::new(&axes, [&lhs, &rhs], DType::BF16, (&result, DType::F32))
    }

    #[test]
    fn operands_in_f32_have_results_in_f32() {
        let axes =
            DotAxes { lhs_batch: vec![], rhs_batch: vec![], lhs_contract: vec![1], rhs_contract: vec![0] };
        let [lhs, rhs, result] =
            [[64, 32], [32, 16], [64, 16]].map(|shape| Layout::contiguous(&shape.into()));
        let product = |of, to| LibraryProduct::new(&axes, [&lhs, &rhs], of, (&result, to)).is_some();
        assert!(product(DType::F32, DType::F32) && product(DType::BF16, DType::BF16));
        assert!(!product(DType::F32, DType::F16) && !product(DType::F32, DType::BF16));
    }

    #[test]
    fn operands_are_lines_apart_from_each_other() {
        assert!(product([32, 1]).is_some() && product([40, 1]).is_some() && product([1, 64]).is_some());
        // Reject broadcasts along rows or columns, overlapping windows, unaligned rows, and matrices without
        // a contiguous axis.
        for strides in [[0, 1], [1, 0], [16, 1], [1, 32], [36, 1], [64, 2]] {
            assert_eq!(product(strides), None, "{strides:?}");
        }
    }
}
