//! Split of cumulative reductions and sorts of rows into tasks, and their scratch, as functions of shapes
//! alone.

use gradloom_core::kernel::Access;

/// Number of elements of a chunk of a long row.
pub const PIECE: usize = 32 * 1024;
/// Maximum number of elements of a row that one task sorts, on its stack.
pub const SHORT_ROW: usize = 4096;
/// Minimum ratio of the elements of a row to those that are selected. Below it, the row is sorted.
const SELECTED_OF: usize = 64;
/// Maximum number of elements that are selected from a row.
pub const MOST_SELECTED: usize = 1024;
/// Number of values of a digit.
pub const DIGITS: usize = 256;

/// The rows of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows.
    pub rows: usize,
    /// Number of elements of a row.
    pub extent: usize,
}

impl Rows {
    /// Returns the rows of an operand whose rank is at least 1.
    pub fn of(read: &Access) -> Self {
        let shape = &read.layout.shape;
        let (extent, outer) = shape.split_last().expect("rows have an axis");
        Self { rows: outer.iter().product(), extent: *extent }
    }

    /// Returns the number of chunks of a row.
    pub fn pieces(&self) -> usize {
        self.extent.div_ceil(PIECE)
    }
}

/// Returns the number of bytes of scratch of a cumulative reduction: eight for each chunk if rows have
/// several chunks, else 0.
pub fn cumulate_workspace(read: &Access) -> usize {
    let rows = Rows::of(read);
    if rows.pieces() > 1 { 8 * rows.rows * rows.pieces() } else { 0 }
}

/// Method of sorting rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortPlan {
    /// Each task sorts whole rows on its stack.
    Whole,
    /// Tasks select the first elements of each chunk, then those of all chunks of a row.
    Select {
        /// Number of elements of a chunk.
        piece: usize,
    },
    /// All tasks sort a row together, digit by digit.
    Digits,
}

impl SortPlan {
    /// Creates the plan for the first `count` elements of each row.
    pub fn new(rows: Rows, count: usize) -> Self {
        if count <= MOST_SELECTED && count * SELECTED_OF <= rows.extent {
            Self::Select { piece: PIECE.max(count * SELECTED_OF) }
        } else if rows.extent <= SHORT_ROW {
            Self::Whole
        } else {
            Self::Digits
        }
    }

    /// Returns the number of bytes of scratch. A selection needs room for the selected elements of each chunk
    /// if there are several chunks. A sort by digits needs room for two copies of a row and its indices, and
    /// for a histogram of the digits of each chunk.
    pub fn workspace(self, rows: Rows, count: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::Select { piece } => match rows.extent.div_ceil(piece) {
                0 | 1 => 0,
                pieces => 8 * rows.rows * pieces * count,
            },
            Self::Digits => 16 * rows.extent + 4 * DIGITS * rows.pieces(),
        }
    }
}
