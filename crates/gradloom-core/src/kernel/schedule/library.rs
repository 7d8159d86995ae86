//! Schedule of products computed by a vendor library.

/// Schedule of a matrix product computed by a vendor library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibrarySchedule {
    /// Number of bytes of scratch memory that the library may use.
    pub workspace: u64,
    /// Number of rows, number of columns and contraction length that the library computes. They exceed those
    /// of the product if the operands' rows are followed by zero padding, or if the memory after the product
    /// has room for the excess results.
    pub extents: [usize; 3],
    /// True if f32 operands are rounded to TF32.
    pub rounds: bool,
}
