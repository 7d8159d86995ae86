//! Elementwise functions.

use super::alike::is_within;
use super::bounds::{Range, is_in_range};
use super::operand::{binary, number, unify};
use super::scope::with_scope;
use super::tensor::{emit, full};
use super::{Operand, Tensor, op};
use crate::ir::{BinaryOp, BlockFormat, CompareOp, CompositeOp, DType, Literal, OpKind, Shape, UnaryOp};
use std::f64::consts::{LOG2_E, LOG10_E};

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
    /// Computes `|x|`; the gradient at 0 is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-1.0, 2.0], [2]).abs()), [1.0, 2.0]);
    /// ```
    #[doc(alias = "absolute")]
    abs => Abs;
    /// Returns the sign, which is -1, 0 or 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-3.0, 0.0, 2.0], [3]).sign()), [-1.0, 0.0, 1.0]);
    /// ```
    sign => Sign;
    /// Rounds down to a whole number. The gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.5, -1.5], [2]).floor()), [1.0, -2.0]);
    /// ```
    floor => Floor;
    /// Computes `e^x`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).exp()), [1.0]);
    /// ```
    exp => Exp;
    /// Computes `e^x - 1` without cancellation near 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).expm1()), [0.0]);
    /// ```
    expm1 => Expm1;
    /// Computes the natural logarithm.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).log()), [0.0]);
    /// ```
    log => Log;
    /// Computes `log(1 + x)` without cancellation near 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).log1p()), [0.0]);
    /// ```
    log1p => Log1p;
    /// Computes the square root.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[9.0], [1]).sqrt()), [3.0]);
    /// ```
    sqrt => Sqrt;
    /// Computes `1 / sqrt(x)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[4.0], [1]).rsqrt()), [0.5]);
    /// ```
    rsqrt => Rsqrt;
    /// Computes the sine of an angle in radians.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).sin()), [0.0]);
    /// ```
    sin => Sin;
    /// Computes the cosine of an angle in radians.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).cos()), [1.0]);
    /// ```
    cos => Cos;
    /// Computes the hyperbolic tangent.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).tanh()), [0.0]);
    /// ```
    tanh => Tanh;
    /// Computes `1 / (1 + e^-x)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).sigmoid()), [0.5]);
    /// ```
    sigmoid => Sigmoid;
    /// Computes the error function.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).erf()), [0.0]);
    /// ```
    erf => Erf;
    /// Computes the logical (bool) or bitwise (integers) complement.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0, 1.0], [2]).gt(0.5).logical_not()), [1.0, 0.0]);
    /// ```
    #[doc(alias = "bitwise_not")]
    logical_not => Not;
}

macro_rules! composite {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* #[track_caller] pub fn $method(self) -> Tensor {
                emit(OpKind::Composite(CompositeOp::$op), &[self], stringify!($method))
            })*
        }
    };
}
composite! {
    /// Computes the tangent of an angle in radians.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).tan()), [0.0]);
    /// ```
    tan => Tan;
    /// Computes the arcsine in radians, from -π/2 to π/2; NaN outside `-1..=1`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).asin()), [0.0]);
    /// ```
    asin => Asin;
    /// Computes the arccosine in radians, from 0 to π; NaN outside `-1..=1`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).acos()), [0.0]);
    /// ```
    acos => Acos;
    /// Computes the arctangent in radians, from -π/2 to π/2.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).atan()), [0.0]);
    /// ```
    atan => Atan;
    /// Computes the hyperbolic sine.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).sinh()), [0.0]);
    /// ```
    sinh => Sinh;
    /// Computes the hyperbolic cosine.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).cosh()), [1.0]);
    /// ```
    cosh => Cosh;
    /// Computes the inverse hyperbolic sine.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).asinh()), [0.0]);
    /// ```
    asinh => Asinh;
    /// Computes the inverse hyperbolic cosine, which is at least 0; NaN below 1.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).acosh()), [0.0]);
    /// ```
    acosh => Acosh;
    /// Computes the inverse hyperbolic tangent; NaN outside `-1..=1`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.0], [1]).atanh()), [0.0]);
    /// ```
    atanh => Atanh;
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
    /// Returns the smaller of the two elements; NaN if either is NaN. Equal elements each get half of the
    /// gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 5.0], [2]).minimum(3.0)), [1.0, 3.0]);
    /// ```
    #[doc(alias = "min")]
    minimum => Min;
    /// Returns the larger of the two elements; NaN if either is NaN. Equal elements each get half of the
    /// gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 5.0], [2]).maximum(3.0)), [3.0, 5.0]);
    /// ```
    #[doc(alias = "max")]
    maximum => Max;
    /// Raises `self` to the power of `right`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[2.0, 3.0], [2]).pow(2.0)), [4.0, 9.0]);
    /// ```
    pow => Pow;
    /// Computes the logical (bool) or bitwise (integers) AND.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[6.0], [1]).cast(DType::I32).logical_and(3)), [2.0]);
    /// ```
    #[doc(alias = "bitwise_and")]
    logical_and => And;
    /// Computes the logical (bool) or bitwise (integers) OR.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[6.0], [1]).cast(DType::I32).logical_or(3)), [7.0]);
    /// ```
    #[doc(alias = "bitwise_or")]
    logical_or => Or;
    /// Computes the logical (bool) or bitwise (integers) exclusive OR.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[6.0], [1]).cast(DType::I32).logical_xor(3)), [5.0]);
    /// ```
    #[doc(alias = "bitwise_xor")]
    logical_xor => Xor;
    /// Shifts integers left by `right` bits, taken modulo 32.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).cast(DType::I32).shift_left(2)), [12.0]);
    /// ```
    #[doc(alias = "bitwise_left_shift")]
    shift_left => Shl;
    /// Shifts integers right by `right` bits, taken modulo 32: logically for `u32`, arithmetically for `i32`.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[12.0], [1]).cast(DType::I32).shift_right(2)), [3.0]);
    /// ```
    #[doc(alias = "bitwise_right_shift")]
    shift_right => Shr;
}

