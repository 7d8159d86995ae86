//! Schedule for parts of a group with the same expression.

/// Schedule of one kernel for many parts that compute the same expression on different numbers of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupSchedule {
    /// Number of invocations in a workgroup, which combine their results.
    pub workgroup: usize,
    /// Number of invocations in a subgroup, if values are exchanged within subgroups.
    pub subgroup: Option<u32>,
    /// Number of lanes that reduce a column, and number of columns in a workgroup.
    pub columns: [usize; 2],
    /// Maximum number of elements of a part that a single workgroup reduces to one result.
    pub short: usize,
    /// Number of bytes of scratch memory for parts that have the same expression and run together. Parts with
    /// different expressions use the memory one after the other.
    pub workspace: u64,
}

impl GroupSchedule {
    /// Number of elements per workgroup: a few per invocation, so that finding the part is a small fraction
    /// of the work.
    pub const CHUNK: usize = 1024;
}
