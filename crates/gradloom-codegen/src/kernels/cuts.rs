//! Positions at which memory is cut into buffers.

use gradloom_core::plan::Region;

/// Sorted positions at which regions of memory are cut into buffers. No value or binding crosses a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cuts(Vec<(Region, u64)>);

impl Cuts {
    /// Cuts a region before a byte, which must be the first byte of a value and a multiple of the plan's
    /// alignment.
    pub fn add(&mut self, region: Region, offset: u64) {
        if let Err(place) = self.0.binary_search(&(region, offset)) {
            self.0.insert(place, (region, offset));
        }
    }

    /// Returns the index of the segment of its region to which a byte belongs.
    pub fn segment(&self, region: Region, offset: u64) -> usize {
        let first = self.0.partition_point(|cut| *cut < (region, 0));
        self.0.partition_point(|cut| *cut <= (region, offset)) - first
    }
}
