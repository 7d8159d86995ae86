//! Schedule of the rows of a body with reductions.

use crate::kernel::{Body, Store};
use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Maximum number of positions of a row that an invocation keeps in registers. For longer rows, each pass
/// recomputes the values.
const UNROLLED: usize = 8;
/// Like [`UNROLLED`], for positions in groups of four, which are loaded together.
const UNROLLED_IN_FOURS: usize = 16;

/// Schedule of a body's rows. A workgroup processes `slots` rows at a time, each with `lanes` invocations, in
/// `steps` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowSchedule {
    /// Number of invocations per row; a power of two.
    pub lanes: usize,
    /// Number of rows that a workgroup processes at a time.
    pub slots: usize,
    /// Number of rows that a slot processes sequentially.
    pub steps: usize,
    /// Number of these rows that are loaded before the first of them is stored; divides `steps`.
    pub ahead: usize,
    /// Number of positions of a row per invocation.
    pub each: usize,
    /// True if the positions of an invocation are groups of four adjacent ones. A row that is not unrolled
    /// may end with up to three single positions.
    pub fours: bool,
    /// Number of workgroups along the rows, which is also the number of partial results per column.
    pub groups: usize,
    /// Number of workgroups along the columns. Exceeds 1 only if there are no row reductions and positions
    /// are kept in registers.
    pub blocks: usize,
    /// Number of invocations in a subgroup, if lanes exchange values within subgroups.
    pub subgroup: Option<u32>,
    /// Number of lanes per column and number of columns per workgroup of the second kernel, which combines
    /// the partial results of columns, or `None` without such a kernel.
    pub finishing: Option<[usize; 2]>,
    /// Operand whose row a workgroup keeps in its memory, because several passes over the row read it; `None`
    /// if each pass loads all operands.
    pub kept: Option<usize>,
}

impl RowSchedule {
    /// Returns `true` if an invocation keeps its positions in registers.
    pub fn is_unrolled(&self) -> bool {
        self.each <= if self.fours { UNROLLED_IN_FOURS } else { UNROLLED }
    }

    /// Returns the number of invocations in a workgroup.
    pub fn workgroup(&self) -> usize {
        self.lanes * self.slots
    }

    /// Returns the number of lanes of a row that exchange values without a barrier.
    pub fn together(&self) -> usize {
        self.subgroup.map_or(1, |size| size as usize).min(self.lanes)
    }

    /// Returns the scratch range of the partial results of the column reduction with this index.
    pub fn partials(&self, body: &Body, number: usize) -> Range<u64> {
        let bytes = (4 * self.groups as u64 * body.columns as u64).max(4);
        let start = number as u64 * bytes.next_multiple_of(ALIGNMENT);
        start..start + bytes
    }

    /// Returns the number of bytes of scratch memory.
    pub fn workspace(&self, body: &Body) -> u64 {
        let columns = body.stores.iter().filter(|store| matches!(store, Store::ColumnReduce { .. })).count();
        match (self.finishing, columns) {
            (Some(_), 1..) => self.partials(body, columns - 1).end,
            _ => 0,
        }
    }
}
