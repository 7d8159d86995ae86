//! How a product is cut into tiles.

use super::cooperative;
use crate::narrow::narrow;
use crate::wgsl::Limits;

/// How the threads of a workgroup get the operands' elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// Each thread loads what it needs into registers; no barriers. Element by element on a device that takes
    /// vectors apart.
    Registers,
    /// Tiles go through workgroup memory, in this many buffers: 1, or 2 so that one is filled while the other
    /// is read.
    Workgroup(u32),
}

/// A tile of the portable kernel: a workgroup computes `m` x `n` results, `k` terms at a time; each thread
/// `thread_m` x `thread_n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Terms of the sums that are staged together; a multiple of 4.
    pub k: u32,
    /// Rows of a thread: 1, 2 or a multiple of 4.
    pub thread_m: u32,
    /// Columns of a thread: a multiple of 4, or on a device that takes vectors apart as rows.
    pub thread_n: u32,
    /// Where the operands' elements wait.
    pub staging: Staging,
}

impl Tile {
    /// Threads of a workgroup.
    pub fn threads(&self) -> u32 {
        (self.m / self.thread_m) * (self.n / self.thread_n)
    }

    /// Bytes of workgroup memory, with a column of padding for either operand's layout.
    pub fn workgroup_memory(&self) -> u32 {
        match self.staging {
            Staging::Registers => 0,
            Staging::Workgroup(buffers) => 4 * buffers * ((self.m + self.n) * (self.k + 4)),
        }
    }

    /// Whether the tile is well formed and an adapter with these limits can run it.
    pub fn fits(&self, limits: &Limits) -> bool {
        let whole = self.m.is_multiple_of(self.thread_m) && self.n.is_multiple_of(self.thread_n);
        let few = |count: u32| matches!(count, 1 | 2) || count.is_multiple_of(4);
        let scalar = limits.scalar && self.staging == Staging::Registers;
        let columns = self.thread_n.is_multiple_of(4) || scalar && few(self.thread_n);
        let lanes = columns && self.k.is_multiple_of(4) && self.k > 0;
        let rows = few(self.thread_m);
        let staged = match self.staging {
            Staging::Registers => true,
            Staging::Workgroup(buffers) => {
                (1..=2).contains(&buffers) && self.m.is_multiple_of(4) && self.n.is_multiple_of(4)
            }
        };
        whole
            && lanes
            && rows
            && staged
            && self.threads() <= limits.invocations
            && self.workgroup_memory() <= limits.workgroup_memory
    }
}

/// A tile of the cooperative kernel: each subgroup computes `subgroup_m` x `subgroup_n` results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CooperativeTile {
    /// Rows of a workgroup.
    pub m: u32,
    /// Columns of a workgroup.
    pub n: u32,
    /// Terms of the sums that are staged together; a multiple of 16.
    pub k: u32,
    /// Rows of a subgroup; a multiple of 16.
    pub subgroup_m: u32,
    /// Columns of a subgroup; a multiple of 16.
    pub subgroup_n: u32,
    /// Buffers in workgroup memory: 1 or 2.
    pub buffers: u32,
}

impl CooperativeTile {
    /// Subgroups of a workgroup.
    pub fn subgroups(&self) -> u32 {
        (self.m / self.subgroup_m) * (self.n / self.subgroup_n)
    }

    /// Bytes of workgroup memory: padded tiles of `f16`, and 16 x 16 results for each subgroup.
    pub fn workgroup_memory(&self) -> u32 {
        // A tile is padded along the axis whose neighbours are stored together, whichever that is.
        let padded = |free: u32| ((free * (self.k + 8)).max(self.k * (free + 8))) * 2;
        self.buffers * (padded(self.m) + padded(self.n)) + self.subgroups() * 16 * 16 * 4
    }

    /// Whether the tile is well formed and an adapter with these limits can run it.
    pub fn fits(&self, limits: &Limits) -> bool {
        let sixteens =
            [self.k, self.subgroup_m, self.subgroup_n].iter().all(|&x| x > 0 && x.is_multiple_of(16));
        let Some(subgroup) = limits.subgroup else { return false };
        cooperative::IS_POSSIBLE
            && limits.cooperative
            && sixteens
            && self.m.is_multiple_of(self.subgroup_m)
            && self.n.is_multiple_of(self.subgroup_n)
            && (1..=2).contains(&self.buffers)
            && self.subgroups() * subgroup <= limits.invocations
            && self.workgroup_memory() <= limits.workgroup_memory
    }
}

/// Which kernel computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Scalars and vectors: everywhere.
    Portable(Tile),
    /// Cooperative matrices, `f16` operands and sums in `f32`.
    Cooperative(CooperativeTile),
}

/// How a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The kernel.
    pub method: Method,
    /// Parts into which the sums are cut, at most; more than 1 needs a workspace and a second shader. Parts
    /// are whole staged tiles long, so there may be fewer.
    pub parts: u32,
}

impl Choice {
    /// Rows and columns of a workgroup's tile, and terms staged together.
    pub(super) fn extents(&self) -> (u32, u32, u32) {
        match self.method {
            Method::Portable(tile) => (tile.m, tile.n, tile.k),
            Method::Cooperative(tile) => (tile.m, tile.n, tile.k),
        }
    }

    /// The choice with as many parts as have terms, at least one.
    pub(in crate::wgsl) fn without_empty_parts(mut self, k: usize) -> Self {
        self.parts = narrow(k.div_ceil(self.part_length(k)).max(1));
        self
    }

    /// Length of each part of the sums but the last, a whole number of staged tiles.
    pub(super) fn part_length(&self, k: usize) -> usize {
        let step = self.extents().2 as usize;
        k.div_ceil(self.parts.max(1) as usize).div_ceil(step).max(1) * step
    }
}
