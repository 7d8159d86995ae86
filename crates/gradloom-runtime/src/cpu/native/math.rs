//! The functions of [`crate::cpu::math`] over vectors, with the same steps.
//!
//! Always holds: the bits are those of the scalar functions, whose comments say why each step is there. Where
//! two multiplications by powers of two are one [`Two::Scale`] here, the first of the two is exact. A sum
//! that the scalar functions start with `0·x` starts with its first coefficient: x is finite there, or NaN,
//! or the result is not used.

use super::ir::{Builder, Lane, MaskOp, One, Source, Two};
use crate::cpu::math::coefficients::{
    ERF_LARGE, ERF_SMALL, EXPM1, LN_2_HIGH, LN_2_LOW, LOG1P, LOG2_E, ROUND,
};
use gradloom_core::ir::CompareOp;
use std::f32::consts::FRAC_1_SQRT_2;

const SIGN: u32 = 0x8000_0000;

impl Builder {
    pub(super) fn add(&mut self, a: Source, b: Source) -> Source {
        self.two(Two::Add, a, b)
    }

    pub(super) fn sub(&mut self, a: Source, b: Source) -> Source {
        self.two(Two::Sub, a, b)
    }

    pub(super) fn mul(&mut self, a: Source, b: Source) -> Source {
        self.two(Two::Mul, a, b)
    }

    pub(super) fn div(&mut self, a: Source, b: Source) -> Source {
        self.two(Two::Div, a, b)
    }

    pub(super) fn negated(&mut self, a: Source) -> Source {
        let sign = self.bits(SIGN);
        self.two(Two::Xor, a, sign)
    }

    pub(super) fn magnitude(&mut self, a: Source) -> Source {
        let rest = self.bits(!SIGN);
        self.two(Two::And, a, rest)
    }

    /// A magnitude, without a sign, with the sign of another number.
    pub(super) fn with_sign(&mut self, magnitude: Source, of: Source) -> Source {
        let sign = self.bits(SIGN);
        let sign = self.two(Two::And, of, sign);
        self.two(Two::Or, magnitude, sign)
    }

    /// `x < low ? low : x`: NaN stays.
    fn at_least(&mut self, x: Source, low: f32) -> Source {
        let low = self.float(low);
        self.two(Two::Max, low, x)
    }

    /// `x > high ? high : x`: NaN stays.
    fn at_most(&mut self, x: Source, high: f32) -> Source {
        let high = self.float(high);
        self.two(Two::Min, high, x)
    }

    fn polynomial(&mut self, x: Source, coefficients: &[f32]) -> Source {
        let (&last, rest) = coefficients.split_last().expect("a polynomial has coefficients");
        let last = self.float(last);
        rest.iter().rev().fold(last, |sum, &coefficient| {
            let (product, coefficient) = (self.mul(sum, x), self.float(coefficient));
            self.add(product, coefficient)
        })
    }

    /// n and e^r - 1, where x = n·ln 2 + r; n as a float.
    fn reduced(&mut self, x: Source) -> (Source, Source) {
        let [log2_e, round, high, low] = [LOG2_E, ROUND, LN_2_HIGH, LN_2_LOW].map(|v| self.float(v));
        let shifted = self.mul(x, log2_e);
        let shifted = self.add(shifted, round);
        let n = self.sub(shifted, round);
        let (high, low) = (self.mul(n, high), self.mul(n, low));
        let r = self.sub(x, high);
        let r = self.sub(r, low);
        let (square, tail) = (self.mul(r, r), self.polynomial(r, &EXPM1));
        let tail = self.mul(square, tail);
        (n, self.add(r, tail))
    }

    /// 1 - 2^-n.
    fn one_less_power(&mut self, n: Source) -> Source {
        let (one, n) = (self.float(1.0), self.negated(n));
        let power = self.two(Two::Scale, one, n);
        self.sub(one, power)
    }

    pub(super) fn exp(&mut self, x: Source) -> Source {
        let x = self.at_least(x, -105.0);
        let x = self.at_most(x, 90.0);
        let (n, p) = self.reduced(x);
        let one = self.float(1.0);
        let y = self.add(one, p);
        self.two(Two::Scale, y, n)
    }

    /// The argument where the result is the same, else the result.
    fn unless_tiny(&mut self, x: Source, y: Source) -> Source {
        let (magnitude, tiny) = (self.magnitude(x), self.float(1e-8));
        let is_tiny = self.compare(CompareOp::Lt, Lane::Float, magnitude, tiny);
        self.select(is_tiny, x, y)
    }

    pub(super) fn expm1(&mut self, x: Source) -> Source {
        let limited = self.at_least(x, -20.0);
        let limited = self.at_most(limited, 90.0);
        let (n, p) = self.reduced(limited);
        let least = self.at_most(n, 100.0);
        let rest = self.one_less_power(least);
        let y = self.add(p, rest);
        let y = self.two(Two::Scale, y, n);
        self.unless_tiny(x, y)
    }

