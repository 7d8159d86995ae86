//! Schedule of a matrix product: its tiles.

use crate::ir::DType;

/// Path of the operands' elements to the threads of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// Each thread loads what it needs into registers, as vectors; no barriers.
    Registers,
    /// The same element by element, in a loop over single terms: for devices that take vectors apart, where
    /// loads are most of what a kernel costs, to run and to compile.
    Scalars,
    /// Tiles go through workgroup memory, in this many buffers: 1, or 2 so that one is filled while the other
    /// is read.
    Workgroup(u32),
    /// The same in one buffer, by so many groups of threads: each has an equal share of the terms in a tile
    /// of its own, and their sums are added up at the end. A workgroup without enough threads to hide its
    /// loads has more that way.
    Sliced(u32),
    /// Registers, of few rows: the threads of a workgroup share out the terms. There are so many for each
    /// four columns, whose sums are added up at the end; `thread_m` is `m`.
    Lanes(u32),
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
    /// Columns of a thread: a multiple of 4, or with [`Staging::Scalars`] as rows.
    pub thread_n: u32,
    /// Staging of the operands' elements.
    pub staging: Staging,
}

impl Tile {
    /// Returns the number of threads of a workgroup.
    pub fn threads(&self) -> u32 {
        self.group() * self.slices()
    }

    /// Returns the number of threads that compute the same terms.
    pub fn group(&self) -> u32 {
        (self.m / self.thread_m) * (self.n / self.thread_n)
    }

    /// Returns the number of groups of threads.
    pub fn slices(&self) -> u32 {
        match self.staging {
            Staging::Sliced(slices) | Staging::Lanes(slices) => slices,
            _ => 1,
        }
    }

    /// Returns the number of bytes of workgroup memory, with a column of padding for either operand's
    /// layout.
    pub fn workgroup_memory(&self) -> u32 {
        match self.staging {
            Staging::Registers | Staging::Scalars => 0,
            Staging::Workgroup(buffers) => 4 * buffers * ((self.m + self.n) * (self.k + 4)),
            Staging::Sliced(slices) => {
                4 * (slices * (self.m + self.n) * (self.k + 4) + (slices - 1) * self.m * self.n)
            }
            Staging::Lanes(_) => 4 * self.threads().div_ceil(32) * self.m * self.n,
        }
    }

    /// Returns whether the tile is well formed.
    pub fn is_well_formed(&self) -> bool {
        let whole = self.m.is_multiple_of(self.thread_m) && self.n.is_multiple_of(self.thread_n);
        let few = |count: u32| matches!(count, 1 | 2) || count.is_multiple_of(4);
        if let Staging::Lanes(slices) = self.staging {
            // Subgroups of 32 have whole groups of columns, and a thread at most one result.
            return [self.thread_m, self.thread_n, self.k] == [self.m, 4, 4]
                && (1..=8).contains(&self.m)
                && (self.n / 4).is_power_of_two()
                && slices.is_power_of_two()
                && (4..=128).contains(&self.n)
                && self.threads().is_multiple_of(32)
                && self.m * self.n <= self.threads();
        }
        let columns = match self.staging {
            Staging::Scalars => few(self.thread_n),
            Staging::Registers => self.thread_n.is_multiple_of(4),
            Staging::Workgroup(buffers) => {
                let sides = self.m.is_multiple_of(4) && self.n.is_multiple_of(4);
                self.thread_n.is_multiple_of(4) && sides && (1..=2).contains(&buffers)
            }
            Staging::Lanes(_) => unreachable!("looked at above"),
            Staging::Sliced(slices) => {
                let sides = self.m.is_multiple_of(4) && self.n.is_multiple_of(4);
                self.thread_n.is_multiple_of(4) && sides && (2..=8).contains(&slices)
            }
        };
        whole && columns && few(self.thread_m) && self.k.is_multiple_of(4) && self.k > 0
    }
}

/// A tile of the kernel with matrix instructions: each subgroup computes `subgroup_m` x `subgroup_n` results.
///
/// Without buffers, operands are loaded into registers: of few rows, so that the right operand is read once.
/// All subgroups then compute the results of the tile, from a share of the terms each; `k` is 16 for each
/// subgroup.
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
    /// Buffers in workgroup memory: none, 1 or 2.
    pub buffers: u32,
}

