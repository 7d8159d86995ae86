//! What the CPU computes for each elementwise op: one table for interpreted loops and for machine code.
//!
//! In: an elementwise op, its operand's dtype and an instruction set. Out: a [`MapFn`], or a formula over
//! [`Lanes`]. Always holds: an integer division by zero gives 0 here; the caller has looked for zero divisors
//! and traps.

use super::map::{Map1, Map2, Map3, MapFn, map1, map2, map3};
use crate::cpu::lanes::BinaryInst::{
    self, AddInt, MaxSigned, MaxUnsigned, MinSigned, MinUnsigned, MulInt, ShiftLeft, ShiftRightSigned,
    ShiftRightUnsigned, SubInt,
};
use crate::cpu::lanes::UnaryInst::{self, AbsInt};
use crate::cpu::lanes::{Lane, Lanes, MaskOp, Scalar};
use crate::cpu::{Level, math};
use gradloom_core::ir::DType::{self, Bool, F32, I32, U32};
use gradloom_core::ir::{BinaryOp, CompareOp, UnaryOp};

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

/// The loop of a row of the table.
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
    // Vectorises below `math::LARGE_ANGLE`, and takes a scalar function beyond.
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

/// The formula of a row of the table, over any lanes; none for a row that has loops alone.
macro_rules! row_formula {
    ($lanes:ident, $operands:ident, lanes ($l:ident, $($a:ident),*) $body:tt) => {{
        let ($l, [$($a),*]) = ($lanes, $operands);
        Some($body)
    }};
    ($lanes:ident, $operands:ident, masks $args:tt $body:tt) => {
        row_formula!($lanes, $operands, lanes $args $body)
    };
    ($lanes:ident, $operands:ident, $other:ident $args:tt $body:tt) => {
        None
    };
}

macro_rules! has_formula {
    (lanes) => {
        true
    };
    (masks) => {
        true
    };
    ($other:ident) => {
        false
    };
}

/// Declares the functions of a group of ops: for each op and dtype what a device's arithmetic makes of it.
///
/// `lanes` is a formula of numbers, `masks` one of bools; `scalar` and `angle` are loops that have no lines of
/// machine code.
macro_rules! functions {
    ($Op:ident, $count:literal, $function:ident, $formula:ident, $has_formula:ident {
        $($op:ident { $($dtype:pat => $kind:ident $args:tt $body:tt)* })*
    }) => {
        /// The loop of an op on elements of a dtype.
        #[allow(unused_braces)]
        pub(in crate::cpu) fn $function(op: $Op, dtype: DType, level: Level) -> MapFn {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => row_loop!(level, $kind $args $body),)*
                    #[allow(unreachable_patterns)]
                    _ => refused(op.name(), dtype),
                })*
            }
        }

        /// The result of an op on lanes whose masks are values too; none for an op that has loops alone.
        #[allow(unused_braces)]
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
        pub(in crate::cpu) fn $formula<V: Copy, L: Lanes<Value = V, Mask = V>>(
            l: &mut L,
            op: $Op,
            dtype: DType,
            operands: [V; $count],
        ) -> Option<V> {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => row_formula!(l, operands, $kind $args $body),)*
                    #[allow(unreachable_patterns)]
                    _ => refused(op.name(), dtype),
                })*
            }
        }

        /// Whether an op on elements of a dtype has a formula.
        #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
        pub(in crate::cpu) fn $has_formula(op: $Op, dtype: DType) -> bool {
            match op {
                $($Op::$op => match dtype {
                    $($dtype => has_formula!($kind),)*
                    #[allow(unreachable_patterns)]
                    _ => false,
                })*
            }
        }
    };
}

/// An op on a dtype that `UnaryOp::accepts` and its kin refuse cannot come out of shape inference.
fn refused(op: &str, dtype: DType) -> ! {
    panic!("gradloom launched {op} on {dtype} elements; please report this")
}

