//! The loop that computes each elementwise op.
//!
//! In: an elementwise op, its operand's dtype and an instruction set. Out: a [`MapFn`].
//! Always holds: an integer division by zero gives 0 here; the caller has looked for zero divisors and traps.

use super::map::{Map1, Map2, Map3, MapFn, map1, map2, map3};
use crate::cpu::{Level, math};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, UnaryOp};

/// An elementwise function by name: what a loop is chosen by, and what machine code is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cpu) enum MapOp {
    /// A function of one operand, with the dtype of its elements.
    Unary(UnaryOp, DType),
    /// A function of two operands, with the dtype of their elements.
    Binary(BinaryOp, DType),
    /// Two functions of f32, as [`pair`] has them.
    Pair { first: BinaryOp, second: BinaryOp, reversed: bool },
    /// A comparison, with the dtype of the elements that are compared.
    Compare(CompareOp, DType),
    /// Between elements of this dtype.
    Select(DType),
    /// A conversion from the first dtype to the second.
    Cast(DType, DType),
}

impl MapOp {
    /// The loop that computes it.
    ///
    /// # Panics
    /// For an op on a dtype that shape inference refuses, and for a pair that is none.
    pub(in crate::cpu) fn function(self, level: Level) -> MapFn {
        match self {
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
}

/// A loop for a function that is written in place: `function!(level, (a: f32) -> f32 { -a })`.
macro_rules! function {
    ($level:expr, ($a:ident: $A:ty) -> $R:ty { $($body:tt)* }) => {{
        struct Function;
        impl Map1 for Function {
            type A = $A;
            type R = $R;
            #[inline(always)]
            fn apply($a: $A) -> $R { $($body)* }
        }
        map1::<Function>($level)
    }};
    ($level:expr, ($a:ident: $A:ty, $b:ident: $B:ty) -> $R:ty { $($body:tt)* }) => {{
        struct Function;
        impl Map2 for Function {
            type A = $A;
            type B = $B;
            type R = $R;
            #[inline(always)]
            fn apply($a: $A, $b: $B) -> $R { $($body)* }
        }
        map2::<Function>($level)
    }};
    ($level:expr, ($a:ident: $A:ty, $b:ident: $B:ty, $c:ident: $C:ty) -> $R:ty { $($body:tt)* }) => {{
        struct Function;
        impl Map3 for Function {
            type A = $A;
            type B = $B;
            type C = $C;
            type R = $R;
            #[inline(always)]
            fn apply($a: $A, $b: $B, $c: $C) -> $R { $($body)* }
        }
        map3::<Function>($level)
    }};
}

/// The larger of two, or a NaN.
macro_rules! larger {
    ($a:expr, $b:expr) => {
        // `a != a` holds for a NaN, and never for an integer.
        if $a > $b || !($a == $a) { $a } else { $b }
    };
}

/// The smaller of two, or a NaN.
macro_rules! smaller {
    ($a:expr, $b:expr) => {
        if $a < $b || !($a == $a) { $a } else { $b }
    };
}
pub(in crate::cpu) use {larger, smaller};

/// A function that vectorises below [`math::LARGE_ANGLE`] and falls back to a scalar one beyond.
macro_rules! angle {
    ($level:expr, $function:path, $scalar:path) => {{
        struct Function;
        impl Map1 for Function {
            type A = f32;
            type R = f32;
            #[inline(always)]
            fn apply(a: f32) -> f32 {
                $function(a)
            }
            #[inline(always)]
            fn is_rare(a: f32) -> bool {
                a.abs() >= math::LARGE_ANGLE
            }
            fn rare(a: f32) -> f32 {
                $scalar(a)
            }
        }
        map1::<Function>($level)
    }};
}

/// An op on a dtype that `UnaryOp::accepts` and its kin refuse cannot come out of shape inference.
fn refused(op: &str, dtype: DType) -> ! {
    panic!("gradloom launched {op} on {dtype} elements; please report this")
}

/// The loop of an elementwise function of one operand.
pub(in crate::cpu) fn unary(op: UnaryOp, dtype: DType, level: Level) -> MapFn {
    use DType::{Bool, F32, I32, U32};
    match (op, dtype) {
        (UnaryOp::Neg, F32) => function!(level, (a: f32) -> f32 { -a }),
        (UnaryOp::Neg, I32) => function!(level, (a: i32) -> i32 { a.wrapping_neg() }),
        (UnaryOp::Abs, F32) => function!(level, (a: f32) -> f32 { a.abs() }),
        (UnaryOp::Abs, I32) => function!(level, (a: i32) -> i32 { a.wrapping_abs() }),
        (UnaryOp::Sign, F32) => function!(level, (a: f32) -> f32 {
            let signed = 1f32.copysign(a);
            if a.abs() > 0.0 { signed } else { a }
        }),
        (UnaryOp::Sign, I32) => function!(level, (a: i32) -> i32 { i32::from(a > 0) - i32::from(a < 0) }),
        (UnaryOp::Floor, F32) => function!(level, (a: f32) -> f32 { a.floor() }),
        (UnaryOp::Exp, F32) => function!(level, (a: f32) -> f32 { math::exp(a) }),
        (UnaryOp::Expm1, F32) => function!(level, (a: f32) -> f32 { math::expm1(a) }),
        (UnaryOp::Log, F32) => function!(level, (a: f32) -> f32 { math::log(a) }),
        (UnaryOp::Log1p, F32) => function!(level, (a: f32) -> f32 { math::log1p(a) }),
        (UnaryOp::Sqrt, F32) => function!(level, (a: f32) -> f32 { a.sqrt() }),
        (UnaryOp::Rsqrt, F32) => function!(level, (a: f32) -> f32 { 1.0 / a.sqrt() }),
        (UnaryOp::Sin, F32) => angle!(level, math::sin, libm::sinf),
        (UnaryOp::Cos, F32) => angle!(level, math::cos, libm::cosf),
        (UnaryOp::Tanh, F32) => function!(level, (a: f32) -> f32 { math::tanh(a) }),
        (UnaryOp::Sigmoid, F32) => function!(level, (a: f32) -> f32 { math::sigmoid(a) }),
        (UnaryOp::Erf, F32) => function!(level, (a: f32) -> f32 { math::erf(a) }),
        (UnaryOp::Not, I32 | U32) => function!(level, (a: u32) -> u32 { !a }),
        (UnaryOp::Detach, F32 | I32 | U32) => function!(level, (a: u32) -> u32 { a }),
        (UnaryOp::Detach, Bool) => function!(level, (a: u8) -> u8 { a }),
        (UnaryOp::Not, Bool) => function!(level, (a: u8) -> u8 { a ^ 1 }),
        (
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Sign
            | UnaryOp::Floor
            | UnaryOp::Exp
            | UnaryOp::Expm1
            | UnaryOp::Log
            | UnaryOp::Log1p
            | UnaryOp::Sqrt
            | UnaryOp::Rsqrt
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Tanh
            | UnaryOp::Sigmoid
            | UnaryOp::Erf
            | UnaryOp::Not,
            dtype,
        ) => refused(op.name(), dtype),
    }
}

/// The loop of an elementwise function of two operands.
pub(in crate::cpu) fn binary(op: BinaryOp, dtype: DType, level: Level) -> MapFn {
    use BinaryOp::{Add, And, Div, Max, Min, Mul, Or, Pow, Rem, Shl, Shr, Sub, Xor};
    use DType::{Bool, F32, I32, U32};
    match (op, dtype) {
        (Add, F32) => function!(level, (a: f32, b: f32) -> f32 { a + b }),
        (Sub, F32) => function!(level, (a: f32, b: f32) -> f32 { a - b }),
        (Mul, F32) => function!(level, (a: f32, b: f32) -> f32 { a * b }),
        (Div, F32) => function!(level, (a: f32, b: f32) -> f32 { a / b }),
        (Rem, F32) => function!(level, (a: f32, b: f32) -> f32 { a % b }),
        (Pow, F32) => function!(level, (a: f32, b: f32) -> f32 { math::pow(a, b) }),
        (Min, F32) => function!(level, (a: f32, b: f32) -> f32 { smaller!(a, b) }),
        (Max, F32) => function!(level, (a: f32, b: f32) -> f32 { larger!(a, b) }),
        // Two's complement: the same bits for both signs.
        (Add, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a.wrapping_add(b) }),
        (Sub, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a.wrapping_sub(b) }),
        (Mul, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a.wrapping_mul(b) }),
        (Div, I32) => {
            function!(level, (a: i32, b: i32) -> i32 { if b == 0 { 0 } else { a.wrapping_div(b) } })
        }
        (Div, U32) => function!(level, (a: u32, b: u32) -> u32 { a.checked_div(b).unwrap_or(0) }),
        (Rem, I32) => {
            function!(level, (a: i32, b: i32) -> i32 { if b == 0 { 0 } else { a.wrapping_rem(b) } })
        }
        (Rem, U32) => function!(level, (a: u32, b: u32) -> u32 { a.checked_rem(b).unwrap_or(0) }),
        (Min, I32) => function!(level, (a: i32, b: i32) -> i32 { a.min(b) }),
        (Min, U32) => function!(level, (a: u32, b: u32) -> u32 { a.min(b) }),
        (Max, I32) => function!(level, (a: i32, b: i32) -> i32 { a.max(b) }),
        (Max, U32) => function!(level, (a: u32, b: u32) -> u32 { a.max(b) }),
        (And, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a & b }),
        (Or, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a | b }),
        (Xor, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a ^ b }),
        (And, Bool) => function!(level, (a: u8, b: u8) -> u8 { a & b }),
        (Or, Bool) => function!(level, (a: u8, b: u8) -> u8 { a | b }),
        (Xor, Bool) => function!(level, (a: u8, b: u8) -> u8 { a ^ b }),
        (Shl, I32 | U32) => function!(level, (a: u32, b: u32) -> u32 { a << (b & 31) }),
        (Shr, I32) => function!(level, (a: i32, b: i32) -> i32 { a >> (b & 31) }),
        (Shr, U32) => function!(level, (a: u32, b: u32) -> u32 { a >> (b & 31) }),
        (Add | Sub | Mul | Div | Min | Max | Rem, Bool) | (Pow, I32 | U32 | Bool) => {
            refused(op.name(), dtype)
        }
        (And | Or | Xor, F32) | (Shl | Shr, F32 | Bool) => refused(op.name(), dtype),
    }
}

