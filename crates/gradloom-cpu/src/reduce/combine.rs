//! The functions that combine two elements, and the inner loops that combine many.
//!
//! In: contiguous elements. Out: their reduction or, column by column, their combination with running
//! results. Invariant: the order is the same on every instruction set: [`LANES`] running results in turn,
//! each of which combines four elements at a time while enough remain, then a tree over the lanes.

use crate::multiversion;

/// Number of running results of a row: four of the widest registers, which hides the latency of an addition.
const LANES: usize = 64;
/// Number of elements of the widest register; fewer elements are combined one by one.
const VECTOR: usize = 16;

/// An associative operator with an identity, on one element type.
pub(crate) trait Reducer: Send + Sync + 'static {
    type T: Copy + Default + PartialOrd + Send + Sync;
    /// The result of an empty reduction.
    const IDENTITY: Self::T;
    fn combine(a: Self::T, b: Self::T) -> Self::T;
}

/// An order that determines the extreme element. NaN comes before all numbers.
pub(super) trait Extreme: Reducer {
    /// Returns `true` if `a` comes strictly before `b`.
    fn ahead(a: Self::T, b: Self::T) -> bool;
    /// Returns `true` if `a` is the extreme element `b`.
    #[inline(always)]
    fn is(a: Self::T, b: Self::T) -> bool {
        a == b || (is_nan(a) && is_nan(b))
    }
}

/// Returns `true` if a value is NaN, the only value that is not equal to itself.
#[inline(always)]
#[allow(clippy::eq_op)]
fn is_nan<T: PartialOrd>(a: T) -> bool {
    a != a
}

/// Declares a reducer for each combining function and dtype, and the macro
/// `with_reducer!(op, dtype, F => value)`, which evaluates `value` with `F` as the reducer of the op.
macro_rules! reducers {
    ($d:tt $($name:ident: $combiner:ident of $dtype:pat => $T:ty, $identity:expr, $combine:expr;)*) => {
        $(
            pub(crate) struct $name;
            impl Reducer for $name {
                type T = $T;
                const IDENTITY: $T = $identity;
                #[inline(always)]
                fn combine(a: $T, b: $T) -> $T {
                    $combine(a, b)
                }
            }
        )*

        macro_rules! with_reducer {
            ($d op:expr, $d dtype:expr, $d F:ident => $d value:expr) => {{
                use gradloom_core::ir::BinaryOp;
                use gradloom_core::ir::DType::{F32, I32, U32};
                use $d crate::reduce::combine;
                match ($d op.combiner(), $d dtype) {
                    $((BinaryOp::$combiner, $dtype) => {
                        type $d F = combine::$name;
                        $d value
                    })*
                    (_, dtype) => panic!("gradloom launched {} of {dtype} elements; please report this", $d op.name()),
                }
            }};
        }
        pub(crate) use with_reducer;
    };
}

reducers! { $
    SumF32: Add of F32 => f32, 0.0, |a, b| a + b;
    ProdF32: Mul of F32 => f32, 1.0, |a, b| a * b;
    MaxF32: Max of F32 => f32, f32::NEG_INFINITY, larger;
    MinF32: Min of F32 => f32, f32::INFINITY, smaller;
    // In two's complement, sums and products have the same bits for i32 and u32, so one reducer serves both.
    SumU32: Add of I32 | U32 => u32, 0, u32::wrapping_add;
    ProdU32: Mul of I32 | U32 => u32, 1, u32::wrapping_mul;
    MaxI32: Max of I32 => i32, i32::MIN, i32::max;
    MinI32: Min of I32 => i32, i32::MAX, i32::min;
    MaxU32: Max of U32 => u32, u32::MIN, u32::max;
    MinU32: Min of U32 => u32, u32::MAX, u32::min;
}

/// Returns the larger number, or NaN if either is NaN.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// Returns the smaller number, or NaN if either is NaN.
#[inline(always)]
fn smaller(a: f32, b: f32) -> f32 {
    if a < b || a.is_nan() { a } else { b }
}

