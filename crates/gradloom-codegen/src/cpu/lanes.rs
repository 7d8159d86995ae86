//! Arithmetic on 32-bit lanes, in which the formulas of elementwise functions are written.
//!
//! In: a formula that is generic over [`Lanes`]. Out: with [`Scalar`], its value, in a loop that the Rust
//! compiler vectorizes; with the builder of machine code, the IR instructions that compute it. Invariant:
//! both produce the same bits, except for those of NaNs, because `Scalar` defines the meaning of each
//! instruction.

use gradloom_core::ir::CompareOp;

/// Functions of two lanes. Shift counts are below 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryInst {
    Add,
    Sub,
    Mul,
    Div,
    /// `a < b ? a : b`, which is `b` if either is NaN or both are zero.
    Min,
    /// `a > b ? a : b`, which is `b` if either is NaN or both are zero.
    Max,
    /// a · 2^b for an integer b of magnitude 252 at most, rounded once unless |a| · 2^(b/2) is subnormal.
    Scale,
    And,
    Or,
    Xor,
    AddInt,
    SubInt,
    MulInt,
    MinSigned,
    MinUnsigned,
    MaxSigned,
    MaxUnsigned,
    ShiftLeft,
    ShiftRightSigned,
    ShiftRightUnsigned,
}

/// Functions of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryInst {
    Sqrt,
    Floor,
    AbsInt,
    FloatOfSigned,
    FloatOfUnsigned,
    /// Conversion towards zero; `i32::MIN` if the number is out of range or NaN.
    SignedOfFloat,
    /// Conversion towards zero; `u32::MAX` if the number is out of range or NaN.
    UnsignedOfFloat,
    ShiftLeftBy(u8),
    /// Arithmetic shift, which keeps the sign.
    ShiftRightBy(u8),
}

/// The interpretation of the lanes of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    Float,
    Signed,
    Unsigned,
}

/// Functions of two masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskOp {
    And,
    Or,
    Xor,
    /// True where the two masks are equal.
    Same,
    /// True where the second mask is true and the first one is not.
    Without,
}

const SIGN: u32 = 0x8000_0000;

/// Arithmetic on lanes of 32 bits.
pub trait Lanes {
    /// A 32-bit value: an f32, i32 or u32, depending on the function.
    type Value: Copy;
    /// A truth value.
    type Mask: Copy;

    /// Returns a value with these bits in all lanes.
    fn bits(&mut self, bits: u32) -> Self::Value;
    fn two(&mut self, op: BinaryInst, a: Self::Value, b: Self::Value) -> Self::Value;
    fn one(&mut self, op: UnaryInst, a: Self::Value) -> Self::Value;
    fn compare(&mut self, op: CompareOp, lane: LaneKind, a: Self::Value, b: Self::Value) -> Self::Mask;
    fn mask(&mut self, op: MaskOp, a: Self::Mask, b: Self::Mask) -> Self::Mask;
    fn is_nan(&mut self, a: Self::Value) -> Self::Mask;
    /// Returns `mask ? a : b`.
    fn select(&mut self, mask: Self::Mask, a: Self::Value, b: Self::Value) -> Self::Value;

    #[inline(always)]
    fn float(&mut self, value: f32) -> Self::Value {
        self.bits(value.to_bits())
    }

    #[inline(always)]
    fn add(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.two(BinaryInst::Add, a, b)
    }

    #[inline(always)]
    fn sub(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.two(BinaryInst::Sub, a, b)
    }

    #[inline(always)]
    fn mul(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.two(BinaryInst::Mul, a, b)
    }

    #[inline(always)]
    fn div(&mut self, a: Self::Value, b: Self::Value) -> Self::Value {
        self.two(BinaryInst::Div, a, b)
    }

    #[inline(always)]
    fn negated(&mut self, a: Self::Value) -> Self::Value {
        let sign = self.bits(SIGN);
        self.two(BinaryInst::Xor, a, sign)
    }

    #[inline(always)]
    fn magnitude(&mut self, a: Self::Value) -> Self::Value {
        let rest = self.bits(!SIGN);
        self.two(BinaryInst::And, a, rest)
    }

    /// Returns a magnitude, whose sign bit must be clear, with the sign of another number.
    #[inline(always)]
    fn with_sign(&mut self, magnitude: Self::Value, of: Self::Value) -> Self::Value {
        let sign = self.bits(SIGN);
        let sign = self.two(BinaryInst::And, of, sign);
        self.two(BinaryInst::Or, magnitude, sign)
    }