functions! {
    UnaryOp, 1, unary, unary_formula, unary_has_formula {
        Neg {
            F32 => lanes (l, a) { l.negated(a) }
            I32 => lanes (l, a) {
                let zero = l.bits(0);
                l.two(SubInt, zero, a)
            }
        }
        Abs {
            F32 => lanes (l, a) { l.magnitude(a) }
            I32 => lanes (l, a) { l.one(AbsInt, a) }
        }
        Sign {
            F32 => lanes (l, a) {
                let (magnitude, zero, one) = (l.magnitude(a), l.bits(0), l.float(1.0));
                let signed = l.with_sign(one, a);
                let is_signed = l.compare(CompareOp::Gt, Lane::Float, magnitude, zero);
                l.select(is_signed, signed, a)
            }
            I32 => lanes (l, a) {
                let (low, high) = (l.bits(u32::MAX), l.bits(1));
                let limited = l.two(MinSigned, a, high);
                l.two(MaxSigned, limited, low)
            }
        }
        Floor { F32 => lanes (l, a) { l.one(UnaryInst::Floor, a) } }
        Exp { F32 => lanes (l, a) { math::exp(l, a) } }
        Expm1 { F32 => lanes (l, a) { math::expm1(l, a) } }
        Log { F32 => lanes (l, a) { math::log(l, a) } }
        Log1p { F32 => lanes (l, a) { math::log1p(l, a) } }
        Sqrt { F32 => lanes (l, a) { l.one(UnaryInst::Sqrt, a) } }
        Rsqrt {
            F32 => lanes (l, a) {
                let (root, one) = (l.one(UnaryInst::Sqrt, a), l.float(1.0));
                l.div(one, root)
            }
        }
        Sin { F32 => angle (math::sin, libm::sinf) {} }
        Cos { F32 => angle (math::cos, libm::cosf) {} }
        Tanh { F32 => lanes (l, a) { math::tanh(l, a) } }
        Sigmoid { F32 => lanes (l, a) { math::sigmoid(l, a) } }
        Erf { F32 => lanes (l, a) { math::erf(l, a) } }
        Not {
            I32 | U32 => lanes (l, a) {
                let all = l.bits(u32::MAX);
                l.two(BinaryInst::Xor, a, all)
            }
            Bool => masks (l, a) {
                let none = l.mask(MaskOp::Xor, a, a);
                l.mask(MaskOp::Same, a, none)
            }
        }
        Detach {
            F32 | I32 | U32 => lanes (_l, a) { a }
            Bool => masks (_l, a) { a }
        }
    }
}

functions! {
    BinaryOp, 2, binary, binary_formula, binary_has_formula {
        Add {
            F32 => lanes (l, a, b) { l.add(a, b) }
            // Two's complement: the same bits for both signs.
            I32 | U32 => lanes (l, a, b) { l.two(AddInt, a, b) }
        }
        Sub {
            F32 => lanes (l, a, b) { l.sub(a, b) }
            I32 | U32 => lanes (l, a, b) { l.two(SubInt, a, b) }
        }
        Mul {
            F32 => lanes (l, a, b) { l.mul(a, b) }
            I32 | U32 => lanes (l, a, b) { l.two(MulInt, a, b) }
        }
        Div {
            F32 => lanes (l, a, b) { l.div(a, b) }
            I32 => scalar (a: i32, b: i32) { if b == 0 { 0 } else { a.wrapping_div(b) } }
            U32 => scalar (a: u32, b: u32) { a.checked_div(b).unwrap_or(0) }
        }
        Min {
            F32 => lanes (l, a, b) {
                let (least, nan) = (l.two(BinaryInst::Min, a, b), l.is_nan(a));
                l.select(nan, a, least)
            }
            I32 => lanes (l, a, b) { l.two(MinSigned, a, b) }
            U32 => lanes (l, a, b) { l.two(MinUnsigned, a, b) }
        }
        Max {
            F32 => lanes (l, a, b) {
                let (greatest, nan) = (l.two(BinaryInst::Max, a, b), l.is_nan(a));
                l.select(nan, a, greatest)
            }
            I32 => lanes (l, a, b) { l.two(MaxSigned, a, b) }
            U32 => lanes (l, a, b) { l.two(MaxUnsigned, a, b) }
        }
        Pow { F32 => scalar (a: f32, b: f32) { math::pow(a, b) } }
        Rem {
            F32 => scalar (a: f32, b: f32) { a % b }
            I32 => scalar (a: i32, b: i32) { if b == 0 { 0 } else { a.wrapping_rem(b) } }
            U32 => scalar (a: u32, b: u32) { a.checked_rem(b).unwrap_or(0) }
        }
        And {
            I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::And, a, b) }
            Bool => masks (l, a, b) { l.mask(MaskOp::And, a, b) }
        }
        Or {
            I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::Or, a, b) }
            Bool => masks (l, a, b) { l.mask(MaskOp::Or, a, b) }
        }
        Xor {
            I32 | U32 => lanes (l, a, b) { l.two(BinaryInst::Xor, a, b) }
            Bool => masks (l, a, b) { l.mask(MaskOp::Xor, a, b) }
        }
        Shl {
            I32 | U32 => lanes (l, a, b) {
                let count = low_bits(l, b);
                l.two(ShiftLeft, a, count)
            }
        }
        Shr {
            I32 => lanes (l, a, b) {
                let count = low_bits(l, b);
                l.two(ShiftRightSigned, a, count)
            }
            U32 => lanes (l, a, b) {
                let count = low_bits(l, b);
                l.two(ShiftRightUnsigned, a, count)
            }
        }
    }
}

/// A count of bits modulo 32.
#[inline(always)]
fn low_bits<L: Lanes>(l: &mut L, count: L::Value) -> L::Value {
    let low = l.bits(31);
    l.two(BinaryInst::And, count, low)
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
