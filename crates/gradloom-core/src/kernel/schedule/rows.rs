//! Schedule of the rows of a body that reduces.

use crate::kernel::{Body, Store};
use crate::plan::ALIGNMENT;
use std::ops::Range;

/// Positions of a row that an invocation keeps in registers, at most; of longer rows it computes values again
/// for each pass.
const UNROLLED: usize = 8;
/// The same of positions in groups of four neighbours, which are loaded together.
const UNROLLED_IN_FOURS: usize = 16;

/// Schedule of a body's rows: a workgroup has `slots` rows at a time, `lanes` invocations on each, and goes
/// through `steps` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowSchedule {
    /// Invocations of a row; a power of two.
    pub lanes: usize,
    /// Rows of a workgroup at a time.
    pub slots: usize,
    /// Rows that a slot takes one after the other.
    pub steps: usize,
    /// Positions of an invocation in a row.
    pub each: usize,
    /// True if its positions are groups of four neighbours, but for up to three at the end of a row that is
    /// not unrolled.
    pub fours: bool,
    /// Workgroups along the rows: as many partial results has a column.
    pub groups: usize,
    /// Workgroups along the columns; more than one only where nothing is reduced along rows, and positions
    /// are in registers.
    pub blocks: usize,
    /// Invocations of a subgroup, if lanes exchange values in subgroups.
    pub subgroup: Option<u32>,
    /// Lanes of a column, and columns of a workgroup, of the second kernel, which combines the partial
    /// results of columns; `None` without one.
    pub finishing: Option<[usize; 2]>,
}

impl RowSchedule {
    /// Returns whether an invocation keeps its positions in registers.
    pub fn is_unrolled(&self) -> bool {
        self.each <= if self.fours { UNROLLED_IN_FOURS } else { UNROLLED }
    }

    /// Returns the number of invocations of a workgroup.
    pub fn workgroup(&self) -> usize {
        self.lanes * self.slots
    }

    /// Returns the number of lanes of a row that exchange values without a barrier.
    pub fn together(&self) -> usize {
        self.subgroup.map_or(1, |size| size as usize).min(self.lanes)
    }

    /// Returns the scratch of the partial results of the column reduction of this number.
    pub fn partials(&self, body: &Body, number: usize) -> Range<u64> {
        let bytes = (4 * self.groups as u64 * body.columns as u64).max(4);
        let start = number as u64 * bytes.next_multiple_of(ALIGNMENT);
        start..start + bytes
    }

    /// Returns the number of bytes of scratch.
    pub fn workspace(&self, body: &Body) -> u64 {
        let columns = body.stores.iter().filter(|store| matches!(store, Store::ColumnReduce { .. })).count();
        match (self.finishing, columns) {
            (Some(_), 1..) => self.partials(body, columns - 1).end,
            _ => 0,
        }
    }
}
