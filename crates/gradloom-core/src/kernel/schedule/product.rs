//! Schedules of matrix products.

use crate::ir::DType;

/// The path of the operands' elements to the threads of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// Each thread loads its elements as vectors into registers, without barriers.
    Registers,
    /// Like `Registers`, but scalar by scalar, in a loop over single terms. Suits devices that split vectors
    /// into scalars, where loads dominate the cost of running and compiling a kernel.
    Scalars,
    /// Tiles are staged in workgroup memory, in this many buffers: 1, or 2 for double buffering.
    Workgroup(u32),
    /// Like `Workgroup` with one buffer, but with this many groups of threads. Each group processes an equal
    /// share of the terms in a separate tile, and their sums are added at the end. This adds threads to
    /// workgroups that have too few to hide the latency of their loads.
    Sliced(u32),
    /// Like `Registers`, for products of few rows: this many threads divide the terms of every four columns,
    /// and their sums are added at the end. `thread_m` equals `m`.
    Lanes(u32),
}

/// A tile of the portable kernel. A workgroup computes `m` x `n` results, staging `k` terms at a time; each
/// thread computes `thread_m` x `thread_n` results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Number of rows.
    pub m: u32,
    /// Number of columns.
    pub n: u32,
    /// Number of terms of the sums that are staged together; a multiple of 4.
    pub k: u32,
    /// Number of rows per thread: 1, 2 or a multiple of 4.
    pub thread_m: u32,
    /// Number of columns per thread: a multiple of 4, or with [`Staging::Scalars`] also 1 or 2.
    pub thread_n: u32,
    /// Staging of the operands' elements.
    pub staging: Staging,
}

impl Tile {
    /// Returns the number of threads in a workgroup.
    pub fn threads(&self) -> u32 {
        self.group() * self.slices()
    }

    /// Returns the number of threads in a group, which compute the same terms.
    pub fn group(&self) -> u32 {
        (self.m / self.thread_m) * (self.n / self.thread_n)
    }

    /// Returns the number of groups of threads, which compute different terms.
    pub fn slices(&self) -> u32 {
        match self.staging {
            Staging::Sliced(slices) | Staging::Lanes(slices) => slices,
            _ => 1,
        }
    }

    /// Returns the number of bytes of workgroup memory, including padding that suffices for either layout of
    /// the operands.
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

    /// Returns `true` if the fields are consistent.
    pub fn is_well_formed(&self) -> bool {
        let whole = self.m.is_multiple_of(self.thread_m) && self.n.is_multiple_of(self.thread_n);
        let few = |count: u32| matches!(count, 1 | 2) || count.is_multiple_of(4);
        if let Staging::Lanes(slices) = self.staging {
            // Each subgroup of 32 covers all columns of the workgroup one or more times, and a thread stores
            // at most one result.
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

/// A tile of the kernel with matrix instructions. Each subgroup computes `subgroup_m` x `subgroup_n` results.
///
/// Without buffers, operands are loaded directly into registers. This suits products of few rows, where the
/// right operand is read only once. All subgroups then compute the same results of the tile from different
/// terms, and `k` is 16 per subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CooperativeTile {
    /// Number of rows per workgroup.
    pub m: u32,
    /// Number of columns per workgroup.
    pub n: u32,
    /// Number of terms of the sums that are staged together; a multiple of 16.
    pub k: u32,
    /// Number of rows per subgroup; a multiple of 16.
    pub subgroup_m: u32,
    /// Number of columns per subgroup; a multiple of 16.
    pub subgroup_n: u32,
    /// Number of buffers in workgroup memory: 0, 1 or 2.
    pub buffers: u32,
}

impl CooperativeTile {
    /// Creates a tile without buffers, with 16 or 32 rows and 16 or 32 columns. A lane loads terms of two or
    /// four columns.
    pub const fn streamed([m, n]: [u32; 2], subgroups: u32) -> Self {
        Self { m, n, k: 16 * subgroups, subgroup_m: m, subgroup_n: n, buffers: 0 }
    }

    /// Returns `true` if operands are loaded directly into registers.
    pub fn is_streamed(&self) -> bool {
        self.buffers == 0
    }

    /// Returns the number of subgroups in a workgroup.
    pub fn subgroups(&self) -> u32 {
        if self.is_streamed() {
            return self.k / 16;
        }
        (self.m / self.subgroup_m) * (self.n / self.subgroup_n)
    }

    /// Row pitch of results in workgroup memory, in `f32`, padded to avoid bank conflicts.
    pub const RESULT_PITCH: u32 = 16 + 4;

    /// Returns the row pitch of results in workgroup memory, in `f32`, for a tile without buffers.
    pub fn streamed_pitch(&self) -> u32 {
        self.n + 4
    }

    /// Returns the number of bytes of workgroup memory: padded tiles of 16-bit or f32 operands, and 16 rows
    /// of results per subgroup. Without buffers, the memory contains only all results of each subgroup.
    pub fn workgroup_memory(&self, operands: DType) -> u32 {
        if self.is_streamed() {
            return self.subgroups() * self.m * self.streamed_pitch() * 4;
        }
        // A tile is padded along its contiguous axis, which may be either axis.
        let bytes = if operands == DType::F32 { 4 } else { 2 };
        let padded = |free: u32| ((free * (self.k + 8)).max(self.k * (free + 8))) * bytes;
        self.buffers * (padded(self.m) + padded(self.n)) + self.subgroups() * 16 * Self::RESULT_PITCH * 4
    }

    /// Returns `true` if the fields are consistent.
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

/// The kernel that computes a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Scalars and vectors, supported by all devices.
    Portable(Tile),
    /// Matrix instructions with 16-bit or TF32 operands and `f32` sums.
    Cooperative(CooperativeTile),
}

/// A method of computing a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductChoice {
    /// The kernel.
    pub method: Method,
    /// Maximum number of parts into which the sums are split (split-K). More than one part requires scratch
    /// memory and a second kernel. A part is a whole number of staged tiles, so there may be fewer parts.
    pub parts: u32,
}

impl ProductChoice {
    /// Returns the rows and columns of a workgroup's tile and the number of terms staged together.
    pub fn extents(&self) -> (u32, u32, u32) {
        match self.method {
            Method::Portable(tile) => (tile.m, tile.n, tile.k),
            Method::Cooperative(tile) => (tile.m, tile.n, tile.k),
        }
    }

    /// Returns the choice without empty parts, but with at least one part.
    #[must_use]
    pub fn without_empty_parts(mut self, k: usize) -> Self {
        let parts = k.div_ceil(self.part_length(k)).max(1);
        self.parts = u32::try_from(parts).unwrap_or(self.parts);
        self
    }

    /// Returns the length of each part of the sums except the last, a whole number of staged tiles.
    pub fn part_length(&self, k: usize) -> usize {
        let step = self.extents().2 as usize;
        k.div_ceil(self.parts.max(1) as usize).div_ceil(step).max(1) * step
    }
}

/// Schedule of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductSchedule {
    /// Method and number of parts. No part is empty.
    pub choice: ProductChoice,
    /// Operand dtype of the matrix instructions: a 16-bit float, or f32, which they round to TF32.
    pub operands: DType,
    /// True if the rounding errors of the operands are also multiplied, as in 3xTF32.
    pub splits: bool,
    /// Number of invocations in a subgroup, if subgroups compute matrices.
    pub subgroup: u32,
    /// Number of invocations in a workgroup of the kernel that adds the parts.
    pub adding: u32,
    /// Number of bytes of scratch memory for the parts.
    pub workspace: u64,
}
