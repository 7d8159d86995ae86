//! The loop of each elementwise op, generated from the table of [`gradloom_codegen::cpu::functions`].
//!
//! In: an elementwise op, its operand's dtype and an instruction set. Out: a [`MapFn`].

use super::map::{CHUNK, Map1, Map2, Map3, MapFn, map1, map2, map3};
use crate::{InstructionSet, math};
use gradloom_codegen::cpu::functions::{MapOp, low_bits};
use gradloom_codegen::cpu::lanes::BinaryInst::{
    self, AddInt, MaxSigned, MaxUnsigned, MinSigned, MinUnsigned, MulInt, ShiftLeft, ShiftRightSigned,
    ShiftRightUnsigned, SubInt,
};
use gradloom_codegen::cpu::lanes::UnaryInst::{self, AbsInt};
use gradloom_codegen::cpu::lanes::{LaneKind, Lanes, MaskOp, Scalar};
use gradloom_codegen::cpu_functions;
use gradloom_core::ir::DType::{self, BF16, Bool, F16, F32, I32, I64, U8, U32};
use gradloom_core::ir::half;
use gradloom_core::ir::{BinaryOp, CompareOp, UnaryOp};
use std::mem::MaybeUninit;

/// Returns the loop that computes an op.
///
/// # Panics
/// Panics if shape inference rejects the op on its dtype, or if there is no loop for the pair.
pub(crate) fn function(op: MapOp, level: InstructionSet) -> MapFn {
    match op {
        // Fused loops also copy elements of these dtypes with `Detach`.
        MapOp::Unary(UnaryOp::Detach, dtype @ (F16 | BF16 | U8)) => cast(dtype, dtype, level),
        MapOp::Unary(op, dtype) => unary(op, dtype, level),
        MapOp::Binary(op, dtype) => binary(op, dtype, level),
        MapOp::Pair { first, second, reversed } => {
            pair(first, second, reversed, level).expect("the two functions are a pair")
        }
        MapOp::Compare(op, dtype) => compare(op, dtype, level),
        MapOp::Select(dtype) => select(dtype, level),
        MapOp::Cast(from, to) => cast(from, to, level),
    }
}

/// Creates the loop of a function written inline: `function!(level, (a: f32) -> f32 { -a })`.
macro_rules! function {
    (@ $level:expr, $Map:ident, $map:ident, [$($T:ident $a:ident: $A:ty),*], $R:ty, $body:block) => {{
        struct Function;
        impl $Map for Function {
            $(type $T = $A;)*
            type R = $R;
            #[inline(always)]
            fn apply($($a: $A),*) -> $R $body
        }
        $map::<Function>($level)
    }};
    ($level:expr, ($a:ident: $A:ty) -> $R:ty $body:block) => {
        function!(@ $level, Map1, map1, [A $a: $A], $R, $body)
    };
    ($level:expr, ($a:ident: $A:ty, $b:ident: $B:ty) -> $R:ty $body:block) => {
        function!(@ $level, Map2, map2, [A $a: $A, B $b: $B], $R, $body)
    };
    ($level:expr, ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) -> $R:ty $body:block) => {
        function!(@ $level, Map3, map3, [A $a: $A, B $b: $B, C $c: $C], $R, $body)
    };
}

