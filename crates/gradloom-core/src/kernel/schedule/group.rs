//! Schedule of the parts of a group that compute the same.

/// Schedule of one kernel that runs many parts, which compute the same over different numbers of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupSchedule {
    /// Invocations of a workgroup that combine their results.
    pub workgroup: usize,
    /// Invocations of a subgroup, if they exchange values in subgroups.
    pub subgroup: Option<u32>,
    /// Lanes of a column whose elements are added up, and columns of a workgroup.
    pub columns: [usize; 2],
    /// Elements of a part that one workgroup adds up, at most.
    pub short: usize,
    /// Bytes of scratch that parts take which run together: they have it one after the other.
    pub workspace: u64,
}

impl GroupSchedule {
    /// Elements of a workgroup: a few for each invocation, so that finding the part is a small share of the
    /// work.
    pub const CHUNK: usize = 1024;
}
