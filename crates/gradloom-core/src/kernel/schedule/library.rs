//! Schedule of products computed by a library.

/// Schedule of a matrix product computed by a library of the device's vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibrarySchedule {
    /// Number of bytes of scratch memory that the library may use.
    pub workspace: u64,
    /// Rows, columns and contraction length computed by the library. They exceed those of the product if the
    /// operands' rows are followed by zero padding, or if there is room for the excess results after those of
    /// the product.
    pub extents: [usize; 3],
    /// True if f32 operands are rounded to TF32.
    pub rounds: bool,
}
