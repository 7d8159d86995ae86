//! Operands of operators: tensors, parameters, states and numbers.
//!
//! The right side is any [`Operand`]. The left side is a tensor, `&Param`, `&State`, `f64` or `i32`, but not
//! `f32`: with two types of floats there, the type of `2.0` in `(2.0 * x).square()` would be ambiguous.

use super::Tensor;
use super::scope::with_scope;
use super::tensor::{emit, fail, full, refused};
use crate::decimal::Decimal;
use crate::ir::{BinaryOp, DType, Number, OpKind, Shape, UnaryOp};
use crate::nn::{Param, State};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// An operand: a tensor, a parameter, a state, or a number, which takes the dtype of the other operand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a tensor",
    note = "operands are `Tensor`, `&Tensor`, `&Param`, `&State`, `f32`, `f64` and `i32`"
)]
pub trait Operand: Copy {
    /// Returns the operand as a tensor. A number becomes a tensor of rank 0 with the dtype of `beside`.
    fn tensor(self, beside: Tensor) -> Tensor;

    /// Returns the operand's value if it is a number.
    fn number(self) -> Option<f64> {
        None
    }

    /// Returns `true` if the operand is a number of a float type.
    fn is_float(self) -> bool {
        false
    }
}

impl Operand for Tensor {
    fn tensor(self, _: Tensor) -> Tensor {
        self
    }
}

impl Operand for &Tensor {
    fn tensor(self, _: Tensor) -> Tensor {
        *self
    }
}

macro_rules! leaf_operand {
    ($($leaf:ident),*) => {$(
        impl Operand for &$leaf {
            #[track_caller]
            fn tensor(self, _: Tensor) -> Tensor {
                $leaf::tensor(self)
            }
        }

        impl Neg for &$leaf {
            type Output = Tensor;
            #[track_caller]
            fn neg(self) -> Tensor {
                -$leaf::tensor(self)
            }
        }
    )*};
}
leaf_operand!(Param, State);

macro_rules! number_operand {
    ($($number:ty: $is_float:literal),*) => {$(
        impl Operand for $number {
            #[track_caller]
            fn tensor(self, beside: Tensor) -> Tensor {
                number(f64::from(self), beside)
            }

            fn number(self) -> Option<f64> {
                Some(f64::from(self))
            }

            fn is_float(self) -> bool {
                $is_float
            }
        }
    )*};
}
number_operand!(f32: true, f64: true, i32: false);

/// Returns a number as a tensor of rank 0 with the dtype of `beside`, the other operand. For 16-bit floats,
/// the number is kept in f32 until the result is rounded, at the end of the user's call.
#[track_caller]
pub(super) fn number(value: f64, beside: Tensor) -> Tensor {
    let dtype = beside.dtype();
    let number = Number::of(dtype, value);
    if dtype.is_float() && dtype.is_for_memory() {
        return full(DType::F32, Shape::scalar(), value).cast(dtype);
    }
    if dtype.is_float() || (number.fits(dtype) && number.as_f64() == value) {
        return full(dtype, Shape::scalar(), value);
    }
    let written = Decimal::from(value);
    let float = "convert the tensor with .cast(DType::F32)";
    let (message, help) = match with_scope(|scope| scope.called()) {
        Some(called) => {
            let message =
                format!("`{called}` of a tensor of {dtype}: {written} is not a number of that dtype");
            (message, float)
        }
        None if dtype == DType::Bool => {
            (format!("{written} beside a tensor of bool"), "bools are 0 and 1; convert it with .cast(..)")
        }
        None if value.is_finite() && value.fract() != 0.0 => {
            (format!("{written} beside a tensor of {dtype}: the fraction would be lost"), float)
        }
        None => (format!("{written} beside a tensor of {dtype}, which has no such number"), float),
    };
    fail("", message, help);
    full(dtype, Shape::scalar(), 0.0)
}

/// Returns `true` if a division of an integer tensor by a number, or of a number by an integer tensor, would
/// lose the fraction that the user expects, and records an error in that case. PyTorch's `/` of integers
/// yields fractions, unlike this operator. Unless the tensor is u8, a number of an integer type is not an
/// error.
#[track_caller]
fn loses_fractions(token: &str, tensor: Tensor, number: impl Operand, is_first: bool) -> bool {
    let ty = tensor.ty();
    let Some(value) = number.number().filter(|_| token == "/" && ty.dtype.is_integer()) else { return false };
    // JavaScript has no integer type, so operands from JavaScript never report `is_float`. The error for
    // `pixels / 255` there depends on the dtype u8 instead.
    let loses = number.is_float() || ty.dtype == DType::U8;
    if loses {
        let value = Decimal::from(value);
        let (a, b) = (ty.to_string(), value.to_string());
        let (a, b) = if is_first { (b, a) } else { (a, b) };
        let message = format!("`/` of {a} and {b}: a division of integers gives no fractions");
        let help = "convert with .cast(DType::F32) before; for whole numbers convert to DType::I32 and write \
                    the number without a fraction";
        fail(token, message, help);
    }
    loses
}