/// Creates the loop of one row of the table.
macro_rules! row_loop {
    ($level:expr, lanes ($l:ident, $a:ident) $body:tt) => {
        function!($level, ($a: u32) -> u32 { let $l = &mut Scalar; $body })
    };
    ($level:expr, lanes ($l:ident, $a:ident, $b:ident) $body:tt) => {
        function!($level, ($a: u32, $b: u32) -> u32 { let $l = &mut Scalar; $body })
    };
    ($level:expr, masks ($l:ident, $a:ident) $body:tt) => {
        function!($level, ($a: u8) -> u8 { let ($l, $a) = (&mut Scalar, $a != 0); u8::from($body) })
    };
    ($level:expr, masks ($l:ident, $a:ident, $b:ident) $body:tt) => {
        function!($level, ($a: u8, $b: u8) -> u8 {
            let ($l, $a, $b) = (&mut Scalar, $a != 0, $b != 0);
            u8::from($body)
        })
    };
    ($level:expr, scalar ($a:ident: $T:ty, $b:ident: $U:ty) $body:tt) => {
        function!($level, ($a: $T, $b: $U) -> $T { $body })
    };
    // The loop is vectorized for angles below `math::LARGE_ANGLE`; a scalar function computes larger angles.
    ($level:expr, angle ($function:path, $scalar:path) {}) => {{
        struct Function;
        impl Map1 for Function {
            type A = f32;
            type R = f32;
            #[inline(always)]
            fn apply(a: f32) -> f32 {
                $function(a)
            }
            #[inline(always)]
            fn chunk(angles: &[f32; CHUNK], results: &mut [MaybeUninit<f32>; CHUNK]) {
                let mut any_large = false;
                for (result, &a) in results.iter_mut().zip(angles) {
                    any_large |= a.abs() >= math::LARGE_ANGLE;
                    result.write(Self::apply(a));
                }
                if any_large {
                    let all = results.iter_mut().zip(angles);
                    for (result, &a) in all.filter(|(_, a)| a.abs() >= math::LARGE_ANGLE) {
                        result.write($scalar(a));
                    }
                }
            }
        }
        map1::<Function>($level)
    }};
}

macro_rules! loops {
    ($Op:ident, $count:literal, $function:ident, $formula:ident, $has_formula:ident {
        $($op:ident { $($dtype:pat => $kind:ident $args:tt $body:tt)* })*
    }) => {
        /// Returns the loop of an op on elements of a dtype.
        #[allow(unused_braces)]
        pub(crate) fn $function(op: $Op, dtype: DType, level: InstructionSet) -> MapFn {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => row_loop!(level, $kind $args $body),)*
                    #[allow(unreachable_patterns)]
                    _ => refused(op.name(), dtype),
                })*
            }
        }
    };
}
cpu_functions!(loops);

/// Panics because of an op on a dtype that shape inference must reject.
fn refused(op: &str, dtype: DType) -> ! {
    panic!("gradloom launched {op} on {dtype} elements; please report this")
}

/// Returns the loop of two f32 functions in sequence: `(a first b) second c` or, if `reversed`,
/// `c second (a first b)`. Both results are rounded. Returns `None` if the pair is not worth fusing.
pub(crate) fn pair(
    first: BinaryOp,
    second: BinaryOp,
    reversed: bool,
    level: InstructionSet,
) -> Option<MapFn> {
    use BinaryOp::{Add, Mul, Sub};
    macro_rules! of {
        ($first:tt) => {
            match (second, reversed) {
                (Add, _) => function!(level, (a: f32, b: f32, c: f32) -> f32 { (a $first b) + c }),
                (Mul, _) => function!(level, (a: f32, b: f32, c: f32) -> f32 { (a $first b) * c }),
                (Sub, false) => function!(level, (a: f32, b: f32, c: f32) -> f32 { (a $first b) - c }),
                (Sub, true) => function!(level, (a: f32, b: f32, c: f32) -> f32 { c - (a $first b) }),
                _ => return None,
            }
        };
    }
    Some(match first {
        Add => of!(+),
        Sub => of!(-),
        Mul => of!(*),
        _ => return None,
    })
}

