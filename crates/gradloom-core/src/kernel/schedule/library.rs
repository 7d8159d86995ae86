//! Products by a library.

/// Schedule of a matrix product by a library of the device's vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibrarySchedule {
    /// Bytes of scratch that it may use.
    pub workspace: u64,
    /// Rows and columns of the result, and the length of its sums, as they are computed: beyond the product's
    /// own where zeros lie behind the operands' rows, or where what is computed lies behind the result's.
    pub extents: [usize; 3],
    /// True if operands in f32 are rounded to TF32.
    pub rounds: bool,
}
