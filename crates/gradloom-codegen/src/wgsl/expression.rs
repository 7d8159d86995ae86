//! One node of a body as a WGSL expression.
//!
//! In: the node, and the expressions of its operands. Out: an expression of the node's dtype. Always holds:
//! what the op's comment says of NaN, infinities and overflow, which WGSL alone does not promise.

use super::functions::Function;
use super::source::{Source, type_name};
use gradloom_core::ir::{BinaryOp, CompareOp, DType, Number, UnaryOp};

impl Source<'_> {
    /// A number of a dtype.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number fits its dtype, but for the rounding of f32, as the verifier sees to"
    )]
    pub(crate) fn constant(&mut self, number: Number, dtype: DType) -> String {
        let value = number.as_f64();
        match dtype {
            DType::F32 => {
                let value = value as f32;
                // The shortest decimal of the largest ones is above them, which not every compiler rounds
                // back.
                if value.is_nan() || value.abs() >= 3.4e38 || value.is_subnormal() {
                    let from_bits = self.function(Function::FromBits);
                    return format!("{from_bits}({:#x}u)", value.to_bits());
                }
                format!("{value:?}f").replace("-0.0f", "(-0.0f)")
            }
            DType::I32 if value == f64::from(i32::MIN) => "(-2147483647i - 1i)".to_string(),
            DType::I32 => format!("{}i", value as i32),
            DType::U32 => format!("{}u", value as u32),
            DType::Bool => (value != 0.0).to_string(),
        }
    }

    /// A function of one element; not `Detach`.
    pub(crate) fn unary(&mut self, op: UnaryOp, dtype: DType, a: &str) -> String {
        let call = |name: &str| format!("{name}({a})");
        match op {
            UnaryOp::Neg if dtype == DType::U32 => format!("(0u - {a})"),
            UnaryOp::Neg => format!("(-{a})"),
            UnaryOp::Abs if dtype == DType::U32 => a.to_string(),
            UnaryOp::Abs => call("abs"),
            UnaryOp::Sign => call(self.function(Function::Sign)),
            UnaryOp::Floor => call("floor"),
            UnaryOp::Exp => call("exp"),
            UnaryOp::Expm1 => call(self.function(Function::Expm1)),
            UnaryOp::Log => call(self.function(Function::Log)),
            UnaryOp::Log1p => call(self.function(Function::Log1p)),
            UnaryOp::Sqrt => call("sqrt"),
            UnaryOp::Rsqrt => format!("(1.0 / sqrt({a}))"),
            UnaryOp::Sin => call(self.function(Function::Sin)),
            UnaryOp::Cos => call(self.function(Function::Cos)),
            UnaryOp::Tanh => call(self.function(Function::Tanh)),
            UnaryOp::Sigmoid => call(self.function(Function::Sigmoid)),
            UnaryOp::Erf => call(self.function(Function::Erf)),
            UnaryOp::Not if dtype == DType::Bool => format!("(!{a})"),
            UnaryOp::Not => format!("(~{a})"),
            UnaryOp::Detach => a.to_string(),
        }
    }

    /// A function of two elements of a dtype. Integer division and remainder are as in WGSL: a kernel that
    /// can have a divisor of zero checks it.
    pub(crate) fn binary(&mut self, op: BinaryOp, dtype: DType, a: &str, b: &str) -> String {
        let float = dtype == DType::F32;
        let infix = |symbol: &str| format!("({a} {symbol} {b})");
        let call = |name: &str| format!("{name}({a}, {b})");
        match op {
            BinaryOp::Add => infix("+"),
            BinaryOp::Sub => infix("-"),
            BinaryOp::Mul => infix("*"),
            BinaryOp::Div => infix("/"),
            BinaryOp::Min if float => call(self.function(Function::Min)),
            BinaryOp::Max if float => call(self.function(Function::Max)),
            BinaryOp::Min => call("min"),
            BinaryOp::Max => call("max"),
            BinaryOp::Pow => call(self.function(Function::Pow)),
            BinaryOp::Rem if float => call(self.function(Function::Rem)),
            BinaryOp::Rem => infix("%"),
            BinaryOp::And => infix("&"),
            BinaryOp::Or => infix("|"),
            BinaryOp::Xor if dtype == DType::Bool => infix("!="),
            BinaryOp::Xor => infix("^"),
            BinaryOp::Shl => format!("({a} << (u32({b}) & 31u))"),
            BinaryOp::Shr => format!("({a} >> (u32({b}) & 31u))"),
        }
    }

    /// A comparison of two elements.
    pub(crate) fn compare(&mut self, op: CompareOp, dtype: DType, a: &str, b: &str) -> String {
        let (a, b) = match dtype {
            DType::Bool => (format!("u32({a})"), format!("u32({b})")),
            _ => (a.to_string(), b.to_string()),
        };
        match op {
            // True of NaN, whatever a compiler makes of `!=`.
            CompareOp::Ne => format!("(!({a} == {b}))"),
            CompareOp::Eq => format!("({a} == {b})"),
            CompareOp::Lt => format!("({a} < {b})"),
            CompareOp::Le => format!("({a} <= {b})"),
            CompareOp::Gt => format!("({a} > {b})"),
            CompareOp::Ge => format!("({a} >= {b})"),
        }
    }

    /// A conversion.
    pub(crate) fn cast(&mut self, from: DType, to: DType, a: &str) -> String {
        match (from, to) {
            _ if from == to => a.to_string(),
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
