//! The plan as a data structure.

use crate::collections::IdMap;
use crate::ir::{Type, ValueId, named};
use crate::kernel::{Access, Launch, Phase};

/// Alignment of all buffers except scalars, in bytes. All WebGPU devices support it for the offset of a
/// binding, and it exceeds the alignment of the widest vector registers.
pub const ALIGNMENT: u64 = 256;

/// Alignment of scalars, which are contiguous at the start of the step arena so that a single write transfers
/// them.
pub const SCALAR_ALIGNMENT: u64 = 4;

named! {
    /// The memory region that contains a buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Region {
        /// The store, which contains parameters and states and is shared by programs. Offsets are those of
        /// the [`super::StoreLayout`].
        Store = "store",
        /// Constants of the program and values computed from them, filled once when the program is loaded.
        Constants = "constants",
        /// The step arena of the program, which contains inputs, scalars, temporaries and outputs.
        Step = "step",
    }
}

named! {
    /// The role of a buffer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[allow(missing_docs)]
    pub enum Role {
        /// A parameter that the program updates.
        Parameter = "parameter",
        /// A parameter that the program only reads, because it is frozen or the program is a forward program.
        /// Other programs that share the store may update it.
        Frozen = "frozen",
        State = "state",
        /// The next value of a parameter or state, written in place over its current value.
        Next = "next",
        Constant = "constant",
        /// A value computed from constants when the program is loaded, which is the same in every step.
        Hoisted = "hoisted",
        /// Data of one step. It is set before every step, because the step may overwrite it after its last
        /// use.
        Input = "input",
        /// A scalar of the per-step block at the start of the arena. It is set before every step and never
        /// overwritten.
        Scalar = "scalar",
        /// A value that the caller reads, which is live until the end.
        Output = "output",
        Temporary = "temporary",
    }
}

impl Role {
    /// Returns `true` if the buffer contains its value before the first launch of a step.
    pub fn exists_before(self) -> bool {
        !matches!(self, Role::Next | Role::Output | Role::Temporary)
    }
}

/// A range of bytes that contains one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Value that owns the bytes.
    pub value: ValueId,
    /// Type of the buffer. A constant's buffer may have fewer elements than its value: one for a splat, and
    /// one per index along the axis for an iota.
    pub ty: Type,
    /// Role of the buffer.
    pub role: Role,
    /// Size in bytes, not rounded up.
    pub bytes: u64,
    /// Region that contains the buffer.
    pub region: Region,
    /// Offset in bytes from the start of the region.
    pub offset: u64,
    /// Index of the first launch that writes the buffer, or 0 if its value exists before the first launch.
    pub first: usize,
    /// Index of the last launch that uses the buffer, or the number of launches if its value persists or the
    /// caller reads it.
    pub last: usize,
}

/// The number of bytes in each region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of bytes of the parameters and states that this program uses.
    pub store: u64,
    /// Number of bytes of constants and of values computed from them when the program is loaded.
    pub constants: u64,
    /// Number of bytes of the step arena.
    pub step: u64,
    /// Number of bytes of scratch memory for all threads of the largest launch, or of several launches if
    /// they run concurrently.
    pub workspace: u64,
}

impl Totals {
    /// Returns the total number of bytes required to run the program.
    pub fn peak(&self) -> u64 {
        // Saturate, because the planner does not bound the size of scratch memory.
        (self.store + self.constants + self.step).saturating_add(self.workspace)
    }
}

/// The ordered launches of a program and the location of every buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Launches that run once, when the program is loaded. They read only constants and results of other
    /// hoisted launches, so their results are the same in every step. They are not part of any step.
    pub hoisted: Vec<Launch>,
    /// Compute launches, followed by commit launches.
    pub launches: Vec<Launch>,
    /// All buffers of the program.
    pub buffers: Vec<Buffer>,
    /// Index of the buffer of each value that owns bytes.
    pub buffer_of: IdMap<ValueId, usize>,
    /// Name, buffer and layout of each output.
    pub outputs: Vec<(String, Access)>,
    /// Name, buffer and layout of each value that must be finite before the commit.
    pub guards: Vec<(String, Access)>,
    /// Offset of each launch's scratch in the workspace. All are 0 unless launches run concurrently (see
    /// [`Plan::side_by_side`]).
    pub scratch: Vec<u64>,
    /// Number of bytes in each region.
    pub totals: Totals,
}

impl Plan {
    /// Returns the buffer of a value that owns bytes.
    pub fn buffer(&self, value: ValueId) -> Option<&Buffer> {
        self.buffer_of.get(&value).map(|&i| &self.buffers[i])
    }

    /// Returns the index of the first launch that runs after the guards have passed, or the number of
    /// launches if there is none.
    pub fn first_commit(&self) -> usize {
        first_commit(&self.launches)
    }
}

/// Returns the index of the first launch of the commit, or the number of launches if there is none.
pub(super) fn first_commit(launches: &[Launch]) -> usize {
    launches.iter().position(|launch| launch.phase == Phase::Commit).unwrap_or(launches.len())
}