impl CooperativeTile {
    /// Creates a tile without buffers, of 16 or 32 rows and 16 or 32 columns: two or four of each lane.
    pub const fn streamed([m, n]: [u32; 2], subgroups: u32) -> Self {
        Self { m, n, k: 16 * subgroups, subgroup_m: m, subgroup_n: n, buffers: 0 }
    }

    /// Returns whether operands go from memory to registers.
    pub fn is_streamed(&self) -> bool {
        self.buffers == 0
    }

    /// Returns the number of subgroups of a workgroup.
    pub fn subgroups(&self) -> u32 {
        if self.is_streamed() {
            return self.k / 16;
        }
        (self.m / self.subgroup_m) * (self.n / self.subgroup_n)
    }

    /// Distance between rows of results in workgroup memory, in `f32`: padded, which keeps banks apart.
    pub const RESULT_PITCH: u32 = 16 + 4;

    /// Returns the distance between rows of results in workgroup memory of a tile without buffers, in
    /// `f32`.
    pub fn streamed_pitch(&self) -> u32 {
        self.n + 4
    }

    /// Returns the number of bytes of workgroup memory: padded tiles of operands of 16 bits, or of f32, and
    /// 16 rows of results for each subgroup; without buffers, all results of each.
    pub fn workgroup_memory(&self, operands: DType) -> u32 {
        if self.is_streamed() {
            return self.subgroups() * self.m * self.streamed_pitch() * 4;
        }
        // A tile is padded along the axis whose neighbours are stored together, whichever that is.
        let bytes = if operands == DType::F32 { 4 } else { 2 };
        let padded = |free: u32| ((free * (self.k + 8)).max(self.k * (free + 8))) * bytes;
        self.buffers * (padded(self.m) + padded(self.n)) + self.subgroups() * 16 * Self::RESULT_PITCH * 4
    }

    /// Returns whether the tile is well formed.
    pub fn is_well_formed(&self) -> bool {
        if self.is_streamed() {
            return *self == Self::streamed([self.m, self.n], self.k / 16)
                && [self.m, self.n].iter().all(|side| [16, 32].contains(side))
                && self.k >= 16;
        }
        [self.k, self.subgroup_m, self.subgroup_n].iter().all(|&x| x > 0 && x.is_multiple_of(16))
            && self.m.is_multiple_of(self.subgroup_m)
            && self.n.is_multiple_of(self.subgroup_n)
            && self.buffers <= 2
    }
}

/// Kernel that computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Scalars and vectors: everywhere.
    Portable(Tile),
    /// Matrix instructions, operands of 16 bits or in TF32, and sums in `f32`.
    Cooperative(CooperativeTile),
}

/// One of the ways to compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductChoice {
    /// The kernel.
    pub method: Method,
    /// Parts into which the sums are cut, at most; more than 1 needs scratch and a second kernel. Parts are
    /// whole staged tiles long, so there may be fewer.
    pub parts: u32,
}

impl ProductChoice {
    /// Returns the rows and columns of a workgroup's tile, and the terms staged together.
    pub fn extents(&self) -> (u32, u32, u32) {
        match self.method {
            Method::Portable(tile) => (tile.m, tile.n, tile.k),
            Method::Cooperative(tile) => (tile.m, tile.n, tile.k),
        }
    }

    /// Returns the choice with no more parts than have terms, but at least one.
    #[must_use]
    pub fn without_empty_parts(mut self, k: usize) -> Self {
        let parts = k.div_ceil(self.part_length(k)).max(1);
        self.parts = u32::try_from(parts).unwrap_or(self.parts);
        self
    }

    /// Returns the length of each part of the sums but the last, a whole number of staged tiles.
    pub fn part_length(&self, k: usize) -> usize {
        let step = self.extents().2 as usize;
        k.div_ceil(self.parts.max(1) as usize).div_ceil(step).max(1) * step
    }
}

/// Schedule of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductSchedule {
    /// Its tiles, and the parts of its sums, none of which is empty.
    pub choice: ProductChoice,
    /// Dtype in which matrix instructions take the operands: floats of 16 bits, or f32, which they round to
    /// TF32.
    pub operands: DType,
    /// True if the rounding errors of operands are multiplied, too.
    pub splits: bool,
    /// Invocations of a subgroup, where subgroups compute matrices.
    pub subgroup: u32,
    /// Invocations of a workgroup of the kernel that adds up parts.
    pub adding: u32,
    /// Bytes of scratch, for the parts.
    pub workspace: u64,
}
