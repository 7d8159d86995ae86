//! WGSL expressions of single nodes.
//!
//! In: a node, and the expressions of its operands. Out: an expression of the node's dtype. Invariant: the
//! expression follows the op's documentation for NaN, infinities and overflow, which WGSL alone does not
//! guarantee.

use super::functions::Function;
use super::memory::type_name;
use super::print::Printer;
use crate::narrow::has_words;
use crate::simt::spelling::{self, Spelling};
use gradloom_core::decimal::Decimal;
use gradloom_core::ir::{CompareOp, DType};

impl Printer<'_> {
    /// Returns a constant of a dtype.
    pub(super) fn constant(&mut self, bits: u32, dtype: DType) -> String {
        match dtype {
            DType::F32 | DType::F16 | DType::BF16 => {
                let value = f32::from_bits(bits);
                // Spell these numbers by their bits. The shortest decimals of the largest floats exceed them,
                // and not every compiler rounds them back.
                if value.is_nan() || value.abs() >= 3.4e38 || value.is_subnormal() {
                    return format!("{}({bits:#x}u)", self.function(Function::FromBits));
                }
                // Enclose negative numbers in parentheses, because WGSL does not parse `--` as two negations.
                let text = Decimal::from(value);
                if value.is_sign_negative() { format!("({text:?}f)") } else { format!("{text:?}f") }
            }
            DType::I64 => has_words(),
            DType::I32 | DType::U8 => match bits.cast_signed() {
                i32::MIN => "(-2147483647i - 1i)".to_string(),
                value if value < 0 => format!("({value}i)"),
                value => format!("{value}i"),
            },
            DType::U32 => format!("{bits}u"),
            DType::Bool => (bits != 0).to_string(),
        }
    }

    /// Returns a call of an elementwise function, as spelled in WGSL.
    pub(super) fn call(&mut self, spelling: Spelling, operands: &[&str]) -> String {
        let (text, called) = spelling::fill(spelling.wgsl, operands);
        if let Some(helper) = called.and_then(Function::named) {
            self.function(helper);
        }
        text
    }

    /// Returns the comparison of two elements.
    pub(super) fn compare(&mut self, op: CompareOp, dtype: DType, a: &str, b: &str) -> String {
        let (a, b) = match dtype {
            DType::Bool => (format!("u32({a})"), format!("u32({b})")),
            _ => (a.to_string(), b.to_string()),
        };
        match op {
            // This form is true for NaN, regardless of how a compiler translates `!=`.
            CompareOp::Ne => format!("(!({a} == {b}))"),
            CompareOp::Eq => format!("({a} == {b})"),
            CompareOp::Lt => format!("({a} < {b})"),
            CompareOp::Le => format!("({a} <= {b})"),
            CompareOp::Gt => format!("({a} > {b})"),
            CompareOp::Ge => format!("({a} >= {b})"),
        }
    }

    /// Returns the conversion of an element to another dtype.
    pub(super) fn cast(&mut self, from: DType, to: DType, a: &str) -> String {
        match (from, to) {
            _ if from == to || from.is_for_memory() => a.to_string(),
            // Mask the value, which remains an i32.
            (_, DType::U8) => format!("({a} & 255i)"),
            // Round the value, which remains an f32.
            (_, DType::F16) if self.limits.f16 => format!("f32(f16({a}))"),
            (_, DType::F16) => format!("{}({a})", self.function(Function::ToF16)),
            (_, DType::BF16) => format!("{}({a})", self.function(Function::ToBf16)),
            (DType::F32, DType::I32) => format!("{}({a})", self.function(Function::ToI32)),
            (DType::F32, DType::U32) => format!("{}({a})", self.function(Function::ToU32)),
            (DType::F32, DType::Bool) => format!("(!({a} == 0.0))"),
            (_, DType::Bool) => format!("({a} != {}(0))", type_name(from)),
            (DType::I32, DType::U32) => format!("bitcast<u32>({a})"),
            (DType::U32, DType::I32) => format!("bitcast<i32>({a})"),
            _ => format!("{}({a})", type_name(to)),
        }
    }
}