    /// Returns `low < x && x < high` for floats.
    #[inline(always)]
    fn is_between(&mut self, x: Self::Value, low: Self::Value, high: Self::Value) -> Self::Mask {
        let above = self.compare(CompareOp::Gt, LaneKind::Float, x, low);
        let below = self.compare(CompareOp::Lt, LaneKind::Float, x, high);
        self.mask(MaskOp::And, above, below)
    }

    /// Returns `x < low ? low : x`, which keeps NaN.
    #[inline(always)]
    fn at_least(&mut self, x: Self::Value, low: f32) -> Self::Value {
        let low = self.float(low);
        self.two(BinaryInst::Max, low, x)
    }

    /// Returns `x > high ? high : x`, which keeps NaN.
    #[inline(always)]
    fn at_most(&mut self, x: Self::Value, high: f32) -> Self::Value {
        let high = self.float(high);
        self.two(BinaryInst::Min, high, x)
    }
}

/// A single lane, computed immediately.
pub struct Scalar;

/// 1.5·2²³. Adding it to a small number rounds that number to an integer, which is then in the low bits.
pub const ROUND: f32 = 12_582_912.0;

/// [`ROUND`] plus twice the bias of an exponent.
const ROUND_TWICE: f32 = ROUND + 254.0;

/// Returns [`BinaryInst::Scale`] of two numbers, for instruction sets without it, in the steps of [`Scalar`].
pub fn scale<L: Lanes>(l: &mut L, a: L::Value, b: L::Value) -> L::Value {
    let round = l.float(ROUND_TWICE);
    let both = l.add(b, round);
    let first = l.one(UnaryInst::ShiftRightBy(1), both);
    let second = l.two(BinaryInst::SubInt, both, first);
    let [first, second] = [first, second].map(|exponent| l.one(UnaryInst::ShiftLeftBy(23), exponent));
    let scaled = l.mul(a, first);
    l.mul(scaled, second)
}

/// Returns [`UnaryInst::FloatOfUnsigned`] of a number, for instruction sets that only convert signed numbers.
pub fn float_of_unsigned<L: Lanes>(l: &mut L, a: L::Value) -> L::Value {
    let (bits, low) = (l.bits(16), l.bits(0xffff));
    let high = l.two(BinaryInst::ShiftRightUnsigned, a, bits);
    let low = l.two(BinaryInst::And, a, low);
    let [high, low] = [high, low].map(|half| l.one(UnaryInst::FloatOfSigned, half));
    // Both halves and the product are exact, so the sum is rounded once.
    let factor = l.float(65_536.0);
    let high = l.mul(high, factor);
    l.add(high, low)
}

/// Returns [`UnaryInst::UnsignedOfFloat`] of a number, for instruction sets that only convert to signed
/// numbers.
pub fn unsigned_of_float<L: Lanes>(l: &mut L, a: L::Value) -> L::Value {
    let (sign, none) = (l.bits(SIGN), l.bits(u32::MAX));
    let [half, end, least] = [2_147_483_648.0, 4_294_967_296.0, -1.0].map(|bound| l.float(bound));
    let low = l.one(UnaryInst::SignedOfFloat, a);
    let rest = l.sub(a, half);
    let rest = l.one(UnaryInst::SignedOfFloat, rest);
    let high = l.two(BinaryInst::Xor, rest, sign);
    let is_high = l.compare(CompareOp::Ge, LaneKind::Float, a, half);
    let inside = l.select(is_high, high, low);
    let is_in_range = l.is_between(a, least, end);
    l.select(is_in_range, inside, none)
}

/// Returns a comparison of unsigned numbers, for instruction sets that only compare signed numbers.
pub fn compare_unsigned<L: Lanes>(l: &mut L, op: CompareOp, a: L::Value, b: L::Value) -> L::Mask {
    let sign = l.bits(SIGN);
    let [a, b] = [a, b].map(|number| l.two(BinaryInst::Xor, number, sign));
    l.compare(op, LaneKind::Signed, a, b)
}

impl Lanes for Scalar {
    type Value = u32;
    type Mask = bool;

    #[inline(always)]
    fn bits(&mut self, bits: u32) -> u32 {
        bits
    }