#[track_caller]
fn compare(op: CompareOp, token: &str, left: Tensor, right: Tensor) -> Tensor {
    match unify(token, left, right.counted()) {
        Some((a, b)) => emit(OpKind::Compare(op), &[a, b], token),
        None => super::tensor::placeholder(DType::Bool, left.shape()),
    }
}

macro_rules! compare {
    ($($(#[$doc:meta])* $method:ident => $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])* #[track_caller] pub fn $method(self, right: impl Operand) -> Tensor {
                let left = self.counted();
                compare(CompareOp::$op, stringify!($method), left, right.tensor(left))
            })*
        }
    };
}
compare! {
    /// Computes `self == right`, elementwise, as bool.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).eq(2.0)), [0.0, 1.0, 0.0]);
    /// ```
    eq => Eq;
    /// Computes `self != right`, elementwise, as bool; true for NaN.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).ne(2.0)), [1.0, 0.0, 1.0]);
    /// ```
    ne => Ne;
    /// Computes `self < right`, elementwise, as bool.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).lt(2.0)), [1.0, 0.0, 0.0]);
    /// ```
    lt => Lt;
    /// Computes `self <= right`, elementwise, as bool.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).le(2.0)), [1.0, 1.0, 0.0]);
    /// ```
    le => Le;
    /// Computes `self > right`, elementwise, as bool.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).gt(2.0)), [0.0, 0.0, 1.0]);
    /// ```
    gt => Gt;
    /// Computes `self >= right`, elementwise, as bool.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, 2.0, 3.0], [3]).ge(2.0)), [0.0, 1.0, 1.0]);
    /// ```
    ge => Ge;
}

impl Tensor {
    /// Selects elements of `yes` where this bool tensor is true, and of `no` elsewhere. All three broadcast
    /// together. If both branches are numbers, the result is f32.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0, -2.0], [2]).gt(0.0).select(7.0, 0.5)), [7.0, 0.5]);
    /// ```
    #[doc(alias = "where")]
    #[op]
    pub fn select(self, yes: impl Operand, no: impl Operand) -> Tensor {
        let float = super::full(DType::F32, crate::ir::Shape::scalar(), 0.0);
        // Convert a branch that is a number to the dtype of the other branch.
        let probe = yes.tensor(float);
        let no = no.tensor(probe);
        self.one_of(yes.tensor(no), no)
    }

    #[track_caller]
    fn one_of(self, yes: Tensor, no: Tensor) -> Tensor {
        let Some((yes, no)) = unify("select", yes, no) else { return yes };
        let Some(shape) = self.shape().broadcast(&yes.shape()) else {
            let message =
                format!("`select` by {} of {}: the shapes do not broadcast", self.shape(), yes.shape());
            let help = "condition and branches broadcast together, from the right";
            return super::tensor::refused("select", message, help, yes);
        };
        let operands =
            [self.broadcast_to(shape.clone()), yes.broadcast_to(shape.clone()), no.broadcast_to(shape)];
        emit(OpKind::Select, &operands, "select")
    }

