//! Cumulative reductions along rows.
//!
//! Long rows are divided into pieces. The totals of all pieces are computed first, then each piece, starting
//! from the total of the pieces before it. Sums and products of floats are accumulated in f64, so that long
//! rows lose no precision. Totals and results are computed in the order of the elements, eight at a time.

use super::{Call, Prepared, Source, Tasks};
use crate::InstructionSet;
use crate::multiversion;
use crate::work::GRAIN;
use gradloom_codegen::cpu::{PIECE, Rows};
use gradloom_core::ir::{DType, ReduceOp};
use gradloom_core::kernel::Launch;

/// A reduction of elements of one type.
trait Reduction: Send + Sync + 'static {
    /// Type of an element.
    type T: Copy;
    /// Type of a total, with at most eight bytes.
    type Sum: Copy;
    const IDENTITY: Self::Sum;
    fn widen(x: Self::T) -> Self::Sum;
    fn combine(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self::T;
}

macro_rules! reductions {
    ($($name:ident $t:ty as $sum:ty: $identity:expr, $combine:expr;)*) => {$(
        struct $name;
        impl Reduction for $name {
            type T = $t;
            type Sum = $sum;
            const IDENTITY: $sum = $identity;
            #[inline(always)]
            fn widen(x: $t) -> $sum {
                x.into()
            }
            #[inline(always)]
            fn combine(a: $sum, b: $sum) -> $sum {
                let combine: fn($sum, $sum) -> $sum = $combine;
                combine(a, b)
            }
            #[inline(always)]
            fn narrow(sum: $sum) -> $t {
                sum as $t
            }
        }
    )*};
}

reductions! {
    SumF32 f32 as f64: 0.0, |a, b| a + b;
    ProdF32 f32 as f64: 1.0, |a, b| a * b;
    // NaN persists: the first operand is kept unless the second one exceeds it or is NaN.
    MaxF32 f32 as f32: f32::NEG_INFINITY, |a, b| if b > a || b.is_nan() { b } else { a };
    MinF32 f32 as f32: f32::INFINITY, |a, b| if b < a || b.is_nan() { b } else { a };
    // Wrapping sums and products have the same bits for signed and unsigned integers, so one reduction serves
    // both.
    SumInt u32 as u32: 0, u32::wrapping_add;
    ProdInt u32 as u32: 1, u32::wrapping_mul;
    MaxI32 i32 as i32: i32::MIN, |a, b| a.max(b);
    MinI32 i32 as i32: i32::MAX, |a, b| a.min(b);
    MaxU32 u32 as u32: 0, |a, b| a.max(b);
    MinU32 u32 as u32: u32::MAX, |a, b| a.min(b);
}

/// Elements: the address of the first one, and the stride between them.
type From<T> = (*const T, isize);
/// Results: the address of the first one, and the stride between them.
type To<T> = (*mut T, isize);
/// Function that writes the running totals of elements, starting from a given total.
type Totals<F> = unsafe fn(From<<F as Reduction>::T>, To<<F as Reduction>::T>, usize, <F as Reduction>::Sum);

/// Number of elements combined before they are added to the total, so that blocks do not wait for each other.
const BLOCK: usize = 8;

/// Returns the total of `count` elements with stride `stride`.
///
/// # Safety
/// `from` must be valid for reads of `count` elements with stride `stride`.
#[inline(always)]
unsafe fn total_body<F: Reduction>(from: *const F::T, stride: isize, count: usize) -> F::Sum {
    let mut sum = F::IDENTITY;
    // SAFETY: `i` is below the count.
    let at = |i: usize| F::widen(unsafe { *from.offset(i as isize * stride) });
    let blocks = count / BLOCK;
    for block in 0..blocks {
        let x: [F::Sum; BLOCK] = std::array::from_fn(|i| at(block * BLOCK + i));
        let [a, b, c, d] = std::array::from_fn(|i| F::combine(x[2 * i], x[2 * i + 1]));
        sum = F::combine(sum, F::combine(F::combine(a, b), F::combine(c, d)));
    }
    (blocks * BLOCK..count).fold(sum, |sum, i| F::combine(sum, at(i)))
}

multiversion! {
    fn total<F: Reduction>(from: *const F::T, stride: isize, count: usize) -> F::Sum = total_body;
}

/// Writes the inclusive running totals of `count` elements, starting from `sum`.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `count` elements with their strides.
#[inline(always)]
unsafe fn totals_body<F: Reduction>(
    (from, from_stride): From<F::T>,
    (to, to_stride): To<F::T>,
    count: usize,
    mut sum: F::Sum,
) {
    // SAFETY: `i` is below the count.
    let at = |i: usize| F::widen(unsafe { *from.offset(i as isize * from_stride) });
    let put = |i: usize, sum: F::Sum| unsafe { *to.offset(i as isize * to_stride) = F::narrow(sum) };
    let blocks = count / BLOCK;
    for block in 0..blocks {
        let start = block * BLOCK;
        let mut x: [F::Sum; BLOCK] = std::array::from_fn(|i| at(start + i));
        for i in 1..BLOCK {
            x[i] = F::combine(x[i - 1], x[i]);
        }
        for (i, &x) in x.iter().enumerate() {
            put(start + i, F::combine(sum, x));
        }
        sum = F::combine(sum, x[BLOCK - 1]);
    }
    for i in blocks * BLOCK..count {
        sum = F::combine(sum, at(i));
        put(i, sum);
    }
}