/// Broadcasts two operands of the same dtype to a common shape; returns `None` after an error.
#[track_caller]
pub(super) fn unify(token: &str, a: Tensor, b: Tensor) -> Option<(Tensor, Tensor)> {
    let (ta, tb) = (a.ty(), b.ty());
    if ta.dtype != tb.dtype {
        let help = crate::ir::cast_help(ta.dtype, tb.dtype);
        return refused(token, format!("`{token}` of {ta} and {tb}: the dtypes differ"), help, None);
    }
    let Some(shape) = ta.shape.broadcast(&tb.shape) else {
        let clash = clash(&ta.shape, &tb.shape);
        let help = "shapes broadcast from the right: extents must be equal or 1";
        return refused(token, format!("`{token}` of {} and {}: {clash}", ta.shape, tb.shape), help, None);
    };
    Some((a.broadcast_to(shape.clone()), b.broadcast_to(shape)))
}

/// Describes the first pair of extents, from the right, that does not broadcast.
fn clash(a: &Shape, b: &Shape) -> String {
    let pair =
        a.iter().rev().zip(b.iter().rev()).enumerate().find(|(_, (x, y))| x != y && **x != 1 && **y != 1);
    match pair {
        Some((i, (x, y))) => format!("axis -{} has {x} elements on the left and {y} on the right", i + 1),
        None => "the shapes do not broadcast".to_string(),
    }
}

#[track_caller]
pub(super) fn binary(op: BinaryOp, token: &str, a: Tensor, b: impl Operand) -> Tensor {
    if b.number() == Some(0.0) && matches!(op, BinaryOp::Div | BinaryOp::Rem) {
        let help = "a divisor that is a number cannot be 0; infinity is `f64::INFINITY`";
        return refused(token, format!("`{token}` of {} and 0: a division by zero", a.ty()), help, a);
    }
    if loses_fractions(token, a, b, false) {
        return a;
    }
    let a = a.counted();
    binary_of_tensors(op, token, a, b.tensor(a))
}

#[track_caller]
fn binary_of_tensors(op: BinaryOp, token: &str, a: Tensor, b: Tensor) -> Tensor {
    match unify(token, a, b.counted()) {
        Some((a, b)) => emit(OpKind::Binary(op), &[a, b], token),
        None => a,
    }
}

/// Applies an operator to a number on the left and a tensor on the right.
#[track_caller]
fn number_first(op: BinaryOp, token: &str, left: impl Operand, right: Tensor) -> Tensor {
    if loses_fractions(token, right, left, true) {
        return right;
    }
    binary(op, token, left.tensor(right.counted()), right)
}

macro_rules! on_the_left {
    ($trait:ident $method:ident $sign:literal $number:ident, $right:ident: $($of:ty => $tensor:expr),*) => {$(
        impl $trait<$of> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, $right: $of) -> Tensor {
                number_first(BinaryOp::$trait, $sign, self, $tensor)
            }
        }
    )*};
}

macro_rules! operators {
    ($($trait:ident $method:ident $sign:literal),*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                binary(BinaryOp::$trait, $sign, self, right)
            }
        }
        impl<R: Operand> $trait<R> for &Param {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                binary(BinaryOp::$trait, $sign, self.tensor(), right)
            }
        }
        impl<R: Operand> $trait<R> for &State {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                binary(BinaryOp::$trait, $sign, self.tensor(), right)
            }
        }
        on_the_left!($trait $method $sign f64, right: Tensor => right, &Tensor => *right);
        on_the_left!($trait $method $sign f64, right: &Param => right.tensor(), &State => right.tensor());
        on_the_left!($trait $method $sign i32, right: Tensor => right, &Tensor => *right);
        on_the_left!($trait $method $sign i32, right: &Param => right.tensor(), &State => right.tensor());
    )*};
}
operators!(Add add "+", Sub sub "-", Mul mul "*", Div div "/", Rem rem "%");

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        emit(OpKind::Unary(UnaryOp::Neg), &[self], "-")
    }
}
