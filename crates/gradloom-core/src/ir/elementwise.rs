//! Elementwise functions: one table for those of one operand, and one for those of two.
//!
//! A row has a function's name in the text form, the dtypes that it takes, and what an element costs. The
//! derivative is in `grad/rules`, the float64 formula in `reference`, what devices compute in
//! `gradloom-codegen` and `gradloom-runtime`.

use super::DType;

/// The cost of one element of a function, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CostClass {
    /// An instruction or a few: less than memory takes to read the operand.
    Simple,
    /// One instruction that takes several times as long: divisions and roots.
    Divide,
    /// Tens of instructions, such as a polynomial.
    Function,
    /// Tens of instructions with many branches.
    Branches,
    /// A loop for each element.
    Loop,
}

/// Gives the operators of a group their names in the text form.
macro_rules! names {
    ($ty:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $ty {
            /// Every operator of this group.
            pub const ALL: &'static [$ty] = &[$($ty::$variant),*];
            /// The name in the text form.
            pub fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }
            /// The operator with this name.
            pub fn parse(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)* _ => None }
            }
        }
    };
}
pub(super) use names;

/// Declares the functions of a group with their table.
macro_rules! elementwise {
    (
        $(#[$about:meta])*
        pub enum $ty:ident {
            $($(#[$doc:meta])* $variant:ident, $name:literal, [$($dtype:ident)*], $class:ident;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum $ty {
            $($(#[$doc])* $variant,)*
        }

        names!($ty { $($variant = $name),* });

        impl $ty {
            /// Whether the operator takes elements of this dtype.
            pub fn accepts(self, dtype: DType) -> bool {
                let accepted: &[DType] = match self { $($ty::$variant => &[$(DType::$dtype),*]),* };
                accepted.contains(&dtype)
            }

            /// The cost of an element, for floats if the operator takes floats.
            pub fn cost_class(self) -> CostClass {
                match self { $($ty::$variant => CostClass::$class),* }
            }
        }
    };
}

elementwise! {
    /// Elementwise functions of one operand.
    pub enum UnaryOp {
        Neg, "neg", [F32 I32], Simple;
        Abs, "abs", [F32 I32], Simple;
        /// -1, 0 or 1; NaN stays NaN, and a zero keeps its sign.
        Sign, "sign", [F32 I32], Simple;
        Floor, "floor", [F32], Simple;
        Exp, "exp", [F32], Function;
        /// `exp(x) - 1` without cancellation near 0.
        Expm1, "expm1", [F32], Function;
        Log, "log", [F32], Function;
        /// `log(1 + x)` without cancellation near 0.
        Log1p, "log1p", [F32], Function;
        Sqrt, "sqrt", [F32], Divide;
        /// `1 / sqrt(x)`.
        Rsqrt, "rsqrt", [F32], Divide;
        Sin, "sin", [F32], Function;
        Cos, "cos", [F32], Function;
        Tanh, "tanh", [F32], Function;
        /// `1 / (1 + exp(-x))`.
        Sigmoid, "sigmoid", [F32], Function;
        Erf, "erf", [F32], Function;
        /// Bools (logical) and integers (bitwise).
        Not, "not", [I32 U32 Bool], Simple;
        /// The operand itself, of any dtype; no gradient flows through it. Passes after differentiation
        /// remove it.
        Detach, "detach", [F32 I32 U32 Bool], Simple;
    }
}

elementwise! {
    /// Elementwise functions of two operands of one type.
    pub enum BinaryOp {
        Add, "add", [F32 I32 U32], Simple;
        Sub, "sub", [F32 I32 U32], Simple;
        Mul, "mul", [F32 I32 U32], Simple;
        /// Integers: rounds towards zero; division by zero traps (the step fails).
        Div, "div", [F32 I32 U32], Divide;
        /// A NaN in either operand gives NaN.
        Min, "min", [F32 I32 U32], Simple;
        /// A NaN in either operand gives NaN.
        Max, "max", [F32 I32 U32], Simple;
        Pow, "pow", [F32], Branches;
        /// Remainder with the sign of the dividend, integers and floats; an integer divisor of zero traps.
        Rem, "rem", [F32 I32 U32], Loop;
        /// Bools (logical) and integers (bitwise).
        And, "and", [I32 U32 Bool], Simple;
        Or, "or", [I32 U32 Bool], Simple;
        Xor, "xor", [I32 U32 Bool], Simple;
        /// `u32` and `i32`; the count is taken modulo 32.
        Shl, "shl", [I32 U32], Simple;
        /// Logical for `u32`, arithmetic for `i32`; the count is taken modulo 32.
        Shr, "shr", [I32 U32], Simple;
    }
}

impl BinaryOp {
    /// Whether `a op b` equals `b op a`.
    pub fn is_commutative(self) -> bool {
        use BinaryOp::*;
        matches!(self, Add | Mul | Min | Max | And | Or | Xor)
    }
}
