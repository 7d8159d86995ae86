//! Products that the vendor library computes.
//!
//! In: kernels. Out: large products as launches of the library, without epilogues. Operands of another type
//! than the one that the library computes in are first copied to that type. Products share the copies of
//! common operands.

use super::{Draft, Lowering, bias};
use crate::cuda::{EXTENT_ALIGNMENT, LibraryProduct, Room, least_product, takes_lines_behind};
use crate::limits::Limits;
use crate::pipeline::Target;
use crate::product::{DotProblem, copied_layout, fold_batch};
use crate::schedule::precision::Precision;
use crate::schedule::product::reads_once;
use gradloom_core::collections::sort_by_key;
use gradloom_core::ir::{DType, DotAxes, Number, OpKind, Shape, Type, ValueId};
use gradloom_core::kernel::{
    Access, Body, Kernel, Layout, Level, LibrarySchedule, Node, NodeId, NodeKind, Part, Schedule, Store,
};
use std::ops::Range;

/// Maximum number of rows for which one of our tiles reads the right operand only once.
const ROWS_OF_A_TILE: usize = 64;

/// Splits the epilogues from products that the library computes.
pub(super) fn apart(lowering: &mut Lowering<'_>) {
    lowering.take_apart(|lowering, draft| {
        let Kernel::Dot { axes, epilogue } = &draft.kernel else { return None };
        if !lowering.is_for_library(draft) {
            return None;
        }
        let dtype = product_dtype(lowering.target, epilogue, &draft.writes);
        bias::split(draft, axes, epilogue)
            .or_else(|| Some(lowering.product_and_loop(draft, axes, epilogue, dtype)))
    });
}

/// Assigns products to the library.
pub(super) fn take(lowering: &mut Lowering<'_>) {
    let mut rounded = Vec::new();
    lowering.replace(|lowering, mut draft, kernels| {
        let axes = match &draft.kernel {
            Kernel::Op(OpKind::Dot(axes)) => Some(axes.clone()),
            Kernel::Dot { axes, epilogue } if bias::is_added(epilogue) => Some(axes.clone()),
            _ => None,
        };
        if let Some(axes) = axes {
            draft.library = lowering.library(&axes, &mut draft, &mut rounded, kernels);
        }
        kernels.push(draft);
    });
}

