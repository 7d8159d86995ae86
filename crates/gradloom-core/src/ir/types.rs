//! Element types, shapes and value types.

use super::{Number, named};
use std::fmt;
use std::ops::Deref;

named! {
    /// Element type of a tensor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum DType {
        /// IEEE 754 binary32.
        F32 = "f32",
        /// Two's complement, 32 bits. Arithmetic wraps.
        I32 = "i32",
        /// Unsigned, 32 bits. Arithmetic wraps.
        U32 = "u32",
        /// Boolean, stored as one byte: 0 or 1.
        Bool = "bool",
        /// IEEE 754 binary16. See [`DType::is_for_memory`].
        F16 = "f16",
        /// The upper half of a binary32, rounded to nearest with ties to even. See [`DType::is_for_memory`].
        BF16 = "bf16",
        /// Unsigned, 8 bits. See [`DType::is_for_memory`].
        U8 = "u8",
        /// Two's complement, 64 bits. See [`DType::is_for_memory`]. Kernels access it as two words, the low
        /// one first.
        I64 = "i64",
    }
}

impl DType {
    /// Element types in kernels, where a 64-bit number is two 32-bit words.
    pub const IN_KERNELS: [DType; 7] =
        [DType::F32, DType::I32, DType::U32, DType::Bool, DType::F16, DType::BF16, DType::U8];

    /// Element types on which ops compute. The others are [only for memory](DType::is_for_memory).
    pub const COMPUTED: [DType; 4] = [DType::F32, DType::I32, DType::U32, DType::Bool];

    /// Returns the number of bytes per element.
    pub fn bytes(self) -> usize {
        match self {
            DType::I64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 => 2,
            DType::Bool | DType::U8 => 1,
        }
    }

    /// Returns `true` if this is a float dtype, through which gradients can flow.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16)
    }

    /// Returns `true` if values of this dtype are only stored, moved and converted, while ops compute in
    /// another dtype. In a trace, an op on 16-bit floats computes in f32 and rounds its result. An op on u8
    /// or i64 computes in i32 and returns i32.
    pub fn is_for_memory(self) -> bool {
        self.computed() != self
    }

    /// Returns the dtype in which ops compute on values of this dtype.
    #[must_use]
    pub fn computed(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            DType::U8 | DType::I64 => DType::I32,
            _ => self,
        }
    }

    /// Returns `true` if a cast is a single conversion. Other casts go through the dtypes in which ops
    /// compute. A u32 converts to i64 directly, because i32 cannot represent all its values.
    pub fn casts_to(self, other: DType) -> bool {
        let steps = |memory: DType, other: DType| {
            !memory.is_for_memory() || other == memory || other == memory.computed()
        };
        steps(self, other) && steps(other, self) || (self, other) == (DType::U32, DType::I64)
    }

    /// Returns a float rounded to this 16-bit float dtype, with ties to even. Values beyond its range become
    /// infinite. Other dtypes return `x` unchanged.
    #[must_use]
    pub fn rounded(self, x: f64) -> f64 {
        let (bits, least) = match self {
            DType::F16 => (11, -14),
            DType::BF16 => (8, -126),
            _ => return x,
        };
        if x == 0.0 || !x.is_finite() {
            return x;
        }
        // `unit` is the spacing of the dtype's numbers around `x`, a power of two. Subnormals have the
        // spacing of the least normal number.
        let exponent = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(least);
        let unit = f64::from_bits(((exponent - (bits - 1) + 1023) as u64) << 52);
        let rounded = (x / unit).round_ties_even() * unit;
        let largest = match self {
            DType::F16 => 65_504.0,
            _ => 3.389_531_389_251_535_5e38,
        };
        if rounded.abs() > largest { f64::INFINITY.copysign(x) } else { rounded }
    }

    /// Returns `true` if this is a signed or unsigned integer dtype.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::I32 | DType::U32 | DType::U8 | DType::I64)
    }

    /// Returns the least and the greatest value, which are infinite for floats.
    pub fn range(self) -> (Number, Number) {
        match self {
            DType::F32 | DType::F16 | DType::BF16 => {
                (Number::Float(f64::NEG_INFINITY), Number::Float(f64::INFINITY))
            }
            DType::I32 => (Number::Int(i64::from(i32::MIN)), Number::Int(i64::from(i32::MAX))),
            DType::U32 => (Number::Int(0), Number::Int(i64::from(u32::MAX))),
            DType::U8 => (Number::Int(0), Number::Int(i64::from(u8::MAX))),
            DType::I64 => (Number::Int(i64::MIN), Number::Int(i64::MAX)),
            DType::Bool => (Number::Bool(false), Number::Bool(true)),
        }
    }
}

/// Extents of a tensor, outermost first, in row-major order. Rank 0 is a scalar; an extent of 0 means no
/// elements.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// Returns the shape of a scalar.
    pub fn scalar() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of elements: the product of the extents, saturating at `usize::MAX`. A scalar has
    /// one element.
    pub fn elements(&self) -> usize {
        self.0.iter().fold(1, |product, &extent| product.saturating_mul(extent))
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the row-major strides, in elements.
    pub fn strides(&self) -> Vec<usize> {
        let mut strides = vec![1usize; self.0.len()];
        for axis in (1..self.0.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(self.0[axis]);
        }
        strides
    }

    /// Returns the shape that both broadcast to under NumPy's rules (right-aligned, extents equal or 1), or
    /// `None` if they are incompatible.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let extent = |s: &Shape, axis: usize| {
            let missing = rank - s.rank();
            if axis < missing { 1 } else { s[axis - missing] }
        };
        (0..rank)
            .map(|axis| match (extent(self, axis), extent(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Shape)
    }

    /// Returns the shape with the given axes removed.
    pub fn without(&self, axes: &[usize]) -> Shape {
        Shape(self.0.iter().enumerate().filter(|(a, _)| !axes.contains(a)).map(|(_, &n)| n).collect())
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<Vec<usize>> for Shape {
    fn from(extents: Vec<usize>) -> Self {
        Self(extents)
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Self {
        Self(extents.to_vec())
    }
}

impl<const R: usize> From<[usize; R]> for Shape {
    fn from(extents: [usize; R]) -> Self {
        Self(extents.to_vec())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (axis, extent) in self.0.iter().enumerate() {
            write!(f, "{}{extent}", if axis == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The static type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Extents of the axes.
    pub shape: Shape,
}

impl Type {
    /// Creates a type from a dtype and a shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into() }
    }

    /// Creates a rank-0 type.
    pub fn scalar(dtype: DType) -> Self {
        Self { dtype, shape: Shape::scalar() }
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Returns the type of the same bytes in kernels, which have no 64-bit integers: an i64 becomes two i32
    /// words along an additional last axis. Other dtypes are unchanged.
    #[must_use]
    pub fn in_words(&self) -> Self {
        match self.dtype {
            DType::I64 => Self::new(DType::I32, [&self.shape[..], &[2]].concat()),
            _ => self.clone(),
        }
    }

    /// Returns the number of bytes of the elements, without padding.
    pub fn bytes(&self) -> u64 {
        (self.elements() as u64).saturating_mul(self.dtype.bytes() as u64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// Returns the inverse of a permutation: axis `i` of a tensor becomes axis `inverse[i]` when its axes are
/// permuted by `perm`.
pub fn inverse_permutation(perm: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; perm.len()];
    for (position, &axis) in perm.iter().enumerate() {
        inverse[axis] = position;
    }
    inverse
}