    /// Converts the elements to another dtype. Float to integer rounds towards zero and saturates (NaN
    /// becomes 0), integer to integer wraps, and conversion to bool is `x != 0`. Conversions from floats to
    /// i64 and from i64 to any other dtype go through i32; an i64 outside the range of i32 is a trap: the
    /// step fails and changes nothing.
    ///
    /// ```
    /// # use gradloom_core::{ir::DType, reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.7, -1.7], [2]).cast(DType::I32)), [1.0, -1.0]);
    /// ```
    #[doc(alias = "to")]
    #[doc(alias = "type")]
    #[doc(alias = "astype")]
    #[op]
    pub fn cast(self, dtype: DType) -> Tensor {
        let of = self.dtype();
        if of == dtype {
            return self;
        }
        if of == DType::I64 && !self.is_countable() {
            return super::tensor::placeholder(dtype, self.shape());
        }
        let from = match dtype {
            _ if of.casts_to(dtype) => self,
            _ if of.is_for_memory() => self.cast(of.computed()).cast(dtype),
            DType::U8 if of.is_float() => self.cast(DType::I32).maximum(0).minimum(255),
            _ => self.cast(dtype.computed()),
        };
        if from.dtype() == dtype { from } else { emit(OpKind::Cast { dtype }, &[from], "cast") }
    }

    /// Decodes quantized blocks: u8 `[B.., bytes]` becomes f32 `[B.., n]`, with 32 elements for each block of
    /// [`BlockFormat::block_bytes`]. A row that is not a whole number of blocks is an error. No gradient
    /// flows to the blocks: quantized weights are frozen.
    ///
    /// A matrix product whose right operand is the decoded tensor reads the blocks directly, if it sums along
    /// rows of blocks and the device supports it: `x.matmul(w.dequantize(format).transpose(0, 1))`, where x
    /// is `[.., k]` and the weights w of n outputs are `[n, bytes of k]`. For an embedding, gather rows first
    /// and then dequantize them.
    #[track_caller]
    #[must_use]
    pub fn dequantize(self, format: BlockFormat) -> Tensor {
        emit(OpKind::Dequantize { format }, &[self], "dequantize")
    }

    /// Returns `true` if a constant of i64 fits i32; otherwise, records an error. Values that are known only
    /// at run time trap instead if they do not fit.
    #[track_caller]
    fn is_countable(self) -> bool {
        let too_large = with_scope(|scope| {
            let value = scope.checked(self);
            let data = match &scope.graph.defining_op(value)?.kind {
                OpKind::Constant { data: Literal::Splat(number), .. } => std::slice::from_ref(number),
                OpKind::Constant { data: Literal::Dense(numbers), .. } => &numbers[..],
                _ => return None,
            };
            data.iter().find(|number| !number.fits(DType::I32)).copied()
        });
        if let Some(number) = too_large {
            let message = format!("{number} in a constant of i64, which takes part in ops as i32");
            super::tensor::fail("", message, "keep it below 2^31, or use f32");
        }
        too_large.is_none()
    }