macro_rules! extreme {
    ($($name:ident $ahead:tt),*) => {$(
        impl Extreme for $name {
            #[inline(always)]
            fn ahead(a: Self::T, b: Self::T) -> bool {
                a $ahead b || (is_nan(a) && !is_nan(b))
            }
        }
    )*};
}
extreme!(MaxF32 >, MinF32 <, MaxI32 >, MinI32 <, MaxU32 >, MinU32 <);

/// # Safety
/// `from` must be valid for reads of `count` elements.
#[inline(always)]
pub(crate) unsafe fn row_body<F: Reducer>(count: usize, from: *const F::T) -> F::T {
    let mut lanes = [F::IDENTITY; LANES];
    let mut start = 0;
    while start + 4 * LANES <= count {
        // SAFETY: `start + 4 * LANES <= count`.
        let [a, b, c, d] = unsafe { &*from.add(start).cast::<[[F::T; LANES]; 4]>() };
        // Running results are in memory, so each update waits for the previous one. Combining four elements
        // first reduces the number of updates.
        for ((((running, &a), &b), &c), &d) in lanes.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *running = F::combine(*running, F::combine(F::combine(a, b), F::combine(c, d)));
        }
        start += 4 * LANES;
    }
    while start + LANES <= count {
        // SAFETY: `start + LANES <= count`.
        let elements = unsafe { &*from.add(start).cast::<[F::T; LANES]>() };
        // This loop is long enough to be vectorized; the compiler unrolls shorter loops first, which prevents
        // that.
        for (running, &element) in lanes.iter_mut().zip(elements) {
            *running = F::combine(*running, element);
        }
        start += LANES;
    }
    while start + VECTOR <= count {
        // SAFETY: `start + VECTOR <= count`.
        let elements = unsafe { &*from.add(start).cast::<[F::T; VECTOR]>() };
        for (running, &element) in lanes.iter_mut().zip(elements) {
            *running = F::combine(*running, element);
        }
        start += VECTOR;
    }
    halve::<F, 32>(&mut lanes);
    halve::<F, 16>(&mut lanes);
    halve::<F, 8>(&mut lanes);
    halve::<F, 4>(&mut lanes);
    halve::<F, 2>(&mut lanes);
    let mut result = F::combine(lanes[0], lanes[1]);
    for i in start..count {
        // SAFETY: `i < count`.
        result = F::combine(result, unsafe { *from.add(i) });
    }
    result
}

/// Combines the second `WIDTH` lanes into the first.
#[inline(always)]
fn halve<F: Reducer, const WIDTH: usize>(lanes: &mut [F::T; LANES]) {
    let (first, second) = lanes.split_at_mut(WIDTH);
    for i in 0..WIDTH {
        first[i] = F::combine(first[i], second[i]);
    }
}

/// # Safety
/// `from` must be valid for reads of `count` elements, and `best` and `positions` for reads and writes of
/// `count` elements. None of them may overlap.
#[inline(always)]
unsafe fn arg_columns_body<F: Extreme>(
    count: usize,
    from: *const F::T,
    best: *mut F::T,
    positions: *mut i32,
    position: i32,
) {
    for i in 0..count {
        // SAFETY: `i < count`.
        unsafe {
            let ahead = F::ahead(*from.add(i), *best.add(i));
            *positions.add(i) = if ahead { position } else { *positions.add(i) };
            *best.add(i) = if ahead { *from.add(i) } else { *best.add(i) };
        }
    }
}

multiversion! {
    /// Reduces contiguous elements to one.
    pub(super) fn row<F: Reducer>(count: usize, from: *const F::T) -> F::T = row_body;
}
multiversion! {
    /// Replaces each of the `count` elements at `best` that the corresponding element at `from` comes before,
    /// and records `position` for those that were replaced.
    pub(super) fn arg_columns<F: Extreme>(
        count: usize, from: *const F::T, best: *mut F::T, positions: *mut i32, position: i32
    ) = arg_columns_body;
}
