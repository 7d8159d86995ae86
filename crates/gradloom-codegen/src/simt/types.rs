//! Types of expressions and of their operands.

use super::ir::{Array, Expr, ExprId, Kernel, MatrixUse, Space, ValueType};
use gradloom_core::ir::{BinaryOp, DType};
use std::fmt;

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(dtype) => write!(f, "{dtype}"),
            Self::Vector(elements) => write!(f, "f32x{elements}"),
            Self::Half2(dtype) => write!(f, "{dtype}x2"),
            Self::Half4(dtype) => write!(f, "{dtype}x4"),
            Self::Half8(dtype) => write!(f, "{dtype}x8"),
            Self::Matrix(MatrixUse::Left, dtype) => write!(f, "left {dtype} matrix"),
            Self::Matrix(MatrixUse::Right, dtype) => write!(f, "right {dtype} matrix"),
            Self::Matrix(MatrixUse::Sum, dtype) => write!(f, "sum {dtype} matrix"),
        }
    }
}

/// Returns the type of an expression; `None` if its operands have wrong types. `said`, the type that the
/// kernel declares, determines that of literals and conversions.
pub(super) fn type_of(kernel: &Kernel, expr: &Expr, said: ValueType) -> Option<ValueType> {
    const F32: ValueType = ValueType::Scalar(DType::F32);
    const U32: ValueType = ValueType::Scalar(DType::U32);
    const BOOL: ValueType = ValueType::Scalar(DType::Bool);
    const SUM: ValueType = ValueType::Matrix(MatrixUse::Sum, DType::F32);
    let of = |id: ExprId| kernel.ty(id);
    let dtype = |id: ExprId| if let ValueType::Scalar(dtype) = of(id) { Some(dtype) } else { None };
    let all = |ids: &[ExprId], ty: ValueType| ids.iter().all(|&id| of(id) == ty);
    let array = |number: u32| kernel.arrays.get(number as usize);
    match *expr {
        Expr::Literal(bits) => match said {
            ValueType::Scalar(dtype) => (dtype != DType::Bool || bits <= 1).then_some(said),
            _ => None,
        },
        Expr::Group | Expr::Local | Expr::Counter(_) => Some(U32),
        Expr::Committed => Some(BOOL),
        Expr::Read(number) => kernel.variables.get(number as usize).copied(),
        Expr::Load(buffer, index) => {
            kernel.buffers.get(buffer as usize).filter(|_| of(index) == U32).map(|buffer| buffer.ty)
        }
        Expr::Element(number, index) => array(number).filter(|_| of(index) == U32).map(|array| array.ty),
        Expr::ElementPart(number, index, part) => array(number)
            .filter(|array| matches!(array.ty, ValueType::Vector(_)) && all(&[index, part], U32))
            .map(|_| F32),
        Expr::Broadcast(number, index) => array(number)
            .filter(|array| of(index) == U32 && array.space == Space::Workgroup)
            .map(|array| array.ty),
        Expr::Unary(op, a) => op.accepts(dtype(a)?).then(|| of(a)),
        Expr::Binary(op, a, b) => {
            let takes = match of(a) {
                ValueType::Scalar(dtype) => op.accepts(dtype) || matches!(op, BinaryOp::Shl | BinaryOp::Shr),
                ValueType::Vector(_) => matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul),
                _ => false,
            };
            (of(a) == of(b) && takes).then(|| of(a))
        }
        Expr::MulHigh(a, b) => all(&[a, b], U32).then_some(U32),
        Expr::Compare(_, a, b) => (dtype(a)? == dtype(b)?).then_some(BOOL),
        Expr::Select(condition, yes, no) => (of(condition) == BOOL && of(yes) == of(no)).then(|| of(yes)),
        Expr::MulAdd(abc) => {
            (matches!(of(abc[0]), F32 | ValueType::Vector(_)) && all(&abc, of(abc[0]))).then(|| of(abc[0]))
        }
        Expr::NativeMax(a, b) => all(&[a, b], F32).then_some(F32),
        Expr::NativeLog(a) | Expr::NativeExp2(a) => all(&[a], F32).then_some(F32),
        Expr::MatrixHalf(a, half) => (of(a) == SUM && half < 2).then_some(ValueType::Vector(4)),
        Expr::MatrixResidual(a) => {
            matches!(of(a), ValueType::Matrix(MatrixUse::Left | MatrixUse::Right, DType::F32)).then(|| of(a))
        }
        Expr::MatrixOf(ab) => {
            let ValueType::Matrix(MatrixUse::Left | MatrixUse::Right, half) = said else { return None };
            (half != DType::F32 && all(&ab, ValueType::Half4(half))).then_some(said)
        }
        Expr::MatrixFrom(ab) => all(&ab, ValueType::Vector(4)).then_some(SUM),
        // A sum can be converted to a left operand, which is distributed over the invocations in the same
        // way.
        Expr::Cast(a) if matches!(said, ValueType::Matrix(MatrixUse::Left, _)) => {
            (of(a) == SUM).then_some(said)
        }
        Expr::Vector2(ab) => all(&ab, F32).then_some(ValueType::Vector(2)),
        Expr::Vector4(abcd) => all(&abcd, F32).then_some(ValueType::Vector(4)),
        Expr::Splat(a) => all(&[a], F32).then_some(ValueType::Vector(4)),
        Expr::Component(a, number) => match of(a) {
            ValueType::Vector(elements) if number < elements => Some(F32),
            _ => None,
        },
        Expr::ToHalf(a) => {
            let is_half = matches!(said, ValueType::Half4(DType::F16 | DType::BF16));
            (is_half && all(&[a], ValueType::Vector(4))).then_some(said)
        }
        Expr::FourOf(a, half) => match of(a) {
            ValueType::Half8(dtype) if half < 2 => Some(ValueType::Half4(dtype)),
            _ => None,
        },
        Expr::Cast(a) if said == ValueType::Vector(2) => matches!(of(a), ValueType::Half2(_)).then_some(said),
        Expr::Cast(a) if said == ValueType::Vector(4) => matches!(of(a), ValueType::Half4(_)).then_some(said),
        Expr::Cast(a) => {
            let from = dtype(a)?;
            // Dtypes for memory convert only to and from the dtype in which they are computed.
            match said {
                ValueType::Scalar(to) => from.casts_to(to).then_some(said),
                _ => None,
            }
        }
        Expr::Bitcast(a) => match said {
            ValueType::Scalar(to) => (dtype(a)? != DType::Bool && to != DType::Bool).then_some(said),
            _ => None,
        },
        Expr::ShuffleXor(a, bits) => {
            let size = kernel.subgroup.filter(|size| size.is_power_of_two())?;
            (bits < size && kernel.workgroup.is_multiple_of(size) && dtype(a)? != DType::Bool).then(|| of(a))
        }
        Expr::MatrixZero => Some(SUM),
        Expr::MatrixLoad { array: number, index, .. } => {
            let Array { space, ty, .. } = array(number)?;
            let ValueType::Matrix(MatrixUse::Left | MatrixUse::Right, dtype) = said else { return None };
            let fits = *ty == ValueType::four(dtype) && *space == Space::Workgroup && of(index) == U32;
            (fits && kernel.subgroup.is_some()).then_some(said)
        }
        Expr::MatrixMulAdd([a, b, c]) => {
            let ValueType::Matrix(_, half) = of(a) else { return None };
            let [left, right] =
                [MatrixUse::Left, MatrixUse::Right].map(|which| ValueType::Matrix(which, half));
            ([of(a), of(b), of(c)] == [left, right, SUM]).then_some(SUM)
        }
    }
}
