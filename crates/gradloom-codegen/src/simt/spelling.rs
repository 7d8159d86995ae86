//! Spelling of elementwise functions in all dialects.
//!
//! In: an op and the dtype of its operands. Out: an expression of WGSL and one of CUDA C, with the
//! placeholders `{a}` and `{b}` for the operands. Invariant: the expression's value for NaN, infinities and
//! overflow is the one that the op's documentation specifies. If the dialect does not guarantee that, the
//! expression calls a helper function, which the dialect's `functions.rs` defines under that name and which
//! is added to the kernel's text. An operand occurs only once, because it may itself be a long expression.

use gradloom_core::ir::DType::{self, Bool, F32, U32};
use gradloom_core::ir::{BinaryOp, UnaryOp};

/// Templates of an expression, one per dialect.
pub(crate) struct Spelling {
    pub(crate) wgsl: &'static str,
    pub(crate) cuda: &'static str,
}

fn spelling(wgsl: &'static str, cuda: &'static str) -> Spelling {
    Spelling { wgsl, cuda }
}

/// Returns a spelling common to all dialects.
fn common(text: &'static str) -> Spelling {
    spelling(text, text)
}

/// Returns the spelling of a unary op of a dtype.
pub(crate) fn unary(op: UnaryOp, dtype: DType) -> Spelling {
    let is_float = dtype == F32;
    match op {
        UnaryOp::Neg if is_float => common("(-{a})"),
        UnaryOp::Neg if dtype == U32 => common("(0u - {a})"),
        // Signed integers wrap; C leaves that undefined.
        UnaryOp::Neg => spelling("(-{a})", "(int)(0u - (unsigned)({a}))"),
        UnaryOp::Abs if is_float => spelling("abs({a})", "fabsf({a})"),
        UnaryOp::Abs if dtype == U32 => common("{a}"),
        UnaryOp::Abs => spelling("abs({a})", "abs_of({a})"),
        UnaryOp::Sign if is_float => spelling("sign_or_nan({a})", "sign_of({a})"),
        UnaryOp::Sign => spelling("sign({a})", "sign_of({a})"),
        UnaryOp::Floor => spelling("floor({a})", "floorf({a})"),
        UnaryOp::Exp => spelling("exp_or_nan({a})", "expf({a})"),
        UnaryOp::Expm1 => spelling("expm1({a})", "expm1f({a})"),
        UnaryOp::Log => spelling("log_or_nan({a})", "logf({a})"),
        UnaryOp::Log1p => spelling("log1p({a})", "log1pf({a})"),
        UnaryOp::Sqrt => spelling("sqrt({a})", "sqrtf({a})"),
        UnaryOp::Rsqrt => spelling("(1.0 / sqrt({a}))", "(1.0f / sqrtf({a}))"),
        UnaryOp::Sin => spelling("sin_of({a})", "sinf({a})"),
        UnaryOp::Cos => spelling("cos_of({a})", "cosf({a})"),
        UnaryOp::Tanh => spelling("tanh_of({a})", "tanhf({a})"),
        UnaryOp::Sigmoid => common("sigmoid({a})"),
        UnaryOp::Erf => spelling("erf({a})", "erff({a})"),
        UnaryOp::Not if dtype == Bool => common("(!{a})"),
        UnaryOp::Not => common("(~{a})"),
        UnaryOp::Detach => common("{a}"),
    }
}

/// Returns the spelling of a binary op of a dtype. It does not report integer divisors of zero; kernels check
/// for them first.
pub(crate) fn binary(op: BinaryOp, dtype: DType) -> Spelling {
    let is_float = dtype == F32;
    let is_signed = dtype == DType::I32;
    match op {
        BinaryOp::Add if is_signed => spelling("({a} + {b})", "(int)((unsigned)({a}) + (unsigned)({b}))"),
        BinaryOp::Add => common("({a} + {b})"),
        BinaryOp::Sub if is_signed => spelling("({a} - {b})", "(int)((unsigned)({a}) - (unsigned)({b}))"),
        BinaryOp::Sub => common("({a} - {b})"),
        BinaryOp::Mul if is_signed => spelling("({a} * {b})", "(int)((unsigned)({a}) * (unsigned)({b}))"),
        BinaryOp::Mul => common("({a} * {b})"),
        BinaryOp::Div if is_float => common("({a} / {b})"),
        BinaryOp::Div => spelling("({a} / {b})", "divide({a}, {b})"),
        BinaryOp::Rem if is_float => spelling("remainder({a}, {b})", "remainder_of({a}, {b})"),
        BinaryOp::Rem => spelling("({a} % {b})", "remainder_of({a}, {b})"),
        BinaryOp::Min if is_float => common("min_or_nan({a}, {b})"),
        BinaryOp::Min => common("min({a}, {b})"),
        BinaryOp::Max if is_float => common("max_or_nan({a}, {b})"),
        BinaryOp::Max => common("max({a}, {b})"),
        BinaryOp::Pow => spelling("power({a}, {b})", "powf({a}, {b})"),
        // Spell ops on bools as conditions, which drivers optimize best.
        BinaryOp::And if dtype == Bool => common("({a} && {b})"),
        BinaryOp::And => common("({a} & {b})"),
        BinaryOp::Or if dtype == Bool => common("({a} || {b})"),
        BinaryOp::Or => common("({a} | {b})"),
        BinaryOp::Xor if dtype == Bool => common("({a} != {b})"),
        BinaryOp::Xor => common("({a} ^ {b})"),
        BinaryOp::Shl if is_signed => {
            spelling("({a} << (u32({b}) & 31u))", "(int)((unsigned)({a}) << ((unsigned)({b}) & 31u))")
        }
        BinaryOp::Shl => spelling("({a} << (u32({b}) & 31u))", "({a} << ((unsigned)({b}) & 31u))"),
        BinaryOp::Shr => spelling("({a} >> (u32({b}) & 31u))", "({a} >> ((unsigned)({b}) & 31u))"),
    }
}

/// Substitutes the operands in a template; returns the expression and the name of the function that it calls,
/// if any.
pub(crate) fn fill(template: &'static str, operands: &[&str]) -> (String, Option<&'static str>) {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (name, rest) = part.split_once('}').expect("a brace is closed");
        text += operands[usize::from(name == "b")];
        text += rest;
    }
    let called = template.split_once('(').map(|(name, _)| name).filter(|name| !name.is_empty());
    (text, called)
}

/// Declares the helper functions of a dialect: `Variant "name" [helpers that it calls] = text;`.
macro_rules! helpers {
    (
        $(#[$about:meta])*
        $vis:vis enum $Function:ident {
            $($variant:ident $name:literal [$($needed:ident)*] = $text:expr;)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        $vis enum $Function {
            $($variant,)*
        }

        impl $Function {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the helper with this name.
            $vis fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|function| function.name() == name)
            }

            $vis fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the helpers that the text of this one calls.
            #[allow(dead_code)]
            $vis fn needs(self) -> &'static [Self] {
                match self {
                    $(Self::$variant => &[$(Self::$needed),*],)*
                }
            }

            $vis fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
pub(crate) use helpers;