    pub(super) fn tanh(&mut self, x: Source) -> Source {
        let magnitude = self.magnitude(x);
        let limited = self.at_most(magnitude, 10.0);
        let two = self.float(2.0);
        let doubled = self.mul(two, limited);
        let (n, p) = self.reduced(doubled);
        let rest = self.one_less_power(n);
        let e = self.add(p, rest);
        let e = self.two(Two::Scale, e, n);
        let divisor = self.add(e, two);
        let y = self.div(e, divisor);
        // NaN / NaN may be a negative NaN.
        let y = self.magnitude(y);
        self.with_sign(y, x)
    }

    pub(super) fn sigmoid(&mut self, x: Source) -> Source {
        let (sign, one, zero) = (self.bits(SIGN), self.float(1.0), self.float(0.0));
        let negative = self.two(Two::Or, x, sign);
        let e = self.exp(negative);
        let below = self.compare(CompareOp::Lt, Lane::Float, x, zero);
        let numerator = self.select(below, e, one);
        let divisor = self.add(one, e);
        self.div(numerator, divisor)
    }

    pub(super) fn erf(&mut self, x: Source) -> Source {
        let magnitude = self.magnitude(x);
        let square = self.mul(x, x);
        let small = self.polynomial(square, &ERF_SMALL);
        let small = self.mul(x, small);
        let small = self.add(x, small);
        let limited = self.at_most(magnitude, 4.0);
        let large = self.polynomial(limited, &ERF_LARGE);
        let large = self.exp(large);
        let (one, limit) = (self.float(1.0), self.float(0.92));
        let large = self.sub(one, large);
        let large = self.magnitude(large);
        let large = self.with_sign(large, x);
        let is_small = self.compare(CompareOp::Lt, Lane::Float, magnitude, limit);
        self.select(is_small, small, large)
    }

    /// `exponent` is none for 0.
    fn log_of_normal(&mut self, x: Source, exponent: Option<Source>, correction: Source) -> Source {
        let (root, one) = (self.float(FRAC_1_SQRT_2), self.float(1.0));
        let offset = self.two(Two::SubInt, x, root);
        let n = self.one(One::ShiftRightBy(23), offset);
        let shifted = self.one(One::ShiftLeftBy(23), n);
        let m = self.two(Two::SubInt, x, shifted);
        let f = self.sub(m, one);
        let n = match exponent {
            Some(exponent) => self.two(Two::AddInt, n, exponent),
            None => n,
        };
        let n = self.one(One::FloatOfSigned, n);
        let square = self.mul(f, f);
        let (half, high, low) = (self.float(0.5), self.float(LN_2_HIGH), self.float(LN_2_LOW));
        let (cube, tail) = (self.mul(f, square), self.polynomial(f, &LOG1P));
        let tail = self.mul(cube, tail);
        let small = self.mul(n, low);
        let small = self.add(small, correction);
        let tail = self.add(tail, small);
        let square = self.mul(square, half);
        let tail = self.sub(tail, square);
        let (sum, high) = (self.add(tail, f), self.mul(n, high));
        self.add(sum, high)
    }

    fn with_ends(&mut self, x: Source, inside: Source) -> Source {
        let (zero, infinity) = (self.float(0.0), self.float(f32::INFINITY));
        let (lowest, nan) = (self.float(f32::NEG_INFINITY), self.float(f32::NAN));
        let is_infinite = self.compare(CompareOp::Eq, Lane::Float, x, infinity);
        let outside = self.select(is_infinite, x, nan);
        let is_zero = self.compare(CompareOp::Eq, Lane::Float, x, zero);
        let outside = self.select(is_zero, lowest, outside);
        let above = self.compare(CompareOp::Gt, Lane::Float, x, zero);
        let below = self.compare(CompareOp::Lt, Lane::Float, x, infinity);
        let is_inside = self.mask(MaskOp::And, above, below);
        self.select(is_inside, inside, outside)
    }

    pub(super) fn log(&mut self, x: Source) -> Source {
        let (least, factor, zero) = (self.float(f32::MIN_POSITIVE), self.float(8_388_608.0), self.float(0.0));
        let small = self.compare(CompareOp::Lt, Lane::Float, x, least);
        let scaled = self.mul(x, factor);
        let normal = self.select(small, scaled, x);
        let shift = self.bits((-23i32).cast_unsigned());
        let exponent = self.select(small, shift, zero);
        let inside = self.log_of_normal(normal, Some(exponent), zero);
        self.with_ends(x, inside)
    }

    pub(super) fn log1p(&mut self, x: Source) -> Source {
        let (one, two) = (self.float(1.0), self.float(2.0));
        let u = self.add(one, x);
        let (of_large, of_small) = (self.sub(u, x), self.sub(u, one));
        let (of_large, of_small) = (self.sub(one, of_large), self.sub(x, of_small));
        let large = self.compare(CompareOp::Ge, Lane::Float, u, two);
        let lost = self.select(large, of_large, of_small);
        let correction = self.div(lost, u);
        let inside = self.log_of_normal(u, None, correction);
        let y = self.with_ends(u, inside);
        self.unless_tiny(x, y)
    }
}