/// The loop of two functions of f32, one after the other: `(a first b) second c`, or, `reversed`,
/// `c second (a first b)`. None for functions that are not worth it. Each of the two is rounded.
pub(in crate::cpu) fn pair(first: BinaryOp, second: BinaryOp, reversed: bool, level: Level) -> Option<MapFn> {
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

/// The loop of a comparison.
pub(in crate::cpu) fn compare(op: CompareOp, dtype: DType, level: Level) -> MapFn {
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
    }
}

/// The loop of a selection between two operands.
pub(in crate::cpu) fn select(dtype: DType, level: Level) -> MapFn {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => {
            function!(level, (c: u8, a: u32, b: u32) -> u32 { if c != 0 { a } else { b } })
        }
        DType::Bool => function!(level, (c: u8, a: u8, b: u8) -> u8 { if c != 0 { a } else { b } }),
    }
}

/// The loop of a conversion: floats round towards zero and saturate (NaN gives 0), integers wrap.
pub(in crate::cpu) fn cast(from: DType, to: DType, level: Level) -> MapFn {
    use DType::{Bool, F32, I32, U32};
    match (from, to) {
        (F32, F32) | (I32 | U32, I32 | U32) => function!(level, (a: u32) -> u32 { a }),
        // As `a as i32` does; that compiles to a scalar conversion of each element.
        (F32, I32) => function!(level, (a: f32) -> i32 {
            let (low, high) = (-2_147_483_648.0, 2_147_483_648.0);
            // SAFETY: the number is finite and in range. NaN is in no range, and becomes 0.
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
        (Bool, Bool) => function!(level, (a: u8) -> u8 { a }),
    }
}