impl Lowering<'_> {
    /// Returns the operand type with which the library computes a product, or `None` if another kernel should
    /// compute it. `result` contains the layout and the type of the result.
    fn library_dtype(&self, axes: &DotAxes, reads: &[Access], result: (&Layout, DType)) -> Option<DType> {
        let limits = &self.target.limits;
        let (dtype, least) = library_support(self.target)?;
        let layout = |read: &Access| match read.dtype == dtype {
            true => read.layout.clone(),
            false => rounded_layout(&read.layout),
        };
        let (lhs, rhs) = (layout(&reads[0]), layout(&reads[1]));
        let product = LibraryProduct::new(axes, [&lhs, &rhs], dtype, result)?;
        let (right, row) = (reads[1].dtype, product.result.stride);
        is_large(limits, axes, [&lhs, &rhs], (right, dtype), (least, row)).then_some(dtype)
    }

    /// Returns `true` if the library computes the product of this kernel, without its epilogue.
    pub(super) fn is_for_library(&self, draft: &Draft) -> bool {
        let writes = &draft.writes;
        let (axes, layout, dtype) = match &draft.kernel {
            Kernel::Op(OpKind::Dot(axes)) => (axes, writes[0].layout.clone(), writes[0].dtype),
            Kernel::Dot { axes, epilogue } => {
                let positions: Shape = [epilogue.rows, epilogue.columns].into();
                (axes, Layout::contiguous(&positions), product_dtype(self.target, epilogue, writes))
            }
            _ => return false,
        };
        !draft.commit && self.library_dtype(axes, &draft.reads, (&layout, dtype)).is_some()
    }

    /// Prepares a product for the library and returns its schedule, or `None` if another kernel computes it.
    /// The kernels that copy operands of another type are appended to `before`.
    fn library(
        &mut self,
        axes: &DotAxes,
        draft: &mut Draft,
        rounded: &mut Vec<(Access, Access)>,
        before: &mut Vec<Draft>,
    ) -> Option<LibrarySchedule> {
        let write = draft.writes[0].clone();
        let result = (&write.layout, write.dtype);
        let dtype = self.library_dtype(axes, &draft.reads, result).filter(|_| !draft.commit)?;
        if let Some(bias) = draft.reads.get(2).filter(|bias| bias.dtype != write.dtype) {
            let (vector, rows) = (bias::vector(bias), bias.layout.shape[0]);
            let copy = self.copied_to(draft, &vector, write.dtype, before);
            draft.reads[2] = bias::for_rows(&copy, rows);
        }
        for read in 0..2 {
            if draft.reads[read].dtype != dtype
                || read == 1 && self.needs_zeros(&axes.rhs_contract, &draft.reads)
            {
                draft.reads[read] = self.rounded(draft, read, dtype, rounded, before);
            }
        }
        let reads = &draft.reads;
        let product = LibraryProduct::new(axes, [&reads[0].layout, &reads[1].layout], dtype, result)?;
        if !product.m.is_multiple_of(EXTENT_ALIGNMENT) {
            self.make_room(&write, product.m);
        }
        let product = product.rounded_up(
            self.room(&reads[0], true),
            self.room(&reads[1], true),
            self.room(&write, false),
        );
        let extents = [product.m, product.n, product.k];
        let rounds = self.target.precision() == Precision::Tf32;
        Some(LibrarySchedule { workspace: product.scratch(), extents, rounds })
    }

    /// Returns `true` if the rows of the right operand are terms, and their number is not aligned, so that
    /// rows of zeros must follow them; the left operand has zeros after its terms.
    fn needs_zeros(&self, contracted: &[usize], reads: &[Access]) -> bool {
        let (&[axis], right) = (contracted, &reads[1]) else { return false };
        let shape = &right.layout.shape;
        shape.rank() == 2
            && !shape[axis].is_multiple_of(EXTENT_ALIGNMENT)
            && right.layout.strides[1 - axis] == 1
            && self.room(right, true).lines == 0
            && self.room(&reads[0], true).elements > 0
    }

    /// Returns the padding of a buffer, if the matrix fills the buffer. If `zeros` is true, padding that is
    /// not zero is ignored.
    fn room(&self, access: &Access, zeros: bool) -> Room {
        let of = |padded: &&Padded| {
            let is_whole = access.layout.offset == 0 && access.layout.shape.elements() == padded.elements;
            padded.buffer == access.buffer && is_whole && (padded.is_zero || !zeros)
        };
        self.padded.iter().find(of).map_or_else(Room::default, |padded| padded.room)
    }

    /// Adds padding rows to a temporary that a matrix of `rows` rows fills.
    fn make_room(&mut self, access: &Access, rows: usize) {
        if self.watched().contains(&access.buffer) {
            return;
        }
        let Some(ty) = self.memory.buffers.get_mut(&access.buffer) else { return };
        let is_whole = access.layout.shape == ty.shape && access.layout.is_contiguous();
        if is_whole && ty.shape.rank() == 2 && ty.shape[0] == rows {
            let all = rows.next_multiple_of(EXTENT_ALIGNMENT);
            let (elements, room) = (ty.elements(), Room { elements: 0, lines: all - rows });
            ty.shape = [all, ty.shape[1]].into();
            self.padded.push(Padded { buffer: access.buffer, elements, room, is_zero: false });
        }
    }

    /// Returns a copy of an operand in another type. Products with the same operand share the copy.
    fn rounded(
        &mut self,
        draft: &Draft,
        read: usize,
        dtype: DType,
        known: &mut Vec<(Access, Access)>,
        before: &mut Vec<Draft>,
    ) -> Access {
        let Access { layout, .. } = &draft.reads[read];
        let order = rounded_order(layout);
        let from = Access { layout: layout.permute(&order), ..draft.reads[read].clone() };
        let copy = match known.iter().find(|(known, _)| *known == from) {
            Some((_, copy)) => copy.clone(),
            None => {
                let to = self.copied_to(draft, &from, dtype, before);
                known.push((from, to.clone()));
                to
            }
        };
        Access { layout: copied_layout(&layout.shape, &order), ..copy }
    }

    /// Copies an operand to another type. A matrix whose number of rows is not aligned gets padding rows of
    /// zeros.
    fn copied_to(&mut self, draft: &Draft, from: &Access, dtype: DType, before: &mut Vec<Draft>) -> Access {
        let shape = &from.layout.shape;
        let copy = Kernel::Loop(identity(shape));
        let [rows, columns] = match shape[..] {
            [rows, columns] if !rows.is_multiple_of(EXTENT_ALIGNMENT) => [rows, columns],
            _ => {
                let to = self.memory.temporary(Type::new(dtype, shape.clone()));
                before.push(draft.beside(copy, vec![from.clone()], vec![to.clone()]));
                return to;
            }
        };
        let all = rows.next_multiple_of(EXTENT_ALIGNMENT);
        let whole = self.memory.temporary(Type::new(dtype, [all, columns]));
        let window = |first: usize, limit: usize| Access {
            layout: whole.layout.slice(&[first, 0], &[limit, columns], &[1, 1]),
            ..whole.clone()
        };
        let (to, behind) = (window(0, rows), window(rows, all));
        let parts = vec![part(copy, 0..1, 0), part(zeros(&behind.layout.shape), 1..1, 1)];
        before.push(draft.beside(Kernel::Group(parts), vec![from.clone()], vec![to.clone(), behind]));
        let room = Room { elements: 0, lines: all - rows };
        self.padded.push(Padded { buffer: to.buffer, elements: rows * columns, room, is_zero: true });
        to
    }
}

