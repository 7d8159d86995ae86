//! Places where memory is cut into buffers.

use gradloom_core::plan::Region;

/// Places where regions of memory are cut into buffers, sorted. A value lies on one side of each; a binding
/// never reaches across.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts(Vec<(Region, u64)>);

impl Cuts {
    /// Cuts a region before a byte, which is a multiple of the plan's alignment and the first one of a value.
    pub fn add(&mut self, region: Region, offset: u64) {
        if let Err(place) = self.0.binary_search(&(region, offset)) {
            self.0.insert(place, (region, offset));
        }
    }

    /// Returns the number of the part of its region that a byte lies in.
    pub fn segment(&self, region: Region, offset: u64) -> usize {
        let first = self.0.partition_point(|cut| *cut < (region, 0));
        self.0.partition_point(|cut| *cut <= (region, offset)) - first
    }
}
