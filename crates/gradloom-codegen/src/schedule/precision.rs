//! The type in which products multiply.

/// Type in which matrix products multiply. Sums, and everything else, are `f32` in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `f32`.
    #[default]
    F32,
    /// Operands are rounded to `f16` (11 significant bits) on their way to the adapter's cooperative
    /// matrices, where the product is large enough to gain from them. Of numbers beyond 65,504 nothing but
    /// infinity is left, of those below 6.1e-5 fewer bits, and below 3.0e-8 zero.
    F16,
}