/// Returns the loop of a comparison.
pub(crate) fn compare(op: CompareOp, dtype: DType, level: InstructionSet) -> MapFn {
    macro_rules! of {
        ($T:ty) => {
            match op {
                CompareOp::Eq => function!(level, (a: $T, b: $T) -> u8 { u8::from(a == b) }),
                CompareOp::Ne => function!(level, (a: $T, b: $T) -> u8 { u8::from(a != b) }),
                CompareOp::Lt => function!(level, (a: $T, b: $T) -> u8 { u8::from(a < b) }),
                CompareOp::Le => function!(level, (a: $T, b: $T) -> u8 { u8::from(a <= b) }),
                CompareOp::Gt => function!(level, (a: $T, b: $T) -> u8 { u8::from(a > b) }),
                CompareOp::Ge => function!(level, (a: $T, b: $T) -> u8 { u8::from(a >= b) }),
            }
        };
    }
    match dtype {
        DType::F32 => of!(f32),
        DType::I32 => of!(i32),
        DType::U32 => of!(u32),
        DType::Bool => of!(u8),
        F16 | BF16 | U8 | I64 => refused(op.name(), dtype),
    }
}

/// Returns the loop of a selection between two operands.
pub(crate) fn select(dtype: DType, level: InstructionSet) -> MapFn {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => {
            function!(level, (c: u8, a: u32, b: u32) -> u32 { if c != 0 { a } else { b } })
        }
        DType::F16 | DType::BF16 => {
            function!(level, (c: u8, a: u16, b: u16) -> u16 { if c != 0 { a } else { b } })
        }
        Bool | U8 => function!(level, (c: u8, a: u8, b: u8) -> u8 { if c != 0 { a } else { b } }),
        I64 => refused("select", dtype),
    }
}

/// Returns the loop of a conversion. Floats converted to integers round towards zero and saturate, and NaN
/// becomes 0; integers wrap.
pub(crate) fn cast(from: DType, to: DType, level: InstructionSet) -> MapFn {
    match (from, to) {
        (F32, F32) | (I32 | U32, I32 | U32) => function!(level, (a: u32) -> u32 { a }),
        // This is equivalent to `a as i32`, but that would compile to a scalar conversion of each element.
        (F32, I32) => function!(level, (a: f32) -> i32 {
            let (low, high) = (-2_147_483_648.0, 2_147_483_648.0);
            // SAFETY: the number is finite and in range; NaN fails both comparisons and is replaced by 0.
            let inside = unsafe { (if a >= low && a < high { a } else { 0.0 }).to_int_unchecked::<i32>() };
            let above = if a >= high { i32::MAX } else { inside };
            if a < low { i32::MIN } else { above }
        }),
        (F32, U32) => function!(level, (a: f32) -> u32 {
            let high = 4_294_967_296.0;
            // SAFETY: as above.
            let inside = unsafe { (if a >= 0.0 && a < high { a } else { 0.0 }).to_int_unchecked::<u32>() };
            if a >= high { u32::MAX } else { inside }
        }),
        (F32, Bool) => function!(level, (a: f32) -> u8 { u8::from(a != 0.0) }),
        (I32, F32) => function!(level, (a: i32) -> f32 { a as f32 }),
        (U32, F32) => function!(level, (a: u32) -> f32 { a as f32 }),
        (I32 | U32, Bool) => function!(level, (a: u32) -> u8 { u8::from(a != 0) }),
        (Bool, F32) => function!(level, (a: u8) -> f32 { f32::from(a) }),
        (Bool, I32 | U32) => function!(level, (a: u8) -> u32 { u32::from(a) }),
        (Bool, Bool) | (U8, U8) => function!(level, (a: u8) -> u8 { a }),
        (F16, F16) | (BF16, BF16) => function!(level, (a: u16) -> u16 { a }),
        (F16, F32) => function!(level, (a: u16) -> f32 { half::from_f16(a) }),
        (F32, F16) => function!(level, (a: f32) -> u16 { half::to_f16(a) }),
        (BF16, F32) => function!(level, (a: u16) -> f32 { half::from_bf16(a) }),
        (F32, BF16) => function!(level, (a: f32) -> u16 { half::to_bf16(a) }),
        (U8, I32) => function!(level, (a: u8) -> u32 { u32::from(a) }),
        (I32, U8) => function!(level, (a: u32) -> u8 { a as u8 }),
        (F16 | BF16 | U8 | I64, _) | (_, F16 | BF16 | U8 | I64) => refused("cast", from),
    }
}