/// Calls [`totals_body`] with constant strides if both are 1 or both are -1.
///
/// # Safety
/// Same as [`totals_body`].
#[inline(always)]
unsafe fn any_totals_body<F: Reduction>(from: From<F::T>, to: To<F::T>, count: usize, sum: F::Sum) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (from.1, to.1) {
            (1, 1) => totals_body::<F>((from.0, 1), (to.0, 1), count, sum),
            (-1, -1) => totals_body::<F>((from.0, -1), (to.0, -1), count, sum),
            _ => totals_body::<F>(from, to, count, sum),
        }
    }
}

multiversion! {
    fn totals<F: Reduction>(
        from: From<F::T>, to: To<F::T>, count: usize, sum: F::Sum,
    ) = any_totals_body;
}

/// Returns a kernel for a `Cumulate` launch.
pub(crate) fn prepare(
    launch: &Launch,
    op: ReduceOp,
    reverse: bool,
    level: InstructionSet,
) -> Box<dyn Prepared> {
    macro_rules! kernel {
        ($F:ty) => {
            Box::new(Cumulate::<$F> {
                rows: Rows::of(&launch.reads[0]),
                source: Source::new(&launch.reads[0]),
                result: launch.writes[0].layout.offset,
                reverse,
                total: total::<$F>(level),
                totals: totals::<$F>(level),
            })
        };
    }
    match (op, launch.reads[0].dtype) {
        (ReduceOp::Sum, DType::F32) => kernel!(SumF32),
        (ReduceOp::Prod, DType::F32) => kernel!(ProdF32),
        (ReduceOp::Max, DType::F32) => kernel!(MaxF32),
        (ReduceOp::Min, DType::F32) => kernel!(MinF32),
        (ReduceOp::Sum, DType::I32 | DType::U32) => kernel!(SumInt),
        (ReduceOp::Prod, DType::I32 | DType::U32) => kernel!(ProdInt),
        (ReduceOp::Max, DType::I32) => kernel!(MaxI32),
        (ReduceOp::Min, DType::I32) => kernel!(MinI32),
        (ReduceOp::Max, DType::U32) => kernel!(MaxU32),
        (ReduceOp::Min, DType::U32) => kernel!(MinU32),
        (_, dtype @ (DType::Bool | DType::F16 | DType::BF16 | DType::U8 | DType::I64)) => {
            panic!("gradloom launched {op:?} on {dtype} elements; please report this")
        }
    }
}

struct Cumulate<F: Reduction> {
    rows: Rows,
    source: Source,
    /// Offset of the result.
    result: usize,
    reverse: bool,
    total: unsafe fn(*const F::T, isize, usize) -> F::Sum,
    totals: Totals<F>,
}

impl<F: Reduction> Cumulate<F> {
    /// Returns the number of rows of a task, if every row is one piece.
    fn together(&self) -> usize {
        (GRAIN / self.rows.extent.max(1)).max(1)
    }

    /// Returns the elements of a row and their results, from position `start` of the traversal on.
    fn from(&self, call: &Call<'_>, row: usize, start: usize) -> (From<F::T>, To<F::T>) {
        let extent = self.rows.extent;
        let (at, direction) = if self.reverse { (extent - 1 - start, -1) } else { (start, 1) };
        let from = self.source.row::<F::T>(call, row).wrapping_add(at * self.source.stride);
        let to = call.write::<F::T>(0, self.result + row * extent + at);
        ((from, self.source.stride as isize * direction), (to, direction))
    }
}

/// Phase 0 computes the total of each piece, phase 1 the results. If every row is one piece, its result is
/// computed in phase 0.
impl<F: Reduction> Tasks for Cumulate<F> {
    fn phases(&self) -> usize {
        2
    }

    fn count(&self, phase: usize) -> usize {
        let (rows, pieces) = (self.rows.rows, self.rows.pieces());
        match (phase, pieces) {
            (0, 0 | 1) => rows.div_ceil(self.together()),
            (_, 0 | 1) => 0,
            _ => rows * pieces,
        }
    }

    unsafe fn run_task(&self, call: &Call<'_>, phase: usize, task: usize) {
        let Rows { rows, extent } = self.rows;
        let (pieces, together) = (self.rows.pieces(), self.together());
        if pieces <= 1 {
            for row in task * together..rows.min((task + 1) * together) {
                let (from, to) = self.from(call, row, 0);
                // SAFETY: the row lies in the operand and in the result, and no other task writes its
                // results.
                unsafe { (self.totals)(from, to, extent, F::IDENTITY) };
            }
            return;
        }
        let total_of = |task: usize| call.scratch(size_of::<u64>() * task).cast::<F::Sum>();
        let (from, to) = self.from(call, task / pieces, task % pieces * PIECE);
        let length = PIECE.min(extent - task % pieces * PIECE);
        // SAFETY: the piece lies in the operand and in the result. In phase 0, each task has its own eight
        // bytes of scratch; in phase 1, no task writes the totals, and each has its own results.
        unsafe {
            if phase == 0 {
                *total_of(task) = (self.total)(from.0, from.1, length);
            } else {
                let before = task - task % pieces..task;
                let sum = before.fold(F::IDENTITY, |sum, piece| F::combine(sum, *total_of(piece)));
                (self.totals)(from, to, length, sum);
            }
        }
    }
}