    /// Computes `x * x`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).square()), [9.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn square(self) -> Tensor {
        binary(BinaryOp::Mul, "square", self, self)
    }

    /// Limits elements to `low..=high`. NaN stays NaN; where `low` is above `high`, the result is `high`. As
    /// in PyTorch, an element that equals a bound has the gradient 0 if the bound is a number; a bound that
    /// is a tensor gets half of the gradient.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-2.0, 0.5, 3.0], [3]).clamp(-1.0, 1.0)), [-1.0, 0.5, 1.0]);
    /// ```
    #[doc(alias = "clip")]
    #[op]
    pub fn clamp(self, low: impl Operand, high: impl Operand) -> Tensor {
        for (name, bound) in [("lower bound", low.number()), ("upper bound", high.number())] {
            if bound.is_some_and(|bound| !is_in_range("clamp", name, bound, Range::Ordered)) {
                return self;
            }
        }
        let x = self.counted();
        let raised = match low.number() {
            Some(f64::NEG_INFINITY) => x,
            Some(_) => x.le(low).select(low, x),
            None => x.maximum(low),
        };
        match high.number() {
            Some(f64::INFINITY) => raised,
            Some(_) => raised.ge(high).select(high, raised),
            None => raised.minimum(high),
        }
    }

    /// Rounds up to a whole number. The gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.5, -1.5], [2]).ceil()), [2.0, -1.0]);
    /// ```
    #[op]
    pub fn ceil(self) -> Tensor {
        -(-self).floor()
    }

    /// Rounds to the nearest whole number, with ties to even. The gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[0.5, 1.5, -1.2], [3]).round()), [0.0, 2.0, -1.0]);
    /// ```
    #[op]
    pub fn round(self) -> Tensor {
        let below = self.floor();
        // The difference is exact, so comparing it with 0.5 recognizes ties.
        let rest = self.detach() - below;
        let even = (below * 0.5).floor() * 2.0;
        let up = rest.gt(0.5).logical_or(rest.eq(0.5).logical_and(below.ne(even)));
        up.select(below + 1.0, below)
    }

    /// Rounds towards 0. The gradient is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.7, -1.7], [2]).trunc()), [1.0, -1.0]);
    /// ```
    #[doc(alias = "fix")]
    #[op]
    pub fn trunc(self) -> Tensor {
        self.lt(0.0).select(self.ceil(), self.floor())
    }

    /// Computes the remainder of a division of floats or integers, with the sign of the divisor:
    /// `x - y · floor(x / y)`, like `remainder` in NumPy and PyTorch. The result of the operator `%` has the
    /// sign of the dividend.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[-1.0, 5.0], [2]).remainder(3.0)), [2.0, 2.0]);
    /// ```
    #[op]
    pub fn remainder(self, divisor: impl Operand) -> Tensor {
        let x = self.counted();
        // The operator `%` reports a divisor that is the number 0.
        let rest = x % divisor;
        let divisor = divisor.tensor(x).counted();
        let zero = number(0.0, rest);
        let moves = rest.ne(zero).logical_and(rest.lt(zero).ne(divisor.lt(zero)));
        moves.select(rest + divisor, rest)
    }

    /// Computes `1 / x`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[4.0], [1]).reciprocal()), [0.25]);
    /// ```
    #[op]
    pub fn reciprocal(self) -> Tensor {
        1.0 / self
    }

    /// Computes `2^x`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).exp2()), [8.0]);
    /// ```
    #[op]
    pub fn exp2(self) -> Tensor {
        full(self.dtype(), Shape::scalar(), 2.0).pow(self)
    }

    /// Computes the logarithm to base 2.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).log2()), [0.0]);
    /// ```
    #[op]
    pub fn log2(self) -> Tensor {
        self.log() * LOG2_E
    }

    /// Computes the logarithm to base 10.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).log10()), [0.0]);
    /// ```
    #[op]
    pub fn log10(self) -> Tensor {
        self.log() * LOG10_E
    }

    /// Computes `sqrt(x² + y²)`; the squares may overflow. The gradient at the origin is 0.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[3.0], [1]).hypot(4.0)), [5.0]);
    /// ```
    #[op]
    pub fn hypot(self, right: impl Operand) -> Tensor {
        (self.square() + right.tensor(self).square()).root_or_zero()
    }

    /// Computes the square root of non-negative elements, with a gradient of 0 at 0.
    #[track_caller]
    pub(super) fn root_or_zero(self) -> Tensor {
        let zero = self.eq(0.0);
        zero.select(0.0, zero.select(1.0, self).sqrt())
    }

    /// Computes `self + weight · (end - self)`.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[1.0], [1]).lerp(3.0, 0.25)), [1.5]);
    /// ```
    #[op]
    pub fn lerp(self, end: impl Operand, weight: impl Operand) -> Tensor {
        self + weight.tensor(self) * (end.tensor(self) - self)
    }

    /// Returns a bool tensor that is true where elements are NaN.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[f32::NAN, 1.0], [2]).is_nan()), [1.0, 0.0]);
    /// ```
    #[doc(alias = "isnan")]
    #[op]
    pub fn is_nan(self) -> Tensor {
        self.ne(self)
    }

    /// Returns a bool tensor that is true where elements are infinite.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[f32::INFINITY, 1.0], [2]).is_inf()), [1.0, 0.0]);
    /// ```
    #[doc(alias = "isinf")]
    #[op]
    pub fn is_inf(self) -> Tensor {
        self.abs().eq(f64::INFINITY)
    }

    /// Returns a bool tensor that is true where elements are neither NaN nor infinite.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// assert_eq!(eval(|| literal(&[f32::NAN, 1.0], [2]).is_finite()), [0.0, 1.0]);
    /// ```
    #[doc(alias = "isfinite")]
    #[op]
    pub fn is_finite(self) -> Tensor {
        self.abs().lt(f64::INFINITY)
    }

    /// Replaces elements by `value` where the bool `mask` is true. Mask and value broadcast to the shape of
    /// `self`, which is also the shape of the result.
    ///
    /// ```
    /// # use gradloom_core::{reference::eval, trace::*};
    /// let y = eval(|| {
    ///     let x = literal(&[1.0, -2.0], [2]);
    ///     x.masked_fill(x.lt(0.0), 9.0)
    /// });
    /// assert_eq!(y, [1.0, 9.0]);
    /// ```
    #[op]
    pub fn masked_fill(self, mask: Tensor, value: impl Operand) -> Tensor {
        let value = value.tensor(self);
        if !is_within("masked_fill", self, "mask", mask) || !is_within("masked_fill", self, "value", value) {
            return self;
        }
        mask.select(value, self)
    }
}
