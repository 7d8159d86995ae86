//! Elementwise functions.

use super::operand::{binary, unify};
use super::tensor::{emit, has_floats};
use super::{Operand, Tensor};
use crate::ir::{BinaryOp, CompareOp, DType, OpKind, UnaryOp};

/// sqrt(2 / pi), the factor of the tanh form of GELU.
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* #[track_caller] pub fn $method(self) -> Tensor {
                emit(OpKind::Unary(UnaryOp::$op), &[self], stringify!($method))
            })*
        }
    };
}
unary! {
    /// `|x|`; the gradient at 0 is 0.
    abs => Abs;
    /// -1, 0 or 1.
    sign => Sign;
    /// The largest whole number that is not above `x`; no gradient.
    floor => Floor;
    /// `e^x`.
    exp => Exp;
    /// `e^x - 1` without cancellation near 0.
    expm1 => Expm1;
    /// Natural logarithm.
    log => Log;
    /// `log(1 + x)` without cancellation near 0.
    log1p => Log1p;
    /// Square root.
    sqrt => Sqrt;
    /// `1 / sqrt(x)`.
    rsqrt => Rsqrt;
    /// Sine of an angle in radians.
    sin => Sin;
    /// Cosine of an angle in radians.
    cos => Cos;
    /// Hyperbolic tangent.
    tanh => Tanh;
    /// `1 / (1 + e^-x)`.
    sigmoid => Sigmoid;
    /// The error function.
    erf => Erf;
    /// Logical (bool) or bitwise (integers) complement.
    logical_not => Not;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* #[track_caller] pub fn $method(self, right: impl Operand) -> Tensor {
                binary(BinaryOp::$op, stringify!($method), self, right)
            })*
        }
    };
}
binary! {
    /// The smaller of the two; NaN if either is. Ties share the gradient half and half.
    minimum => Min;
    /// The larger of the two; NaN if either is. Ties share the gradient half and half.
    maximum => Max;
    /// `self` to the power of `right`.
    pow => Pow;
    /// Logical (bool) or bitwise (integers) and.
    logical_and => And;
    /// Logical (bool) or bitwise (integers) or.
    logical_or => Or;
    /// Logical (bool) or bitwise (integers) exclusive or.
    logical_xor => Xor;
    /// Integers shifted left; the count is taken modulo 32.
    shift_left => Shl;
    /// Integers shifted right: logical for `u32`, arithmetic for `i32`; the count is taken modulo 32.
    shift_right => Shr;
}

macro_rules! compare {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* #[track_caller] pub fn $method(self, right: impl Operand) -> Tensor {
                match unify(stringify!($method), self, right.tensor(self)) {
                    Some((a, b)) => emit(OpKind::Compare(CompareOp::$op), &[a, b], stringify!($method)),
                    None => super::tensor::placeholder(DType::Bool, self.shape()),
                }
            })*
        }
    };
}
compare! {
    /// `self == right`, elementwise, as bool.
    eq => Eq;
    /// `self != right`, elementwise, as bool; true for NaN.
    ne => Ne;
    /// `self < right`, elementwise, as bool.
    lt => Lt;
    /// `self <= right`, elementwise, as bool.
    le => Le;
    /// `self > right`, elementwise, as bool.
    gt => Gt;
    /// `self >= right`, elementwise, as bool.
    ge => Ge;
}

impl Tensor {
    /// `yes` where this bool tensor is true, `no` elsewhere; the three broadcast together.
    /// When both branches are numbers, the result is f32.
    #[track_caller]
    pub fn select(self, yes: impl Operand, no: impl Operand) -> Tensor {
        let float = super::full(DType::F32, crate::ir::Shape::scalar(), 0.0);
        // A number takes the dtype of the other branch.
        let probe = yes.tensor(float);
        let no = no.tensor(probe);
        self.one_of(yes.tensor(no), no)
    }

    #[track_caller]
    fn one_of(self, yes: Tensor, no: Tensor) -> Tensor {
        let Some((yes, no)) = unify("select", yes, no) else { return yes };
        let Some(shape) = self.shape().broadcast(&yes.shape()) else {
            super::tensor::fail(
                "select",
                format!("select: condition {} and branches {} do not broadcast", self.shape(), yes.shape()),
                None,
            );
            return yes;
        };
        let operands =
            [self.broadcast_to(shape.clone()), yes.broadcast_to(shape.clone()), no.broadcast_to(shape)];
        emit(OpKind::Select, &operands, "select")
    }

    /// The elements as another dtype. Float to integer rounds towards zero and saturates (NaN gives 0),
    /// integer to integer wraps, to bool is `x != 0`.
    #[track_caller]
    pub fn cast(self, dtype: DType) -> Tensor {
        if self.dtype() == dtype { self } else { emit(OpKind::Cast { dtype }, &[self], "cast") }
    }

    /// `x * x`.
    #[track_caller]
    pub fn square(self) -> Tensor {
        binary(BinaryOp::Mul, "square", self, self)
    }

    /// `max(x, 0)`; the gradient at 0 is 0.
    #[track_caller]
    pub fn relu(self) -> Tensor {
        self.gt(0.0).select(self, 0.0)
    }

    /// Elements limited to `low..=high`.
    #[track_caller]
    pub fn clamp(self, low: impl Operand, high: impl Operand) -> Tensor {
        self.maximum(low).minimum(high)
    }

    /// `x · Φ(x)` with the exact normal distribution function: `0.5 x (1 + erf(x / sqrt 2))`. Hendrycks and
    /// Gimpel, 2016.
    #[track_caller]
    pub fn gelu(self) -> Tensor {
        0.5 * self * (1.0 + (self * std::f64::consts::FRAC_1_SQRT_2).erf())
    }

    /// The tanh form of GELU, as GPT-2 has it: `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`.
    #[track_caller]
    pub fn gelu_tanh(self) -> Tensor {
        let inner = SQRT_2_OVER_PI * (self + 0.044715 * (self * self * self));
        0.5 * self * (1.0 + inner.tanh())
    }

    /// `x · sigmoid(x)`.
    #[track_caller]
    pub fn silu(self) -> Tensor {
        self * self.sigmoid()
    }

    /// `log(1 + e^x)`, f32; the gradient is `sigmoid(x)`. Computed as `max(x, 0) + log(1 + e^-|x|)`, which
    /// neither overflows for large `x` nor loses digits far below 0. Dugas et al., NIPS 2000.
    #[track_caller]
    pub fn softplus(self) -> Tensor {
        if !has_floats("softplus", self) {
            return self;
        }
        self.maximum(0.0) + (-self.abs()).exp().log1p()
    }

    /// `x` where it is above 0, `slope · x` elsewhere, f32; the gradient at 0 is `slope`, as in PyTorch.
    /// Maas, Hannun, Ng, 2013.
    #[track_caller]
    pub fn leaky_relu(self, slope: f64) -> Tensor {
        if !has_floats("leaky_relu", self) {
            return self;
        }
        self.gt(0.0).select(self, self * slope)
    }
}