/// Returns the operand type with which the library computes products for a target, and the minimum number of
/// their multiplications; `None` if it computes none.
pub(crate) fn library_support(target: &Target) -> Option<(DType, usize)> {
    let (limits, precision) = (&target.limits, target.precision());
    let least = least_product(precision, limits.library?)?;
    let dtype = match precision {
        Precision::F16 | Precision::Bf16 => limits.half(precision)?,
        Precision::F32 | Precision::Tf32 | Precision::Tf32x3 => DType::F32,
    };
    Some((dtype, least))
}

/// Returns `true` if the library computes a product faster than our kernels. `least` is the minimum number of
/// multiplications, `right` the type of the right operand, `dtype` the type that the library computes in, and
/// `row` the distance between rows of the result, in elements. The time of a product with few rows is that of
/// reading the right operand, so rounding this operand first would be slower.
pub(super) fn is_large(
    limits: &Limits,
    axes: &DotAxes,
    [lhs, rhs]: [&Layout; 2],
    (right, dtype): (DType, DType),
    (least, row): (usize, usize),
) -> bool {
    let is_stored = right == dtype && dtype != DType::F32;
    LibraryProduct::multiplications(axes, &lhs.shape, &rhs.shape) >= least
        && DotProblem::new(axes, lhs, rhs).map(fold_batch).is_none_or(|problem| {
            !(reads_once(&problem, dtype, limits) || is_stored && has_odd_columns(&problem, dtype, row))
        })
}

/// Returns `true` if a product of few rows has a number of columns that is not a multiple of
/// [`EXTENT_ALIGNMENT`], and that the library cannot round up: the right operand, which is read without a
/// copy, or the rows of the result, which are `row` elements apart, have too little padding. On an H200, the
/// logits of 64 texts take 155 us with the library, 24 us with the library and padding, and 37 us with our
/// kernel.
fn has_odd_columns(problem: &DotProblem, dtype: DType, row: usize) -> bool {
    let all = problem.n.next_multiple_of(EXTENT_ALIGNMENT);
    let has_room = row >= all && takes_lines_behind(problem.rhs.free_stride, dtype);
    problem.m <= ROWS_OF_A_TILE && problem.rhs.contract_stride == 1 && problem.n != all && !has_room
}

/// A buffer with padding after its contents.
pub(super) struct Padded {
    pub(super) buffer: ValueId,
    /// Number of elements without the padding.
    pub(super) elements: usize,
    pub(super) room: Room,
    /// True if the padding is zero.
    pub(super) is_zero: bool,
}

/// Returns a part of a group with these reads and one write.
pub(super) fn part(kernel: Kernel, reads: Range<usize>, write: usize) -> Part {
    Part { kernel, reads, writes: write..write + 1, schedule: Schedule::Whole, workspace: 0..0 }
}

/// Returns a loop that writes zeros.
pub(super) fn zeros(shape: &Shape) -> Kernel {
    let zero =
        Node { kind: NodeKind::Constant(Number::Float(0.0)), dtype: DType::F32, level: Level::Uniform };
    Kernel::Loop(Body { nodes: vec![zero], ..identity(shape) })
}

/// Returns the layout of an operand's copy in another type.
pub(super) fn rounded_layout(layout: &Layout) -> Layout {
    copied_layout(&layout.shape, &rounded_order(layout))
}

/// Returns the axes from the largest stride to the smallest one, so that neighbors in memory stay neighbors.
fn rounded_order(layout: &Layout) -> Vec<usize> {
    let mut order: Vec<usize> = (0..layout.shape.rank()).collect();
    sort_by_key(&mut order, |&axis| std::cmp::Reverse(layout.strides[axis]));
    order
}

/// Returns the type of a product that a loop reads: that of the loop's results if they all have the same
/// float type, and bf16, whose range is that of f32, if values between kernels and all results with an
/// element for each position have it; else f32.
pub(super) fn product_dtype(target: &Target, epilogue: &Body, writes: &[Access]) -> DType {
    let mut dtypes = writes.iter().map(|write| write.dtype);
    let first = dtypes.next().unwrap_or(DType::F32);
    if dtypes.all(|dtype| dtype == first) && first.is_float() {
        return first;
    }
    let mut elements = epilogue.stores.iter().filter_map(|store| match *store {
        Store::Value { level: Level::Element, write, .. } => Some(writes[write].dtype),
        _ => None,
    });
    let is_narrow = target.half() == Some(DType::BF16)
        && elements.next() == Some(DType::BF16)
        && elements.all(|dtype| dtype == DType::BF16);
    if is_narrow { DType::BF16 } else { DType::F32 }
}

/// Returns a loop that copies its operand.
fn identity(shape: &Shape) -> Body {
    let columns = shape.last().copied().unwrap_or(1);
    Body {
        rows: shape.elements() / columns.max(1),
        columns,
        nodes: vec![Node { kind: NodeKind::Load(0), dtype: DType::F32, level: Level::Element }],
        stores: vec![Store::Value { node: NodeId(0), level: Level::Element, write: 0 }],
    }
}
