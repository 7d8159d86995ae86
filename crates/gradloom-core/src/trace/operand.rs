//! What stands beside an operator: tensors, parameters, states, numbers.
//!
//! On the right is any [`Operand`]. On the left is a tensor, `&Param`, `&State`, `f64` or `i32`: with `f32`
//! as well, the type of `2.0` in `(2.0 * x).square()` would not be known.

use super::Tensor;
use super::tensor::{emit, fail, full};
use crate::decimal::Decimal;
use crate::ir::{BinaryOp, DType, OpKind, Shape, UnaryOp};
use crate::nn::{Param, State};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A tensor, a parameter, a state, or a number that takes the dtype of the tensor beside it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand beside a tensor",
    note = "operands are `Tensor`, `&Tensor`, `&Param`, `&State`, `f32`, `f64` and `i32`"
)]
pub trait Operand: Copy {
    /// The operand as a tensor; numbers take the dtype of `beside`.
    fn tensor(self, beside: Tensor) -> Tensor;

    /// The number, if it is one.
    fn number(self) -> Option<f64> {
        None
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

impl Operand for &Param {
    #[track_caller]
    fn tensor(self, _: Tensor) -> Tensor {
        Param::tensor(self)
    }
}

impl Operand for &State {
    #[track_caller]
    fn tensor(self, _: Tensor) -> Tensor {
        State::tensor(self)
    }
}

macro_rules! number_operand {
    ($($number:ty),*) => {$(
        impl Operand for $number {
            #[track_caller]
            fn tensor(self, beside: Tensor) -> Tensor {
                number(f64::from(self), beside)
            }

            fn number(self) -> Option<f64> {
                Some(f64::from(self))
            }
        }
    )*};
}
number_operand!(f32, f64, i32);

/// A number of the dtype of the tensor beside it, rank 0.
#[track_caller]
pub(super) fn number(value: f64, beside: Tensor) -> Tensor {
    let dtype = beside.dtype();
    if !dtype.is_float() && value.fract() != 0.0 {
        fail(
            "",
            format!("{} beside a tensor of {dtype}: the fraction would be lost", Decimal::from(value)),
            Some("convert the tensor with .cast(DType::F32)".into()),
        );
        return full(dtype, Shape::scalar(), 0.0);
    }
    if dtype == DType::Bool && value != 0.0 && value != 1.0 {
        fail(
            "",
            format!("{} beside a tensor of bool", Decimal::from(value)),
            Some("bools are 0 and 1; convert the tensor with .cast(..)".into()),
        );
        return full(dtype, Shape::scalar(), 0.0);
    }
    full(dtype, Shape::scalar(), value)
}

/// Broadcasts two operands to one shape; `None` after an error.
#[track_caller]
pub(super) fn unify(token: &str, a: Tensor, b: Tensor) -> Option<(Tensor, Tensor)> {
    let (ta, tb) = (a.ty(), b.ty());
    if ta.dtype != tb.dtype {
        fail(
            token,
            format!("`{token}` of {ta} and {tb}: the dtypes differ"),
            Some(crate::ir::cast_help(ta.dtype, tb.dtype)),
        );
        return None;
    }
    let Some(shape) = ta.shape.broadcast(&tb.shape) else {
        let clash = clash(&ta.shape, &tb.shape);
        fail(
            token,
            format!("`{token}` of {} and {}: {clash}", ta.shape, tb.shape),
            Some("shapes broadcast from the right: extents must be equal or 1".into()),
        );
        return None;
    };
    Some((a.broadcast_to(shape.clone()), b.broadcast_to(shape)))
}

/// The first pair of extents, from the right, that does not broadcast.
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
        fail(token, format!("{} {token} 0: a division by zero", a.ty()), Some(help.into()));
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

macro_rules! operators {
    ($($trait:ident $method:ident $sign:literal),*) => {$(
        impl<R: Operand> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: R) -> Tensor {
                binary(BinaryOp::$trait, $sign, self, right)
            }
        }
        impl $trait<Tensor> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: Tensor) -> Tensor {
                binary(BinaryOp::$trait, $sign, number(self, right.counted()), right)
            }
        }
        impl $trait<Tensor> for i32 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: Tensor) -> Tensor {
                binary(BinaryOp::$trait, $sign, number(f64::from(self), right.counted()), right)
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
        impl $trait<&Param> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: &Param) -> Tensor {
                binary(BinaryOp::$trait, $sign, number(self, right.tensor().counted()), right)
            }
        }
        impl $trait<&State> for f64 {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, right: &State) -> Tensor {
                binary(BinaryOp::$trait, $sign, number(self, right.tensor().counted()), right)
            }
        }
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

impl Neg for &Param {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        -self.tensor()
    }
}

impl Neg for &State {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        -self.tensor()
    }
}