    #[inline(always)]
    fn two(&mut self, op: BinaryInst, a: u32, b: u32) -> u32 {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        let (i, j) = (a.cast_signed(), b.cast_signed());
        match op {
            BinaryInst::Add => (x + y).to_bits(),
            BinaryInst::Sub => (x - y).to_bits(),
            BinaryInst::Mul => (x * y).to_bits(),
            BinaryInst::Div => (x / y).to_bits(),
            BinaryInst::Min => if x < y { x } else { y }.to_bits(),
            BinaryInst::Max => if x > y { x } else { y }.to_bits(),
            BinaryInst::Scale => {
                // Takes two steps, because a single factor of 2^-252 would be 0. The first step is exact
                // unless its result is subnormal. The low bits of `first` and `second` are the biased
                // exponents of the two factors; the shifts drop the other bits.
                let both = (y + ROUND_TWICE).to_bits();
                let first = both >> 1;
                let second = both - first;
                (x * f32::from_bits(first << 23) * f32::from_bits(second << 23)).to_bits()
            }
            BinaryInst::And => a & b,
            BinaryInst::Or => a | b,
            BinaryInst::Xor => a ^ b,
            BinaryInst::AddInt => a.wrapping_add(b),
            BinaryInst::SubInt => a.wrapping_sub(b),
            BinaryInst::MulInt => a.wrapping_mul(b),
            BinaryInst::MinSigned => i.min(j).cast_unsigned(),
            BinaryInst::MinUnsigned => a.min(b),
            BinaryInst::MaxSigned => i.max(j).cast_unsigned(),
            BinaryInst::MaxUnsigned => a.max(b),
            BinaryInst::ShiftLeft => a << (b & 31),
            BinaryInst::ShiftRightSigned => (i >> (b & 31)).cast_unsigned(),
            BinaryInst::ShiftRightUnsigned => a >> (b & 31),
        }
    }

    #[inline(always)]
    fn one(&mut self, op: UnaryInst, a: u32) -> u32 {
        let (x, i) = (f32::from_bits(a), a.cast_signed());
        match op {
            UnaryInst::Sqrt => x.sqrt().to_bits(),
            UnaryInst::Floor => x.floor().to_bits(),
            UnaryInst::AbsInt => i.wrapping_abs().cast_unsigned(),
            UnaryInst::FloatOfSigned => (i as f32).to_bits(),
            UnaryInst::FloatOfUnsigned => (a as f32).to_bits(),
            UnaryInst::SignedOfFloat => {
                let is_in_range = (-2_147_483_648.0..2_147_483_648.0).contains(&x);
                // SAFETY: the number is finite and in range. (`as` would convert one element at a time.)
                let inside = unsafe { (if is_in_range { x } else { 0.0 }).to_int_unchecked::<i32>() };
                if is_in_range { inside } else { i32::MIN }.cast_unsigned()
            }
            UnaryInst::UnsignedOfFloat => {
                let is_in_range = x > -1.0 && x < 4_294_967_296.0;
                // SAFETY: the number is finite, and in range once it is truncated.
                let inside = unsafe { (if is_in_range { x } else { 0.0 }).to_int_unchecked::<u32>() };
                if is_in_range { inside } else { u32::MAX }
            }
            UnaryInst::ShiftLeftBy(count) => a << count,
            UnaryInst::ShiftRightBy(count) => (i >> count).cast_unsigned(),
        }
    }

    #[inline(always)]
    fn compare(&mut self, op: CompareOp, lane: LaneKind, a: u32, b: u32) -> bool {
        #[inline(always)]
        fn of<T: PartialOrd>(op: CompareOp, a: T, b: T) -> bool {
            match op {
                CompareOp::Eq => a == b,
                CompareOp::Ne => a != b,
                CompareOp::Lt => a < b,
                CompareOp::Le => a <= b,
                CompareOp::Gt => a > b,
                CompareOp::Ge => a >= b,
            }
        }
        match lane {
            LaneKind::Float => of(op, f32::from_bits(a), f32::from_bits(b)),
            LaneKind::Signed => of(op, a.cast_signed(), b.cast_signed()),
            LaneKind::Unsigned => of(op, a, b),
        }
    }

    #[inline(always)]
    fn mask(&mut self, op: MaskOp, a: bool, b: bool) -> bool {
        match op {
            MaskOp::And => a & b,
            MaskOp::Or => a | b,
            MaskOp::Xor => a ^ b,
            MaskOp::Same => a == b,
            MaskOp::Without => !a & b,
        }
    }

    #[inline(always)]
    fn is_nan(&mut self, a: u32) -> bool {
        f32::from_bits(a).is_nan()
    }

    #[inline(always)]
    fn select(&mut self, mask: bool, a: u32, b: u32) -> u32 {
        if mask { a } else { b }
    }
}
